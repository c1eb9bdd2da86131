// The ends of rows of the key table: what a key takes, which strategies it belongs to, what else it
// needs.
#pragma once

#include <algorithm>

#include "core/plan/model.h"
#include "core/plan/module_tree.h"
#include "core/plan/workload_keys.h"

namespace foregather::plan {

inline constexpr bool kOne = false, kList = true;
inline constexpr StrategySet kFsdp1 = set_of(Strategy::fsdp1);
inline constexpr StrategySet kFsdp2 = set_of(Strategy::fsdp2);
inline constexpr StrategySet kFsdp = set_of(Strategy::fsdp1, Strategy::fsdp2);
inline constexpr StrategySet kDdp = set_of(Strategy::ddp);
inline constexpr StrategySet kPeft = set_of(Strategy::single, Strategy::ddp, Strategy::fsdp1);
inline constexpr StrategySet kZero2 = set_of(Strategy::zero2);
inline constexpr StrategySet kZero3 = set_of(Strategy::zero3);
inline constexpr StrategySet kZeros = set_of(Strategy::zero2, Strategy::zero3);
inline constexpr StrategySet kDeepCompile = set_of(Strategy::deepcompile);
inline constexpr StrategySet kSharded = set_of(Strategy::zero3, Strategy::deepcompile);
inline constexpr StrategySet kBucketed =
    set_of(Strategy::zero2, Strategy::zero3, Strategy::deepcompile);
inline constexpr StrategySet kThunder = set_of(Strategy::thunder_zero2, Strategy::thunder_zero3);
inline constexpr StrategySet kSeveralRanks = kEveryStrategy & ~set_of(Strategy::single);
inline constexpr StrategySet kTorch = kFsdp | set_of(Strategy::ddp, Strategy::single);
inline constexpr StrategySet kUncompiled = kTorch | kBucketed;

inline constexpr KeyNeeds kNothing{};
inline constexpr KeyNeeds kLora{"train.trainable = lora", [](const Workload& w) {
                                  return w.train.trainable.kind == Trainable::Kind::lora;
                                }};
/// Adapters may have a dtype of their own: others are short, FSDP1 flattens none with them, and no
/// autocast makes them short again.
inline constexpr KeyNeeds kOwnDtype{
    "train.trainable = lora, train.precision = bf16 and, with FSDP1, parallel.use_orig_params = "
    "false and parallel.param_dtype = bf16",
    [](const Workload& w) {
      const bool is_apart = !w.parallel.use_orig_params && w.parallel.param_dtype != DType::f32;
      return kLora.holds(w) && size_of(w.train.master) < size_of(DType::f32) &&
             (w.parallel.strategy != Strategy::fsdp1 || is_apart);
    }};
inline constexpr KeyNeeds kWideLora{
    "train.lora_fp32 = true", [](const Workload& w) { return w.train.trainable.wide_adapters; }};
inline constexpr KeyNeeds kNoWideLora{
    "train.lora_fp32 = false: fp32 adapters are reduced as they are",
    [](const Workload& w) { return !w.train.trainable.wide_adapters; }};
inline constexpr KeyNeeds kSgd{
    "train.optimizer = sgd", [](const Workload& w) { return w.train.optimizer == Optimizer::sgd; }};
inline constexpr KeyNeeds kAdamw{"train.optimizer = adamw", [](const Workload& w) {
                                   return w.train.optimizer == Optimizer::adamw;
                                 }};
inline constexpr KeyNeeds kAccumulation{"train.grad_accum above 1",
                                        [](const Workload& w) { return w.train.grad_accum > 1; }};
inline constexpr KeyNeeds kFusedAttention{
    "train.attention sdpa, flash or cudnn",
    [](const Workload& w) { return w.train.attention != Attention::eager; }};
inline constexpr KeyNeeds kForwardPrefetch{
    "parallel.forward_prefetch = true",
    [](const Workload& w) { return w.parallel.forward_prefetch; }};
inline constexpr KeyNeeds kBackwardPrefetch{
    "parallel.backward_prefetch = pre",
    [](const Workload& w) { return w.parallel.backward_prefetch == Prefetch::pre; }};

inline constexpr KeyNeeds kTorchOptimizer{
    "an optimizer on the device and train.optimizer_state = master", [](const Workload& w) {
      return (w.parallel.offload == Offload::none || w.parallel.offload == Offload::parameters) &&
             (kSgd.holds(w) || w.train.optimizer_state == StateType::as_master);
    }};
inline constexpr KeyNeeds kOtherCompiler{
    "another strategy than Thunder's", [](const Workload& w) {
      const bool is_thunder = (set_of(w.parallel.strategy) & kThunder) != 0;
      return !is_thunder || w.train.compile == Compile::thunder;
    }};
inline constexpr KeyNeeds kCompiledTensorwise{
    "train.float8 = tensorwise, torch.compile and no checkpointing", [](const Workload& w) {
      return w.train.float8 == Float8::tensorwise && is_inductors(w.train.compile) &&
             w.train.checkpointing == Checkpointing::none;
    }};
inline constexpr KeyNeeds kSelectiveFloat8{
    "eager float8 under selective checkpointing", [](const Workload& w) {
      const bool is_torchaos = w.train.float8 != Float8::none && w.train.float8 != Float8::delayed;
      return is_torchaos && w.train.compile == Compile::none &&
             w.train.checkpointing == Checkpointing::selective_op;
    }};
inline constexpr KeyNeeds kWholeLoss{"train.loss_chunks = 1",
                                     [](const Workload& w) { return w.train.loss_chunks == 1; }};
inline constexpr KeyNeeds kLossOutside{
    "fsdp1, fsdp2 or train.compile = full, and train.loss_chunks = 1", [](const Workload& w) {
      const bool is_known = (set_of(w.parallel.strategy) & kFsdp) != 0;
      return kWholeLoss.holds(w) && (is_known || w.train.compile == Compile::full);
    }};
inline constexpr KeyNeeds kWholeLogits{
    "train.loss_chunks = 1, unless it is narrow", [](const Workload& w) {
      return w.train.loss_chunks == 1 || w.train.logits == Logits::compute ||
             w.train.logits == Logits::narrow;
    }};

inline constexpr KeyNeeds kRecomputedBlocks{
    "train.activation_checkpointing = full or of some blocks, and train.compile = none",
    [](const Workload& w) {
      return w.train.checkpointing != Checkpointing::none &&
             w.train.checkpointing != Checkpointing::selective_op &&
             w.train.compile == Compile::none;
    }};
inline constexpr KeyNeeds kRecomputedUnits{
    "train.activation_checkpointing = full and train.compile = none", [](const Workload& w) {
      return w.train.checkpointing == Checkpointing::full && w.train.compile == Compile::none;
    }};
inline constexpr KeyNeeds kNodes{"more than one node",
                                 [](const Workload& w) { return w.cluster.nodes > 1; }};

inline bool has_rms_norm(const TreeNode& node) {
  return node.kind == TreeNode::Kind::rms_norm ||
         std::ranges::any_of(node.children, [](const TreeNode& n) { return has_rms_norm(n); });
}

// Of a family, or of one of its towers.
template <class Holds>
bool is_any(const ModelConfig& model, const Holds& holds) {
  return !model.tree && (holds(model) || std::ranges::any_of(model.towers, holds));
}

inline constexpr KeyModels kCausal{"a causal language model, not a tree", [](const ModelConfig& m) {
                                     return !m.tree && m.causal &&
                                            m.head == ModelConfig::Head::language_model;
                                   }};
inline constexpr KeyModels kTokens{"a model that reads tokens",
                                   [](const ModelConfig& m) { return m.tree || !m.is_vision(); }};
inline constexpr KeyModels kWholeRotary{
    "a model with rotary positions of whole heads", [](const ModelConfig& m) {
      return is_any(m, [](const ModelConfig& c) {
        return c.positions == ModelConfig::Positions::rotary &&
               (c.rotary_dim == 0 || c.rotary_dim == c.head_dim);
      });
    }};
inline constexpr KeyModels kGrouped{
    "a model with grouped-query attention", [](const ModelConfig& m) {
      return is_any(m, [](const ModelConfig& c) { return c.kv_heads != c.heads; });
    }};
inline constexpr KeyModels kRmsNorm{
    "a model with RMSNorm", [](const ModelConfig& m) {
      if (m.tree)
        return std::ranges::any_of(m.tree->children,
                                   [](const TreeNode& node) { return has_rms_norm(node); });
      return is_any(m, [](const ModelConfig& c) {
        return c.norm == ModelConfig::Norm::rms || c.norm == ModelConfig::Norm::rms_wide;
      });
    }};

}  // namespace foregather::plan
