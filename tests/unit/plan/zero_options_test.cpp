// Every combination of ZeRO's options is a schedule that could run.
#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "core/plan/lower.h"
#include "tests/unit/plan/random_options.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

Workload any_zero_workload(std::initializer_list<Strategy> strategies) {
  Workload workload = toy_workload(any({1U, 2U, 6U, 8U, 16U}));
  Parallel& parallel = workload.parallel;
  parallel.strategy = any(strategies);
  parallel.reduce_dtype = any({DType::f32, DType::bf16});
  Zero& zero = workload.zero;
  // A block's weights have 10,240 elements, the ends' some more.
  zero.prefetch_bucket_size = any<std::int64_t>({0, 1, 10'240, 10'241, 25'000, 50'000'000});
  zero.max_live_parameters = any<std::int64_t>({0, 20'000, 45'000, 1'000'000'000});
  zero.max_reuse_distance = any<std::int64_t>({0, 10'000, 30'000, 1'000'000'000});
  zero.param_persistence_threshold = any<std::int64_t>({0, 10'240, 1'000'000});
  zero.model_persistence_threshold = any<std::int64_t>({0, 20'480, 1'000'000'000});
  zero.reduce_bucket_size = any<std::int64_t>({1, 10'240, 15'000, 25'000, 1'000'000});
  zero.sub_group_size = any<std::int64_t>({1, 5'000, 1'000'000'000});
  zero.hpz_partition_size = parallel.world_size % 2 == 0 ? any({1U, 2U}) : 1U;
  zero.overlap_comm = flag();
  zero.contiguous_gradients = parallel.strategy == Strategy::zero2 || flag();
  zero.reduce_scatter = flag();
  zero.use_multi_rank_bucket_allreduce = flag();
  if (flag()) zero.grad_accum_dtype = any({DType::f32, DType::bf16});
  parallel.offload =
      parallel.strategy == Strategy::zero2
          ? any({Offload::none, Offload::optimizer})
          : any({Offload::none, Offload::optimizer, Offload::parameters, Offload::all});
  const bool thunder =
      parallel.strategy == Strategy::thunder_zero2 || parallel.strategy == Strategy::thunder_zero3;
  const bool deepcompile = parallel.strategy == Strategy::deepcompile;
  zero.double_buffer = flag();
  zero.symmetric_memory = flag();
  parallel.thunder_bucketing =
      any({ThunderBucketing::none, ThunderBucketing::layer, ThunderBucketing::block});
  if (thunder || deepcompile) parallel.offload = Offload::none;
  Train& train = workload.train;
  train.master = any({DType::f32, DType::bf16});
  // The toy model computes in two bytes.
  train.compute = parallel.param_dtype = any({DType::bf16, DType::f16});
  if (thunder) train.master = parallel.reduce_dtype = train.compute;
  if (deepcompile && flag()) parallel.param_dtype = DType::f32;  // autocast
  train.grad_accum = any({1, 2, 3});
  train.checkpointing = any({Checkpointing::none, Checkpointing::full, Checkpointing::selective_op,
                             Checkpointing::selective_layers});
  train.checkpoint_every = 2;
  train.optimizer = any({Optimizer::adamw, Optimizer::sgd});
  train.optimizer_impl =
      any({OptimizerImpl::foreach, OptimizerImpl::fused, OptimizerImpl::for_loop});
  train.clip_grad_norm = flag();
  return workload;
}

Graph any_zero_graph(std::initializer_list<Strategy> strategies) {
  const Model model = toy_model(any_shape());
  const Result<Graph> graph = lower(model, any_zero_workload(strategies));
  if (!graph) RC_FAIL(graph.error().message);
  return *graph;
}

void check_valid(std::initializer_list<Strategy> strategies) {
  for (int round = 0; round < 20; ++round)
    CHECK(rc::check([&] {
      const Graph graph = any_zero_graph(strategies);
      for (const Problem& problem : validate(graph)) RC_FAIL(problem.message);
    }));
}

}  // namespace

TEST_CASE("all ZeRO-3 schedules are valid") { check_valid({Strategy::zero3}); }

TEST_CASE("all ZeRO-2 schedules are valid") { check_valid({Strategy::zero2}); }

TEST_CASE("all schedules of Thunder's ZeRO-2 and ZeRO-3 are valid") {
  check_valid({Strategy::thunder_zero2, Strategy::thunder_zero3});
}

TEST_CASE("all DeepCompile schedules are valid") { check_valid({Strategy::deepcompile}); }

TEST_CASE("a ZeRO step ends with what it began with") {
  CHECK(rc::check([] {
    const Graph graph = any_zero_graph({Strategy::zero3, Strategy::zero2, Strategy::thunder_zero2,
                                        Strategy::thunder_zero3, Strategy::deepcompile});
    std::vector<int> bound(graph.storages.size(), 0);
    for (const HostThread& thread : graph.programs[0].threads)
      for (const Action& action : thread.actions(Section::body)) {
        if (action.kind == ActionKind::alloc) ++bound[action.a];
        if (action.kind == ActionKind::free) --bound[action.a];
      }
    for (const int left : bound) RC_ASSERT(left == 0);
  }));
}

TEST_CASE("ZeRO in fp16 asks all ranks whether gradients overflowed before it sums their norm") {
  for (const Strategy strategy : {Strategy::zero2, Strategy::zero3})
    for (const DType type : {DType::f16, DType::bf16}) {
      CAPTURE(static_cast<int>(strategy), static_cast<int>(type));
      Workload workload = toy_workload(4);
      workload.parallel.strategy = strategy;
      workload.train.compute = workload.parallel.param_dtype = type;
      const Graph graph = lower(toy_model({}), workload).value();
      std::vector<Bytes> reduced;
      for (const Action& action : graph.programs[0].threads[0].actions(Section::body)) {
        if (action.kind != ActionKind::launch) continue;
        const Op& op = graph.ops[action.a];
        if (op.kind == OpKind::all_reduce && op.role == Role::clip)
          reduced.push_back(graph.at(op.cost).message_bytes);
      }
      const Bytes norm = strategy == Strategy::zero2 ? 4 : 8;
      CHECK(reduced == (type == DType::f16 ? std::vector<Bytes>{1, norm} : std::vector{norm}));
    }
}
