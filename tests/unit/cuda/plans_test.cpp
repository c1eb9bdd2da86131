// How ops are divided into kernels and copies, as far as the host decides it.
#include <catch2/catch.hpp>

#include "core/ir/builder.h"
#include "runtime/cuda/rooms.cuh"
#include "runtime/cuda/work.cuh"
#include "tests/fixtures/fixtures.h"

using namespace foregather;
using namespace foregather::runtime;
using namespace foregather::runtime::cuda;

namespace {

std::byte* at(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

BoundAccess access(Access mode, DType type, std::uintptr_t address, Bytes bytes) {
  return {TensorId(0), mode, type, at(address), bytes};
}

}  // namespace

TEST_CASE("elements go from tensor to tensor in order, cut where either side ends") {
  const std::vector<BoundAccess> accesses{access(Access::read, DType::f32, 1000, 40),
                                          access(Access::read, DType::f32, 0, 400),  // on the host
                                          access(Access::read, DType::f32, 2000, 20),
                                          access(Access::write, DType::bf16, 5000, 24),
                                          access(Access::write, DType::bf16, 6000, 100)};
  std::vector<Pieces> groups;
  CHECK(pieces_of(accesses, false, accesses, INT64_MAX, groups) == 15);
  REQUIRE(groups.size() == 1);
  REQUIRE(groups[0].count == 3);
  CHECK(groups[0].from == DType::f32);
  CHECK(groups[0].to == DType::bf16);
  const auto is = [&](std::size_t i, std::uintptr_t from, std::uintptr_t to,
                      std::int64_t elements) {
    const Piece& piece = groups[0].piece[i];
    return piece.from == at(from) && piece.to == at(to) && piece.elements == elements;
  };
  CHECK(is(0, 1000, 5000, 10));
  CHECK(is(1, 2000, 5020, 2));
  CHECK(is(2, 2008, 6000, 3));
  CHECK(pieces_of(accesses, false, accesses, 11, groups) == 11);
}

TEST_CASE("another pair of types, or too many pieces, begin a new group") {
  std::vector<BoundAccess> accesses;
  for (std::uintptr_t i = 0; i < 300; ++i)
    accesses.push_back(access(Access::read, i < 290 ? DType::f32 : DType::bf16, 1000 * (i + 1), 8));
  accesses.push_back(access(Access::write, DType::f32, 7'000'000, 100'000));
  std::vector<Pieces> groups;
  CHECK(pieces_of(accesses, false, accesses, INT64_MAX, groups) == 290 * 2 + 10 * 4);
  REQUIRE(groups.size() == 4);
  CHECK(groups[0].count == kPieces);
  CHECK(groups[1].count == kPieces);
  CHECK(groups[2].count == 290 - 2 * kPieces);
  CHECK(groups[3].count == 10);
  CHECK(groups[3].from == DType::bf16);
}

TEST_CASE("every fixture's collectives have buffers that hold what is sent and received") {
  for (const auto& [name, make] : test::all_fixtures()) {
    INFO(name);
    const Graph graph = make();
    for (const Op& op : graph.ops) {
      if (!op.communicator) continue;
      const Group& group = graph.at(graph.at(op.communicator).group);
      const auto accesses = graph.accesses_of(op);
      for (std::uint32_t position = 0; position < group.ranks.count; ++position) {
        const CollectivePlan plan = plan_collective(graph, op, group.ranks.count, position);
        const Cost& cost = graph.at(op.cost);
        CHECK(plan.sent <= cost.message_bytes);
        CHECK(plan.received <= cost.message_bytes);
        for (const auto& [buffer, bytes] :
             {std::pair(plan.in, plan.sent), std::pair(plan.out, plan.received)}) {
          if (buffer.kind != Buffer::Kind::access) continue;
          REQUIRE(buffer.access < accesses.size());
          CHECK(accesses[buffer.access].bytes == bytes);
          CHECK(graph.at(accesses[buffer.access].tensor).dtype == cost.dtype);
        }
        if (plan.in.kind == Buffer::Kind::access)
          CHECK(accesses[plan.in.access].mode == Access::read);
        if (plan.out.kind == Buffer::Kind::access)
          CHECK(accesses[plan.out.access].mode != Access::read);
      }
    }
  }
}

TEST_CASE("beside its product an op of several kernels does what is left") {
  Cost cost;
  cost.kind = OpKind::gemm;
  cost.dtype = DType::bf16;
  cost.m = 8, cost.n = 4, cost.k = 2;
  cost.flops = 2 * 8 * 4 * 2 + 32;
  cost.bytes_read = 2 * (8 * 2 + 2 * 4) + 64;
  cost.bytes_written = 2 * 8 * 4 + 8;
  cost.kernels = 3;
  const Cost rest = beside_product(cost);
  CHECK(rest.kernels == 2);
  CHECK(rest.flops == 32);
  CHECK(rest.bytes_read == 64);
  CHECK(rest.bytes_written == 8);
  cost.bytes_written = 0;  // the product's own result was not counted
  CHECK(beside_product(cost).bytes_written == 0);
}

TEST_CASE("every op of every fixture has a plan, and without a library none is a product") {
  for (const auto& [name, make] : test::all_fixtures()) {
    INFO(name);
    const Graph graph = make();
    WorkPlanner planner(graph, nullptr);
    for (const Program& program : graph.programs) {
      const auto plans = planner.plan(program);
      REQUIRE(plans.size() == program.ops.count);
      for (const WorkPlan& plan : plans) CHECK(plan.way != WorkPlan::Way::product);
    }
  }
}
