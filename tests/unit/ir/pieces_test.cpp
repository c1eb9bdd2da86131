// Builder, keys, names, and the two tools of validate().
#include <random>
#include <catch2/catch.hpp>

#include "core/ir/access_history.h"
#include "core/ir/builder.h"
#include "core/ir/device_order.h"
#include "core/ir/names.h"
#include "core/ir/op_key.h"
#include "tests/fixtures/fixtures.h"
#include "tests/fixtures/parts.h"

using namespace foregather;
using namespace foregather::test;

namespace {

template <class Enum>
void check_names(Enum last) {
  for (std::size_t i = 0; i <= static_cast<std::size_t>(last); ++i) {
    const Enum value = static_cast<Enum>(i);
    INFO(name(value));
    CHECK(!name(value).empty());
    CHECK(parse<Enum>(name(value)) == value);
  }
  CHECK(!parse<Enum>(""));
  CHECK(!parse<Enum>("nonsense"));
}

}  // namespace

TEST_CASE("every enumerator has a name that parses back") {
  check_names(DType::boolean);
  check_names(OpKind::other);
  check_names(Role::other);
  check_names(Phase::other);
  check_names(Cause::unknown);
  check_names(Access::accumulate);
  check_names(ActionKind::mark);
  check_names(Section::body);
  check_names(Reshard::after_backward);
}

TEST_CASE("rows are small") {
  CHECK(sizeof(Action) == 16);
  CHECK(sizeof(Op) <= 64);
  CHECK(sizeof(AccessedTensor) == 24);
  CHECK(sizeof(Storage) <= 32);
  CHECK(sizeof(Tensor) <= 32);
  CHECK(std::is_trivially_copyable_v<Op>);
}

TEST_CASE("op keys") {
  const Graph graph = fsdp1_rate_limiter();
  CHECK(op_key(graph, OpId(0), 0, 1) == "r0/s1/m0/layers.0/forward/cast/0");
  CHECK(op_key(graph, OpId(1), 3, 0) == "r3/s0/m0/layers.0/forward/all_gather/0@world#0");
  const Graph thunder = thunder_trace();
  CHECK(op_key(thunder, OpId(4), 1, 2) == "r1/s2/m0/linear2/forward/gemm/0");
  const Graph rootless = chakra_dag();
  Graph root = rootless;
  root.ops[2].scope = {};
  CHECK(op_key(root, OpId(2), 0, 0) == "r0/s0/m0/-/forward/gemm/0");
}

TEST_CASE("ordinals count the ops of one key in row order") {
  GraphBuilder b;
  b.begin_program("p");
  OpSpec spec;
  spec.stream = b.stream("s");
  spec.cost = streaming(b, OpKind::copy, 1, 1);
  for (const int m : {0, 0, 1, 0, 1}) {
    spec.micro_batch = static_cast<std::uint16_t>(m);
    op(b, spec, {});
  }
  b.end_program();
  b.begin_program("another");
  spec.micro_batch = 0;
  op(b, spec, {});
  b.end_program();
  const Graph graph = b.finish();
  std::vector<int> ordinals;
  for (const Op& each : graph.ops) ordinals.push_back(each.ordinal);
  CHECK(ordinals == std::vector{0, 1, 0, 2, 1, 0});
}

TEST_CASE("the builder shares scopes and costs") {
  GraphBuilder b;
  CHECK(b.scope("a") == b.scope("a"));
  CHECK(b.scope("a") != b.scope("b"));
  const CostId first = streaming(b, OpKind::copy, 1, 2);
  CHECK(streaming(b, OpKind::copy, 1, 2) == first);
  CHECK(streaming(b, OpKind::copy, 2, 1) != first);
  CHECK(fixed(b, OpKind::copy, 5) != fixed(b, OpKind::copy, 6));
}

TEST_CASE("a collective's sequence counts within its program and communicator") {
  const Graph graph = kineto_recording();
  std::vector<std::uint32_t> sequences;
  for (const Op& each : graph.ops)
    if (each.communicator) sequences.push_back(each.sequence);
  CHECK(sequences == std::vector<std::uint32_t>{0, 0});
}

TEST_CASE("a long host delay is several actions") {
  GraphBuilder b;
  b.begin_program("p");
  b.thread("h");
  b.select(0, Section::body);
  b.host_delay(10 * kSecond);
  b.host_delay(0);
  b.end_program();
  const Graph graph = b.finish();
  Ns sum = 0;
  for (const Action& each : graph.programs[0].threads[0].actions(Section::body)) {
    CHECK(each.kind == ActionKind::host_delay);
    sum += each.a;
  }
  CHECK(sum == 10 * kSecond);
  CHECK(graph.programs[0].threads[0].actions(Section::body).size() == 3);
}

TEST_CASE("a finished builder is empty") {
  GraphBuilder b;
  b.scope("a");
  b.finish();
  CHECK(b.finish().scopes.empty());
}

TEST_CASE("clocks: what is known where") {
  DeviceOrder order(2, 1);
  const StreamId left(0), right(1);
  CHECK(order.launch(0, left) == 1);
  CHECK(order.stream_knows(left, left, 1));
  CHECK(!order.stream_knows(right, left, 1));
  DeviceOrder::Saved event = 0;
  order.record(0, left, event);
  CHECK(order.launch(0, left) == 2);
  order.stream_learns(right, event);
  CHECK(order.stream_knows(right, left, 1));
  CHECK(!order.stream_knows(right, left, 2));
  CHECK(!order.host_knows(0, left, 1));
  order.host_learns_stream(0, left);
  CHECK(order.host_knows(0, left, 2));
  CHECK(order.launch(0, right) == 1);
  CHECK(order.stream_knows(right, left, 2));
}

// Against the plain list of all touches: the history may forget, but not what is not ordered.
TEST_CASE("the access history forgets nothing that matters") {
  constexpr Bytes kSize = 64;
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t end) { return random() % end; };
  for (int round = 0; round < 2000; ++round) {
    DeviceOrder order(3, 1);
    AccessHistory history;
    std::vector<Touch> all;
    bool is_sound = true;
    for (int step = 0; step < 30 && is_sound; ++step) {
      Touch touch;
      touch.stream = StreamId(below(3));
      touch.begin = below(3) == 0 ? 0 : static_cast<Bytes>(below(kSize));
      touch.end =
          touch.begin == 0 && below(2) == 0
              ? kSize
              : touch.begin + 1 +
                    static_cast<Bytes>(below(static_cast<std::uint64_t>(kSize - touch.begin)));
      touch.writes = below(2) == 0;
      if (below(3) != 0) {
        DeviceOrder::Saved event = 0;
        order.record(0, StreamId(below(3)), event);
        order.stream_learns(touch.stream, event);
      }
      touch.position = order.launch(0, touch.stream);
      const auto is_open = [&](const Touch& earlier) {
        return earlier.stream != touch.stream && (earlier.writes || touch.writes) &&
               earlier.begin < touch.end && touch.begin < earlier.end &&
               !order.stream_knows(touch.stream, earlier.stream, earlier.position);
      };
      const bool expected = std::any_of(all.begin(), all.end(), is_open);
      bool found = false;
      history.add(touch, kSize, [&](const Touch& earlier) {
        found |= !order.stream_knows(touch.stream, earlier.stream, earlier.position);
      });
      REQUIRE(found == expected);
      is_sound = !expected;  // behind the first hazard the history may forget more
      all.push_back(touch);
    }
  }
}
