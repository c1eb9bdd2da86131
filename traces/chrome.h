// A run as a Chrome trace: JSON object form, as ui.perfetto.dev, chrome://tracing and
// HolisticTraceAnalysis read it.
#pragma once

#include <cstdint>
#include <optional>

#include "core/run/run.h"
#include "traces/chrome_names.h"
#include "traces/chrome_tracks.h"
#include "traces/formats.h"

namespace foregather::traces {

/// Which part of a run is written.
struct ChromePart {
  std::optional<run::ClassRow> rank_class;  ///< absent: all
  std::uint64_t first_arrow = 0;            ///< ids of arrows count from here
};

/// A run, laid out; it can be written several times. Keywords are torch.profiler's:
///
/// - an op is a slice on the track of its stream (see ChromeTracks), named by ChromeNames, with
///   `stream`, `correlation` and its op key; the time in which a collective waits for other ranks
///   is a slice within;
/// - its launch is a slice of no length on the track of the host: predictions know when the host
///   issued an op, not how long that took. Of recordings all calls are slices, and an op without a
///   recorded launch has none. An arrow leads from the launch to the op;
/// - arrows lead from the op of another stream that held an op back, and from a gather to what
///   needs it first. Arrows to other classes are left out where these are;
/// - a step is a slice on the device and, as "ProfilerStep#N", where it has ops one from its first
///   to its last launch; with it its memory peaks;
/// - memory is counters, see write_counters(); an allocation that failed an instant.
///
/// `ts` and `dur` are microseconds with three decimals: exact nanoseconds. Viewers drop what comes
/// before 0, as launches of the first recorded ops do: then all times are later by shift(). The
/// same run gives the same bytes. Only a trace of one class names its rank: readers take a file for
/// one rank.
class ChromeTrace {
 public:
  /// n log n in the ops.
  explicit ChromeTrace(run::RunView run);
  /// How much later the times of the trace are than those of the run.
  Ns shift() const { return shift_; }
  Status write(const ChromePart& part, const TextSink& sink) const;

 private:
  run::RunView run_;
  ChromeNames names_;
  ChromeTracks tracks_;
  Ns shift_ = 0;
};

}  // namespace foregather::traces
