// Drops all-gathers of what an earlier one has gathered: its copy lives on for the users of both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "sim/passes/gather_chain.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {

/// Storages that are to count as one.
using SameAs = std::map<StorageId, StorageId>;

/// Is the second gather, later in host order and of the same shards, to go? The lifetimes are those
/// of one of the parameters' copies each.
using JoinRule = std::function<bool(const Op& first, const Op& second, const Lifetime& kept,
                                    const Lifetime& dropped)>;

/// How long the one copy of a parameter lives: to the end of the second copy only if that had users
/// (by_use), or in any case, as units do that free all of their parameters together (by_unit).
enum class JoinedLife : std::uint8_t { by_use, by_unit };

struct JoinedGathers {
  std::size_t dropped = 0;  ///< of the steady step
  Bytes bytes = 0;          ///< that they gathered
};

/// Drops every gather that the rule names, with its casts, copies, buffers and events; what used
/// its copy uses the first one's, until the last of both. Kept are gathers where the two copies
/// differ in size, are freed in two ways, where no stream orders the users of the second behind
/// those of the first, and what only one of the first and the steady step could drop. With
/// `leaves_takes` the host waits for an event that nothing records where such a gather of FSDP1
/// (one without an event of its own) was issued: limit_all_gathers() lets it take part. Not
/// flushed.
JoinedGathers join_gathers(Rewriter& rewriter, const SameAs& same, JoinedLife life,
                           const JoinRule& rule, bool leaves_takes = false);

}  // namespace foregather::sim
