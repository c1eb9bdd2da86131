// Several recordings put together: on one clock, with the collectives in which their ranks meet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/rebuild/clocks.h"
#include "core/rebuild/matched_collectives.h"

namespace foregather::rebuild {

/// One rank's part of a collective.
struct Meeting {
  std::uint32_t chain = 0;  ///< row of MatchedCollectives::chains
  /// All have arrived, in the timeline of this rank: not before its start, not behind its end.
  Ns transfer = 0;
  /// The part of the wait before `transfer` in which all recorded ranks were there: others were
  /// late.
  Ns lateness = 0;
  Bytes bytes = 0;            ///< the largest that a rank says
  std::uint32_t last = 0;     ///< the recording whose rank came last, …
  std::uint32_t last_op = 0;  ///< … and its part, an op of its timeline
};

/// By recording, by op of its timeline; absent: an op of one rank alone.
using Meetings = std::vector<std::vector<std::optional<Meeting>>>;

struct PutTogether {
  /// By recording; absent: its clock cannot be compared, and its collectives meet nobody's. Those
  /// of one island meet among each other.
  std::vector<std::optional<Clock>> clocks;
  std::vector<MatchedCollectives> matched;  ///< by window
  std::vector<Meetings> meetings;           ///< by window
  std::vector<std::string> warnings;
};

/// The clocks of recordings as the collectives that they share tell, in all windows. Takes what
/// put_together() takes.
std::vector<std::optional<Clock>> clocks_of(const std::vector<RankTimelines>& windows,
                                            const std::vector<Ns>& epochs);

/// Takes windows of one job (steps, or one whole recording), each with as many recordings. `epochs`
/// are what makes the recordings' clocks comparable before they are aligned, by recording.
///
/// A collective cannot end on one rank before it began on another: those that would, on aligned
/// clocks, do not meet; a chain of which that is half and more is none, and a recording without
/// another chain has no clock. Groups of which some ranks were not recorded: where a transfer, from
/// the last arrival on, took more than twice its median over the same kernels with the same sizes,
/// what is above that median is time in which absent ranks were late. n log n.
PutTogether put_together(const std::vector<RankTimelines>& windows, const std::vector<Ns>& epochs);

}  // namespace foregather::rebuild
