// What a tape keeps in memory, by the plainest reading of its contract: no allocator, no streams.
#pragma once

#include <string>

#include "core/plan/checkpoint.h"
#include "core/plan/model.h"
#include "core/plan/tape.h"

namespace foregather::test {

/// Bytes beyond what exists before the forward (parameters, the module's input).
struct LiveBytes {
  Bytes forward_peak = 0;
  Bytes after_forward = 0;   ///< with the output
  Bytes backward_peak = 0;   ///< with the gradient of the output, without the output itself
  Bytes after_backward = 0;  ///< gradients of the parameters and of the input
};

/// A value is allocated right before the op that first writes it and freed after the last op that
/// names it, in each pass; saved ones wait; gradients of parameters stay.
LiveBytes live_bytes(const plan::Tape& tape, plan::SavePolicy policy);

/// A problem with the tape's form (a read of what nobody wrote, …), or "".
std::string malformed(const plan::Tape& tape);

/// The path of a sample config.
std::string sample_config(const std::string& name);

/// Micro-batches of so many sequences, without checkpointing, in bf16.
plan::Train bf16_train(std::int64_t sequences, std::int64_t positions);

/// A config that must read.
plan::ModelConfig sample(const std::string& name);

}  // namespace foregather::test
