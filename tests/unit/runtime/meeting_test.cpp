#include "runtime/host/meeting.h"

#include <cmath>
#include <thread>
#include <vector>
#include <catch2/catch.hpp>

#include "runtime/host/numbers.h"
#include "tests/support/repetitions.h"

using namespace foregather;
using namespace foregather::runtime;

namespace {

constexpr Rating kFastLinks{
    .flops = 1e12, .doubles = 1e12, .memory = 1e12, .link = 1e12, .link_latency = 0};

/// What each rank sends and receives, as bytes of a type.
struct Exchange {
  OpKind kind = OpKind::all_gather;
  DType type = DType::f32;
  std::uint32_t ranks = 4;
  Bytes message = 0;
  std::vector<std::vector<std::byte>> in, out;
  std::vector<Meet> met;

  Exchange(OpKind what, DType dtype, std::uint32_t n, std::int64_t elements)
      : kind(what), type(dtype), ranks(n), message(elements * size_of(dtype)) {
    const Bytes share = message / ranks;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      in.emplace_back(static_cast<std::size_t>(kind == OpKind::all_gather ? share : message));
      out.emplace_back(static_cast<std::size_t>(kind == OpKind::reduce_scatter ? share : message));
      fill_known(in.back().data(), std::ssize(in.back()), type, seed_of(11, rank, 0), 0);
    }
  }

  void run(Rating rating, int times = 1) {
    Members members;
    members.group_size = ranks;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      members.ranks.push_back(rank);
      members.positions.push_back(rank);
    }
    const Clock clock;
    const std::atomic<bool> failed = false;
    MeetingRoom room(members, clock, rating, 1, failed);
    Cost cost;
    cost.kind = kind;
    cost.dtype = type;
    cost.message_bytes = message;
    met.assign(ranks, {});
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        const std::array accesses{
            BoundAccess{TensorId(0), Access::read, type, in[rank].data(), std::ssize(in[rank])},
            BoundAccess{TensorId(1), Access::write, type, out[rank].data(), std::ssize(out[rank])}};
        for (int i = 0; i < times; ++i)
          met[rank] =
              *room.meet({rank, OpId(0), static_cast<std::uint64_t>(i), &cost, 1, accesses, 1});
      });
    for (std::thread& thread : threads) thread.join();
    for (const Meet& each : met) {
      CHECK(each.wrong == "");
      CHECK(each.is_bound);
    }
  }
  double sent(std::uint32_t rank, std::int64_t i) const {
    return value_at(in[rank].data(), type, i);
  }
  double got(std::uint32_t rank, std::int64_t i) const {
    return value_at(out[rank].data(), type, i);
  }
  double sum(std::int64_t i) const {
    double total = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) total += sent(rank, i);
    return total;
  }
};

// Messages below and above the size from which they go around the ring.
constexpr std::int64_t kSmall = 4 * 3 * 5 * 7 * 2, kLarge = 4 * 3 * 5 * 2048;

}  // namespace

TEST_CASE("all-gather puts every rank's share in its place") {
  for (const DType type : {DType::f32, DType::bf16, DType::i32})
    for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 5U})
      for (const std::int64_t elements : {kSmall, kLarge}) {
        Exchange exchange(OpKind::all_gather, type, ranks, elements);
        exchange.run(kFastLinks);
        const std::int64_t share = elements / ranks;
        std::int64_t wrong = 0;
        for (std::uint32_t rank = 0; rank < ranks; ++rank)
          for (std::int64_t i = 0; i < elements; ++i)
            wrong += exchange.got(rank, i) !=
                     exchange.sent(static_cast<std::uint32_t>(i / share), i % share);
        CHECK(wrong == 0);
      }
}

TEST_CASE("reduce-scatter and all-reduce sum over all ranks") {
  for (const DType type : {DType::f32, DType::bf16})
    for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 5U})
      for (const std::int64_t elements : {kSmall, kLarge}) {
        const double off = rounding_error(type) * ranks * ranks;
        Exchange scatter(OpKind::reduce_scatter, type, ranks, elements);
        scatter.run(kFastLinks);
        const std::int64_t share = elements / ranks;
        Exchange all(OpKind::all_reduce, type, ranks, elements + 1);  // shares that differ
        all.run(kFastLinks);
        std::int64_t wrong = 0;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          for (std::int64_t i = 0; i < share; ++i)
            wrong += !(std::abs(scatter.got(rank, i) - scatter.sum(rank * share + i)) <= off);
          for (std::int64_t i = 0; i <= elements; ++i)
            wrong += !(std::abs(all.got(rank, i) - all.sum(i)) <= off);
        }
        CHECK(wrong == 0);
      }
}

