// A workload: which model is trained how, on what. Read from TOML, every key settable by its dotted
// path. This header is the result; workload_toml.h reads it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ir/kinds.h"

namespace foregather::plan {

struct ModuleTree;

/// What a module tree ends in.
enum class TreeLoss : std::uint8_t { sum, mean, cross_entropy };
/// sdpa: PyTorch's choice, which from 2.11 on is cuDNN's kernels on Hopper (sdp_utils.cpp), before
/// and elsewhere FlashAttention-2.
enum class Attention : std::uint8_t { eager, sdpa, flash, cudnn };
enum class Checkpointing : std::uint8_t {
  none,
  full,
  selective_op,
  selective_layers,
  first_layers,
  named_layers
};
/// Blocks by number, from 0, the last one included.
struct BlockRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};
enum class Optimizer : std::uint8_t { adamw, sgd };
/// Of optimizer states: the parameters' own, or another; int8 is blockwise with fp32 scales.
enum class StateType : std::uint8_t { as_master, f32, bf16, int8 };
enum class Compile : std::uint8_t { none, per_block, full, thunder };
constexpr bool is_inductors(Compile compile) {
  return compile == Compile::per_block || compile == Compile::full;
}
/// torchao's float8 linears: one scale a tensor, or one a row. Delayed: Transformer Engine's, whose
/// scales are those of earlier steps.
enum class Float8 : std::uint8_t { none, tensorwise, rowwise, delayed };
/// What of the model's output a script's variables still hold during the backward.
enum class HeldOutputs : std::uint8_t {
  none,
  logits,
  /// The logits, and keys and values of each block (transformers' use_cache). The call of such a
  /// model includes its loss, and the variable keeps the old outputs until the next call returns.
  cache,
};
/// In which form a language model returns its logits.
enum class Logits : std::uint8_t {
  compute,  ///< as computed; the loss widens them (transformers from 4.45, torchtitan)
  f32,      ///< the model widens them before it returns them
  /// The same, and the loss reads a copy of all but each sequence's last (transformers
  /// before 4.46).
  f32_shifted,
  narrow,  ///< as computed, and the loss reads them so (thunder/benchmarks/benchmark_litgpt.py)
  /// The same, by one kernel each way (flash-attn's CrossEntropyLoss, inplace_backward=False).
  fused,
};
enum class OptimizerImpl : std::uint8_t { foreach, fused, for_loop };
enum class Strategy : std::uint8_t {
  ddp,
  fsdp1,
  fsdp2,
  zero3,
  zero2,
  thunder_zero2,
  thunder_zero3,
  deepcompile,
  single  ///< one GPU, plain PyTorch: nothing is sharded or reduced
};
/// Are parameters whole on every rank?
constexpr bool is_whole(Strategy strategy) {
  return strategy == Strategy::ddp || strategy == Strategy::single;
}
enum class Prefetch : std::uint8_t { none, pre, post };
/// What lives in pinned host memory and comes to the device when it is used. `optimizer`: the
/// optimizer's states, its copy of the parameters, and the gradients that it reads.
enum class Offload : std::uint8_t { none, optimizer, parameters, all };
/// Thunder's FSDPBucketingStrategy.
enum class ThunderBucketing : std::uint8_t { none, layer, block };
/// What DeepCompile does to the graphs of zero3_compile. `none`: they stay as they are, all gathers
/// at the head; `fast_free`: its list scheduler, as in the first steps and where no pass is
/// enabled; `full`: that, then prefetching and selective gathering, as from the fifth step on.
enum class DeepCompilePasses : std::uint8_t { none, fast_free, full };
/// hybrid_shard: full_shard within a node, unless the workload says a shard size. resolve_cluster()
/// makes it that.
enum class Fsdp1Sharding : std::uint8_t { full_shard, shard_grad_op, no_shard, hybrid_shard };
/// FSDP2: how parameters that are one storage are wrapped.
enum class Tied : std::uint8_t {
  one_unit,   ///< their modules are one unit: gathered once
  two_names,  ///< a unit for each name: the storage is gathered, and its gradient reduced, for each
};

