// The recorded snapshots of the shared data, against the figures of an independent replay.
#include <filesystem>
#include <fstream>
#include <map>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "tasks/memory.h"
#include "tasks/memory_json.h"
#include "tasks/recordings.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/support/skip.h"
#include "tests/support/snapshot_pickle.h"

using namespace foregather;
using namespace foregather::tasks;
using nlohmann::json;

namespace {

struct Given {
  std::filesystem::path folder;
  json expected;
};

std::optional<Given> given() {
  const auto folder = test::shared_data("memsnap");
  if (!folder) return std::nullopt;
  return Given{*folder, json::parse(std::ifstream(*folder / "expected.json"))};
}

void check_replay(const json& expected, const MemoryTrace& trace) {
  const alloc::Replay& replay = trace.replay;
  if (replay.first_divergence) FAIL(replay.first_divergence->reason);
  CHECK(trace.events == expected["events"]);
  CHECK(replay.allocs == expected["allocs"]);
  CHECK(replay.exact_addresses == expected["addr_exact"]);
  CHECK(replay.segments_exact == expected["seg_events_recorded"]);
  CHECK(replay.segments_replayed == expected["seg_events_predicted"]);
  CHECK(replay.digest_alloc == expected["digest_alloc"].get<std::string>());
  CHECK(replay.digest_curve == expected["digest_curve"].get<std::string>());
  CHECK(replay.peak.reserved == expected["peak_reserved_predicted"]);
  CHECK(replay.peak_reserved_recorded == expected["peak_reserved_recorded"]);
  CHECK(replay.peak.active == expected["peak_active_predicted"]);
  CHECK(replay.peak.allocated == expected["peak_allocated_predicted"]);
  CHECK(replay.at_start.active == expected["start_active"]);
  CHECK(replay.start.ambiguous.size() == expected["start_ambiguous_blocks"]);
  CHECK(replay.start.upper_slack() == expected["start_active_upper_slack"]);
  CHECK(replay.at_end.requested == expected["final_requested_predicted"]);
  CHECK(replay.blocks_recorded == expected["final_blocks"]);
  CHECK(replay.blocks_different == 0);
  CHECK(replay.retries == expected["num_alloc_retries"]);
  CHECK(replay.ooms == expected["num_ooms"]);
  CHECK(replay.empty_caches.size() == expected["empty_cache_ops"]);
}

void check_what_if(const json& expected, const WhatIfRow& row) {
  CAPTURE(row.name);
  const alloc::WhatIfFigures& figures = row.figures;
  CHECK(figures.peak.reserved == expected["peak_reserved"]);
  CHECK(figures.at_end.reserved == expected["final_reserved"]);
  CHECK(figures.peak.active == expected["peak_active"]);
  CHECK(figures.peak.allocated == expected["peak_allocated"]);
  CHECK(figures.segment_events == expected["segment_events"]);
  CHECK(figures.address_digest == expected["address_digest"].get<std::string>());
  CHECK(figures.retries == expected["retries"]);
  CHECK(figures.ooms == expected["ooms"]);
}

}  // namespace

TEST_CASE("recorded snapshots replay exactly and answer as expected") {
  const auto data = given();
  if (!data) FOREGATHER_SKIP("no shared data");
  for (const json& snapshot : data->expected["snapshots"]) {
    const std::string file = snapshot["file"];
    CAPTURE(file);
    MemoryRequest request;
    request.snapshot = data->folder / file;
    request.start = alloc::WhatIfStart::cold;
    for (const auto& [conf, figures] : snapshot["devices"][0]["what_if"].items())
      request.alloc_confs.push_back(conf);
    const auto report = examine_snapshot(request);
    if (!report) FAIL(report.error().text());
    REQUIRE(report->traces.size() == snapshot["devices"].size());
    for (std::size_t i = 0; i < report->traces.size(); ++i) {
      const json& device = snapshot["devices"][i];
      check_replay(device["replay"], report->traces[i]);
      for (const WhatIfRow& row : report->traces[i].what_if)
        check_what_if(device["what_if"][row.name], row);
    }
  }
}

TEST_CASE("a device smaller than what a recording begins with is no device for it") {
  const auto data = given();
  if (!data) FOREGATHER_SKIP("no shared data");
  MemoryRequest request;
  request.snapshot = data->folder / "magma27/memory_snapshot.pickle";
  request.capacity = 4 * GiB;
  const auto refused = examine_snapshot(request);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().text().find("holds when the recording begins") != std::string::npos);
  request.start = alloc::WhatIfStart::cold;
  const auto cold = examine_snapshot(request);
  CHECK(cold->traces[0].what_if[0].figures.ooms > 0);
  // Sizes that read alike are bytes.
  Bytes held = 0;
  for (const alloc::SegmentLayout& segment : cold->traces[0].replay.start.layout)
    for (const alloc::BlockLayout& block : segment.blocks)
      if (block.state != alloc::BlockState::unmapped) held += block.size;
  request.start = alloc::WhatIfStart::recorded;
  request.capacity = held - 1;
  CHECK(examine_snapshot(request).error().text().find(fmt::format(
            "{} B is less than the {} B that", format_count(held - 1), format_count(held))) !=
        std::string::npos);
  request.capacity = held;
  CHECK(examine_snapshot(request).has_value());
}

