#include "core/plan/workload_keys.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/suggest.h"
#include "core/ir/references.h"
#include "core/plan/key_values.h"
#include "core/plan/model.h"
#include "core/plan/model_families.h"
#include "core/plan/module_tree.h"
#include "core/plan/workload_needs.h"
#include "core/plan/workload_setters.h"

namespace foregather::plan {
namespace {

using namespace std::string_view_literals;

// Names of the enumerators, in the order of the enum.
constexpr std::array kAttention{"eager"sv, "sdpa"sv, "flash"sv, "cudnn"sv};
constexpr std::array kOptimizer{"adamw"sv, "sgd"sv};
constexpr std::array kOptimizerImpl{"foreach"sv, "fused"sv, "for-loop"sv};
constexpr std::array kStateType{"master"sv, "fp32"sv, "bf16"sv, "int8"sv};
constexpr std::array kCompile{"none"sv, "per-block"sv, "full"sv, "thunder"sv};
constexpr std::array kHeldOutputs{"none"sv, "logits"sv, "cache"sv};
constexpr std::array kLogits{"compute"sv, "fp32"sv, "fp32-shifted"sv, "narrow"sv, "fused"sv};
constexpr std::array kFloat8{"none"sv, "tensorwise"sv, "rowwise"sv, "delayed"sv};
constexpr std::array kStrategy{"ddp"sv,           "fsdp1"sv,       "fsdp2"sv,
                               "zero3"sv,         "zero2"sv,       "thunder_zero2"sv,
                               "thunder_zero3"sv, "deepcompile"sv, "single"sv};
constexpr std::array kOffload{"none"sv, "optimizer"sv, "parameters"sv, "all"sv};
constexpr std::array kBucketing{"none"sv, "layer"sv, "block"sv};
constexpr std::array kDeepCompilePasses{"none"sv, "fast-free"sv, "full"sv};
constexpr std::array kPrefetch{"none"sv, "pre"sv, "post"sv};
constexpr std::array kSharding{"full_shard"sv, "shard_grad_op"sv, "no_shard"sv, "hybrid_shard"sv};
constexpr std::array kTied{"one-unit"sv, "two-names"sv};
constexpr std::array kWrap{"block"sv, "model"sv, "block_embed_head"sv, "leaf"sv};

constexpr auto kTrain = &Workload::train;
constexpr auto kZero = &Workload::zero;
constexpr auto kParallel = &Workload::parallel;
constexpr auto kCluster = &Workload::cluster;

constexpr auto kCount = "integer from 1"sv;
constexpr auto kFlag = "true | false"sv;
constexpr auto kElements = "integer, elements"sv;
constexpr auto kAutoElements = "N | auto"sv;
constexpr auto kSize = "bytes, or \"25MiB\""sv;
constexpr auto kDType = "bf16 | fp32 | fp16"sv;

constexpr KeyNeeds kTree{"model.tree", [](const Workload& w) { return w.tree != nullptr; }};

constexpr std::array kKeys{
    WorkloadKey{"model.config", "path", "", "The model: a Hugging Face config.json", set_config},
    WorkloadKey{"model.towers", "list of paths", "",
                "Instead of one config: vision towers, then a language model", set_towers, kList},
    WorkloadKey{"model.layers", "integer from 1, or a list", "as the config says",
                "Number of repeated blocks; of a list, one for each tower", set_layers, kList},
    WorkloadKey{"model.tied", "one-unit | two-names", "one-unit",
                "Tied embedding and head: one FSDP unit, or one for each name of the weight",
                set_choice<kParallel, &Parallel::tied, kTied>, kOne, kFsdp2},
    WorkloadKey{"model.tree", "list of modules", "",
                "Instead of a config: nested modules, one table each", set_tree},
    WorkloadKey{"model.loss", "sum | mean | cross_entropy",
                "cross_entropy of token ids, sum of features", "What a module tree ends in",
                set_tree_loss, kOne, kEveryStrategy, kTree},
    WorkloadKey{"model.target_len", kCount, "no second sequence",
                "Tokens of the sequence that a module tree's decoder works on", set_target_len,
                kOne, kEveryStrategy, kTree},

    WorkloadKey{"train.micro_batch", kCount, "1", "Sequences a rank and micro-batch",
                set_integer<kTrain, &Train::micro_batch, 1, kMostRanks>},
    WorkloadKey{"train.seq_len", kCount, "the model's maximum, at most 8192",
                "Tokens of a sequence", set_integer<kTrain, &Train::seq_len, 1, 1 << 24>, kOne,
                kEveryStrategy, kNothing, kTokens},
    WorkloadKey{"train.grad_accum", kCount, "1", "Micro-batches a step",
                set_integer<kTrain, &Train::grad_accum, 1, 65'535>},
    WorkloadKey{"train.no_sync", kFlag, "false",
                "Accumulates without reducing gradients until the last micro-batch",
                set_bool<kTrain, &Train::no_sync>, kOne, kSeveralRanks, kAccumulation},
    WorkloadKey{"train.precision", "bf16-mixed | bf16 | fp32 | fp16-mixed", "bf16-mixed",
                "Mixed: fp32 parameters and optimizer states, compute in the short type",
                set_precision},
    WorkloadKey{"train.attention", "eager | sdpa | flash | cudnn", "sdpa",
                "Attention implementation; sdpa: as PyTorch 2.11 chooses",
                set_choice<kTrain, &Train::attention, kAttention>},
    WorkloadKey{"train.attention_speed", "number from 0.01 to 100", "1",
                "Of attention kernels, relative to those priced", set_attention_speed, kOne,
                kEveryStrategy, kFusedAttention},
    WorkloadKey{"train.activation_checkpointing",
                "none | full | selective | selective:N | first:N | blocks:LIST", "none",
                "selective: per op; selective:N: every Nth block; first:N: the first N blocks; "
                "blocks:0-3,7: these, counted from 0",
                set_checkpointing},
    WorkloadKey{
        "train.early_stop", kFlag, "true",
        "A block is computed again as far as its backward needs it; false: all of it, as "
        "reentrant checkpoints (transformers' Trainer before 5) and torchtitan since 0.2 do",
        set_bool<kTrain, &Train::early_stop>, kOne, kEveryStrategy, kRecomputedBlocks},
    WorkloadKey{"train.trainable", "all | lora | parts of names", "all",
                "What is trained; a list of parts trains the parameters whose name has one",
                set_trainable, kList},
    WorkloadKey{"train.lora_rank", kCount, "8", "Rank of LoRA adapters", set_lora_rank, kOne,
                kEveryStrategy, kLora},
    WorkloadKey{"train.lora_targets", "list of modules, or all-linear", "q_proj, v_proj",
                "Linears that get an adapter, by the end of their path", set_lora_targets, kList,
                kEveryStrategy, kLora},
    WorkloadKey{"train.lora_dropout", "number from 0 to 0.999", "0", "Before adapters",
                set_lora_dropout, kOne, kEveryStrategy, kLora},
    WorkloadKey{"train.lora_fp32", kFlag,
                "as PEFT: with 16-bit parameters, if not sharded together",
                "Adapters are fp32 beside 16-bit parameters, and cast their input", set_lora_fp32,
                kOne, kPeft, kOwnDtype},
    WorkloadKey{"train.lora_autocast", kFlag, "false",
                "fp32 adapters multiply in the 16-bit dtype, under torch.autocast: bf16=True of "
                "transformers' Trainer",
                set_lora_autocast, kOne, kPeft, kWideLora},
    WorkloadKey{"train.float8", "none | tensorwise | rowwise | delayed", "none",
                "Linears of the blocks multiply in float8: torchao's two scalings, or Transformer "
                "Engine's delayed one",
                set_choice<kTrain, &Train::float8, kFloat8>},
    WorkloadKey{"train.float8_all_gather", kFlag, "false",
                "FSDP2 gathers the weights of float8 linears in float8",
                set_bool<kTrain, &Train::float8_all_gather>},
    WorkloadKey{"train.keep_absolute_values", kFlag, "false",
                "Checkpointing keeps what float8 took the largest of, as torchtitan for a while",
                set_bool<kTrain, &Train::keep_absolute_values>, kOne, kEveryStrategy,
                kSelectiveFloat8},
    WorkloadKey{
        "train.keep_float8_weights", kFlag, "false",
        "torch.compile keeps float8 weights for the backward, as before PyTorch 2.8 without "
        "force_recompute_fp8_weight_in_bwd",
        set_bool<kTrain, &Train::keep_float8_weights>, kOne, kEveryStrategy, kCompiledTensorwise},
    WorkloadKey{"train.loss_chunks", kCount, "1",
                "Parts of the tokens that pass the vocabulary projection and loss one by one",
                set_integer<kTrain, &Train::loss_chunks, 1, kMostRanks>, kOne, kEveryStrategy,
                kNothing, kCausal},
    WorkloadKey{"train.held_outputs", "none | logits | cache", "none",
                "What the script still holds in the backward: the model's output; and keys and "
                "values of its cache, all this until the next call returns",
                set_choice<kTrain, &Train::held_outputs, kHeldOutputs>, kOne, kEveryStrategy,
                kNothing, kTokens},
    WorkloadKey{"train.logits", "compute | fp32 | fp32-shifted | narrow | fused", "compute",
                "What the model returns: logits as computed, or in fp32; shifted: the loss reads "
                "a copy without each sequence's last (transformers before 4.46); narrow: as "
                "computed, and the loss does not widen them; fused: nor keep log probabilities "
                "(flash-attn's)",
                set_choice<kTrain, &Train::logits, kLogits>, kOne, kEveryStrategy, kWholeLogits,
                kCausal},
    WorkloadKey{"train.logits_chunks", kCount, "1",
                "Parts of the logits that the loss widens one by one; train.loss_chunks also "
                "makes the logits in parts",
                set_integer<kTrain, &Train::logits_chunks, 1, kMostRanks>, kOne, kEveryStrategy,
                kWholeLoss, kCausal},
    WorkloadKey{"train.compile", "none | per-block | full | thunder", "none",
                "torch.compile, or lightning-thunder, as Thunder's strategies always are",
                set_choice<kTrain, &Train::compile, kCompile>, kOne, kEveryStrategy,
                kOtherCompiler},
    WorkloadKey{"train.compile_loss", kFlag, "false",
                "torch.compile of the loss function by itself",
                set_bool<kTrain, &Train::compile_loss>, kOne, kUncompiled, kWholeLoss, kTokens},
    WorkloadKey{"train.loss_in_call", kFlag, "true",
                "The model's own call computes the loss (transformers given labels); false: the "
                "script does, after it (torchtitan): FSDP's root ends before, and torch.compile of "
                "the whole model",
                set_bool<kTrain, &Train::loss_in_call>, kOne, kEveryStrategy, kLossOutside},
    WorkloadKey{"train.reads_loss", kFlag, "false",
                "The loop reads the loss of every step, loss.item(): the host waits for the step",
                set_bool<kTrain, &Train::reads_loss>},
    WorkloadKey{"train.optimizer", "adamw | sgd", "adamw", "Optimizer",
                set_choice<kTrain, &Train::optimizer, kOptimizer>},
    WorkloadKey{"train.optimizer_impl", "foreach | fused | for-loop", "foreach",
                "How the optimizer runs; for-loop: an op and a tensor at a time (foreach=False)",
                set_choice<kTrain, &Train::optimizer_impl, kOptimizerImpl>, kOne, kEveryStrategy,
                kTorchOptimizer},
    WorkloadKey{"train.optimizer_state", "master | fp32 | bf16 | int8", "master",
                "Of optimizer states; int8: blocks of 256, as torchao",
                set_choice<kTrain, &Train::optimizer_state, kStateType>, kOne, kEveryStrategy,
                kAdamw},
    WorkloadKey{"train.momentum", "number from 0 to 1", "0.9", "Of SGD; 0 keeps no state",
                set_momentum, kOne, kEveryStrategy, kSgd},
    WorkloadKey{"train.clip_grad_norm", kFlag, "true", "Clips the norm of the gradients",
                set_bool<kTrain, &Train::clip_grad_norm>, kOne, kTorch | kThunder},
    WorkloadKey{"train.fused_rms_norm", kFlag, "true",
                "RMSNorm is one kernel (torch.nn's since PyTorch 2.9); false: one an operator, as "
                "in transformers' models",
                set_bool<kTrain, &Train::fused_rms_norm>, kOne, kEveryStrategy, kNothing, kRmsNorm},
    WorkloadKey{"train.repeat_kv", kFlag, "false",
                "Grouped-query attention copies keys and values to all heads",
                set_bool<kTrain, &Train::repeat_kv>, kOne, kEveryStrategy, kFusedAttention,
                kGrouped},
    WorkloadKey{"train.complex_rotary", kFlag, "false",
                "Positions turn queries and keys by complex products in fp32, as in torchtitan",
                set_bool<kTrain, &Train::complex_rotary>, kOne, kEveryStrategy, kNothing,
                kWholeRotary},
    WorkloadKey{"train.dropout", kFlag, "as the config says", "Whether dropout runs",
                set_bool<kTrain, &Train::dropout>},

    WorkloadKey{
        "parallel.strategy",
        "fsdp2 | fsdp1 | ddp | zero3 | zero2 | deepcompile | thunder_zero3 | thunder_zero2 | "
        "single",
        "fsdp2", "Sharding strategy; single: one GPU, without any",
        set_choice<kParallel, &Parallel::strategy, kStrategy>},
    WorkloadKey{"parallel.world_size", kCount, "nodes × gpus_per_node; 1 if single",
                "Ranks of the job", set_integer<kParallel, &Parallel::world_size, 1, kMostRanks>},
    WorkloadKey{"parallel.shard_size", kCount, "world_size",
                "Ranks of a shard group; fewer than the world: hybrid sharding",
                set_integer<kParallel, &Parallel::shard_size, 1, kMostRanks>, kOne, kSeveralRanks},
    WorkloadKey{"parallel.wrap", "block | model | block_embed_head | leaf", "block",
                "What one FSDP unit is; leaf, of FSDP1: each module that has parameters itself",
                set_choice<kParallel, &Parallel::wrap, kWrap>, kOne, kFsdp},
    WorkloadKey{"parallel.sharding", "full_shard | shard_grad_op | no_shard | hybrid_shard",
                "full_shard", "FSDP1's sharding strategy; hybrid: within a node",
                set_choice<kParallel, &Parallel::sharding, kSharding>, kOne, kFsdp1},
    WorkloadKey{"parallel.reshard_after_forward", "true | false | N",
                "true, false at the root and at a head of its own",
                "FSDP2: frees unsharded parameters after forward, or reshards to groups of N",
                set_reshard, kOne, kFsdp2},
    WorkloadKey{"parallel.backward_prefetch", "pre | post | none", "pre",
                "When backward gathers the next unit",
                set_choice<kParallel, &Parallel::backward_prefetch, kPrefetch>, kOne, kFsdp},
    WorkloadKey{"parallel.forward_prefetch", kFlag, "false",
                "Gathers the next unit before this one computes",
                set_bool<kParallel, &Parallel::forward_prefetch>, kOne, kFsdp},
    WorkloadKey{"parallel.forward_prefetch_depth", kCount, "1",
                "FSDP2: units that forward_prefetch gathers ahead",
                set_integer<kParallel, &Parallel::forward_prefetch_depth, 1, kMostBlocks>, kOne,
                kFsdp2, kForwardPrefetch},
    WorkloadKey{"parallel.backward_prefetch_depth", kCount, "1",
                "FSDP2: units that backward_prefetch = pre gathers ahead",
                set_integer<kParallel, &Parallel::backward_prefetch_depth, 1, kMostBlocks>, kOne,
                kFsdp2, kBackwardPrefetch},
    WorkloadKey{"parallel.reshard_after_backward", kFlag, "true",
                "FSDP2: false keeps parameters gathered between the micro-batches of a step",
                set_bool<kParallel, &Parallel::reshard_after_backward>, kOne, kFsdp2,
                kAccumulation},
    WorkloadKey{"parallel.limit_all_gathers", kFlag, "true", "FSDP1's rate limiter",
                set_bool<kParallel, &Parallel::limit_all_gathers>, kOne, kFsdp1},
    WorkloadKey{"parallel.use_orig_params", kFlag, "true; with LoRA, not compiled: false",
                "FSDP1: flat parameters of 16-byte aligned parameters, trained and frozen ones; "
                "false: what is trained in a frozen unit is wrapped by itself",
                set_bool<kParallel, &Parallel::use_orig_params>, kOne, kFsdp1},
    WorkloadKey{"parallel.reentrant_checkpoints", kFlag, "false",
                "FSDP1: reentrant checkpoints around the units of blocks, as transformers before "
                "4.53 makes them: each is gathered a third time",
                set_bool<kParallel, &Parallel::reentrant_checkpoints>, kOne, kFsdp1,
                kRecomputedUnits},
    WorkloadKey{"parallel.param_dtype", kDType, "the compute dtype; DeepCompile: the stored one",
                "Of gathered parameters", set_dtype<kParallel, &Parallel::param_dtype>, kOne,
                kSeveralRanks},
    WorkloadKey{"parallel.reduce_dtype", kDType,
                "FSDP: fp32 if mixed, else the compute dtype; ZeRO: the compute dtype; "
                "DeepCompile: parallel.param_dtype",
                "Of gradient reduction", set_dtype<kParallel, &Parallel::reduce_dtype>, kOne,
                kSeveralRanks, kNoWideLora},
    WorkloadKey{"parallel.separate_reduce_communicator", kFlag, "false",
                "FSDP2: reduce-scatters on a communicator of their own",
                set_bool<kParallel, &Parallel::separate_reduce_communicator>, kOne, kFsdp2},
    WorkloadKey{"parallel.reduce_buffers", kCount, "1",
                "FSDP2: reduce-scatter inputs that may wait at one time",
                set_integer<kParallel, &Parallel::reduce_buffers, 1, kMostBlocks>, kOne, kFsdp2},
    WorkloadKey{"parallel.bucket_bytes", kSize, "25MiB", "DDP: gradient bucket",
                set_bytes<kParallel, &Parallel::bucket_bytes, 1, kLargestBucket>, kOne, kDdp},
    WorkloadKey{"parallel.first_bucket_bytes", kSize, "bucket_bytes if that is given, else 1MiB",
                "DDP: first bucket",
                set_bytes<kParallel, &Parallel::first_bucket_bytes, 1, kLargestBucket>, kOne, kDdp},
    WorkloadKey{"parallel.gradient_as_bucket_view", kFlag, "false",
                "DDP: gradients live in the buckets",
                set_bool<kParallel, &Parallel::gradient_as_bucket_view>, kOne, kDdp},
    WorkloadKey{
        "parallel.find_unused_parameters", kFlag, "false",
        "DDP: buckets stay in the order of the parameters, which of them were used is reduced",
        set_bool<kParallel, &Parallel::find_unused_parameters>, kOne, kDdp},
    WorkloadKey{"parallel.broadcast_buffers", kFlag, "true",
                "DDP: a module tree's buffers go from rank 0 to all when a forward begins",
                set_bool<kParallel, &Parallel::broadcast_buffers>, kOne, kDdp},
    WorkloadKey{"parallel.deepspeed_config", "path", "",
                "A DeepSpeed JSON that stands for the tables; keys given here go over it",
                set_foreign_config<&Workload::deepspeed_config>},
    WorkloadKey{"parallel.torchtitan_config", "path", "",
                "A torchtitan TOML that stands for the tables; keys given here go over it",
                set_foreign_config<&Workload::torchtitan_config>},
    WorkloadKey{"parallel.offload", "none | optimizer | parameters | all", "none",
                "What lives in pinned host memory; FSDP: none or all",
                set_choice<kParallel, &Parallel::offload, kOffload>},
    WorkloadKey{"parallel.thunder_bucketing", "none | layer | block", "none",
                "Thunder: parameters that are gathered and reduced as one",
                set_choice<kParallel, &Parallel::thunder_bucketing, kBucketing>, kOne, kThunder},
    WorkloadKey{"parallel.stage3_prefetch_bucket_size", kAutoElements, "50000000",
                "ZeRO-3: elements fetched ahead",
                set_size<&Zero::prefetch_bucket_size, &Zero::auto_prefetch, 0>, kOne, kZero3},
    WorkloadKey{"parallel.stage3_param_persistence_threshold", kAutoElements, "100000",
                "ZeRO-3: smaller parameters stay whole",
                set_size<&Zero::param_persistence_threshold, &Zero::auto_persistence, 0>, kOne,
                kZero3},
    WorkloadKey{"parallel.stage3_model_persistence_threshold", kElements, "no limit",
                "ZeRO-3: elements that stay whole at most",
                set_integer<kZero, &Zero::model_persistence_threshold, 0, kMostElements>, kOne,
                kZero3},
    WorkloadKey{"parallel.stage3_max_live_parameters", kElements, "1000000000",
                "ZeRO-3: no prefetch beyond so many gathered elements",
                set_integer<kZero, &Zero::max_live_parameters, 0, kMostElements>, kOne, kZero3},
    WorkloadKey{"parallel.stage3_max_reuse_distance", kElements, "1000000000",
                "ZeRO-3: parameters used again within so many elements stay gathered",
                set_integer<kZero, &Zero::max_reuse_distance, 0, kMostElements>, kOne, kZero3},
    WorkloadKey{"parallel.reduce_bucket_size", kAutoElements, "500000000",
                "ZeRO: elements of a gradient bucket",
                set_size<&Zero::reduce_bucket_size, &Zero::auto_reduce, 1>, kOne, kBucketed},
    WorkloadKey{"parallel.sub_group_size", kElements, "1000000000",
                "ZeRO-3: elements that one optimizer step of a rank updates",
                set_integer<kZero, &Zero::sub_group_size, 1, kMostElements>, kOne, kSharded},
    WorkloadKey{"parallel.zero_hpz_partition_size", kCount, "1",
                "ZeRO++: ranks of the secondary partition that backward gathers from",
                set_integer<kZero, &Zero::hpz_partition_size, 1, kMostRanks>, kOne, kZero3},
    WorkloadKey{"parallel.overlap_comm", kFlag, "true for zero3, false for zero2",
                "ZeRO: communicates on streams of its own", set_overlap_comm, kOne, kZeros},
    WorkloadKey{"parallel.contiguous_gradients", kFlag, "true",
                "ZeRO: copies gradients into one buffer before they are reduced",
                set_bool<kZero, &Zero::contiguous_gradients>, kOne, kZeros},
    WorkloadKey{"parallel.reduce_scatter", kFlag, "true",
                "ZeRO: reduces each gradient to its owner instead of to all",
                set_bool<kZero, &Zero::reduce_scatter>, kOne, kZeros},
    WorkloadKey{"parallel.use_multi_rank_bucket_allreduce", kFlag, "true",
                "ZeRO-2: one all-reduce a bucket instead of a reduce for each owner",
                set_bool<kZero, &Zero::use_multi_rank_bucket_allreduce>, kOne, kZero2},
    WorkloadKey{"parallel.grad_accum_dtype", kDType, "the compute dtype",
                "ZeRO: of the partition that gradients are added up in",
                set_dtype<kZero, &Zero::grad_accum_dtype>, kOne, kSharded},
    WorkloadKey{"parallel.double_buffer", kFlag, "true",
                "DeepCompile: one gradient bucket fills while the other is reduced",
                set_bool<kZero, &Zero::double_buffer>, kOne, kDeepCompile},
    WorkloadKey{"parallel.symmetric_memory", kFlag, "false",
                "DeepCompile: gathers by copies from the peers' workspaces",
                set_bool<kZero, &Zero::symmetric_memory>, kOne, kDeepCompile},
    WorkloadKey{"parallel.deepcompile_passes", "none | fast-free | full", "fast-free",
                "DeepCompile: none leaves all gathers at the head of their graph; full adds "
                "prefetch=budget and selective-gather",
                set_choice<kParallel, &Parallel::deepcompile_passes, kDeepCompilePasses>, kOne,
                kDeepCompile},

    WorkloadKey{"cluster.hardware", "name or path", "h100_sxm",
                "Hardware file; cluster.hw is the same", set_name_or_path<&Cluster::hardware>},
    WorkloadKey{"cluster.topology", "name or path", "the hardware's",
                "Links inside a node: nvswitch, pcie4_p2p, …",
                set_name_or_path<&Cluster::topology>},
    WorkloadKey{"cluster.fabric", "name or path", "the hardware's",
                "Links between nodes: ib_ndr, efa_3200, …", set_name_or_path<&Cluster::fabric>,
                kOne, kEveryStrategy, kNodes},
    WorkloadKey{"cluster.fabric_gbps", "number from 0.1", "the fabric's",
                "Gb/s a GPU between nodes", set_fabric_gbps, kOne, kEveryStrategy, kNodes},
    WorkloadKey{"cluster.nodes", kCount, "world_size / gpus_per_node", "Machines",
                set_integer<kCluster, &Cluster::nodes, 1, kMostRanks>},
    WorkloadKey{"cluster.gpus_per_node", kCount, "world_size / nodes, at most 8", "Ranks a machine",
                set_integer<kCluster, &Cluster::gpus_per_node, 1, 1024>},
    WorkloadKey{"cluster.link_bandwidth_scale", "number from 1e-6 to 1e6", "1",
                "Multiplies the bandwidth of every link", set_scale},
    WorkloadKey{"cluster.contention", kFlag, "true",
                "Overlapped work shares SMs, memory bandwidth and links",
                set_bool<kCluster, &Cluster::contention>},

    WorkloadKey{"allocator.conf", "text", "", "PYTORCH_CUDA_ALLOC_CONF", set_allocator_conf},
};

constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"cluster.hw", "cluster.hardware"}};

// "micro_batch" of "train.micro_batch".
std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

}  // namespace

