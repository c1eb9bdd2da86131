// How many events a reader met of each sort.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foregather::run {

/// Events by a word, in order of appearance. There are few words.
using EventCounts = std::vector<std::pair<std::string, std::int64_t>>;

inline void count(EventCounts& counts, std::string_view word, std::int64_t events = 1) {
  for (auto& [known, n] : counts)
    if (known == word) return void(n += events);
  counts.emplace_back(word, events);
}

}  // namespace foregather::run
