#include "traces/timeline.h"

#include <map>

#include "core/base/dense_ids.h"
#include "traces/kineto.h"
#include "traces/kineto_event.h"

namespace foregather::traces {
namespace {

class TimelineBuilder {
 public:
  void event(const KinetoEvent& event) {
    ++recording_.rows.read;
    if (event.phase == "X") return complete(event);
    if (event.phase == "M" && event.name == "thread_name") return name_thread(event);
    if (event.phase == "M" && event.name == "process_name") return name_process(event);
    run::count(recording_.rows.unused,
               fmt::format("phase {} {}", event.phase, event.phase == "M" ? event.name : ""));
  }
  void drop(std::string_view reason) {
    ++recording_.rows.read;
    run::count(recording_.dropped, reason);
  }

  TimelineTrace finish(const JsonTop& top, const std::string& name) {
    if (top.has_cut_element) drop("cut");
    if (top.is_cut)
      recording_.warnings.push_back(name + ": the array of events has no end: the file was cut");
    recording_.source = name;
    for (std::size_t i = 0; i < recording_.lanes.size(); ++i) {
      const auto named = process_labels_.find(recording_.lanes[i].process);
      if (named != process_labels_.end()) recording_.labels[i].process = named->second;
    }
    return {std::move(recording_), top.bytes};
  }

 private:
  void complete(const KinetoEvent& event) {
    const EventSpan span = span_of(event);
    if (!span.fault.empty()) {
      run::count(recording_.dropped, span.fault);
      return;
    }
    ++recording_.rows.kept;
    run::ActivityColumns& rows = recording_.activities;
    rows.lane.push_back(lane(event));
    rows.kind.push_back(run::ActivityKind::kernel);
    rows.name.push_back(recording_.strings.intern(event.name));
    rows.start.push_back(span.start);
    rows.end.push_back(span.end);
    rows.correlation.emplace_back();
    rows.external.emplace_back();
    rows.bytes.push_back(0);
    rows.threads.push_back(0);
    rows.collective.emplace_back();
    run::TimelineColumns& timeline = recording_.timeline;
    timeline.step.push_back(event.step);
    timeline.micro_batch.push_back(event.micro_batch);
    timeline.model_chunk.push_back(event.model_chunk);
    timeline.sequence.push_back(event.sequence_in_step);
  }

  void name_thread(const KinetoEvent& event) {
    ++recording_.rows.kept;
    recording_.labels[lane(event).row()].thread = recording_.strings.intern(event.label);
  }
  void name_process(const KinetoEvent& event) {
    ++recording_.rows.kept;
    process_labels_[recording_.strings.intern(event.process)] =
        recording_.strings.intern(event.label);
  }

  run::LaneRow lane(const KinetoEvent& event) {
    const StringId process = recording_.strings.intern(event.process);
    const StringId thread = recording_.strings.intern(event.thread);
    const std::uint32_t row = lanes_.row(std::uint64_t{process.row()} << 32U | thread.row());
    if (row == recording_.lanes.size()) {
      recording_.lanes.push_back({process, thread});
      recording_.labels.emplace_back();
    }
    return run::LaneRow(row);
  }

  run::Recording recording_;
  DenseIds lanes_;
  std::map<StringId, StringId> process_labels_;
};

Result<JsonTop> read_events(TextSource& source, const std::string& name,
                            const KinetoEvents::Visitor& visitor) {
  KinetoEvents events;
  return read_json(source, name, {{"traceEvents"}, [&](const JsonWindow& window) {
                                    events.read(window, visitor);
                                    return Status();
                                  }});
}

}  // namespace

bool is_timeline(std::string_view head) {
  if (!is_chrome_json(head)) return false;
  bool has_step = false, has_other = false;
  const auto look = [&](const KinetoEvent& event) {
    if (event.phase != "X") return;
    has_step = has_step || event.step.has_value();
    has_other = has_other || is_kineto_category(event.category);
  };
  // The head ends anywhere: what could be read before that decides.
  (void)read_events(*text_of(head), "", {look, [] {}, [] {}});
  return has_step && !has_other;
}

Result<TimelineTrace> read_timeline(TextSource& source, const std::string& name) {
  TimelineBuilder builder;
  const auto top = read_events(
      source, name,
      {[&](const KinetoEvent& event) { builder.event(event); },
       [&] { builder.drop("not_an_object"); }, [&] { builder.drop("unreadable_event"); }});
  if (!top) return tl::unexpected(top.error());
  return builder.finish(*top, name);
}

}  // namespace foregather::traces
