// What a module keeps from its forward for its backward, and what activation checkpointing makes it
// compute again.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/tape.h"

namespace foregather::plan {

/// What one module is checkpointed with. (Which blocks are: Checkpointing in workload.h.)
enum class SavePolicy : std::uint8_t {
  none,          ///< autograd saves what backward reads
  full,          ///< only the module's input; the forward runs again before the backward
  whole,         ///< the same without early stop: all of the forward runs again
  selective_op,  ///< the input and the outputs of ops with keep_under_selective
  reentrant,     ///< as whole, by use_reentrant=True
};

/// The answer of saved_values(). Indices are those of the tape.
struct SavedValues {
  /// Per value: its bytes stay from the forward to the backward. True only for values that forward
  /// ops make, and for the input; the flags of a view are those of its base. Parameters are never
  /// counted: the strategy owns them. A saved value that no backward (or recomputed) op reads is
  /// held until the module's backward ends (the cache of selective checkpointing).
  std::vector<bool> saved;
  /// Forward ops to run again, in order, before the first backward op; empty for `none`. They
  /// rewrite the values that they wrote and that are not saved.
  std::vector<std::uint32_t> recompute;
  /// Bytes of the saved values without the module's input (which the module before owns).
  Bytes saved_bytes = 0;
};

/// Which values of `tape` wait for the backward under `policy`.
///
/// Recomputation follows torch.utils.checkpoint(use_reentrant=False) with early stop (the default
/// since PyTorch 2.1): all ops from the start run again except kept ones, and it ends as soon as
/// the last tensor that the backward needs exists. So the last projection of a block is not run
/// again but by `whole` and `reentrant`. A tape without a backward (nothing is trained) saves
/// nothing.
SavedValues saved_values(const Tape& tape, SavePolicy policy);

/// The value whose storage `value` uses: itself, or the root of its chain of views.
ValueIndex storage_of(const Tape& tape, ValueIndex value);

}  // namespace foregather::plan
