// How a step's time divides into compute and communication, hidden and exposed.
#pragma once

#include <array>
#include <cstdint>

#include "core/run/run.h"

namespace foregather::compare {

inline constexpr std::size_t kOpKinds = static_cast<std::size_t>(kLastOpKind) + 1;

struct CollectiveUse {
  std::int64_t count = 0;
  Bytes bytes = 0;  ///< NCCL's message sizes
  Ns busy = 0;      ///< union of the transfers of this kind
  Ns exposed = 0;   ///< of that, while no compute op ran
};

/// Of one step of one class. Transfers of collectives begin when all ranks have arrived; what an
/// early rank spends before that is `wait`, apart.
struct BusyTimes {
  Ns compute = 0;        ///< union of the ops that are no collectives
  Ns comm = 0;           ///< union of the collectives' transfers
  Ns exposed = 0;        ///< comm while no compute op ran
  Ns wait = 0;           ///< sum over collectives of start to transfer
  Ns transfer = 0;       ///< sum over collectives of transfer to end
  Bytes wire_bytes = 0;  ///< sent by one rank
  std::int64_t ops = 0;
  std::array<CollectiveUse, kOpKinds> by_kind{};  ///< indexed by OpKind, collectives only

  /// Whether the sizes of a kind of collective are known: in schedules of recordings they may not
  /// be.
  bool knows_bytes(OpKind kind) const {
    const CollectiveUse& use = by_kind[static_cast<std::size_t>(kind)];
    return use.count == 0 || use.bytes != 0 || kind == OpKind::barrier;
  }
  bool knows_bytes() const {
    for (std::size_t kind = 0; kind < kOpKinds; ++kind)
      if (!knows_bytes(static_cast<OpKind>(kind))) return false;
    return true;
  }
};

/// n log n in the step's ops.
BusyTimes busy_times(run::RunView run, run::StepRow step);

}  // namespace foregather::compare