/// What one unit is: a repeated block (and the rest at the root), the whole model, or blocks with
/// the embedding and the head as units of their own. leaf, of FSDP1: each module that has
/// parameters of its own, as always_wrap_policy has it; tied ones are left to the root.
enum class Wrap : std::uint8_t { block, model, block_embed_head, leaf };

/// Which parameters are trained. A frozen one has neither gradient nor optimizer state.
struct Trainable {
  enum class Kind : std::uint8_t {
    all,
    lora,   ///< adapters of rank `rank` beside the linears of `targets`; all else is frozen
    named,  ///< parameters whose name contains one of `names`; all else is frozen
  };
  Kind kind = Kind::all;
  std::vector<std::string> names;
  std::vector<std::string> targets;
  std::int64_t rank = 8;
  double dropout = 0;  ///< before adapters
  /// Adapters of a 16-bit model are fp32 (PEFT's autocast_adapter_dtype): each casts its input.
  bool wide_adapters = false;
  /// Wide adapters multiply under torch.autocast: their input and weights are cast back.
  bool autocasts_adapters = false;
  /// Of one module, by build_model(): frozen parameters get gradients all the same.
  bool frozen_get_gradients = false;
};

/// [train]
struct Train {
  std::int64_t micro_batch = 1;  ///< sequences a rank and micro-batch
  std::int64_t seq_len = 0;      ///< tokens; 0: the model's maximum, at most 8,192
  std::int64_t grad_accum = 1;   ///< micro-batches a step
  bool no_sync = false;          ///< accumulate without reducing until the last micro-batch
  DType master = DType::f32;     ///< of stored parameters and optimizer states
  DType compute = DType::bf16;   ///< of matmuls and activations
  Attention attention = Attention::sdpa;
  /// Of attention kernels, relative to those that they are priced as.
  double attention_speed = 1;
  Checkpointing checkpointing = Checkpointing::none;
  std::int64_t checkpoint_every = 1;          ///< for selective_layers: every Nth block
  std::int64_t checkpoint_first = 0;          ///< for first_layers: so many blocks from the front
  std::vector<BlockRange> checkpoint_blocks;  ///< for named_layers
  /// Recomputation ends behind the last tensor that the backward needs (torch.utils.checkpoint's
  /// default); false: where checkpoints are reentrant, and in torchtitan since 0.2.
  bool early_stop = true;
  Optimizer optimizer = Optimizer::adamw;
  OptimizerImpl optimizer_impl = OptimizerImpl::foreach;
  double momentum = 0.9;  ///< SGD; 0 has no state
  bool clip_grad_norm = true;
  /// torch.nn.RMSNorm as one kernel, as PyTorch 2.9 and later have it; false: a kernel an operator.
  bool fused_rms_norm = true;
  /// Grouped-query attention copies keys and values out to all heads before SDPA, as code written
  /// before enable_gqa (PyTorch 2.5, transformers 4.48) does.
  bool repeat_kv = false;
  bool complex_rotary = false;  ///< Implementation::Rotary::complex
  StateType optimizer_state = StateType::as_master;
  Trainable trainable;
  Float8 float8 = Float8::none;
  bool float8_all_gather = false;  ///< FSDP2 casts shards and gathers bytes
  /// Selective checkpointing keeps the absolute values of what eager float8 scales, as torchtitan's
  /// did between its pull requests 701 (November 2024) and 820 (February 2025).
  bool keep_absolute_values = false;
  /// torch.compile keeps the weights that forward multiplied with, in float8 and turned, for the
  /// backward instead of making them anew: before PyTorch 2.8 (pytorch/pytorch 148922), unless
  /// torchao's force_recompute_fp8_weight_in_bwd or checkpoints told it.
  bool keep_float8_weights = false;
  std::int64_t loss_chunks = 1;  ///< parts of the tokens that go through the loss one by one
  HeldOutputs held_outputs = HeldOutputs::none;
  Logits logits = Logits::compute;
  std::int64_t logits_chunks = 1;  ///< parts of the logits that the loss widens one by one
  bool compile_loss = false;       ///< torch.compile of the loss function by itself
  /// The model's own call computes the loss (transformers given labels); else the script does, of
  /// what the call returned (torchtitan). FSDP's root unit ends with the call, and so does the
  /// graph of Compile::full.
  bool loss_in_call = true;
  bool reads_loss = false;  ///< the loop reads each step's loss: its host waits
  Compile compile = Compile::none;
  /// torch.autocast over fp32 parameters; resolve_workload() sets it. The residual stream and norms
  /// are fp32 and each linear casts its input.
  bool autocast = false;
  std::optional<bool> dropout;  ///< whether dropout ops run; unset: as the model's config says
};

