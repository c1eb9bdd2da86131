// FSDP2 with parameters in host memory.
#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "core/plan/host_step.h"
#include "core/plan/lower.h"
#include "tests/unit/plan/random_options.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

Workload any_offloading_workload() {
  Workload workload = toy_workload(any({1U, 2U, 8U, 16U}));
  Parallel& parallel = workload.parallel;
  parallel.strategy = Strategy::fsdp2;
  parallel.offload = Offload::all;
  parallel.shard_size = parallel.world_size / (parallel.world_size % 2 == 0 ? any({1U, 2U}) : 1U);
  parallel.wrap = any({Wrap::block, Wrap::model, Wrap::block_embed_head});
  parallel.backward_prefetch = any({Prefetch::none, Prefetch::pre, Prefetch::post});
  parallel.forward_prefetch = flag();
  parallel.reshard_after_backward = flag();
  if (parallel.shard_size > 4 && flag()) parallel.reshard_to = 2;
  parallel.reduce_dtype = any({DType::f32, DType::bf16});
  Train& train = workload.train;
  train.master = any({DType::f32, DType::bf16});
  train.grad_accum = any({1, 2, 3});
  train.no_sync = flag();
  train.clip_grad_norm = flag();
  return workload;
}

Graph any_offloading_graph() {
  ToyShape shape;
  shape.tied = flag();
  const Result<Graph> graph = lower(toy_model(shape), any_offloading_workload());
  if (!graph) RC_FAIL(graph.error().message);
  return *graph;
}

}  // namespace

TEST_CASE("all FSDP2 schedules with offloading are valid") {
  for (int round = 0; round < 20; ++round)
    CHECK(rc::check([] {
      const Graph graph = any_offloading_graph();
      for (const Problem& problem : validate(graph)) RC_FAIL(problem.message);
    }));
}

TEST_CASE("offloading FSDP leaves neither shards nor optimizer states on the device") {
  for (const Strategy strategy : {Strategy::fsdp1, Strategy::fsdp2}) {
    Workload workload = toy_workload(8);
    workload.parallel.strategy = strategy;
    workload.parallel.offload = Offload::all;
    const Result<Graph> graph = lower(toy_model({}), workload);
    REQUIRE(graph.has_value());
    std::vector<int> bound(graph->storages.size(), 0);
    for (const Section section : {Section::init, Section::first})
      for (const HostThread& thread : graph->programs[0].threads)
        for (const Action& action : thread.actions(section)) {
          if (action.kind == ActionKind::alloc) ++bound[action.a];
          if (action.kind == ActionKind::free) --bound[action.a];
        }
    Bytes on_device = 0, on_host = 0;
    for (std::size_t s = 0; s < bound.size(); ++s)
      if (bound[s] > 0)
        (graph->storages[s].on_host ? on_host : on_device) += graph->storages[s].bytes;
    CHECK(on_device == 0);
    // fp32 parameters and gradients; the optimizer's own states are no storages.
    CHECK(on_host >= 8 * graph->parameters / 8);
  }
}

TEST_CASE("FSDP1 loads and casts an offloaded shard again where it is still gathered") {
  Workload workload = toy_workload(8);
  Parallel& parallel = workload.parallel;
  parallel.strategy = Strategy::fsdp1;
  parallel.offload = Offload::all;
  const auto loads = [&](Fsdp1Sharding sharding) {
    parallel.sharding = sharding;
    const Result<Graph> graph = lower(toy_model({}), workload);
    REQUIRE(graph.has_value());
    int count = 0;
    for (const HostThread& thread : graph->programs[0].threads)
      for (const Action& action : thread.actions(Section::body))
        if (action.kind == ActionKind::launch)
          count += graph->ops[action.a].role == Role::offload &&
                           graph->ops[action.a].kind == OpKind::host_to_device
                       ? 1
                       : 0;
    return count;
  };
  // Root and three blocks, in the forward and in the backward.
  CHECK(loads(Fsdp1Sharding::full_shard) == 8);
  CHECK(loads(Fsdp1Sharding::shard_grad_op) == 8);
  parallel.param_dtype = parallel.reduce_dtype = workload.train.compute = DType::f32;
  CHECK(loads(Fsdp1Sharding::full_shard) == 7);
  CHECK(loads(Fsdp1Sharding::shard_grad_op) == 4);
}

TEST_CASE("FSDP2 casts offloaded shards one by one, and holds one of them uncast at a time") {
  Workload workload = toy_workload(8);
  workload.parallel.offload = Offload::all;
  const Result<Graph> graph = lower(toy_model({}), workload);
  REQUIRE(graph.has_value());
  int bound = 0, most = 0, casts = 0;
  for (const HostThread& thread : graph->programs[0].threads)
    for (const Action& action : thread.actions(Section::body)) {
      if (action.kind == ActionKind::launch && graph->ops[action.a].role == Role::cast) ++casts;
      const bool is_loaded =
          (action.kind == ActionKind::alloc || action.kind == ActionKind::free) &&
          graph->storages[action.a].cause == Cause::parameter_shard;
      if (!is_loaded) continue;
      bound += action.kind == ActionKind::alloc ? 1 : -1;
      most = std::max(most, bound);
    }
  CHECK(most == 1);
  CHECK(casts > 2 * static_cast<int>(graph->units.size()));
}

TEST_CASE("FSDP1 without shards and partial offloads are refused") {
  Workload workload = toy_workload(8);
  workload.parallel.offload = Offload::all;
  workload.parallel.strategy = Strategy::fsdp1;
  workload.parallel.sharding = Fsdp1Sharding::no_shard;
  CHECK_FALSE(lower(toy_model({}), workload).has_value());
  workload.parallel.strategy = Strategy::fsdp2;
  workload.parallel.offload = Offload::optimizer;
  CHECK_FALSE(lower(toy_model({}), workload).has_value());
  workload.parallel.strategy = Strategy::ddp;
  CHECK_FALSE(lower(toy_model({}), workload).has_value());
}

TEST_CASE("the optimizer in host memory takes as long as the bytes that it moves") {
  Workload workload = toy_workload(8);
  workload.cluster.gpus_per_node = 4;
  Train& train = workload.train;
  train.master = DType::f32;
  constexpr std::int64_t kElements = 1024;
  const auto moved = [&] { return host_update_bytes(train, kElements) / kElements; };
  CHECK(moved() == 28);
  // 4 elements a ns and node, which four ranks share.
  CHECK(host_update(workload, kElements) == kElements);
  train.optimizer_state = StateType::bf16;
  CHECK(moved() == 12 + 4 * 2);
  train.optimizer_state = StateType::int8;
  CHECK(host_update_bytes(train, kElements) == kElements * 16 + 4 * 4 * 4);
  train.optimizer = Optimizer::sgd;
  train.momentum = 0.9;
  CHECK(moved() == 20);
  train.momentum = 0;
  CHECK(moved() == 12);
  CHECK(host_update(workload, kElements) == kElements * 12 / 28);
  // Clipping reads the gradients, reads them again and writes them.
  CHECK(host_norm(workload, kElements) + host_scaling(workload, kElements) ==
        Approx(kElements * 12.0 / 28).margin(1));
}
