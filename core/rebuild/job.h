// The ranks that recordings are of.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/run/recording.h"

namespace foregather::rebuild {

/// By recording: the rank that it names; those that name none get the least numbers left, in order.
/// Errors: two recordings of one rank.
Result<std::vector<std::uint32_t>> ranks_of(std::span<const run::Recording* const> recordings);

/// The largest that the recordings say, and that their ranks need.
std::uint32_t world_size_of(std::span<const run::Recording* const> recordings,
                            std::span<const std::uint32_t> ranks);

/// By recording: what makes their times comparable, to begin with: the epoch of time 0 where all
/// know it (and it is none of the far future), else nothing.
std::vector<Ns> epochs_of(std::span<const run::Recording* const> recordings);

}  // namespace foregather::rebuild
