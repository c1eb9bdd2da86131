// Every combination of FSDP2's options is a schedule that could run; autocast over its parameters.
#include <array>
#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "core/plan/lower.h"
#include "tests/unit/plan/random_options.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

Workload any_fsdp2_workload() {
  Workload workload = toy_workload(any({1U, 2U, 6U, 8U}));
  Parallel& parallel = workload.parallel;
  parallel.shard_size = parallel.world_size / (parallel.world_size % 2 == 0 ? any({1U, 2U}) : 1U);
  parallel.wrap = any({Wrap::block, Wrap::model, Wrap::block_embed_head});
  parallel.reshard_after_forward =
      any({std::optional<bool>(), std::optional<bool>(false), std::optional<bool>(true)});
  parallel.reshard_after_backward = flag();
  parallel.backward_prefetch = any({Prefetch::none, Prefetch::pre, Prefetch::post});
  parallel.forward_prefetch = flag();
  if (flag()) parallel.offload = Offload::all;
  parallel.reduce_dtype = any({DType::f32, DType::bf16, DType::f16});
  Train& train = workload.train;
  train.compute = any({DType::f32, DType::bf16});
  parallel.param_dtype = any({train.compute, DType::f32});  // fp32 gathers of bf16: autocast
  train.grad_accum = any({1, 2, 3});
  train.no_sync = flag();
  train.loss_in_call = flag();
  train.checkpointing = any({Checkpointing::none, Checkpointing::full, Checkpointing::selective_op,
                             Checkpointing::selective_layers});
  train.checkpoint_every = 2;
  train.clip_grad_norm = flag();
  return workload;
}

/// Bytes gathered, casts, and what is bound where the forward ends, of a steady step.
struct Traffic {
  Bytes gathered = 0;
  int casts = 0;
  Bytes copies_at_end = 0;  ///< copies of parameters
};

Traffic traffic_of(DType gathered, Checkpointing checkpointing) {
  Workload workload = toy_workload(4);
  workload.parallel.param_dtype = gathered;
  workload.parallel.reshard_after_forward = true;
  workload.train.checkpointing = checkpointing;
  const Result<Graph> graph = lower(toy_model({}), workload);
  REQUIRE(graph.has_value());
  Traffic traffic;
  Bytes copies = 0;
  for (const HostThread& thread : graph->programs[0].threads)
    for (const Action& action : thread.actions(Section::body)) {
      const auto is_copy = [&] { return graph->storages[action.a].cause == Cause::cast_copy; };
      if (action.kind == ActionKind::alloc && is_copy()) copies += graph->storages[action.a].bytes;
      if (action.kind == ActionKind::free && is_copy()) copies -= graph->storages[action.a].bytes;
      if (action.kind != ActionKind::launch) continue;
      const Op& op = graph->ops[action.a];
      if (op.kind == OpKind::all_gather) traffic.gathered += graph->at(op.cost).message_bytes;
      if (op.kind == OpKind::cast) ++traffic.casts;
      if (op.phase == Phase::forward) traffic.copies_at_end = copies;
    }
  return traffic;
}

constexpr Bytes kMatmulBytes = 2 * (3 * 2 * 64 * 160 + 64 * 160);  // of toy_model({}), in bf16

}  // namespace

TEST_CASE("all FSDP2 schedules are valid") {
  for (int round = 0; round < 20; ++round)
    CHECK(rc::check([] {
      const Result<Graph> graph = lower(toy_model(any_shape()), any_fsdp2_workload());
      if (!graph) RC_FAIL(graph.error().message);
      for (const Problem& problem : validate(*graph)) RC_FAIL(problem.message);
      std::vector<int> bound(graph->storages.size(), 0);
      for (const HostThread& thread : graph->programs[0].threads)
        for (const Action& action : thread.actions(Section::body)) {
          if (action.kind == ActionKind::alloc) ++bound[action.a];
          if (action.kind == ActionKind::free) --bound[action.a];
        }
      for (const int left : bound) RC_ASSERT(left == 0);
    }));
}

TEST_CASE("under autocast FSDP2 gathers fp32 and its cache holds what matmuls read") {
  const Traffic mixed = traffic_of(DType::bf16, Checkpointing::none);
  const Traffic autocast = traffic_of(DType::f32, Checkpointing::none);
  const Traffic again = traffic_of(DType::f32, Checkpointing::full);
  CHECK(autocast.gathered == 2 * mixed.gathered);
  // Seven matmul weights: two a block and the head's. Copied for the forward, gradients cast back;
  // a checkpointed block copies once more, though its unit was resharded.
  CHECK(autocast.casts == 14);
  CHECK(again.casts == 20);
  CHECK(autocast.copies_at_end == kMatmulBytes);
  CHECK(again.copies_at_end == kMatmulBytes);
}
