#include "traces/kineto.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/base/dense_ids.h"
#include "core/run/key.h"
#include "traces/decimal_time.h"
#include "traces/kineto_collective.h"
#include "traces/kineto_event.h"
#include "traces/kineto_top.h"

namespace foregather::traces {
namespace {

using run::LaneRow;
using run::Recording;

constexpr std::array<std::string_view, 3> kFirstKeys{"\"traceEvents\"", "\"deviceProperties\"",
                                                     "\"distributedInfo\""};

/// What an event of phase X is, by its category in lower case.
enum class EventClass : std::uint8_t {
  kernel,
  memcpy,
  memset,
  call,
  op,
  annotation,
  python,
  sync,
  other,  ///< counted, not kept
};

EventClass class_of(std::string_view category) {
  std::string lower(category);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  constexpr std::array<std::pair<std::string_view, EventClass>, 14> kKnown{{
      {"kernel", EventClass::kernel},
      {"gpu_memcpy", EventClass::memcpy},
      {"memcpy", EventClass::memcpy},
      {"gpu_memset", EventClass::memset},
      {"memset", EventClass::memset},
      {"cuda_runtime", EventClass::call},
      {"cuda_driver", EventClass::call},
      {"runtime", EventClass::call},
      {"cpu_op", EventClass::op},
      {"operator", EventClass::op},
      {"user_annotation", EventClass::annotation},
      {"python_function", EventClass::python},
      {"cuda_sync", EventClass::sync},
      {"hip_runtime", EventClass::call},
  }};
  const auto* const found = std::find_if(kKnown.begin(), kKnown.end(),
                                         [&](const auto& row) { return row.first == lower; });
  return found == kKnown.end() ? EventClass::other : found->second;
}

/// Counts by a text of which there are few.
class WordCounts {
 public:
  StringId count(std::string_view word) {
    if (!last_ || words_.text(last_) != word) {
      last_ = words_.intern(word);
      counts_.resize(words_.size());
    }
    ++counts_[last_.row()];
    return last_;
  }
  std::string_view word(StringId id) const { return words_.text(id); }
  std::map<std::string, std::int64_t> all() const {
    std::map<std::string, std::int64_t> all;
    for (std::size_t i = 0; i < counts_.size(); ++i)
      all.emplace(words_.text(StringId(i)), counts_[i]);
    return all;
  }

 private:
  StringTable words_;
  StringId last_;
  std::vector<std::int64_t> counts_;
};

std::optional<std::int64_t> profiler_step(std::string_view name) {
  constexpr std::string_view kPrefix = "ProfilerStep";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const auto skip_spaces = [&name] {
    name.remove_prefix(std::min(name.find_first_not_of(" \t"), name.size()));
  };
  skip_spaces();
  if (!name.starts_with('#')) return std::nullopt;
  name.remove_prefix(1);
  skip_spaces();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  return number;
}

/// Traces of several ranks that were put into one file count their launches alike.
std::optional<std::string> warning_of_merged_ranks(const run::Recording& recording) {
  const run::CallColumns& calls = recording.calls;
  std::vector<StringId> process(recording.correlations);
  std::vector<bool> is_mixed(recording.correlations);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!calls.correlation[i]) continue;
    const std::size_t number = calls.correlation[i].row();
    const StringId own = recording.lanes[calls.lane[i].row()].process;
    is_mixed[number] = is_mixed[number] || (process[number] && process[number] != own);
    process[number] = own;
  }
  std::size_t mixed = 0;
  for (const run::CorrelationId number : recording.activities.correlation)
    mixed += number && is_mixed[number.row()] ? 1 : 0;
  if (mixed == 0 || 10 * mixed < recording.activities.size()) return std::nullopt;
  return fmt::format(
      "{}: {} of {} device activities have the number of launches of several "
      "processes, and may be taken for the wrong one's: expected a file a rank",
      recording.source, mixed, recording.activities.size());
}