TEST_CASE("what a thread without Python holds has the name of its autograd node") {
  const auto data = given();
  if (!data) FOREGATHER_SKIP("no shared data");
  MemoryRequest request;
  request.snapshot = data->folder / "silmont/mem_snapshot.pickle";
  const auto report = examine_snapshot(request);
  REQUIRE(report.has_value());
  const std::vector<Holder>& holders = report->traces[0].holders.by_frame;
  CHECK(holders[0].frame.find("DivBackward0::apply") != std::string::npos);
  CHECK(holders[1].frame.find("BmmBackward0::apply") != std::string::npos);
  for (const Holder& holder : holders)
    CHECK(holder.frame.find("memory_snapshot.cpp") == std::string::npos);
}

TEST_CASE("recorded snapshots cut at any event replay exactly") {
  const auto data = given();
  if (!data) FOREGATHER_SKIP("no shared data");
  for (const json& snapshot : data->expected["snapshots"]) {
    const std::string file = snapshot["file"];
    const auto read = traces::read_snapshot(data->folder / file);
    REQUIRE(read);
    std::vector<std::string> warnings;
    for (DeviceRecording& device : recordings(*read, {}, warnings)) {
      auto& events = device.recording.events;
      const auto step = static_cast<std::ptrdiff_t>(1 + events.size() / 37);
      while (static_cast<std::ptrdiff_t>(events.size()) > step) {
        events.erase(events.begin(), events.begin() + step);
        const auto replay = alloc::replay(device.recording);
        CAPTURE(file, events.size());
        if (!replay) FAIL(replay.error().message);
        if (replay->first_divergence) FAIL(replay->first_divergence->reason);
      }
    }
  }
}

TEST_CASE("sizes of devices") {
  CHECK(parse_capacity("1") == 1);
  CHECK(parse_capacity("80GiB") == 80 * GiB);
  CHECK(parse_capacity("2MB") == 2'000'000);
  CHECK(parse_capacity("1.5GiB") == 3 * GiB / 2);
  for (const char* text :
       {"", "0", "-1", "GiB", "80 GiB", "80gib", "1024GiB", "1e9", "99999999999999999999"})
    CHECK_FALSE(parse_capacity(text));
}

TEST_CASE("a block from before a snapshot's window is called so in the report and in its run") {
  const test::Scratch scratch;
  MemoryRequest request;
  request.snapshot = scratch.write(
      "a.pickle", test::snapshot_pickle({{"alloc", 2048, 512, 10}}, {{2048, true}, {512, true}}));
  request.record_runs = true;
  const auto report = examine_snapshot(request);
  REQUIRE(report);
  std::map<Bytes, std::string> frames, names;
  for (const Holder& holder : report->traces.front().holders.by_frame)
    frames[holder.bytes] = holder.frame;
  const run::Run& run = report->runs.front();
  for (const run::BindingRecord& binding : run.bindings)
    names[binding.bytes] = run.text_of(binding.name);
  CHECK(frames == std::map<Bytes, std::string>{{512, "(no stack recorded)"},
                                               {2048, "(allocated before the window)"}});
  CHECK(names == frames);
}

namespace {

using Strings = std::vector<std::string>;

MemoryReport examined(const std::string& path, const Strings& alloc_confs = {}) {
  MemoryRequest request;
  request.snapshot = path;
  request.alloc_confs = alloc_confs;
  const auto report = examine_snapshot(request);
  if (!report) FAIL(report.error().text());
  return *report;
}

}  // namespace

TEST_CASE("events of a snapshot that mean nothing are counted in a warning") {
  const test::Scratch scratch;
  const std::string one = scratch.write(
      "one.pickle",
      test::snapshot_pickle({{"alloc", 0, 512, 10}, {"teleport", 0, 1, 11}}, {{512, true}}));
  CHECK(examined(one).warnings ==
        Strings{one + ": 1 event is of an unknown action: replays go on without what they did"});
  const std::string two = scratch.write(
      "two.pickle",
      test::snapshot_pickle(
          {{"alloc", 0, 512, 10}, {"teleport", 0, 1, 11}, {"beam", 0, 1, std::int64_t{1} << 62}},
          {{512, true}}));
  CHECK(examined(two).warnings ==
        Strings{two + ": 2 events are of an unknown action: replays go on without what they did",
                two + ": 1 event is of a time beyond 73 years: taken for one of then"});
}

TEST_CASE("a snapshot of nothing is refused") {
  const test::Scratch scratch;
  MemoryRequest request;
  request.snapshot = scratch.write("a.pickle", test::empty_snapshot_pickle());
  const auto report = examine_snapshot(request);
  REQUIRE_FALSE(report);
  CHECK(report.error().text() ==
        request.snapshot + ": has neither events nor segments, expected a recorded history");
}

