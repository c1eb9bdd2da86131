// What no other candidate beats.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace foregather::sim {

/// What each candidate is judged by: less is better.
inline constexpr std::size_t kObjectives = 4;
using Objectives = std::array<std::int64_t, kObjectives>;

/// Is `a` nowhere worse than `b`, and somewhere better?
bool dominates(const Objectives& a, const Objectives& b);

/// The Pareto front of the candidates added so far. Of equal ones the first stays. Cost: linear in
/// the front for each candidate.
class ParetoFront {
 public:
  struct Member {
    std::int64_t id = 0;
    Objectives objectives{};
  };
  /// True if the candidate is on the front now.
  bool add(std::int64_t id, const Objectives& objectives);
  /// In the order in which they were added.
  const std::vector<Member>& members() const { return members_; }

 private:
  std::vector<Member> members_;
};

}  // namespace foregather::sim
