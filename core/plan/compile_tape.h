// torch.compile of a module: fewer kernels, fewer values.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/plan/tape.h"

namespace foregather::plan {

/// Who compiles, which decides what backward finds saved.
enum class Partition : std::uint8_t { min_cut, thunder };

/// Rewrites the tape as a compiler runs it. The rules, and where they come from:
///
/// - Runs of elementwise ops, casts, norms, softmaxes, reductions, cross entropies and copies
/// become
///   one op (torch/_inductor/scheduler.py fuses pointwise ops and reductions of one iteration space
///   with their producers and consumers; matmuls, attention and embeddings are kernels of their
///   own). What only the run itself reads is never written. A run that ends in the gradient of a
///   parameter has a second kernel: that sum goes over rows. What reads a reduction over all or
///   over columns is another kernel. An op moves down to its first reader where that is fusible;
///   otherwise only neighbours are fused.
///   Complex products stay kernels of their own (torch/_inductor/lowering.py has no code for them).
/// - Casts, copies and reductions of one value to the same are done once in the forward and once in
///   the backward (torch/_functorch/compile_utils.py, fx_graph_cse): linears of one input share its
///   float8 copy.
/// - What backward needs is saved or recomputed (torch/_functorch/partitioners.py, min-cut): a
///   value that a chain of fusible ops makes is recomputed where that needs fewer bytes than it
///   has, given what is saved anyway. Matmuls, attention and row statistics are never recomputed,
///   nor what such an op of the backward reads: it would have to be written to memory again
///   (ban_recompute_materialized_backward), so inputs of linears stay.
/// - Partition::thunder: Thunder cuts each region of the backward against one of the forward, not
///   the graphs as wholes (thunder/core/rematerialization.py). The backward of a norm after a
///   residual addition adds up anew what was added, and a sum is itself added to: both summands and
///   all sums of the residual stream stay (tests/oracles/data/thunder_saved.json). A cross entropy
///   is not fused: PyTorch's runs in the forward, and in the backward one function of Thunder's
///   (_cross_entropy_backward_impl in thunder/executors/torchex.py) makes the log probabilities
///   anew from the logits, which it keeps to its end beside two gradients of their size
///   (tests/oracles/data/thunder_loss.json).
/// - No Python frame holds values beyond their last use.
///
/// Left out: guards, the launcher's own host time, CUDA graphs.
void compile_tape(Tape& tape, Partition partition = Partition::min_cut);

/// The same of the ops of one scope alone; the others run as before. A tape without the scope stays
/// as it is. (A compiled loss: scope "loss".)
void compile_scope(Tape& tape, std::string_view scope);

/// The same of all ops but those of one scope. (A compiled model whose loss the script computes.)
void compile_rest(Tape& tape, std::string_view scope);

}  // namespace foregather::plan