TEST_CASE("a block at a snapshot's end that waits for a stream is active and not allocated") {
  const test::Scratch scratch;
  const auto report = examined(
      scratch.write("a.pickle", test::snapshot_pickle({}, {{1024, true}, {512, false, true}})));
  const alloc::Replay& replay = report.traces.front().replay;
  CHECK_FALSE(replay.first_divergence);
  CHECK(replay.at_end.allocated == 1024);
  CHECK(replay.at_end.active == 1536);
}

TEST_CASE("a snapshot that its own events contradict says where, in JSON as well") {
  const test::Scratch scratch;
  auto report = examined(
      scratch.write("a.pickle", test::snapshot_pickle({{"alloc", 0, 512, 10}}, {{1024, true}})));
  auto divergence = json::parse(to_json(report))["traces"][0]["first_divergence"];
  CHECK(divergence["event"] == 1);  // behind the last one
  CHECK(divergence["action"] == "end");
  CHECK(divergence["reason"] ==
        "the state at the end differs, first in the block at 0x10000000000");
  CHECK(divergence["stack"] == json::array());

  report = examined(test::source_dir() + "/tests/golden/inputs/diverges.pickle");
  divergence = json::parse(to_json(report))["traces"][0]["first_divergence"];
  CHECK(divergence["event"] == 1);
  CHECK(divergence["action"] == "alloc");
  CHECK(divergence["stack"] == json{"forward (model.py:12)", "main (train.py:3)"});
}

TEST_CASE("what a snapshot's configuration says is replayed where it can be, else a warning") {
  const test::Scratch scratch;
  const auto report_of = [&](const test::SnapshotConf& conf) {
    return examined(scratch.write(
        "a.pickle", test::snapshot_pickle({{"alloc", 0, 512, 10}}, {{512, true}}, conf)));
  };
  auto report = report_of({"backend:cudaMallocAsync"});
  CHECK(report.config.native_backend);
  CHECK(report.warnings ==
        Strings{"recorded under the cudaMallocAsync backend, replayed under the native one"});
  report = report_of({"no_such:1"});
  CHECK(report.warnings == Strings{"the recorded configuration 'no_such:1' is not understood: "
                                   "unknown allocator option 'no_such'"});
  // The number is what the allocator used, the text what somebody asked for.
  report = report_of({"max_split_size_mb:32", 64 * MiB});
  CHECK(report.config.max_split_size == 64 * MiB);
  CHECK(report.warnings.empty());
  CHECK_FALSE(report_of({"max_split_size_mb:32", 64 * MiB + 1}).config.max_split_size);
}

TEST_CASE("a configuration that changes nothing without another figure is warned of once") {
  const test::Scratch scratch;
  const std::string path =
      scratch.write("a.pickle", test::snapshot_pickle({{"alloc", 0, 512, 10}}, {{512, true}}));
  const auto report =
      examined(path, {"per_process_memory_fraction:0.5", "garbage_collection_threshold:0.8",
                      "per_process_memory_fraction:0.5"});
  CHECK(report.warnings ==
        Strings{"--alloc-conf per_process_memory_fraction:0.5: a fraction of a device without a "
                "limit, expected --capacity as well",
                "--alloc-conf garbage_collection_threshold:0.8: PyTorch collects garbage only "
                "where a fraction of the device is set, expected per_process_memory_fraction "
                "below 1 as well"});
  CHECK(report.traces.front().what_if.size() == 2);
  MemoryRequest request;
  request.snapshot = path;
  request.capacity = 4 * MiB;
  request.alloc_confs = {"per_process_memory_fraction:0.5"};
  CHECK(examine_snapshot(request)->warnings.empty());
}

TEST_CASE("a what-if of several devices has the largest peaks and the sums of counts") {
  const test::Scratch scratch;
  auto report = examined(
      scratch.write("a.pickle", test::snapshot_pickle({{"alloc", 0, 512, 10}}, {{512, true}})),
      {"default"});
  report.traces.push_back(report.traces.front());
  alloc::WhatIfFigures &first = report.traces[0].what_if[0].figures,
                       &second = report.traces[1].what_if[0].figures;
  first.peak = {1, 2, 3, 10};
  second.peak = {4, 3, 2, 8};
  first.at_end.reserved = 6;
  second.at_end.reserved = 7;
  first.segment_events = 2;
  second.segment_events = 3;
  first.ooms = first.retries = 1;
  second.ooms = second.retries = 4;
  const auto row = json::parse(to_json(report))["what_if"]["default"];
  CHECK(row["devices"].size() == 2);
  CHECK(row["devices"][1]["peak_reserved_bytes"] == 8);
  CHECK(row["peak_requested_bytes"] == 4);
  CHECK(row["peak_allocated_bytes"] == 3);
  CHECK(row["peak_active_bytes"] == 3);
  CHECK(row["peak_reserved_bytes"] == 10);
  CHECK(row["fragmentation"] == 0.75);  // the second one's, as its row says
  CHECK(row["final_reserved_bytes"] == 7);
  CHECK(row["segment_events"] == 5);
  CHECK(row["ooms"] == 5);
  CHECK(row["retries"] == 5);
}
