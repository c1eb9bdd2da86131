// Sizes of FSDP1's buffers and collectives, by hand.
#include <algorithm>
#include <string_view>
#include <catch2/catch.hpp>

#include "core/plan/lower.h"
#include "tests/unit/plan/toy_model.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

constexpr std::int64_t kBlock = 2 * 64 * 160;  // elements of a toy block

Workload fsdp1(std::uint32_t world, std::uint32_t shard) {
  Workload workload = toy_workload(world);
  workload.parallel.strategy = Strategy::fsdp1;
  workload.parallel.shard_size = shard;
  workload.train.clip_grad_norm = false;
  return workload;
}

Graph lowered(const Workload& workload, ToyShape shape = {}) {
  const Result<Graph> graph = lower(toy_model(shape), workload);
  REQUIRE(graph);
  return *graph;
}

/// How often a section allocates a storage of that name and size.
std::int64_t allocations(const Graph& graph, std::string_view name, Bytes bytes) {
  std::int64_t count = 0;
  for (const HostThread& thread : graph.programs[0].threads)
    for (const Section section : {Section::init, Section::body})
      for (const Action& action : thread.actions(section)) {
        if (action.kind != ActionKind::alloc) continue;
        const Storage& storage = graph.storages[action.a];
        if (graph.text(storage.name) == name && storage.bytes == bytes) ++count;
      }
  return count;
}

/// How many ops of that kind and message a steady step launches, and on which stream.
std::int64_t launches(const Graph& graph, OpKind kind, Bytes message, std::string_view stream) {
  std::int64_t count = 0;
  for (const HostThread& thread : graph.programs[0].threads)
    for (const Action& action : thread.actions(Section::body)) {
      if (action.kind != ActionKind::launch) continue;
      const Op& op = graph.ops[action.a];
      if (op.kind == kind && graph.at(op.cost).message_bytes == message &&
          graph.text(graph.programs[0].streams[op.stream.row()].name) == stream)
        ++count;
    }
  return count;
}

std::int64_t of_role(const Graph& graph, Role role, std::string_view stream) {
  std::int64_t count = 0;
  for (const HostThread& thread : graph.programs[0].threads)
    for (const Action& action : thread.actions(Section::body)) {
      if (action.kind != ActionKind::launch) continue;
      const Op& op = graph.ops[action.a];
      if (op.role == role && graph.text(graph.programs[0].streams[op.stream.row()].name) == stream)
        ++count;
    }
  return count;
}

}  // namespace

TEST_CASE("a fully sharded unit has the buffers of PyTorch B.8") {
  // bf16 parameters, fp32 shards and reduction, 8 ranks, 3 blocks of 20,480 elements.
  const Graph graph = lowered(fsdp1(8, 8));
  CHECK(allocations(graph, "flat parameter", kBlock / 8 * 4) == 4);
  // Once before the first step, in the forward, in the backward.
  CHECK(allocations(graph, "cast parameter", kBlock / 8 * 2) == 4 + 4 + 3);
  CHECK(allocations(graph, "full parameter", kBlock * 2) == 4 + 4 + 3);
  CHECK(allocations(graph, "full parameter, uncast", kBlock * 4) == 4);
  CHECK(allocations(graph, "flat gradient", kBlock * 2) == 4);
  CHECK(allocations(graph, "cast gradient", kBlock * 4) == 4);
  CHECK(allocations(graph, "padded gradient", kBlock * 4) == 0);
  CHECK(allocations(graph, "sharded gradient", kBlock / 8 * 4) == 4);
  CHECK(allocations(graph, "new sharded gradient", kBlock / 8 * 4) == 0);
  CHECK(launches(graph, OpKind::all_gather, kBlock * 2, "unshard") == 7);
  CHECK(launches(graph, OpKind::reduce_scatter, kBlock * 4, "post_backward") == 4);
  // N = 8: ÷ 4 before, ÷ 2 after.
  CHECK(of_role(graph, Role::pre_scale, "post_backward") == 4);
  CHECK(of_role(graph, Role::post_scale, "post_backward") == 4);
}

TEST_CASE("a reduction in a narrower dtype is cast back to the stored one") {
  Workload workload = fsdp1(8, 8);
  workload.parallel.reduce_dtype = DType::bf16;
  const Graph graph = lowered(workload);
  CHECK(allocations(graph, "cast gradient", kBlock * 2) == 0);
  CHECK(allocations(graph, "new sharded gradient", kBlock / 8 * 2) == 4);
  CHECK(allocations(graph, "sharded gradient", kBlock / 8 * 4) == 4);
  CHECK(launches(graph, OpKind::reduce_scatter, kBlock * 2, "post_backward") == 4);
}

