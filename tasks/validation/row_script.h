// What the script behind a published result does that no key column tells.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "core/plan/workload.h"
#include "tasks/validation/measured.h"

namespace foregather::tasks {

/// Read in the sources of the scripts; the defaults are what most do.
struct RowScript {
  plan::HeldOutputs held_outputs = plan::HeldOutputs::none;  ///< by variables, over the backward
  plan::Logits logits = plan::Logits::compute;
  bool compiles_loss = false;     ///< where it compiles the model
  bool chunks_loss = false;       ///< chunked cross-entropy, in the 8 parts of torchtitan
  bool fuses_projection = false;  ///< the loss's kernels have the vocabulary projection in them
  /// Where the row does not say which kernels it has.
  plan::OptimizerImpl optimizer_impl = plan::OptimizerImpl::foreach;
  bool turns_complex = false;    ///< torchtitan's rotary embedding
  bool fuses_norms = false;      ///< RMSNorm, though it is not compiled
  bool groups_keys = false;      ///< hands attention keys and values as they are
  bool wraps_ends = false;       ///< FSDP2 units of the embedding, and of norm and head
  bool wraps_leaves = false;     ///< an FSDP1 unit a module that has parameters
  bool calls_loss = false;       ///< by itself, with what the model returned
  bool keeps_absolutes = false;  ///< Train::keep_absolute_values
  bool keeps_weights = false;    ///< Train::keep_float8_weights
  bool mixes_frozen = false;     ///< FSDP1's flat parameters hold adapters, too (use_orig_params)
  bool reenters = false;         ///< checkpoints of use_reentrant = True
  /// The published time is of one of so many micro-batches, which one optimizer step accumulates:
  /// predicted as their mean, with a share of the optimizer.
  std::int64_t micro_batches = 1;
  // Whatever the row's column says; empty: as it says.
  std::string_view param_dtype, reduce_dtype, strategy, compile;
};

/// By the kind of the source and by its version, as far as the row tells one: a pull request's
/// number in the source, a version of PyTorch in the notes. Chunked cross-entropy is a variant that
/// tables name in a row's id, precision or notes alone: the word is read there, for any row.
///
/// - dlrover (atorch/examples/llama2/fsdp_llama2.py): holds `outputs` of transformers' model, whose
///   use_cache is on and stays so under checkpoint wrappers. transformers of 2023
///   (LlamaForCausalLM.forward) widens the logits and shifts them by a copy. Its column says
///   autocast over fp32 parameters, but atorch's attention hands queries, keys and values to
///   flash-attn as they come, which refuses fp32: parameters are gathered in bf16. Real models on
///   fake tensors, run so, have the published peaks to 1 MiB. It sets use_orig_params.
/// - transformers' gradient_checkpointing under the FSDP1 of accelerate or its Trainer, as the
/// row's
///   words say: checkpoints around units ("introduces a redundant AllGather operation in backward
///   pass", training_args.py). Since 4.53 they are within; tables name no version.
/// - fsdp_qlora (train.py): holds `output` of transformers' model, which widens and shifts the
///   logits as that of 2023 does.
/// - Thunder (thunder/benchmarks/benchmark_litgpt.py): holds `logits`, and its loss reads them as
///   they are. It compiles the model, not the loss: as the blocks alone. Not expressed: neither
///   does Thunder.
///   Its FSDP1 wraps every module that has parameters (zero_bucket_wrap_policy, the default of
///   2024): with that the peaks of issue 474 are predicted to 0.01 GB, with blocks 1.2 GB too high.
///   Where the row names --bucketing_mode=block, it wraps blocks.
///   With PyTorch of before April 2025 compiled float8 linears keep their weights for the backward
///   (pytorch/pytorch 148922), unless the row names torchao's force_recompute_fp8_weight_in_bwd:
///   with or without it the peaks of pull request 1528 (December 2024) are predicted to 0.1 GB.
///   So in torchtitan; checkpoints remake them in any case.
/// - LitGPT: Fabric's wrapper of the model widens the logits (HalfPrecision.convert_output). The
///   loss is outside of what it compiles, but for extensions/thunder/pretrain.py: there one
///   function of model and loss returns the loss alone. Under Thunder that function is what is
///   jitted, and Thunder's passes for FSDP look there for `use_fsdp`
///   (thunder/executors/torch_autograd.py), which it has not: no buckets, nothing is gathered
///   again, what the forward gathered stays. Its ZeRO-3 has ZeRO-2's memory
///   (tests/oracles/data/thunder_loss.json). Its DDP and single-GPU runs accumulate the gradients
///   of 16 micro-batches (512 sequences, 8 GPUs, 4 at a time; alone more) without reducing them;
///   the published times are of one, which DDP's is then slower at than one GPU alone by a quarter:
///   not explained. finetune/lora.py accumulates 128 sequences of a rank so (no_backward_sync); as
///   Fabric sets use_orig_params, under FSDP those are gradients of whole blocks.
/// - torchtitan, and torchao's tables, which it made: deletes its logits since pull request 391
///   (June 2024), before which the model returned them in fp32; compiles the loss with the model
///   since 1033 (April 2025, when PyTorch's main was 2.8); hands keys and values to attention as
///   they are since 2259 (January 2026); wraps the embedding, and norm and head, since 1094 (August
///   2025, opened in April: its number tells nothing; those opened in August begin at 1500), before
///   which they were the root's; its nn.RMSNorm is one kernel from PyTorch 2.9 on, and was Triton's
///   fused one (pull request 181) on its page docs/performance.md: otherwise Llama-2-13B, which ran
///   without checkpointing, would not have fitted. A date in source or notes goes before the
///   number, which is of when the request was opened. Its Llama and DeepSeek multiply by complex
///   numbers for positions, its Qwen3 (models/qwen3/model/model.py) does not. Pull requests 701 to
///   819 kept the absolute values of what float8 scales.
/// - torchtune: its recipes' AdamW is fused; it compiles its chunked loss (8 parts) with the model,
///   the plain one it does not.
/// - llm-foundry's MPT: its loss is flash-attn's fused kernel, which reads the logits as they are
///   (models/mpt/modeling_mpt.py, loss_fn = fused_crossentropy), and Composer's trainer keeps the
///   output (State.outputs). Composer's DecoupledAdamW (optim/decoupled_weight_decay.py) is a loop.
/// - KempnerForge (scripts/train.py): holds `logits`, and computes a plain cross entropy of them as
///   they are. Where there is one GPU it compiles the model as a whole, without FSDP.
/// - YaFSDP (ya_fsdp.py): its column says bf16, but it widens gradients before it reduces them
///   unless bit16_reduce_scatter is set, which is off since its first release and in its patch of
///   accelerate. Assumed of the FSDP runs that it compares itself with, too.
RowScript script_of(const MeasuredRow& row);

/// Is the row of llm-foundry (MosaicML, Databricks) or Composer, as source, group or notes say?
bool runs_foundry(const MeasuredRow& row);

/// llm-foundry's MPT of 2023 (attn_impl: triton), as the row's words or its benchmarks' folder say
/// (in mosaicml/examples before): FlashAttention in Triton, and its rate in terms of
/// FlashAttention-2's. The FlashAttention-2 paper (§4.1) saw 0.4 to 0.77; fitted to 3 groups of
/// published steps by `./dev validate --fit`.
bool runs_triton(const MeasuredRow& row);
inline constexpr double kTritonAttention = 0.60;

/// LitGPT's CausalSelfAttention; Thunder's benchmarks run LitGPT's models.
bool runs_litgpt(const MeasuredRow& row);

/// Had its PyTorch cuDNN's attention first on Hopper before 2.11: 2.5.0 had, and main from July
/// (pull request 125343) to October 2024 (138522). Main is what NVIDIA's containers have in which
/// Thunder's benchmarks run ("pjnl-20240814" in its pull request 940). Said of FSDP2 alone, where
/// the times of requests 940 and 997 show it: compiled FSDP1's does not, which is not explained.
bool prefers_cudnn(const MeasuredRow& row);

/// N of "PR #N", "pull/N" or "pulls/N" in a source.
std::optional<int> pull_request_of(std::string_view source);

/// Does the row's text name chunked cross-entropy as what it measures? Notes of a baseline may name
/// it, too.
bool names_chunked_loss(const MeasuredRow& row);

/// Does the row's text name a loss that makes no whole logits: Liger's fused linear cross-entropy,
/// or cut cross-entropy?
bool names_fused_projection(const MeasuredRow& row);

/// Does the row's text name kernels that have RMSNorm in one: Liger's, or fms-acceleration's
/// (foak)?
bool names_fused_norms(const MeasuredRow& row);

/// Are its adapters PEFT's, which are fp32 beside 16-bit weights (since 0.12)? Its source, strategy
/// or notes name PEFT, TRL's SFTTrainer or fms-acceleration's benchmarks.
bool names_peft(const MeasuredRow& row);

/// Do the row's strategy or notes say that it reduces gradients in the last micro-batch alone?
bool names_no_sync(const MeasuredRow& row);

/// The first YEAR-MONTH or YEAR-MONTH-DAY of this century.
std::optional<std::pair<int, int>> month_of(std::string_view text);

/// The first "torch MAJOR.MINOR" of the notes.
std::optional<std::pair<int, int>> torch_version_of(std::string_view notes);

}  // namespace foregather::tasks