class KinetoBuilder {
 public:
  void event(const KinetoEvent& event) {
    ++facts_.events;
    phases_.count(event.has_phase ? event.phase : "None");
    const bool has_category = event.has_category && event.category != "null";
    const StringId category = categories_.count(has_category ? event.category : "None");
    if (category.row() == classes_.size()) {
      classes_.push_back(class_of(event.category));
      unused_.push_back(0);
    }
    if (event.name == "[memory]" && (event.phase == "i" || event.category == "cpu_instant_event"))
      return memory(event);
    if (event.phase == "X") return complete(event, classes_[category.row()], category);
    others_.count(event.has_phase ? event.phase : "None");
  }
  void drop(std::string_view reason) { run::count(recording_.dropped, reason); }

  KinetoTrace finish(const JsonTop& top, const std::string& name) {
    if (top.has_cut_element) drop("cut");
    if (top.is_cut)
      recording_.warnings.push_back(name + ": the array of events has no end: the file was cut");
    facts_.categories = categories_.all();
    facts_.phases = phases_.all();
    if (collectives_.all().size() > 0) facts_.collectives = collectives_.all();
    facts_.text_bytes = top.bytes;
    count_rows();
    recording_.source = name;
    recording_.correlations = correlations_.size();
    recording_.externals = externals_.size();
    if (auto merged = warning_of_merged_ranks(recording_))
      recording_.warnings.push_back(std::move(*merged));
    read_kineto_top(top, recording_, facts_);
    // All ops have a key, or it is no export of ours.
    if (recording_.known.kind.size() != recording_.activities.size()) recording_.known = {};
    return {std::move(recording_), std::move(facts_)};
  }

 private:
  // Categories of phase X that have no column, then the other phases.
  void count_rows() {
    run::RecordedRows& rows = recording_.rows;
    rows.kept = static_cast<std::int64_t>(recording_.activities.size() + recording_.calls.size() +
                                          recording_.ranges.size() + recording_.syncs.size() +
                                          recording_.memory.size());
    rows.read = rows.kept;
    for (const auto& [reason, n] : recording_.dropped) rows.read += n;
    const auto leave = [&rows](std::string category, std::int64_t n) {
      rows.unused.emplace_back(std::move(category), n);
      rows.read += n;
    };
    for (std::size_t row = 0; row < unused_.size(); ++row)
      if (unused_[row] > 0) leave(std::string(categories_.word(StringId(row))), unused_[row]);
    for (const auto& [phase, n] : others_.all()) leave("phase " + phase, n);
  }

  void complete(const KinetoEvent& event, EventClass kind, StringId category) {
    if (!event.collective.empty()) collectives_.count(event.collective);
    const EventSpan span = span_of(event);
    if (!span.fault.empty()) return drop(span.fault);
    measure(event, span);
    switch (kind) {
      case EventClass::kernel: return activity(event, run::ActivityKind::kernel, span);
      case EventClass::memcpy: return activity(event, run::ActivityKind::memcpy, span);
      case EventClass::memset: return activity(event, run::ActivityKind::memset, span);
      case EventClass::call: return call(event, span);
      case EventClass::op: return range(event, run::RangeKind::op, span);
      case EventClass::annotation: return range(event, run::RangeKind::annotation, span);
      case EventClass::python: return range(event, run::RangeKind::python, span);
      case EventClass::sync: return sync(event, span);
      case EventClass::other: ++unused_[category.row()]; return;
    }
  }

  void measure(const KinetoEvent& event, const EventSpan& span) {
    if (event.category != "gpu_user_annotation")
      if (const auto number = profiler_step(event.name))
        facts_.steps[*number] = span.end - span.start;
    if (event.category == "Trace" || event.name.starts_with("PyTorch Profiler (")) return;
    facts_.first_start = has_span_ ? std::min(facts_.first_start, span.start) : span.start;
    facts_.last_end = has_span_ ? std::max(facts_.last_end, span.end) : span.end;
    has_span_ = true;
  }

