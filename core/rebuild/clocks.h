// How the clocks of recordings stand to each other, by collectives that end together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/rebuild/matched_collectives.h"

namespace foregather::rebuild {

/// Collectives that two recordings must share before their clocks are compared.
inline constexpr std::size_t kFewestSharedCollectives = 3;

/// The clock of a recording against that of the first one.
struct Clock {
  Ns offset = 0;  ///< by which it is ahead
  /// Nine of ten collectives shared on the way to the first recording ended that close to the
  /// offset.
  Ns uncertainty = 0;
  /// What the second half of the shared collectives adds to the offset of the first half.
  Ns drift = 0;
  /// By which it runs faster, in parts of 10^12, where the offsets lie on a line rather than at one
  /// value: the offset is then that of the first clock's time `at`. 0: no drift is to be seen.
  std::int64_t rate = 0;
  Ns at = 0;
  /// 0: of the recordings that collectives tie to the first one; else of others, which are tied to
  /// each other: "the first one" is then the first of these.
  std::uint32_t island = 0;
  bool has_few = false;  ///< fewer than kFewestSharedCollectives are on its way somewhere
};

/// What the drift added to a time of that clock since `at`.
Ns drifted(const Clock& clock, Ns time);

/// Two recordings of one collective.
struct SharedEnd {
  std::uint32_t a = 0, b = 0;  ///< recordings, a < b
  Ns time = 0;                 ///< its end by the clock of a
  Ns ahead = 0;                ///< its end by the clock of b less that
};

/// Appends, for each collective, the ends on its first member's clock and on each other's.
/// `begins[i]` is time 0 of the timeline of recording i.
void add_shared_ends(const RankTimelines& ranks, const MatchedCollectives& matched,
                     const std::vector<Ns>& begins, std::vector<SharedEnd>& ends);

/// By recording; absent: too few collectives lead from any other one to it. Island 0 is that of the
/// first recording or, where that is alone, of the pair that shares most. Islands (of two and more)
/// are joined by any collective that members of both share. All ranks of a
/// collective end nearly together, however long each one waited in it: so the median of the
/// differences is the offset, over the pairs of recordings that share most. Ends differ by what the
/// last piece of a message takes from rank to rank. A clock drifts where a line (least squares,
/// over those of twelve ends and more that lie near it) leaves less than half the uncertainty. n
/// log n.
std::vector<std::optional<Clock>> align_clocks(std::size_t recordings, std::vector<SharedEnd> ends);

}  // namespace foregather::rebuild
