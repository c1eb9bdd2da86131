// Which collective of one rank is which of another.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/rebuild/rank_timeline.h"

namespace foregather::rebuild {

/// Collectives of one group that all of its recorded ranks launched on one stream of theirs each,
/// in order.
struct CollectiveChain {
  std::string group;                      ///< as the recordings name it; "?" where they do not
  std::uint32_t size = 0;                 ///< ranks of the group, recorded or not
  std::vector<std::uint32_t> recordings;  ///< rows of RankTimelines, ascending; at least two
  /// Rows of Timeline::ops: of each collective one a recording, in the order of `recordings`.
  std::vector<std::uint32_t> ops;

  std::size_t collectives() const { return ops.size() / recordings.size(); }
  std::uint32_t op(std::size_t collective, std::size_t member) const {
    return ops[collective * recordings.size() + member];
  }
};

/// Ops that are collectives, of all ranks.
struct CollectiveCount {
  std::int64_t matched = 0, unmatched = 0;
};

struct MatchedCollectives {
  std::vector<CollectiveChain> chains;
  std::map<std::string, CollectiveCount> counts;  ///< by group
};

/// Groups are known by name and list of ranks where the recording tells them, else all collectives
/// without a group are of one; of several streams of a group, the one launched on first is the
/// first on each rank. Within a stream collectives meet by sequence number where all have one, else
/// by order, if kinds and sizes agree from the first to the last (sizes of all-to-alls may differ).
/// Sends and receives of a group of more than two ranks name no peer: they stay unmatched.
/// n log n.
MatchedCollectives match_collectives(const RankTimelines& ranks);

}  // namespace foregather::rebuild