  LaneRow lane(std::string_view process, std::string_view thread) {
    const StringId p = recording_.strings.intern(process), t = recording_.strings.intern(thread);
    const std::uint32_t row = lanes_.row(std::uint64_t{p.row()} << 32U | t.row());
    if (row == recording_.lanes.size()) recording_.lanes.push_back({p, t});
    return LaneRow(row);
  }
  run::CorrelationId correlation(std::optional<std::uint64_t> number) {
    return number ? run::CorrelationId(correlations_.row(*number)) : run::CorrelationId();
  }
  run::ExternalId external(std::optional<std::uint64_t> number) {
    return number ? run::ExternalId(externals_.row(*number)) : run::ExternalId();
  }

  run::CollectiveRow operator_row(const KinetoEvent& event) {
    const auto known = operator_collective(event);
    if (!known) return {};
    run::RecordedCollective row;
    row.name = recording_.strings.intern(known->name);
    row.dtype = recording_.strings.intern(known->dtype);
    row.group = row.ranks = recording_.strings.intern("");
    row.in_elements = known->in_elements;
    row.out_elements = known->out_elements;
    row.is_of_shapes = true;
    recording_.collectives.push_back(row);
    return run::CollectiveRow(recording_.collectives.size() - 1);
  }

  run::CollectiveRow collective(const KinetoEvent& event) {
    if (event.collective.empty()) return operator_row(event);
    run::RecordedCollective row;
    row.name = recording_.strings.intern(event.collective);
    row.dtype = recording_.strings.intern(event.dtype);
    row.group = recording_.strings.intern(event.group);
    row.ranks = recording_.strings.intern(event.ranks);
    row.in_elements = event.in_elements;
    row.out_elements = event.out_elements;
    row.group_size = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(event.group_size, 0, std::int64_t{1} << 30U));
    row.sequence = event.collective_sequence;
    recording_.collectives.push_back(row);
    return run::CollectiveRow(recording_.collectives.size() - 1);
  }

  void activity(const KinetoEvent& event, run::ActivityKind kind, const EventSpan& span) {
    run::ActivityColumns& rows = recording_.activities;
    rows.lane.push_back(lane(event.process, event.stream.empty() ? event.thread : event.stream));
    rows.kind.push_back(kind);
    rows.name.push_back(recording_.strings.intern(event.name));
    rows.start.push_back(span.start);
    rows.end.push_back(span.end);
    rows.correlation.push_back(correlation(event.correlation));
    rows.external.push_back(external(event.external));
    rows.bytes.push_back(event.bytes);
    rows.threads.push_back(event.threads());
    rows.collective.push_back(collective(event));
    if (!event.key.empty()) known(event);
  }

  void known(const KinetoEvent& event) {
    const auto op = run::parse_op_key(event.key);
    if (!op) return;
    run::KnownOps& rows = recording_.known;
    rows.micro_batch.push_back(op->micro_batch);
    rows.ordinal.push_back(op->ordinal);
    rows.kind.push_back(op->kind);
    rows.phase.push_back(op->phase);
    rows.scope.push_back(recording_.strings.intern(op->scope));
    // What no step can have is not known: sums of the others have room.
    const auto amount = [](std::int64_t n, int bits = 50) {
      return n > 0 && n >> bits == 0 ? n : 0;
    };
    rows.bytes.push_back(amount(event.bytes));
    rows.wire_bytes.push_back(amount(event.wire_bytes));
    rows.flops.push_back(amount(event.flops, 58));
  }

  void call(const KinetoEvent& event, const EventSpan& span) {
    run::CallColumns& rows = recording_.calls;
    rows.lane.push_back(lane(event.process, event.thread));
    rows.name.push_back(recording_.strings.intern(event.name));
    rows.start.push_back(span.start);
    rows.end.push_back(span.end);
    rows.correlation.push_back(correlation(event.correlation));
    rows.external.push_back(external(event.external));
  }

  void range(const KinetoEvent& event, run::RangeKind kind, const EventSpan& span) {
    run::RangeColumns& rows = recording_.ranges;
    rows.lane.push_back(lane(event.process, event.thread));
    rows.kind.push_back(kind);
    rows.name.push_back(recording_.strings.intern(event.name));
    rows.start.push_back(span.start);
    rows.end.push_back(span.end);
    rows.external.push_back(external(event.external));
    rows.sequence.push_back(event.sequence.value_or(-1));
    rows.is_backward.push_back(event.forward_thread.value_or(0) != 0 ? 1 : 0);
    rows.collective.push_back(collective(event));
    rows.shapes.push_back(text(event.shapes));
    rows.types.push_back(text(event.types));
    const auto has = [&](std::string_view part) {
      return event.name.find(part) != event.name.npos;
    };
    const bool is_attention = has("flash_attention") || has("cudnn_attention");
    rows.values.push_back(is_attention ? text(event.values) : StringId());
  }
  StringId text(std::string_view list) {
    return list.empty() ? StringId() : recording_.strings.intern(list);
  }

  void sync(const KinetoEvent& event, const EventSpan& span) {
    run::SyncColumns& rows = recording_.syncs;
    rows.lane.push_back(lane(event.process, event.stream.empty() ? event.thread : event.stream));
    rows.name.push_back(recording_.strings.intern(event.name));
    rows.start.push_back(span.start);
    rows.end.push_back(span.end);
    rows.correlation.push_back(correlation(event.correlation));
    rows.recorded.push_back(correlation(event.recorded));
    rows.awaited_stream.push_back(event.awaited_stream.empty()
                                      ? StringId()
                                      : recording_.strings.intern(event.awaited_stream));
  }

  void memory(const KinetoEvent& event) {
    ++facts_.memory_events;
    const DecimalTime time = parse_microseconds(event.has_start ? event.start : "");
    if (time.bad)
      return drop(*time.bad == BadTime::out_of_range ? "time_out_of_range" : "nonnumeric_ts");
    run::MemoryColumns& rows = recording_.memory;
    const std::string device =
        fmt::format("{}:{}", event.device_type.value_or(0), event.device_index.value_or(0));
    rows.lane.push_back(lane(event.process, event.thread));
    rows.device.push_back(recording_.strings.intern(device));
    rows.time.push_back(time.time);
    rows.address.push_back(event.address);
    rows.bytes.push_back(event.bytes);
    rows.total_allocated.push_back(event.total_allocated);
    rows.total_reserved.push_back(event.total_reserved);
  }

  Recording recording_;
  KinetoFacts facts_;
  WordCounts categories_, phases_, collectives_;
  WordCounts others_;                 // phases of events that are not looked at
  std::vector<EventClass> classes_;   // by row of categories_
  std::vector<std::int64_t> unused_;  // of phase X, by row of categories_
  DenseIds lanes_, correlations_, externals_;
  bool has_span_ = false;
};

}  // namespace

bool is_chrome_json(std::string_view head) {
  const auto first = head.find_first_not_of(" \n\r\t\xef\xbb\xbf");
  if (first == std::string_view::npos) return false;
  // What lies before the events may be longer than a head: the process groups of a large job.
  if (head[first] == '{')
    return std::any_of(kFirstKeys.begin(), kFirstKeys.end(), [&](std::string_view key) {
      return head.find(key) != std::string_view::npos;
    });
  return head[first] == '[' && head.find("\"ph\"") != std::string_view::npos;
}

bool is_kineto_category(std::string_view category) {
  return class_of(category) != EventClass::other;
}

Result<KinetoTrace> read_kineto(TextSource& source, const std::string& name) {
  KinetoBuilder builder;
  KinetoEvents events;
  const KinetoEvents::Visitor visitor{[&](const KinetoEvent& event) { builder.event(event); },
                                      [&] { builder.drop("not_an_object"); },
                                      [&] { builder.drop("unreadable_event"); }};
  const auto top = read_json(source, name, {{"traceEvents"}, [&](const JsonWindow& window) {
                                              events.read(window, visitor);
                                              return Status();
                                            }});
  if (!top) return tl::unexpected(top.error());
  return builder.finish(*top, name);
}

}  // namespace foregather::traces
