// A Chrome trace as a viewer takes it: slices on tracks, arrows, counters.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/units.h"
#include "core/run/run.h"

namespace foregather::test {

struct ChromeSlice {
  std::string category, name;
  std::string key;  ///< op key, if it has one
  Ns begin = 0, end = 0;
};

struct ChromeArrow {
  std::string category, name;
  const ChromeSlice* from = nullptr;
  const ChromeSlice* to = nullptr;
};

struct ChromeView {
  /// By process and thread, each by begin, longest first.
  std::map<std::pair<int, int>, std::vector<ChromeSlice>> tracks;
  std::map<std::pair<int, int>, std::string> threads;  ///< names
  std::map<int, std::string> processes;
  std::vector<ChromeArrow> arrows;
  /// By process, then "NAME SERIES" → time and value, in the file's order.
  std::map<int, std::map<std::string, std::vector<std::pair<Ns, std::int64_t>>>> counters;
  /// What Perfetto would drop or show wrongly, one line each: slices of a track that overlap
  /// without nesting, or nest though they are no wait; arrows without an end or outside slices;
  /// times before 0; tracks without a name.
  std::vector<std::string> faults;

  /// Of that name, in order of tracks.
  std::vector<const ChromeSlice*> named(std::string_view name) const;
};

ChromeView read_chrome(std::string_view text);

/// What `export --format chrome` writes.
std::string chrome_text(run::RunView run);

}  // namespace foregather::test
