// "Did you mean …?" for unknown keys and names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foregather {

/// What `word` was likely meant to be, best first, at most three. Capitals, dashes, underscores,
/// dots and spaces never matter. The first of these that finds any:
/// 1. the candidate of the same letters and digits;
/// 2. candidates that begin with the word as whole parts (h100 of h100_sxm), then that have it
///    elsewhere (a6000 of rtx_a6000), then that merely begin with it (mi300 of mi300x): the
///    shortest first; the word has at least three characters;
/// 3. the candidate of the smallest edit distance, at most 2 or a third of the word's length.
/// Ties go to the first.
std::vector<std::string_view> likely_names(std::string_view word,
                                           std::span<const std::string_view> candidates);

/// The best of likely_names().
std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> candidates);

/// ", did you mean 'X'?", ", did you mean 'X', 'Y' or 'Z'?" or "".
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace foregather
