// Snapshots of all writer generations, and what is no snapshot.
#include <functional>
#include <limits>
#include <string>
#include <catch2/catch.hpp>

#include "tests/support/example_run.h"
#include "traces/memory_viz.h"
#include "traces/pickle_writer.h"
#include "traces/snapshot.h"

using namespace foregather;
using namespace foregather::traces;

namespace {

using Write = std::function<void(PickleWriter&)>;

std::string snapshot_of(const Write& segments, const Write& events, const Write& more = {}) {
  PickleWriter writer;
  writer.begin_dict().key("segments").begin_list();
  if (segments) segments(writer);
  writer.end_list().key("device_traces").begin_list().begin_list();
  if (events) events(writer);
  writer.end_list().end_list();
  if (more) more(writer);
  writer.end_dict().finish();
  return writer.take();
}

Result<Snapshot> read_memory(const std::string& bytes) {
  return read_snapshot(ByteStream::of(bytes), "s.pickle");
}

std::string snapshot_error(const std::string& bytes) {
  const auto snapshot = read_memory(bytes);
  REQUIRE_FALSE(snapshot);
  return snapshot.error().text();
}

void frame(PickleWriter& writer, const char* name, int line) {
  writer.begin_dict().field("name", name).field("filename", "m.py").field("line", line).end_dict();
}

void write_event(PickleWriter& writer, const char* action, std::int64_t address, bool with_frames) {
  writer.begin_dict().field("action", action).field("addr", address).field("size", 700);
  writer.field("stream", std::uint64_t{0xffff'ffff'ffff'fff0U});
  if (with_frames) {
    writer.key("frames").begin_list();
    frame(writer, "inner", 3);
    frame(writer, "outer", 9);
    writer.end_list();
  }
  writer.end_dict();
}

void segment(PickleWriter& writer, bool is_old, std::int64_t device = 1) {
  writer.begin_dict()
      .field("device", device)
      .field("address", std::int64_t{1} << 40)
      .field("total_size", 2 << 20)
      .field("stream", 0)
      .field("segment_type", "small");
  if (!is_old) {
    writer.key("segment_pool_id").pair(0, 7);
    writer.field("is_expandable", true);
  }
  writer.key("blocks").begin_list();
  for (const bool is_live : {true, false}) {
    writer.begin_dict().field("size", is_live ? 1024 : (2 << 20) - 1024);
    writer.field("state", is_live ? "active_pending_free" : "inactive");
    if (is_old && is_live) {
      writer.key("history").begin_list().begin_dict();
      writer.field("addr", std::int64_t{1} << 40).field("real_size", 700);
      writer.end_dict().end_list();
    } else if (!is_old) {
      writer.field("address", (std::int64_t{1} << 40) + (is_live ? 0 : 1024));
      writer.field("requested_size", is_live ? 700 : 0);
    }
    writer.end_dict();
  }
  writer.end_list().end_dict();
}

}  // namespace

TEST_CASE("times of a snapshot's events stay within those that recordings may have") {
  const auto snapshot = read_memory(snapshot_of({}, [](PickleWriter& writer) {
    for (const std::int64_t time : {std::int64_t{5}, std::numeric_limits<std::int64_t>::max(),
                                    std::numeric_limits<std::int64_t>::min()})
      writer.begin_dict()
          .field("action", "alloc")
          .field("addr", std::int64_t{1} << 40)
          .field("size", 700)
          .field("stream", 0)
          .field("time_us", time)
          .end_dict();
  }));
  REQUIRE(snapshot);
  REQUIRE(snapshot->traces.at(0).size() == 3);
  CHECK(snapshot->traces[0][0].time_us == 5);
  CHECK(snapshot->traces[0][1].time_us == kLatestTime / kMicrosecond);
  CHECK(snapshot->traces[0][2].time_us == -kLatestTime / kMicrosecond);
  CHECK(snapshot->damaged_times == 2);
}

TEST_CASE("events become rows, equal stacks one stack") {
  const auto snapshot = read_memory(snapshot_of({}, [](PickleWriter& writer) {
    write_event(writer, "alloc", 4096, true);
    write_event(writer, "free_requested", 4096, true);
    write_event(writer, "something new", 0, false);
    writer.begin_dict().field("action", "oom").field("size", 5).field("stream", 0);
    writer.field("device_free", 77).field("time_us", 1234).end_dict();
  }));
  if (!snapshot) FAIL(snapshot.error().text());
  REQUIRE(snapshot->traces.size() == 1);
  const auto& trace = snapshot->traces[0];
  REQUIRE(trace.size() == 4);
  CHECK(trace[0].action == SnapshotAction::alloc);
  CHECK(trace[0].address == 4096);
  CHECK(trace[0].size == 700);
  CHECK(trace[0].stream == 0xffff'ffff'ffff'fff0U);
  CHECK(trace[0].stack == trace[1].stack);
  CHECK(snapshot->stacks.size() == 1);
  const auto frames = snapshot->stacks.frames(trace[0].stack);
  REQUIRE(frames.size() == 2);
  CHECK(snapshot->strings.text(snapshot->stacks.frame(frames[0]).name) == "inner");
  CHECK(snapshot->stacks.frame(frames[1]).line == 9);
  CHECK(trace[2].action == SnapshotAction::other);
  CHECK_FALSE(trace[2].stack);
  CHECK(trace[3].action == SnapshotAction::oom);
  CHECK(trace[3].address == 77);
  CHECK(trace[3].time_us == 1234);
  CHECK(snapshot->unknown_actions == 1);
  CHECK(snapshot->has_times);
  CHECK_FALSE(snapshot->settings);
}

TEST_CASE("old segments lack addresses and pools, their requested sizes are in the history") {
  for (const bool is_old : {true, false}) {
    const auto snapshot =
        read_memory(snapshot_of([&](PickleWriter& writer) { segment(writer, is_old); }, {}));
    if (!snapshot) FAIL(snapshot.error().text());
    REQUIRE(snapshot->segments.size() == 1);
    const SnapshotSegment& row = snapshot->segments[0];
    CHECK(row.device == 1);
    CHECK_FALSE(row.is_large);
    CHECK(row.is_expandable == !is_old);
    CHECK(row.in_private_pool == !is_old);
    REQUIRE(row.blocks.size() == 2);
    CHECK(row.blocks[0].state == SnapshotState::pending_free);
    CHECK(row.blocks[0].requested == 700);
    CHECK(row.blocks[1].address == row.address + 1024);
  }
}

TEST_CASE("settings are read as far as they are there") {
  const auto snapshot = read_memory(snapshot_of({}, {}, [](PickleWriter& writer) {
    writer.key("allocator_settings").begin_dict();
    writer.field("PYTORCH_ALLOC_CONF", "max_split_size_mb:40");
    writer.field("max_split_size", -1).field("expandable_segments", true);
    writer.key("roundup_power2_divisions").begin_dict();
    writer.field("1", 4).field("32768", 8).end_dict().end_dict();
  }));
  REQUIRE(snapshot);
  REQUIRE(snapshot->settings);
  CHECK(snapshot->settings->conf == "max_split_size_mb:40");
  CHECK(snapshot->settings->max_split_size == -1);
  CHECK(snapshot->settings->expandable_segments == true);
  CHECK_FALSE(snapshot->settings->garbage_collection_threshold);
  CHECK(snapshot->settings->roundup_power2_divisions->front() == 4);
  CHECK(snapshot->settings->roundup_power2_divisions->at(1) == 0);
  CHECK(snapshot->settings->roundup_power2_divisions->back() == 8);
}

TEST_CASE("what is no snapshot says where it is not") {
  CHECK(snapshot_error("{\"segments\": []}") ==
        "s.pickle: byte 0: begins with '{', expected a pickle of protocol 2 to 5");
  CHECK(snapshot_error("\x1f\x8b\x08 and so on") ==
        "s.pickle: byte 0: is packed by gzip, expected a pickle: unpack it first");
  PickleWriter list;
  list.begin_list().end_list().finish();
  CHECK(snapshot_error(list.take()).find("is a pickle of something else") != std::string::npos);
  PickleWriter empty;
  empty.begin_dict().end_dict().finish();
  CHECK(snapshot_error(empty.take()).find("has no segments") != std::string::npos);
  const auto number = [](PickleWriter& writer) { writer.value(1); };
  CHECK(snapshot_error(snapshot_of(number, {})).find("entry 0 of segments is no segment") !=
        std::string::npos);
  CHECK(snapshot_error(snapshot_of({}, number))
            .find("entry 0 of the trace of device 0 is no event") != std::string::npos);
  CHECK(snapshot_error(snapshot_of({}, [](PickleWriter& writer) {
          writer.begin_dict().field("action", "alloc").field("addr", 1).end_dict();
        })).find("is no event") != std::string::npos);
}

TEST_CASE("an event is in one trace once, and a block in one segment") {
  // By reference: what takes a few bytes in the file would be without end in memory.
  constexpr std::string_view kTwice(
      "\x80\x02}q\x00(X\x08\x00\x00\x00segmentsq\x01]q\x02X\x0d\x00\x00\x00"
      "device_tracesq"
      "\x03]q\x04]q\x05(}q\x06(X\x06\x00\x00\x00"
      "actionq\x07X\x05\x00\x00\x00"
      "allocq\x08X"
      "\x04\x00\x00\x00"
      "addrq\x09J\x00\x00\x10\x00X\x04\x00\x00\x00sizeq\x0aM\x00\x02X\x06"
      "\x00\x00\x00streamq\x0bK\x00uh\x06"
      "eau.",
      132);
  CHECK(
      snapshot_error(std::string(kTwice)) ==
      "s.pickle: the trace of device 0 has events of another one, or one twice, expected its own");
  constexpr std::string_view kShared(
      "\x80\x02}q\x00(X\x08\x00\x00\x00segmentsq\x01]q\x02(}q\x03(X\x07\x00\x00\x00"
      "addres"
      "sq\x04J\x00\x00\x10\x00X\x0a\x00\x00\x00total_sizeq\x05M\x00\x02X\x06\x00\x00\x00str"
      "eamq\x06K\x00X\x0c\x00\x00\x00segment_typeq\x07X\x05\x00\x00\x00smallq\x08X\x06\x00"
      "\x00\x00"
      "deviceq\x09K\x00X\x06\x00\x00\x00"
      "blocksq\x0a]q\x0b}q\x0c(h\x04J\x00\x00"
      "\x10\x00X\x04\x00\x00\x00sizeq\x0dM\x00\x02X\x05\x00\x00\x00stateq\x0eX\x10\x00\x00"
      "\x00"
      "active_allocatedq\x0fuau}q\x10(h\x04J\x00\x00\x10\x00h\x05M\x00\x02h\x06K\x00h"
      "\x07h\x08h\x09K\x00h\x0ah\x0bueX\x0d\x00\x00\x00"
      "device_tracesq\x11]q\x12u.",
      267);
  CHECK(snapshot_error(std::string(kShared)).find("entry 1 of segments is no segment") !=
        std::string::npos);
}

TEST_CASE("segments of devices that cannot be are refused, not left out") {
  for (const std::int64_t device : {std::int64_t{-1}, std::int64_t{4096}, std::int64_t{1} << 40}) {
    const std::string bytes =
        snapshot_of([&](PickleWriter& writer) { segment(writer, false, device); }, {});
    CHECK(snapshot_error(bytes) == "s.pickle: entry 0 of segments is of device " +
                                       std::to_string(device) + ", expected 0 to 4095");
  }
}

TEST_CASE("each GPU of a process has its own history") {
  const auto histories = [](bool has_more) {
    PickleWriter writer;
    writer.begin_dict().key("segments").begin_list().end_list();
    writer.key("device_traces").begin_list();
    for (const int device : {0, 1, 2}) {
      writer.begin_list();
      for (int i = 0; i < device; ++i) write_event(writer, "alloc", 1000 * device + i, false);
      writer.end_list();
    }
    if (has_more) writer.value(5);
    writer.end_list().end_dict().finish();
    return writer.take();
  };
  const auto snapshot = read_memory(histories(false));
  if (!snapshot) FAIL(snapshot.error().text());
  std::vector<std::vector<std::int64_t>> addresses;
  for (const auto& trace : snapshot->traces) {
    addresses.emplace_back();
    for (const SnapshotEvent& event : trace) addresses.back().push_back(event.address);
  }
  CHECK(addresses == std::vector<std::vector<std::int64_t>>{{}, {1000}, {2000, 2001}});
  CHECK(snapshot_error(histories(true)) ==
        "s.pickle: entry 3 of device_traces is no list, expected a list of events");
}

TEST_CASE("what only looks like frames or like a history is no stack") {
  const auto odd = read_memory(snapshot_of({}, [](PickleWriter& writer) {
    writer.begin_dict().field("action", "alloc").field("addr", 1).field("size", 2);
    writer.field("stream", 0).key("frames").begin_list();
    frame(writer, "inner", 3);
    writer.value(5).end_list().end_dict();
  }));
  if (!odd) FAIL(odd.error().text());
  REQUIRE(odd->traces.at(0).size() == 1);
  CHECK_FALSE(odd->traces[0][0].stack);
  const auto history = read_memory(snapshot_of(
      [](PickleWriter& writer) {
        writer.begin_dict()
            .field("device", 0)
            .field("address", std::int64_t{1} << 40)
            .field("total_size", 1024)
            .field("stream", 0)
            .field("segment_type", "small")
            .key("blocks")
            .begin_list()
            .begin_dict()
            .field("size", 1024)
            .field("state", "active_allocated")
            .key("history")
            .begin_list()
            .value(5)
            .end_list()
            .end_dict()
            .end_list()
            .end_dict();
      },
      {}));
  if (!history) FAIL(history.error().text());
  CHECK(history->segments.at(0).blocks.at(0).requested == 1024);  // its size
  CHECK_FALSE(history->segments[0].blocks[0].stack);
}

TEST_CASE("a snapshot cut anywhere is refused") {
  const std::string whole = snapshot_of([](PickleWriter& writer) { segment(writer, false); },
                                        [](PickleWriter& writer) {
                                          write_event(writer, "alloc", 4096, true);
                                          write_event(writer, "free_completed", 4096, true);
                                        });
  REQUIRE(read_memory(whole));
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK(snapshot_error(whole.substr(0, size)).starts_with("s.pickle: byte "));
}

TEST_CASE("a run is written as a snapshot of its last steps") {
  using namespace foregather::run;
  Run run;
  const ClassRow rank_class = run.add(ClassInfo{run.text("all"), {0}});
  const StreamRow stream = run.add(StreamInfo{rank_class, run.text("compute"), 0});
  StepInfo info;
  info.rank_class = rank_class;
  info.end = 9000;
  const StepRow step = run.add(info);
  constexpr std::uint64_t kBase = std::uint64_t{1} << 40;
  const auto bind = [&](const char* name, std::uint64_t offset, Bytes bytes, Ns from, Ns to,
                        bool before, bool after) {
    BindingRecord row;
    row.step = step;
    row.name = run.text(name);
    row.scope = run.text("layers.0");
    row.bytes = bytes - 12;
    row.block_bytes = bytes;
    row.address = kBase + offset;
    row.allocated = from;
    row.freed = to;
    row.from_before = before;
    row.still_bound = after;
    run.add(row);
  };
  run.add(SegmentRecord{step, stream, SegmentChange::held, false, false, 0, kBase, 2 * MiB});
  run.add(SegmentRecord{step, stream, SegmentChange::allocated, true, false, 2000, kBase + 4 * MiB,
                        20 * MiB});
  bind("weight", 0, 1024, 0, 9000, true, true);
  bind("old", 1024, 512, 0, 2000, true, false);
  bind("new", 1024, 512, 2000, 9000, false, true);  // where the old one was, at the same time
  bind("big", 4 * MiB, 8 * MiB, 2000, 3000, false, false);
  std::string bytes;
  REQUIRE(write_memory_viz(run, "roundup_power2_divisions:4", [&](std::string_view part) {
    bytes += part;
    return Status{};
  }));
  const auto snapshot = read_memory(bytes);
  if (!snapshot) FAIL(snapshot.error().text());
  REQUIRE(snapshot->traces.size() == 1);
  REQUIRE(snapshot->settings.has_value());
  CHECK(snapshot->settings->conf == "roundup_power2_divisions:4");
  std::vector<SnapshotAction> actions;
  for (const SnapshotEvent& row : snapshot->traces[0]) actions.push_back(row.action);
  using enum SnapshotAction;
  CHECK(actions == std::vector{segment_alloc, free_requested, free_completed, alloc, alloc,
                               free_requested, free_completed});
  REQUIRE(snapshot->segments.size() == 2);
  CHECK(snapshot->segments[0].blocks.size() == 3);
  CHECK(snapshot->segments[0].blocks[1].requested == 500);
  CHECK(snapshot->segments[1].blocks.size() == 1);
  CHECK(snapshot->segments[1].blocks[0].state == SnapshotState::inactive);
}

TEST_CASE("a snapshot of a run shows ranges that met, were cut and went back") {
  using namespace foregather::run;
  using enum SegmentChange;
  Run run;
  const ClassRow rank_class = run.add(ClassInfo{run.text("all"), {0}});
  const StreamRow stream = run.add(StreamInfo{rank_class, run.text("compute"), 0});
  StepInfo info;
  info.rank_class = rank_class;
  info.end = 9000;
  const StepRow step = run.add(info);
  constexpr std::uint64_t kBase = std::uint64_t{1} << 40;
  constexpr Bytes kPage = 20 * MiB;
  const auto change = [&](SegmentChange kind, bool is_mapped, Ns time, std::uint64_t page,
                          Bytes pages) {
    run.add(SegmentRecord{step, stream, kind, true, is_mapped, time, kBase + page * kPage,
                          pages * kPage});
  };
  // Pages 0 1 2 3 become one range from both sides; without page 1 it is two, without 0 one of
  // them.
  change(held, true, 0, 0, 1);
  change(held, false, 0, 8, 1);
  change(held, false, 0, 9, 1);  // touches, and is a segment of its own
  change(mapped, true, 1000, 3, 1);
  change(mapped, true, 1000, 1, 2);
  change(unmapped, true, 2000, 1, 1);
  change(unmapped, true, 3000, 0, 1);
  change(released, false, 4000, 8, 1);
  BindingRecord row;
  row.step = step;
  row.name = run.text("kept");
  row.bytes = row.block_bytes = kPage / 2;
  row.address = kBase + 3 * kPage;
  row.allocated = 1500;
  row.freed = 9000;
  row.still_bound = true;
  run.add(row);
  std::string bytes;
  REQUIRE(write_memory_viz(run, "max_split_size_mb:64", [&](std::string_view part) {
    bytes += part;
    return Status{};
  }));
  const auto snapshot = read_memory(bytes);
  if (!snapshot) FAIL(snapshot.error().text());
  using A = SnapshotAction;
  std::vector<A> actions;
  for (const SnapshotEvent& event : snapshot->traces.at(0)) actions.push_back(event.action);
  CHECK(actions == std::vector{A::segment_map, A::segment_map, A::alloc, A::segment_unmap,
                               A::segment_unmap, A::segment_free});
  std::vector<std::pair<Bytes, Bytes>> pages;  // where a segment begins, how long it is
  for (const SnapshotSegment& each : snapshot->segments)
    pages.emplace_back((each.address - static_cast<std::int64_t>(kBase)) / kPage,
                       each.total / kPage);
  CHECK(pages == std::vector<std::pair<Bytes, Bytes>>{{2, 2}, {9, 1}});
  REQUIRE(snapshot->segments.at(0).blocks.size() == 3);
  CHECK(snapshot->segments[0].blocks[1].requested == kPage / 2);
  REQUIRE(snapshot->settings);
  CHECK(snapshot->settings->conf == "expandable_segments:True,max_split_size_mb:64");
}

TEST_CASE("a run without recorded memory is no snapshot") {
  foregather::run::Run run = test::example_run();
  run.segments.clear();
  const Status written = write_memory_viz(run, "", [](std::string_view) { return Status{}; });
  REQUIRE_FALSE(written);
  CHECK(written.error().message.find("has no segments") != std::string::npos);
}

TEST_CASE("settings are listed as they are, and not without end") {
  const auto with_settings = [](int count) {
    return snapshot_of({}, {}, [&](PickleWriter& writer) {
      writer.key("allocator_settings").begin_dict().field("expandable_segments", true);
      writer.key("group").begin_dict();
      for (int i = 0; i < count; ++i) writer.field("option " + std::to_string(i), i);
      writer.end_dict().end_dict();
    });
  };
  const auto snapshot = read_memory(with_settings(2));
  REQUIRE(snapshot);
  CHECK(snapshot->keys ==
        std::vector<std::string>{"segments", "device_traces", "allocator_settings"});
  REQUIRE(snapshot->settings->all.size() == 3);
  CHECK(std::get<bool>(snapshot->settings->all[0].value));
  CHECK(snapshot->settings->all[2].group == "group");
  CHECK(snapshot->settings->all[2].name == "option 1");
  CHECK(std::get<std::int64_t>(snapshot->settings->all[2].value) == 1);
  CHECK(snapshot_error(with_settings(20'000)) ==
        "s.pickle: has more than 1024 KiB of keys and allocator_settings, expected some dozens of "
        "them");
}
