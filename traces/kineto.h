// torch.profiler (Kineto) traces, and other Chrome JSON with device work in it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/run/recording.h"
#include "traces/text_source.h"

namespace foregather::traces {

/// What the file says about itself, beyond what a recording keeps.
struct KinetoFacts {
  std::int64_t events = 0;                          ///< entries of traceEvents, metadata included
  std::map<std::string, std::int64_t> categories;   ///< events by `cat`; absent: "None"
  std::map<std::string, std::int64_t> phases;       ///< events by `ph`
  std::map<std::string, std::int64_t> collectives;  ///< events of phase X by "Collective name"
  std::map<std::int64_t, Ns> steps;                 ///< length of the last ProfilerStep#N
  Ns first_start = 0, last_end = 0;  ///< of events of phase X that are no spans of the profiler
  std::int64_t memory_events = 0;
  std::vector<std::string> top_keys;  ///< of the top-level object, but for traceEvents
  /// Top-level values that are printed as they are: schemaVersion, record_shapes, …
  std::vector<std::pair<std::string, std::string>> copied;       ///< key, JSON text
  std::vector<std::pair<std::string, std::string>> distributed;  ///< of distributedInfo, likewise
  std::optional<std::int64_t> process_groups;
  std::int64_t machine_devices = 0;  ///< length of deviceProperties
  Bytes text_bytes = 0;              ///< unpacked
};

struct KinetoTrace {
  run::Recording recording;
  KinetoFacts facts;
};

/// Is this the beginning of a JSON text with trace events?
bool is_chrome_json(std::string_view head);

/// Does read_kineto() keep events of this category?
bool is_kineto_category(std::string_view category);

/// Reads an object with `traceEvents` or a bare array of events, in any style that Kineto printed
/// since 2021 (PyTorch 1.8). Categories, processes and threads are matched as text; unknown ones
/// are counted and left. An event that is damaged, has a negative length or a time that is no
/// number is dropped and counted in Recording::dropped. Times are exact to the nanosecond.
///
/// One pass, memory for the columns alone. Errors, with `name`:LINE:COL: see read_json().
Result<KinetoTrace> read_kineto(TextSource& source, const std::string& name);

}  // namespace foregather::traces
