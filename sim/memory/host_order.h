// In which order the host threads of a program perform a section.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"

namespace foregather::sim {

/// Action `index` of thread `thread` in some section.
struct HostPoint {
  std::uint32_t thread = 0;
  std::uint32_t index = 0;
};

/// One order that respects host_wait_action: a thread goes on until it waits for another one, then
/// the next thread that can goes on. Every action once; those of a deadlock are left out. Linear.
std::vector<HostPoint> host_order(const Program& program, Section section);

/// What is known about the other threads at an action, in every order that the waits allow.
class HostKnowledge {
 public:
  /// `order` as host_order() gave it for the same section.
  HostKnowledge(const Program& program, Section section, const std::vector<HostPoint>& order);

  /// How many of the first actions of `other` are surely done before the action at `point`.
  std::uint32_t done_before(HostPoint point, std::uint32_t other) const;
  /// The first action of `thread` that surely comes after `point`; its number of actions if none.
  std::uint32_t first_after(HostPoint point, std::uint32_t thread) const;

 private:
  /// From `index` on, `done[other]` actions of the other threads are known to be done.
  struct Sync {
    std::uint32_t index;
    std::vector<std::uint32_t> done;
  };
  std::vector<std::vector<Sync>> syncs_;  ///< by thread, ascending
  std::vector<std::uint32_t> sizes_;
};

}  // namespace foregather::sim