TEST_CASE("two ranks divide gradients before the reduction only") {
  const Graph graph = lowered(fsdp1(2, 2));
  CHECK(of_role(graph, Role::pre_scale, "post_backward") == 4);
  CHECK(of_role(graph, Role::post_scale, "post_backward") == 0);
}

TEST_CASE("a flat parameter that does not divide is padded and its gradient copied for it") {
  ToyShape shape;
  shape.hidden = 63;
  shape.inner = 5;  // a block has 2 × 315 elements: 79 on each of 8 ranks
  Workload workload = fsdp1(8, 8);
  workload.parallel.use_orig_params = false;
  const Graph packed = lowered(workload, shape);
  CHECK(allocations(packed, "full parameter", 8 * 79 * 2) == 9);
  CHECK(allocations(packed, "flat gradient", 630 * 2) == 3);
  CHECK(allocations(packed, "cast gradient", 630 * 4) == 3);
  CHECK(allocations(packed, "padded gradient", 8 * 79 * 4) == 3);

  // 16 bytes are 8 elements of bf16: 320 + 315, 80 on each rank.
  workload.parallel.use_orig_params = true;
  const Graph aligned = lowered(workload, shape);
  CHECK(allocations(aligned, "full parameter", 640 * 2) == 9);
  CHECK(allocations(aligned, "flat gradient", 640 * 2) == 3);
  CHECK(allocations(aligned, "padded gradient", 640 * 4) == 0);
}

TEST_CASE("with use_orig_params the optimizer sees the parts of parameters in the shard") {
  // 4 ranks: the first shard ends in the middle of a block's first matrix.
  Workload workload = fsdp1(4, 4);
  CHECK(allocations(lowered(workload), "exp_avg_sq_sqrt", kBlock / 4 * 4) == 4);
  // Two ranks: each has one matrix. One rank (NO_SHARD): both.
  workload = fsdp1(1, 1);
  CHECK(allocations(lowered(workload), "exp_avg_sq_sqrt", kBlock / 2 * 4) == 8);
  workload.parallel.use_orig_params = false;
  CHECK(allocations(lowered(workload), "exp_avg_sq_sqrt", kBlock * 4) == 4);
}

TEST_CASE("SHARD_GRAD_OP gathers once and keeps the parameters until backward") {
  Workload workload = fsdp1(8, 8);
  workload.parallel.sharding = Fsdp1Sharding::shard_grad_op;
  CHECK(launches(lowered(workload), OpKind::all_gather, kBlock * 2, "unshard") == 4);
  // Under no_sync they stay for the next micro-batch, too.
  workload.train.grad_accum = 2;
  CHECK(launches(lowered(workload), OpKind::all_gather, kBlock * 2, "unshard") == 8);
  workload.train.no_sync = true;
  CHECK(launches(lowered(workload), OpKind::all_gather, kBlock * 2, "unshard") == 4);
}

TEST_CASE("NO_SHARD all-reduces whole gradients and gathers nothing") {
  Workload workload = fsdp1(8, 8);
  workload.parallel.sharding = Fsdp1Sharding::no_shard;
  SECTION("mixed precision: the parameter is cast for forward and for backward") {
    const Graph graph = lowered(workload);
    CHECK(allocations(graph, "flat parameter", kBlock * 4) == 4);
    CHECK(allocations(graph, "full parameter", kBlock * 2) == 0);
    CHECK(allocations(graph, "cast parameter", kBlock * 2) == 12);
    CHECK(allocations(graph, "flat gradient", kBlock * 2) == 4);
    CHECK(allocations(graph, "cast gradient", kBlock * 4) == 0);  // it is the gradient
    CHECK(allocations(graph, "reduced gradient", kBlock * 4) == 4);
    CHECK(launches(graph, OpKind::all_reduce, kBlock * 4, "post_backward") == 4);
    CHECK(launches(graph, OpKind::all_gather, kBlock * 2, "unshard") == 0);
  }
  SECTION("one dtype: the flat gradient is the optimizer's gradient") {
    workload.train.master = workload.parallel.reduce_dtype = DType::bf16;
    const Graph graph = lowered(workload);
    CHECK(allocations(graph, "cast parameter", kBlock * 2) == 0);
    CHECK(allocations(graph, "flat gradient", kBlock * 2) == 0);
    CHECK(allocations(graph, "reduced gradient", kBlock * 2) == 4);
    CHECK(launches(graph, OpKind::all_reduce, kBlock * 2, "post_backward") == 4);
  }
  SECTION("micro-batches add to the reduced gradient, which is reduced again") {
    workload.train.grad_accum = 3;
    const Graph graph = lowered(workload);
    CHECK(allocations(graph, "flat gradient", kBlock * 2) == 12);
    CHECK(allocations(graph, "reduced gradient", kBlock * 4) == 4);
    CHECK(of_role(graph, Role::accumulate, "default") == 8);
    CHECK(launches(graph, OpKind::all_reduce, kBlock * 4, "post_backward") == 12);
  }
}