TEST_CASE("broadcast, reduce, all-to-all and send move what they should") {
  for (const std::uint32_t ranks : {2U, 3U, 4U}) {
    Exchange broadcast(OpKind::broadcast, DType::bf16, ranks, kSmall);
    broadcast.run(kFastLinks);
    Exchange reduce(OpKind::reduce, DType::f32, ranks, kSmall);
    reduce.run(kFastLinks);
    Exchange all_to_all(OpKind::all_to_all, DType::f32, ranks, kSmall);
    all_to_all.run(kFastLinks);
    Exchange send(OpKind::send_recv, DType::f32, ranks, kSmall);
    send.run(kFastLinks);
    const std::int64_t share = kSmall / ranks;
    for (std::int64_t i = 0; i < kSmall; ++i) {
      REQUIRE(reduce.got(0, i) == Approx(reduce.sum(i)).margin(1e-5));
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        REQUIRE(broadcast.got(rank, i) == broadcast.sent(0, i));
        REQUIRE(send.got(rank, i) == send.sent((rank + ranks - 1) % ranks, i));
        REQUIRE(all_to_all.got(rank, i) ==
                all_to_all.sent(static_cast<std::uint32_t>(i / share), rank * share + i % share));
      }
    }
  }
}

TEST_CASE("a room serves one collective after the other") {
  Exchange exchange(OpKind::reduce_scatter, DType::f32, 4, kLarge);
  exchange.run(kFastLinks, test::repetitions(200));
  CHECK(exchange.got(2, 5) == Approx(exchange.sum(2 * kLarge / 4 + 5)).margin(1e-5));
}

TEST_CASE("a transfer takes the time that its link is rated for") {
  Exchange exchange(OpKind::all_gather, DType::f32, 4, 4 * 40'000);
  Rating rating = kFastLinks;
  rating.link = 10e6;  // 480 kB each: 48 ms
  const Clock clock;
  exchange.run(rating);
  CHECK(clock.now() >= 48 * kMillisecond);
  for (const Meet& met : exchange.met) CHECK(met.transfer < 40 * kMillisecond + clock.now());
}

TEST_CASE("wrong numbers are found") {
  // Both ranks receive into the same tensor, so that what one of them expects is overwritten with
  // the next room's values: a stand-in for a collective that mixes up its buffers.
  Exchange exchange(OpKind::all_gather, DType::f32, 2, kSmall);
  std::vector<std::byte> mixed = exchange.in[0];
  exchange.run(kFastLinks);
  Members members{{0}, {0}, 1};
  const Clock clock;
  const std::atomic<bool> failed = false;
  MeetingRoom room(members, clock, kFastLinks, 1, failed);
  Cost cost;
  cost.kind = OpKind::all_gather;
  cost.message_bytes = std::ssize(mixed);
  // What is received lies half over what comes after it: the second tensor overwrites the first.
  const std::array accesses{
      BoundAccess{TensorId(0), Access::read, DType::f32, exchange.in[1].data(), cost.message_bytes},
      BoundAccess{TensorId(1), Access::write, DType::f32, mixed.data(), cost.message_bytes / 2},
      BoundAccess{TensorId(2), Access::write, DType::f32, mixed.data(), cost.message_bytes / 2}};
  const auto met = room.meet({0, OpId(0), 0, &cost, 1, accesses, 1});
  REQUIRE(met);
  CHECK(met->wrong.find("are not what position 0 of the group sent") != std::string::npos);
}

TEST_CASE("instances of a group are its list moved along") {
  Graph graph;
  graph.world_size = 8;
  graph.rank_lists = {0, 1, 2, 3, 0, 4, 5, 7};
  graph.groups.push_back({{}, {0, 4}, 2, 1});
  graph.groups.push_back({{}, {4, 2}, 4, 1});
  graph.groups.push_back({{}, {6, 2}, 1, 1});
  const std::vector<std::uint32_t> ranks{0, 1, 2, 3, 4, 5, 6, 7};
  const auto near = instances_of(graph, GroupId(0), ranks);
  REQUIRE(near.size() == 2);
  CHECK(near[1].ranks == std::vector<std::uint32_t>{4, 5, 6, 7});
  const auto far = instances_of(graph, GroupId(1), ranks);
  REQUIRE(far.size() == 4);
  CHECK(far[2].ranks == std::vector<std::uint32_t>{2, 6});
  const std::vector<std::uint32_t> some{0, 7};
  const auto part = instances_of(graph, GroupId(2), some);
  REQUIRE(part.size() == 1);
  CHECK(part[0].ranks == std::vector<std::uint32_t>{1});
  CHECK(part[0].positions == std::vector<std::uint32_t>{1});
  CHECK(part[0].group_size == 2);
}

TEST_CASE("a sum that is overwritten is found, one of integers may wrap") {
  const std::atomic<bool> failed = false;
  const Clock clock;
  const auto wrong_of = [&](DType type) {
    MeetingRoom room({{0}, {0}, 1}, clock, kFastLinks, 1, failed);
    Cost cost;
    cost.kind = OpKind::all_reduce;
    cost.dtype = type;
    cost.message_bytes = 16;
    std::array<float, 4> in{1, 2, 3, 4}, out{};
    const auto bytes = [](auto& data) { return reinterpret_cast<std::byte*>(data.data()); };
    const std::array accesses{BoundAccess{TensorId(0), Access::read, type, bytes(in), 16},
                              BoundAccess{TensorId(1), Access::write, type, bytes(out), 8},
                              BoundAccess{TensorId(2), Access::write, type, bytes(out), 8}};
    const auto met = room.meet({0, OpId(0), 0, &cost, 1, accesses, 1});
    REQUIRE(met);
    return met->wrong;
  };
  CHECK(wrong_of(DType::f32) == "element 0 of a sum over 1 ranks is 3, expected 1");
  CHECK(wrong_of(DType::i32).empty());
}
