// A stretch of a schedule as a list of symbols, as compilers of traces see it: an asynchronous
// collective, its wait later, everything else in order. It can be put in another order.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "sim/passes/host_actions.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {

/// A launch with what belongs to it, or the wait for a collective's event.
struct Symbol {
  bool is_wait = false;
  OpId op;                           ///< launched, or waited for
  std::vector<ActionIndex> actions;  ///< in order: delays, the launch with its event, or the wait
  std::vector<std::size_t> needs;    ///< symbols that must come before, all with smaller indices
};

/// What stands between two barriers (marks, host waits, other events) in one list.
struct SymbolRun {
  ActionList list;
  ActionIndex begin = 0, end = 0;   ///< of HostActions::all
  std::vector<Symbol> symbols;      ///< in their order
  std::vector<ActionIndex> memory;  ///< allocs, frees, releases, record_streams
};

/// Indices of symbols in the order wanted; must respect `needs`.
using SymbolOrder = std::function<std::vector<std::size_t>(const Graph&, const SymbolRun&)>;

/// Puts each run of each section in that order. A storage is allocated before its first use and
/// freed behind its last one, or behind the wait for a collective that uses it. Waits whose
/// collective is in another run stay barriers. Returns the symbols that moved in the steady step.
std::size_t reorder(Rewriter& rewriter, const SymbolOrder& order);

}  // namespace foregather::sim
