// Every combination of FSDP1's options is a schedule that could run.
#include <array>
#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "core/plan/lower.h"
#include "tests/unit/plan/random_options.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

Workload any_fsdp1_workload() {
  Workload workload = toy_workload(any({1U, 2U, 6U, 8U, 16U}));
  Parallel& parallel = workload.parallel;
  parallel.strategy = Strategy::fsdp1;
  parallel.sharding =
      any({Fsdp1Sharding::full_shard, Fsdp1Sharding::shard_grad_op, Fsdp1Sharding::no_shard});
  if (parallel.sharding != Fsdp1Sharding::no_shard)
    parallel.shard_size = parallel.world_size / (parallel.world_size % 2 == 0 ? any({1U, 2U}) : 1U);
  parallel.wrap = any({Wrap::block, Wrap::model, Wrap::block_embed_head, Wrap::leaf});
  parallel.backward_prefetch = any({Prefetch::none, Prefetch::pre, Prefetch::post});
  parallel.forward_prefetch = flag();
  parallel.limit_all_gathers = flag();
  parallel.use_orig_params = flag();
  if (parallel.sharding != Fsdp1Sharding::no_shard && parallel.shard_size > 1 && flag())
    parallel.offload = Offload::all;
  parallel.reduce_dtype = any({DType::f32, DType::bf16});
  Train& train = workload.train;
  train.master = any({DType::f32, DType::bf16});
  train.compute = any({DType::f32, DType::bf16});
  parallel.param_dtype = any({train.compute, DType::f32});  // fp32 gathers of bf16: autocast
  train.grad_accum = any({1, 2, 3});
  train.no_sync = flag();
  train.checkpointing = any({Checkpointing::none, Checkpointing::full, Checkpointing::selective_op,
                             Checkpointing::selective_layers});
  train.checkpoint_every = 2;
  train.optimizer = any({Optimizer::adamw, Optimizer::sgd});
  train.optimizer_impl =
      any({OptimizerImpl::foreach, OptimizerImpl::fused, OptimizerImpl::for_loop});
  train.clip_grad_norm = flag();
  return workload;
}

Graph any_fsdp1_graph() {
  const Model model = toy_model(any_shape());
  const Result<Graph> graph = lower(model, any_fsdp1_workload());
  if (!graph) RC_FAIL(graph.error().message);
  return *graph;
}

}  // namespace

TEST_CASE("all FSDP1 schedules are valid") {
  for (int round = 0; round < 20; ++round)
    CHECK(rc::check([] {
      const Graph graph = any_fsdp1_graph();
      for (const Problem& problem : validate(graph)) RC_FAIL(problem.message);
    }));
}

TEST_CASE("FSDP1's casts into fp32 find each element by itself, as every other such kernel") {
  int casts = 0;
  CHECK(rc::check([&] {
    for (const Cost& cost : any_fsdp1_graph().costs) {
      if (cost.kind != OpKind::cast || cost.kernels != 1) continue;
      const bool widens = cost.dtype == DType::f32 && cost.bytes_read < cost.bytes_written;
      RC_ASSERT(cost.m == (widens ? cost.bytes_written / 4 : 0));
      casts += widens ? 1 : 0;
    }
  }));
  CHECK(casts > 0);
}

TEST_CASE("FSDP1 frees all unsharded parameters and flat gradients within a step") {
  CHECK(rc::check([] {
    const Graph graph = any_fsdp1_graph();
    std::vector<int> bound(graph.storages.size(), 0);
    for (const HostThread& thread : graph.programs[0].threads)
      for (const Action& action : thread.actions(Section::body)) {
        if (action.kind == ActionKind::alloc) ++bound[action.a];
        if (action.kind == ActionKind::free) --bound[action.a];
      }
    for (const int left : bound) RC_ASSERT(left == 0);
  }));
}

TEST_CASE("under autocast FSDP1 gathers fp32 and matmuls read copies of their own") {
  const auto kinds_of = [](DType gathered, Checkpointing checkpointing) {
    Workload workload = toy_workload(4);
    workload.parallel.strategy = Strategy::fsdp1;
    workload.parallel.param_dtype = gathered;
    workload.train.checkpointing = checkpointing;
    const Result<Graph> graph = lower(toy_model({}), workload);
    REQUIRE(graph.has_value());
    struct {
      Bytes gathered = 0;
      int casts = 0;
    } found;
    for (const HostThread& thread : graph->programs[0].threads)
      for (const Action& action : thread.actions(Section::body)) {
        if (action.kind != ActionKind::launch) continue;
        const Op& op = graph->ops[action.a];
        if (op.kind == OpKind::all_gather) found.gathered += graph->at(op.cost).message_bytes;
        if (op.kind == OpKind::cast) ++found.casts;
      }
    return found;
  };
  const auto mixed = kinds_of(DType::bf16, Checkpointing::none);
  const auto autocast = kinds_of(DType::f32, Checkpointing::none);
  const auto again = kinds_of(DType::f32, Checkpointing::full);
  CHECK(autocast.gathered == 2 * mixed.gathered);
  // Seven matmul weights: two a block and the head's. Copied for the forward, gradients cast back;
  // a checkpointed block copies once more.
  CHECK(autocast.casts == 14);
  CHECK(again.casts == 20);
}
