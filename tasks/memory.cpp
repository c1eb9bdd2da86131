#include "tasks/memory.h"

#include <algorithm>
#include <utility>

#include "core/alloc/simulated_memory.h"
#include "core/base/text.h"
#include "sim/passes/arguments.h"
#include "tasks/native_allocator.h"
#include "tasks/recordings.h"
#include "tasks/snapshot_run.h"

namespace foregather::tasks {
namespace {

struct Question {
  std::string name;
  alloc::AllocConfig config;
};

Result<std::vector<Question>> questions_of(const MemoryRequest& request,
                                           const alloc::AllocConfig& recorded,
                                           std::vector<std::string>& warnings) {
  std::vector<Question> questions;
  for (const std::string& text : request.alloc_confs) {
    auto config = parse_native_alloc_conf(text == "default" ? "" : text);
    if (!config) return fail_at("--alloc-conf", "{}", config.error().message);
    const std::string name = text.empty() ? "default" : text;
    const bool is_new = std::none_of(questions.begin(), questions.end(),
                                     [&](const Question& other) { return other.name == name; });
    if (is_new) questions.push_back({name, *config});
    if (is_new && config->memory_fraction < 1 && !request.capacity)
      warnings.push_back(fmt::format(
          "--alloc-conf {}: a fraction of a device without a limit, expected --capacity as well",
          text));
    if (is_new && config->garbage_collection_threshold > 0 && config->memory_fraction == 1)
      warnings.push_back(fmt::format(
          "--alloc-conf {}: PyTorch collects garbage only where a fraction of the device is set, "
          "expected per_process_memory_fraction below 1 as well",
          text));
  }
  const bool asks = request.capacity || request.start == alloc::WhatIfStart::cold;
  if (questions.empty() && asks) {
    const std::string text = alloc::to_string(recorded);
    questions.push_back({text.empty() ? "default" : text, recorded});
  }
  return questions;
}

// Where the replay left the recording, for a person.
void explain_divergence(const traces::Snapshot& snapshot, const DeviceRecording& device,
                        MemoryTrace& trace) {
  if (!trace.replay.first_divergence) return;
  const std::size_t row = trace.replay.first_divergence->event;
  if (row >= device.recording.events.size()) {
    trace.diverging_action = "end";
    return;
  }
  trace.diverging_action = name(device.recording.events[row].action);
  const traces::StackId stack = snapshot.traces[device.device][row].stack;
  for (const traces::FrameId frame : snapshot.stacks.frames(stack))
    trace.diverging_stack.push_back(shown_frame(snapshot, frame));
}

Bytes held_by(const alloc::Layout& layout) {
  Bytes held = 0;
  for (const alloc::SegmentLayout& segment : layout)
    for (const alloc::BlockLayout& block : segment.blocks)
      if (block.state != alloc::BlockState::unmapped) held += block.size;
  return held;
}

// Nothing that comes later could tell that a device is too small for what the recording begins
// with.
Status check_capacity(const MemoryRequest& request, const MemoryTrace& trace) {
  if (!request.capacity || request.start == alloc::WhatIfStart::cold) return {};
  const Bytes held = held_by(trace.replay.start.layout);
  if (held <= *request.capacity) return {};
  const bool look_alike = format_bytes(*request.capacity) == format_bytes(held);
  const auto shown = [&](Bytes size) {
    return look_alike ? format_count(size) + " B" : format_bytes(size);
  };
  return fail_at(
      "--capacity",
      "{} is less than the {} that device {} holds when the recording begins, so it would "
      "not have fitted: expected at least that, or --what-if-start cold",
      shown(*request.capacity), shown(held), trace.device);
}

Status answer(const MemoryRequest& request, const std::vector<Question>& questions,
              const DeviceRecording& device, MemoryTrace& trace) {
  for (const Question& question : questions) {
    alloc::WhatIf what_if{question.config, request.start, request.capacity};
    if (!what_if.capacity && request.start == alloc::WhatIfStart::recorded)
      what_if.capacity = trace.replay.capacity;
    const auto figures = alloc::what_if(device.recording, trace.replay, what_if);
    if (!figures) return fail_at(request.snapshot, "{}", figures.error().message);
    trace.what_if.push_back({question.name, question.config, what_if.capacity, *figures});
  }
  return {};
}

}  // namespace

Result<MemoryReport> examine_snapshot(const MemoryRequest& request) {
  const auto snapshot = traces::read_snapshot(request.snapshot);
  if (!snapshot) return tl::unexpected(snapshot.error());
  return examine_snapshot(*snapshot, request);
}

Result<MemoryReport> examine_snapshot(const traces::Snapshot& snapshot,
                                      const MemoryRequest& request) {
  MemoryReport report;
  report.source = request.snapshot;
  report.start = request.start;
  if (snapshot.unknown_actions > 0)
    report.warnings.push_back(
        fmt::format("{}: {} event{} of an unknown action: replays go on without what they did",
                    request.snapshot, snapshot.unknown_actions,
                    snapshot.unknown_actions == 1 ? " is" : "s are"));
  if (snapshot.damaged_times > 0)
    report.warnings.push_back(fmt::format(
        "{}: {} event{} of a time beyond 73 years: taken for one of then", request.snapshot,
        snapshot.damaged_times, snapshot.damaged_times == 1 ? " is" : "s are"));
  report.config = recorded_config(snapshot, report.warnings);
  const auto questions = questions_of(request, report.config, report.warnings);
  if (!questions) return tl::unexpected(questions.error());
  const auto devices = recordings(snapshot, report.config, report.warnings);
  if (devices.empty())
    return fail_at(request.snapshot,
                   "has neither events nor segments, expected a recorded history");
  for (const DeviceRecording& device : devices) {
    auto replay = alloc::replay(device.recording, request.record_runs);
    if (!replay)
      return fail_at(request.snapshot, "device {}: {}", device.device, replay.error().message);
    MemoryTrace& trace = report.traces.emplace_back();
    trace.device = device.device;
    trace.events = device.recording.events.size();
    trace.replay = std::move(*replay);
    trace.holders = holders_at_peak(snapshot, device.device, trace.replay);
    explain_divergence(snapshot, device, trace);
    if (Status large_enough = check_capacity(request, trace); !large_enough)
      return tl::unexpected(large_enough.error());
    if (Status done = answer(request, *questions, device, trace); !done)
      return tl::unexpected(done.error());
  }
  if (request.record_runs) report.runs.push_back(snapshot_run(snapshot, devices, report));
  return report;
}

Result<Bytes> parse_capacity(const std::string& text) {
  const auto bytes = sim::parse_bytes(text);
  if (bytes && *bytes <= alloc::SimulatedMemory::kUnlimited) return *bytes;
  return fail("'{}' is no size, expected bytes or a text such as 80GiB, at most 1023GiB", text);
}

}  // namespace foregather::tasks
