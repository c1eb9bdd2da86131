// Live bytes of a stretch of a schedule, for another order of its ops with some of them fused.
#pragma once

#include <vector>

#include "core/base/units.h"
#include "sim/passes/fusion_groups.h"
#include "sim/passes/host_actions.h"
#include "sim/passes/stretch.h"

namespace foregather::sim {

/// Bytes bound before each action of HostActions::all; of the body in the steady step.
std::vector<Bytes> live_bytes(const Graph& graph, ProgramId program, Section section);

/// The storages of a stretch as reorder() places them: from their first use to their last one.
class StretchMemory {
 public:
  /// `before`: bytes bound before the stretch. All are borrowed for the call only.
  StretchMemory(const Graph& graph, const HostActions& actions, const Stretch& stretch,
                Bytes before);

  /// The peak over the stretch when its launches are in that order, those of one group as one op:
  /// it holds its inputs and its outputs at once, and what only it touches not at all. Linear in
  /// uses.
  Bytes peak(const std::vector<FusionGroup>& order) const;

 private:
  struct Life {
    Bytes bytes = 0;
    std::vector<std::uint32_t> users;   ///< launches
    bool begins = false, ends = false;  ///< in the stretch
    bool is_own = false;                ///< nothing outside of it uses this
  };
  std::size_t launches_;
  Bytes before_;
  std::vector<Life> lives_;
};

}  // namespace foregather::sim
