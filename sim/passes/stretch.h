// Launches on one stream with nothing in between that orders them: they can change places.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/passes/host_actions.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {

/// Launches of one list on one stream, in order, with only memory actions and host delays between
/// them.
struct Stretch {
  ActionList list;
  ActionIndex begin = 0, end = 0;                 ///< of HostActions::all
  std::vector<ActionIndex> launches;              ///< two or more
  std::vector<std::vector<ActionIndex>> delays;   ///< by launch: right before it
  std::vector<ActionIndex> tail;                  ///< delays behind the last one
  std::vector<ActionIndex> memory;                ///< allocs, frees, releases, record_streams
  std::vector<std::vector<std::uint32_t>> needs;  ///< by launch: those that it must come behind
};

/// The longest ones of a section. One launch needs another that shares bytes with it, one of the
/// two writing, or that is its dep.
std::vector<Stretch> stretches(const Graph& graph, const HostActions& actions);

/// Puts the launches in that order, which `needs` must allow, each with its delays. What is
/// allocated is so before its first user, what is freed behind its last one.
void reorder(Rewriter& rewriter, const HostActions& actions, const Stretch& stretch,
             const std::vector<std::uint32_t>& order);

}  // namespace foregather::sim