std::span<const WorkloadKey> workload_keys() { return kKeys; }

std::span<const std::string_view> strategy_names() { return kStrategy; }
std::string_view name(Strategy strategy) { return kStrategy[static_cast<std::size_t>(strategy)]; }

bool keep_model_key(Workload& workload, std::string_view name, const KeyValue& value,
                    std::string place) {
  constexpr auto kSection = "model."sv;
  if (!name.starts_with(kSection) || !is_model_key(name.substr(kSection.size()))) return false;
  workload.model_keys.push_back(
      {std::string(name.substr(kSection.size())), to_json(value), std::move(place)});
  return true;
}

const WorkloadKey* find_workload_key(std::string_view name) {
  for (const auto& [alias, target] : kAliases)
    if (name == alias) name = target;
  const auto found = std::find_if(kKeys.begin(), kKeys.end(),
                                  [&](const WorkloadKey& key) { return key.name == name; });
  return found == kKeys.end() ? nullptr : &*found;
}

std::string likely_key(std::string_view name) {
  const auto meant = [](std::string_view key) { return fmt::format(", did you mean '{}'?", key); };
  const std::string section = std::string(name) + '.';
  for (const WorkloadKey& key : kKeys)
    if (key.name.starts_with(section)) return {};
  // A right name in the wrong section is a better guess than a near spelling.
  for (const WorkloadKey& key : kKeys)
    if (last_part(key.name) == last_part(name)) return meant(key.name);
  std::vector<std::string> of_model;
  for (const std::string_view key : model_keys()) of_model.push_back("model." + std::string(key));
  std::vector<std::string_view> names;
  for (const WorkloadKey& key : kKeys) names.push_back(key.name);
  if (name.starts_with("model.")) names.insert(names.end(), of_model.begin(), of_model.end());
  if (const std::string guess = did_you_mean(name, names); !guess.empty()) return guess;
  std::vector<std::string_view> last_parts;
  for (const WorkloadKey& key : kKeys) last_parts.push_back(last_part(key.name));
  if (const auto part = nearest(last_part(name), last_parts))
    for (const WorkloadKey& key : kKeys)
      if (last_part(key.name) == *part) return meant(key.name);
  return {};
}

std::string unknown_key_message(std::string_view name) {
  constexpr std::size_t kLongest = 80;
  const std::string shown = written({std::string(name.substr(0, kLongest)), true});
  const std::string guess = likely_key(name);
  return fmt::format("unknown key {}{}", shown,
                     !guess.empty() ? guess
                                    : ", expected one of the sections model, train, parallel, "
                                      "cluster, allocator and their keys");
}

}  // namespace foregather::plan
