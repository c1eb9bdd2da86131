#include "traces/chrome_counters.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include "traces/memory_curves.h"

namespace foregather::traces {
namespace {

class Counters {
 public:
  Counters(run::RunView run, run::ClassRow rank_class, ChromeTrack track, ChromeEvents& events)
      : run_(run), class_(rank_class), track_(track), events_(events) {}

  void write_curves() {
    std::vector<MemoryCurve> known;
    for (const MemoryCurve& curve : kMemoryCurves)
      if (is_known(curve, run_,
                   [this](const run::MemoryRecord& point) { return is_own(point.step); }))
        known.push_back(curve);
    if (known.empty()) return;
    for (const run::MemoryRecord& point : run_.memory) {
      if (events_.failed()) return;
      if (!is_own(point.step)) continue;
      events_.begin_event();
      fmt::format_to(fmt::appender(events_.buffer()),
                     FMT_COMPILE(R"("ph":"C","pid":{},"tid":{},"name":"memory","ts":{},"args":{{)"),
                     track_.process, track_.thread, events_.at(point.time));
      for (const MemoryCurve& curve : known)
        fmt::format_to(fmt::appender(events_.buffer()), "{}\"{}\":{}",
                       curve.name == known.front().name ? "" : ",", curve.name, point.*curve.bytes);
      events_.text("}");
      events_.end_event();
    }
  }

  // Every step begins with what it found.
  void write_causes() {
    std::vector<Change> changes;
    for (const run::BindingRecord& binding : run_.bindings) {
      if (!is_own(binding.step)) continue;
      changes.push_back({binding.step, binding.allocated, binding.cause, binding.block_bytes});
      if (!binding.still_bound)
        changes.push_back({binding.step, binding.freed, binding.cause, -binding.block_bytes});
    }
    std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
      return std::tie(a.step, a.time, a.cause) < std::tie(b.step, b.time, b.cause);
    });
    std::array<Bytes, kCauses> held{};
    run::StepRow step;
    for (std::size_t i = 0; i < changes.size() && !events_.failed();) {
      const Change& change = changes[i];
      if (std::exchange(step, change.step) != change.step) {
        std::array<Bytes, kCauses> before{};
        std::swap(before, held);
        for (std::size_t cause = 0; cause < kCauses; ++cause)
          if (before[cause] != 0) write_held(static_cast<Cause>(cause), change.time, 0);
      }
      Bytes& bytes = held[static_cast<std::size_t>(change.cause)];
      for (; i < changes.size() && changes[i].is_at(change); ++i) bytes += changes[i].bytes;
      write_held(change.cause, change.time, bytes);
    }
  }

 private:
  struct Change {
    run::StepRow step;
    Ns time = 0;
    Cause cause = Cause::temporary;
    Bytes bytes = 0;
    bool is_at(const Change& other) const {
      return step == other.step && time == other.time && cause == other.cause;
    }
  };

  bool is_own(run::StepRow step) const { return run_.steps[step.row()].rank_class == class_; }

  void write_held(Cause cause, Ns time, Bytes bytes) {
    events_.event(
        FMT_COMPILE(
            R"("ph":"C","pid":{},"tid":{},"name":"held by {}","ts":{},"args":{{"bytes":{}}})"),
        track_.process, track_.thread, name(cause), events_.at(time), bytes);
  }

  run::RunView run_;
  run::ClassRow class_;
  ChromeTrack track_;
  ChromeEvents& events_;
};

}  // namespace

void write_counters(run::RunView run, run::ClassRow rank_class, ChromeTrack track,
                    ChromeEvents& events) {
  Counters counters(run, rank_class, track, events);
  counters.write_curves();
  counters.write_causes();
}

}  // namespace foregather::traces
