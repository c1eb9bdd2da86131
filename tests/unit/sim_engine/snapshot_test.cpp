// What a device remembers to see whether it goes on as before.
#include <catch2/catch.hpp>

#include "core/ir/builder.h"
#include "sim/engine/list_device.h"
#include "sim/engine/shared_device.h"

namespace foregather::sim {
namespace {

Graph graph_of_one_stream() {
  GraphBuilder b;
  b.begin_program("rank");
  b.stream("compute");
  b.thread("main");
  b.end_program();
  const std::uint32_t rank = 0;
  RankClass rank_class;
  rank_class.program = ProgramId(0);
  b.rank_class(rank_class, std::span(&rank, 1));
  return b.finish();
}

// A device that nothing is launched on.
template <class Device>
struct OneStream {
  Graph graph = graph_of_one_stream();
  std::vector<LaunchRows> rows = std::vector<LaunchRows>(1);
  std::vector<CostTable> prices = std::vector<CostTable>(1);
  std::vector<Timeline> timelines{Timeline(Range{})};
  Meetings meetings{graph};
  Device device{graph, rows, prices, timelines, meetings};
};

}  // namespace

TEMPLATE_TEST_CASE("what is remembered for a repeat does not grow with the step", "", ListDevice,
                   SharedDevice) {
  OneStream<TestType> job;
  TestType& device = job.device;
  for (Ns now = 1; now <= 1000; ++now) {
    device.record(0, 0, now, {});
    device.advance(now);
  }
  typename TestType::Snapshot snapshot;
  device.remember(snapshot, 3);
  REQUIRE(snapshot.events.size() == 3);
  CHECK(snapshot.events.front().time == 998);
  CHECK(snapshot.events.back().time == 1000);
  device.remember(snapshot, 5000);
  CHECK(snapshot.events.size() == 1001);  // and the one that has always happened
}

TEST_CASE("events that are still in a queue are remembered, however far back") {
  OneStream<SharedDevice> job;
  SharedDevice& device = job.device;
  for (Ns now = 1; now <= 10; ++now) device.record(0, 0, now, {});
  device.advance(4);
  SharedDevice::Snapshot snapshot;
  device.remember(snapshot, 2);
  CHECK(snapshot.first_event == 5);
  CHECK(snapshot.events.size() == 6);
  CHECK_FALSE(snapshot.events.front().done);
}

}  // namespace foregather::sim
