// FSDP1 with a unit for each module that has parameters of its own.
#include <algorithm>
#include <set>
#include <string>
#include <catch2/catch.hpp>

#include "core/plan/lower.h"
#include "core/plan/shard_layout.h"
#include "tests/unit/plan/model_live_bytes.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

Train short_sequences() {
  Train train;
  train.micro_batch = 1;
  train.seq_len = 128;
  return train;
}

}  // namespace

TEST_CASE("each linear, norm and embedding is a unit, blocks and the root have nothing left") {
  const Model model = build_model(sample("llama3_8b"), short_sequences());
  const ShardLayout layout = shard_layout(model, Wrap::leaf, TiedUnits::at_root);
  std::set<std::string> paths;
  std::int64_t elements = 0, whole = 0;
  for (const UnitPlan& unit : layout.units) {
    if (!unit.is_leaf) {
      CHECK(unit.parameters.count == 0);
      continue;
    }
    CHECK(paths.insert(unit.path).second);
    for (const ShardedParameter& parameter : layout.parameters_of(unit))
      elements += parameter.elements;
  }
  const std::size_t per_block = 7 + 2;
  CHECK(paths.size() == 32 * per_block + 3);
  CHECK(paths.contains("model.layers.3.mlp.down_proj"));
  CHECK(paths.contains("model.embed_tokens"));
  for (const ShardedParameter& parameter : layout.parameters) whole += parameter.elements;
  CHECK(elements == whole);
}

TEST_CASE("tied parameters are left to the root") {
  const Model model = build_model(sample("gpt2"), short_sequences());
  const ShardLayout layout = shard_layout(model, Wrap::leaf, TiedUnits::at_root);
  CHECK(layout.units.front().parameters.count == 1);
}

TEST_CASE("under FSDP2 units of leaves are refused") {
  const Model model = build_model(sample("llama3_8b"), short_sequences());
  Workload workload;
  workload.train = short_sequences();
  workload.parallel.strategy = Strategy::fsdp2;
  workload.parallel.wrap = Wrap::leaf;
  workload.parallel.world_size = workload.parallel.shard_size = 8;
  const Result<Graph> graph = lower(model, workload);
  REQUIRE_FALSE(graph);
  CHECK(graph.error().message.find("parallel.wrap leaf is simulated of FSDP1") !=
        std::string::npos);
}
