// "Did you mean …?" for unknown keys and names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace foregather {

/// The candidate with the smallest edit distance to `word`, if it is near enough to be a likely
/// misspelling (distance at most 2, or a third of the word's length); ties go to the first.
std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> candidates);

/// ", did you mean 'X'?" or "".
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace foregather
