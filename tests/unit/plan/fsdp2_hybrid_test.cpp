// Hybrid sharding under FSDP2: what is reduced among the shards is reduced again among replicas.
#include <algorithm>
#include <set>
#include <catch2/catch.hpp>

#include "core/plan/lower.h"
#include "tests/unit/plan/toy_model.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

TEST_CASE("FSDP2 holds what replicas reduced until backward has ended") {
  // fsdp_param_group.py, _all_reduce_state; recorded with PyTorch 2.15.
  Workload workload = toy_workload(4);
  workload.parallel.shard_size = 2;
  workload.parallel.reduce_dtype = DType::bf16;  // to be cast into fp32 gradients
  const Result<Graph> graph = lower(toy_model({}), workload);
  REQUIRE(graph);
  std::set<std::uint32_t> reduced, bound;
  std::size_t held_at_most = 0;
  for (const HostThread& thread : graph->programs[0].threads)
    for (const Action& action : thread.actions(Section::body)) {
      if (action.kind == ActionKind::free) bound.erase(action.a);
      if (action.kind != ActionKind::launch) continue;
      const Op& op = graph->ops[action.a];
      if (op.kind != OpKind::all_reduce || op.role != Role::reduce) continue;
      for (const AccessedTensor& access : graph->accesses_of(op)) {
        reduced.insert(graph->at(access.tensor).storage.row());
        bound.insert(graph->at(access.tensor).storage.row());
      }
      held_at_most = std::max(held_at_most, bound.size());
    }
  CHECK(reduced.size() == 4);  // three blocks and the root
  CHECK(held_at_most == reduced.size());
  CHECK(bound.empty());
}
