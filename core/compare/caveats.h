// What two runs cannot tell when they are compared.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/compare/exposed.h"
#include "core/run/run.h"

namespace foregather::compare {

/// Does a step tell what its collectives waited for other ranks? One rank's recording, and its
/// replay, say when a collective began, not when the last rank came to it. Who waits for nobody may
/// be the one that others wait for.
bool knows_waits(run::RunView run, const BusyTimes& step);

/// A run beside another one.
struct Side {
  run::RunView run;
  run::StepRow row;  ///< the step that is compared
  Ns begin = 0;      ///< of what is compared of it: see step_begins()
  const BusyTimes& step;
  const std::string& location;  ///< for messages
  /// Which built-in hardware its GPU is; absent: none that is known.
  const std::optional<std::string>& machine;
};

/// Of two machines, of two jobs' numbers of ranks, of waiting that one side has in its times and
/// the other not, and of time before a step's work that the other side does not tell.
std::vector<std::string> caveats(const Side& first, const Side& second);

}  // namespace foregather::compare