/// Of trained parameters, their gradients and optimizer states.
inline DType trained_type(const Train& train) {
  return train.trainable.wide_adapters ? DType::f32 : train.master;
}

/// [parallel]
struct Parallel {
  Strategy strategy = Strategy::fsdp2;
  std::uint32_t world_size = 0;  ///< 0: nodes × gpus_per_node
  std::uint32_t shard_size = 0;  ///< ranks of a shard group (hybrid); 0: world_size
  Wrap wrap = Wrap::block;
  Tied tied = Tied::one_unit;  ///< key model.tied
  Fsdp1Sharding sharding = Fsdp1Sharding::full_shard;
  /// FSDP2: unset = PyTorch's default (true, false at the root). A number N reshards to groups of
  /// N.
  std::optional<bool> reshard_after_forward;
  std::uint32_t reshard_to = 0;  ///< FSDP2 integer reshard; 0: off
  Prefetch backward_prefetch = Prefetch::pre;
  bool forward_prefetch = false;
  std::uint32_t forward_prefetch_depth = 1;   ///< FSDP2: units ahead
  std::uint32_t backward_prefetch_depth = 1;  ///< FSDP2: units ahead of `pre`
  bool reshard_after_backward = true;         ///< FSDP2: of all micro-batches but the last
  bool limit_all_gathers = true;              ///< FSDP1's rate limiter
  bool use_orig_params = true;  ///< FSDP1: 16-byte aligned parameters in the flat parameter
  /// FSDP1: units of blocks are within checkpoints of use_reentrant = True, not around them.
  bool reentrant_checkpoints = false;
  DType param_dtype = DType::bf16;            ///< of gathered parameters
  DType reduce_dtype = DType::f32;            ///< of gradient reduction
  bool separate_reduce_communicator = false;  ///< FSDP2 set_separate_reduce_scatter_group
  std::uint32_t reduce_buffers = 1;           ///< FSDP2 set_reduce_scatter_max_input_buffers
  Bytes bucket_bytes = 25 * MiB;              ///< DDP bucket_cap_mb
  Bytes first_bucket_bytes = 1 * MiB;
  bool gradient_as_bucket_view = false;  ///< DDP
  bool find_unused_parameters = false;   ///< DDP
  bool broadcast_buffers = true;         ///< DDP forward_sync_buffers
  Offload offload = Offload::none;
  ThunderBucketing thunder_bucketing = ThunderBucketing::none;
  DeepCompilePasses deepcompile_passes = DeepCompilePasses::fast_free;
};

/// DeepSpeed's zero_optimization; in [parallel] under the names of DeepSpeed's JSON. Sizes are
/// elements, defaults those of its code (reference: DeepCompile §C.9).
struct Zero {
  std::int64_t prefetch_bucket_size = 50'000'000;  ///< fetched ahead
  /// "auto", as Hugging Face's Trainer resolves it from the hidden size h: 0.9·h², 10·h, h².
  bool auto_prefetch = false, auto_persistence = false, auto_reduce = false;
  std::int64_t param_persistence_threshold = 100'000;
  std::int64_t model_persistence_threshold = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_live_parameters = 1'000'000'000;  ///< limits prefetching
  std::int64_t max_reuse_distance = 1'000'000'000;   ///< kept if used again within
  std::int64_t reduce_bucket_size = 500'000'000;
  std::int64_t sub_group_size = 1'000'000'000;  ///< of one optimizer step, a rank
  std::uint32_t hpz_partition_size = 1;         ///< ranks of the secondary partition (ZeRO++)
  std::optional<bool> overlap_comm;             ///< unset: stage 3 does, stage 2 does not
  bool contiguous_gradients = true;
  bool reduce_scatter = true;
  bool use_multi_rank_bucket_allreduce = true;  ///< stage 2
  std::optional<DType> grad_accum_dtype;        ///< unset: the compute dtype
  bool double_buffer = true;                    ///< DeepCompile: two gradient buckets
  bool symmetric_memory = false;                ///< DeepCompile: gathers without NCCL
};