TEST_CASE("hybrid sharding reduces in the shard group, then across groups on a stream of its own") {
  const Graph graph = lowered(fsdp1(16, 8));
  CHECK(allocations(graph, "flat parameter", kBlock / 8 * 4) == 4);
  CHECK(launches(graph, OpKind::all_gather, kBlock * 2, "unshard") == 7);
  CHECK(launches(graph, OpKind::reduce_scatter, kBlock * 4, "post_backward") == 4);
  CHECK(launches(graph, OpKind::all_reduce, kBlock / 8 * 4, "all_reduce") == 4);
  // N is the whole world of 16: ÷ 4 before, ÷ 4 after, behind the all-reduce.
  CHECK(of_role(graph, Role::pre_scale, "post_backward") == 4);
  CHECK(of_role(graph, Role::post_scale, "all_reduce") == 4);
  const auto priority = [&](std::string_view name) {
    for (const Stream& stream : graph.programs[0].streams)
      if (graph.text(stream.name) == name) return stream.priority;
    return 99;
  };
  CHECK(priority("unshard") == -1);
  CHECK(priority("all_reduce") == 0);
}

TEST_CASE("micro-batches reduce into the sharded gradient") {
  Workload workload = fsdp1(8, 8);
  workload.train.grad_accum = 2;
  const Graph graph = lowered(workload);
  CHECK(allocations(graph, "sharded gradient", kBlock / 8 * 4) == 4);
  CHECK(allocations(graph, "new sharded gradient", kBlock / 8 * 4) == 4);
  CHECK(of_role(graph, Role::accumulate, "post_backward") == 4);
  CHECK(launches(graph, OpKind::reduce_scatter, kBlock * 4, "post_backward") == 8);
}

TEST_CASE("under no_sync the flat gradient stays, in the compute dtype") {
  Workload workload = fsdp1(8, 8);
  workload.train.grad_accum = 3;
  workload.train.no_sync = true;
  const Graph graph = lowered(workload);
  CHECK(allocations(graph, "accumulated gradient", kBlock * 2) == 4);
  CHECK(allocations(graph, "flat gradient", kBlock * 2) == 8);
  CHECK(of_role(graph, Role::accumulate, "default") == 8);
  CHECK(launches(graph, OpKind::reduce_scatter, kBlock * 4, "post_backward") == 4);
  CHECK(launches(graph, OpKind::all_gather, kBlock * 2, "unshard") == 21);
}

TEST_CASE("NO_SHARD pads aligned parameters to a multiple of the ranks, too") {
  // The root and three blocks have two linears of 9 elements: the second starts at 16 (16 bytes of
  // bf16), and 25 are padded to 28.
  const ToyShape shape{3, 3, 3};
  Workload workload = fsdp1(4, 4);
  workload.parallel.sharding = Fsdp1Sharding::no_shard;
  CHECK(launches(lowered(workload, shape), OpKind::all_reduce, 28 * 4, "post_backward") == 4);
  workload.parallel.use_orig_params = false;
  CHECK(launches(lowered(workload, shape), OpKind::all_reduce, 18 * 4, "post_backward") == 4);
}

TEST_CASE("clipping sums one fp32 over the shard group, for NO_SHARD nothing") {
  Workload workload = fsdp1(16, 8);
  workload.train.clip_grad_norm = true;
  CHECK(launches(lowered(workload), OpKind::all_reduce, 4, "default") == 1);
  workload = fsdp1(8, 8);
  workload.train.clip_grad_norm = true;
  workload.parallel.sharding = Fsdp1Sharding::no_shard;
  CHECK(launches(lowered(workload), OpKind::all_reduce, 4, "default") == 0);
}

TEST_CASE("no_shard with a shard size is refused") {
  Workload workload = fsdp1(16, 8);
  workload.parallel.sharding = Fsdp1Sharding::no_shard;
  const Result<Graph> graph = lower(toy_model({}), workload);
  REQUIRE(!graph);
  CHECK(graph.error().message.find("parallel.shard_size") != std::string::npos);
}

TEST_CASE("reentrant checkpoints within one unit of all blocks are refused") {
  Workload workload = fsdp1(8, 8);
  workload.train.checkpointing = Checkpointing::full;
  workload.parallel.reentrant_checkpoints = true;
  CHECK(lower(toy_model({}), workload));
  workload.parallel.wrap = Wrap::model;
  const Result<Graph> graph = lower(toy_model({}), workload);
  REQUIRE(!graph);
  CHECK(graph.error().message ==
        "parallel.reentrant_checkpoints is true, but parallel.wrap is model: FSDP1 frees and "
        "reduces the whole unit behind the backward of each block, expected block");
}
