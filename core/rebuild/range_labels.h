// What the host's named ranges around an instant say about what it does.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/ir/kinds.h"
#include "core/run/recording.h"

namespace foregather::rebuild {

/// By the ranges around, from the outermost one to the innermost one:
///
/// - An annotation in the form of an op key, "SCOPE/PHASE", is the scope and the phase; the root is
///   "-". Rank, step and micro-batch may stand before it (r0/s1/m0/…), kind and ordinal behind it.
/// - So is one of FSDP2 ("FSDP::all_gather (layers.3)") for its unit; without a name, the root.
/// - "Optimizer.step#…" is the root's, in the phase optimizer.
/// - Without any of these the scope is the innermost other annotation that is no profiler step,
///   else the outermost operator; the numbers that emit_nvtx puts behind a name are none of it.
/// - Phase: forward within any range; backward within autograd's ranges and FSDP's backward hooks.
struct RangeLabel {
  Phase phase = Phase::other;
  std::string_view scope;
  run::CollectiveRow collective;  ///< of the innermost range that says what it is, not by shapes
  run::CollectiveRow called;      ///< or by shapes: then only its name is one
};

/// Rows of Recording::ranges by lane, without functions of Python.
std::vector<std::vector<std::uint32_t>> ranges_by_lane(const run::Recording& recording);

/// The ranges of one thread, walked in order of time.
class RangeWalk {
 public:
  /// `recording` must outlive this. n log n in the thread's ranges.
  RangeWalk(const run::Recording& recording, std::vector<std::uint32_t> ranges);

  /// At an instant no earlier than that of the call before.
  RangeLabel at(Ns time);

 private:
  void close(Ns time);

  const run::Recording& recording_;
  std::vector<std::uint32_t> ranges_;  ///< by start, outer before inner
  std::size_t next_ = 0;
  std::vector<std::uint32_t> open_;  ///< outermost first
};

}  // namespace foregather::rebuild
