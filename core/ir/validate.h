// Is a graph a schedule that could run?
#pragma once

#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace foregather {

enum class ProblemKind : std::uint8_t {
  bad_reference,   ///< an id outside its table or its program, a malformed row
  use_after_free,  ///< an op touches a storage that is not bound, or a released tensor
  double_alloc,
  double_free,          ///< a free of a storage that is not bound, a release of a tensor not live
  leak,                 ///< an alloc of a storage that the step before left bound
  never_recorded,       ///< a wait for an event that nothing ever records
  launched_twice,       ///< an op launched twice in one section execution
  never_launched,       ///< neither launched nor the origin of an op that is
  collective_mismatch,  ///< ranks of a group disagree on a communicator's sequence, or could
  /// Conflicting accesses on two streams without an order; or memory that goes back to its stream's
  /// pool while another stream may use it, or is used before its stream is done with it.
  hazard,
  deadlock,  ///< a host thread waits for an action that cannot happen, an op for a dep
};

struct Problem {
  ProblemKind kind;
  std::string message;  ///< one line that names the op key, storage or event
};

std::string_view name(ProblemKind);

/// Performs init, first and body twice, symbolically, and returns what is wrong, in program order
/// and at most `limit` problems. A graph with bad references is not performed. Linear in actions
/// and accesses times streams; about 10 million actions a second.
///
/// What orders two ops: their stream; an event between record and wait; a host thread that waited
/// for the one before it launched the other, and host_wait_action between threads; explicit deps;
/// their communicator. Deps must be launched before, in the same section. Host threads take turns
/// in one deterministic interleaving.
std::vector<Problem> validate(const Graph& graph, std::size_t limit = 100);

}  // namespace foregather