/// [cluster]
struct Cluster {
  std::string hardware = "h100_sxm";  ///< name or path of a hardware file
  std::string topology;               ///< name or path of a topology file; empty: the hardware's
  std::string fabric;                 ///< name or path of a fabric file; empty: the hardware's
  double fabric_gbps = 0;             ///< Gb/s a GPU between nodes; 0: the fabric's
  std::uint32_t nodes = 0;            ///< 0: world_size / gpus_per_node, at least 1
  std::uint32_t gpus_per_node = 8;
  double link_bandwidth_scale = 1.0;  ///< multiplies every link
  bool contention = true;             ///< overlapped work shares SMs, memory and links
};

/// A key of [model] that stands for the same key of a config.json.
struct ModelKey {
  std::string name;
  std::string json;   ///< the value, as JSON
  std::string place;  ///< for messages
};

/// Where a key was set.
struct KeySource {
  /// Who set it; later ones go over earlier ones.
  enum class By : std::uint8_t { other_tool, file, command_line };
  By by = By::file;
  std::string place;        ///< FILE:LINE:COL of the key, or "--set KEY=VALUE"
  std::string value_place;  ///< FILE:LINE:COL of its value, or "--set KEY"
};

/// What another tool's file says of all ranks together: it is shared out once their number is
/// known. 0: nothing.
struct OfAllRanks {
  std::int64_t batch = 0;     ///< samples of a step, which the file calls batch_key
  std::int64_t replicas = 0;  ///< of the shards: torchtitan's data_parallel_replicate_degree
  std::string batch_key, batch_place, replicas_place;
};

/// A whole workload file. After resolve_workload() no field is "0: default" any more.
struct Workload {
  std::string path;          ///< of the file, for messages
  std::string model_config;  ///< path of the Hugging Face config.json, resolved against the file
  std::string deepspeed_config, torchtitan_config;  ///< paths of files that stand for the tables
  std::vector<ModelKey> model_keys;                 ///< over the config.json, or instead of it
  std::vector<std::string> towers;         ///< paths of config.json files, vision towers first
  std::shared_ptr<const ModuleTree> tree;  ///< the model, spelled out; null: not
  std::int64_t target_len = 0;             ///< tokens of a tree's second sequence; 0: none
  std::optional<TreeLoss> tree_loss;       ///< unset: cross_entropy of token ids, sum of features
  std::int64_t layers = 0;  ///< overrides the (last tower's) layers; 0: as configured
  std::vector<std::int64_t> tower_layers;  ///< overrides the layers of each tower, in order
  Train train;
  Parallel parallel;
  Zero zero;  ///< keys of [parallel]
  Cluster cluster;
  OfAllRanks of_all_ranks;
  std::string allocator_conf;         ///< PYTORCH_CUDA_ALLOC_CONF
  std::vector<std::string> warnings;  ///< what was read and has no effect on the prediction
  /// Of the keys that were set, by dotted path; keys of config.json are ModelKeys.
  std::map<std::string, KeySource, std::less<>> sources;

  bool is_set(std::string_view key) const { return sources.contains(key); }
  /// Was the key set by the user: in the workload's file or by --set?
  bool is_own(std::string_view key) const;
  /// For a message about `keys`: the place of the one that goes over the others (the first of
  /// equals); the file if none is set.
  std::string place_of(std::initializer_list<std::string_view> keys) const;
  /// An error of the file at `name`, which the value of `key` names: at that value if it is of the
  /// file as a whole (it cannot be read), as it is if it has a place within.
  Error of_named_file(std::string_view key, const std::string& name, Error error) const;
};

}  // namespace foregather::plan
