#include <algorithm>
#include <utility>

#include "core/ir/references.h"
#include "core/plan/workload_keys.h"
#include "core/plan/workload_toml.h"

namespace foregather::plan {
namespace {

// Of what the three keys contradict each other about.
std::string place_of_world(const Workload& workload) {
  return workload.place_of({"parallel.world_size", "cluster.nodes", "cluster.gpus_per_node"});
}

Status divide_world_by_nodes(Workload& workload) {
  Cluster& cluster = workload.cluster;
  const std::uint32_t world = workload.parallel.world_size;
  if (world % cluster.nodes != 0)
    return fail_at(place_of_world(workload),
                   "parallel.world_size {} is not a multiple of cluster.nodes {}: set "
                   "parallel.world_size to {}, or another number of nodes",
                   world, cluster.nodes, (world / cluster.nodes + 1) * cluster.nodes);
  const std::uint32_t each = world / cluster.nodes;
  if (cluster.gpus_per_node != 0 && cluster.gpus_per_node != each)
    return fail_at(place_of_world(workload),
                   "parallel.world_size {} is not cluster.nodes {} × cluster.gpus_per_node {}: "
                   "leave one of the three out",
                   world, cluster.nodes, cluster.gpus_per_node);
  cluster.gpus_per_node = each;
  return {};
}

Status divide_world_by_gpus(Workload& workload) {
  Cluster& cluster = workload.cluster;
  const std::uint32_t world = workload.parallel.world_size;
  constexpr std::uint32_t kUsualGpus = 8;
  if (cluster.gpus_per_node == 0) cluster.gpus_per_node = kUsualGpus;
  cluster.gpus_per_node = std::min(cluster.gpus_per_node, world);
  if (world % cluster.gpus_per_node != 0)
    return fail_at(place_of_world(workload),
                   "parallel.world_size {} is not a multiple of cluster.gpus_per_node {}: set "
                   "cluster.nodes, or a world of {} ranks",
                   world, cluster.gpus_per_node,
                   (world / cluster.gpus_per_node + 1) * cluster.gpus_per_node);
  cluster.nodes = world / cluster.gpus_per_node;
  return {};
}

// The node may have more GPUs than the one. What only several ranks need is passed over.
Status be_one_rank(Workload& workload) {
  std::uint32_t& world = workload.parallel.world_size;
  std::uint32_t& nodes = workload.cluster.nodes;
  for (const auto& [key, value] :
       {std::pair{"parallel.world_size", world}, std::pair{"cluster.nodes", nodes}})
    if (value > 1)
      return fail_at(workload.place_of({key}),
                     "parallel.strategy single is one GPU, but {} is {}: set it to 1", key, value);
  world = nodes = workload.cluster.gpus_per_node = 1;
  workload.parallel.shard_size = 1;
  workload.parallel.param_dtype = workload.train.compute;
  workload.parallel.reduce_dtype = trained_type(workload.train);
  return {};
}

// transformers' HfTrainerDeepSpeedConfig.trainer_config_finalize
void resolve_auto_sizes(Zero& zero, std::int64_t hidden) {
  const std::int64_t square = hidden * hidden;
  if (zero.auto_reduce) zero.reduce_bucket_size = square;
  if (zero.auto_prefetch) zero.prefetch_bucket_size = square / 10 * 9 + square % 10 * 9 / 10;
  if (zero.auto_persistence) zero.param_persistence_threshold = 10 * hidden;
}

// Mixed precision is torch.autocast over fp32 parameters unless the workload says that parameters
// are stored in another dtype; gradients are reduced in the parameters' dtype.
void resolve_deepcompile(Workload& workload) {
  Parallel& parallel = workload.parallel;
  if (parallel.strategy != Strategy::deepcompile) return;
  if (!workload.is_set("parallel.param_dtype")) parallel.param_dtype = workload.train.master;
  if (!workload.is_set("parallel.reduce_dtype")) parallel.reduce_dtype = parallel.param_dtype;
}

// Where a model has no SDPA (_supports_sdpa), transformers runs eager attention; where no fused
// kernel takes it, PyTorch's math kernel is close to that.
void resolve_sdpa(Workload& workload, const ModelConfig& model) {
  Attention& attention = workload.train.attention;
  if (model.has_sdpa || attention != Attention::sdpa) return;
  attention = Attention::eager;
  // Their FlashAttention is told of no ALiBi (BLOOM and MPT have none at all).
  const bool has_flash =
      workload.train.compute != DType::f32 && model.positions != ModelConfig::Positions::alibi;
  workload.warnings.push_back(
      fmt::format("{}: no fused SDPA runs the attention of {} in transformers: eager attention{}",
                  workload.place_of({"train.attention", "model.config"}), model.model_type,
                  has_flash ? ", which train.attention = \"flash\" goes around" : ""));
}

// No SDPA knows sinks (GptOssPreTrainedModel, _supports_sdpa): a FlashAttention does, in 16 bits.
Status resolve_sinks(Workload& workload, const ModelConfig& model) {
  Attention& attention = workload.train.attention;
  if (!model.sinks) return {};
  if (attention == Attention::cudnn)
    return fail_at(workload.place_of({"train.attention"}),
                   "train.attention is cudnn, which knows no sinks as {} has, expected eager or "
                   "flash",
                   model.model_type);
  if (attention == Attention::sdpa)
    attention = workload.train.compute == DType::f32 ? Attention::eager : Attention::flash;
  return {};
}

}  // namespace

Status resolve_cluster(Workload& workload) {
  Cluster& cluster = workload.cluster;
  std::uint32_t& world = workload.parallel.world_size;
  if (workload.parallel.strategy == Strategy::single) {
    if (const Status one = be_one_rank(workload); !one) return one;
  }
  if (world == 0) {
    const std::uint64_t ranks = std::uint64_t{std::max(cluster.nodes, 1U)} *
                                (cluster.gpus_per_node == 0 ? 8 : cluster.gpus_per_node);
    if (ranks > kMostRanks)
      return fail_at(place_of_world(workload),
                     "cluster.nodes × cluster.gpus_per_node is {} ranks, expected "
                     "at most {}",
                     ranks, kMostRanks);
    world = static_cast<std::uint32_t>(ranks);
  }
  const Status divided =
      cluster.nodes != 0 ? divide_world_by_nodes(workload) : divide_world_by_gpus(workload);
  if (!divided) return divided;
  Parallel& parallel = workload.parallel;
  if (parallel.sharding == Fsdp1Sharding::hybrid_shard) {
    if (parallel.strategy == Strategy::fsdp1 && parallel.shard_size == 0)
      parallel.shard_size = cluster.gpus_per_node;
    parallel.sharding = Fsdp1Sharding::full_shard;
  }
  const bool may_replicate =
      parallel.strategy == Strategy::fsdp2 ||
      (parallel.strategy == Strategy::fsdp1 && parallel.sharding != Fsdp1Sharding::no_shard);
  if (const OfAllRanks& all = workload.of_all_ranks;
      may_replicate && parallel.shard_size == 0 && all.replicas > 1) {
    if (world % all.replicas != 0)
      return fail_at(all.replicas_place, "{} replicas, which {} ranks are no multiple of",
                     all.replicas, world);
    parallel.shard_size = static_cast<std::uint32_t>(world / all.replicas);
  }
  if (parallel.shard_size == 0) parallel.shard_size = world;
  return {};
}

// DeepSpeed's runtime/config.py, _set_batch_related_parameters; torchtitan's train.py
Status share_batch(Workload& workload) {
  const OfAllRanks& all = workload.of_all_ranks;
  if (all.batch == 0) return {};
  Train& train = workload.train;
  const std::int64_t world = workload.parallel.world_size;
  const bool has_micro = workload.is_set("train.micro_batch");
  const bool has_steps = workload.is_set("train.grad_accum");
  if (has_micro && has_steps) {
    const std::int64_t each = train.micro_batch * train.grad_accum;
    if (each * world != all.batch)
      workload.warnings.push_back(fmt::format(
          "{}: ignored: {} {}, as {} × {} samples on each of {} ranks are {}", all.batch_place,
          all.batch_key, all.batch, train.micro_batch, train.grad_accum, world, each * world));
    return {};
  }
  const std::int64_t known = world * (has_micro   ? train.micro_batch
                                      : has_steps ? train.grad_accum
                                                  : 1);
  if (all.batch % known != 0)
    return fail_at(all.batch_place, "{} {} is no multiple of {}{}", all.batch_key, all.batch,
                   has_micro   ? fmt::format("{} samples on each of ", train.micro_batch)
                   : has_steps ? fmt::format("{} micro-batches on each of ", train.grad_accum)
                               : "",
                   fmt::format("{} ranks", world));
  const std::string_view key = has_micro ? "train.grad_accum" : "train.micro_batch";
  const Status set = find_workload_key(key)->set(workload, {all.batch / known, false});
  if (!set)
    return fail_at(all.batch_place, "{} {}: {}: {}", all.batch_key, all.batch, key,
                   set.error().message);
  return {};
}

Status resolve_workload(Workload& workload, const ModelConfig& model) {
  if (const Status resolved = resolve_cluster(workload); !resolved) return resolved;
  constexpr std::int64_t kLongestDefault = 8'192;
  if (workload.train.seq_len == 0)
    workload.train.seq_len = std::min(model.max_positions, kLongestDefault);
  resolve_auto_sizes(workload.zero, model.hidden);
  resolve_deepcompile(workload);
  resolve_sdpa(workload, model);
  if (const Status resolved = resolve_sinks(workload, model); !resolved) return resolved;
  // DDP's mixed precision, and what gathers fp32.
  const bool is_mixed = workload.train.compute != DType::f32;
  const Parallel& parallel = workload.parallel;
  workload.train.autocast =
      is_mixed && ((is_whole(parallel.strategy) && workload.train.master == DType::f32) ||
                   ((parallel.strategy == Strategy::fsdp1 || parallel.strategy == Strategy::fsdp2 ||
                     parallel.strategy == Strategy::deepcompile) &&
                    parallel.param_dtype == DType::f32));
  // States of the parameters' own dtype are those that torch.optim makes.
  StateType& states = workload.train.optimizer_state;
  const DType master = trained_type(workload.train);
  if ((states == StateType::f32 && master == DType::f32) ||
      (states == StateType::bf16 && master == DType::bf16))
    states = StateType::as_master;
  // Thunder is a compiler: there is no such schedule without its fused regions.
  const Strategy strategy = workload.parallel.strategy;
  if (strategy == Strategy::thunder_zero2 || strategy == Strategy::thunder_zero3)
    workload.train.compile = Compile::thunder;
  return {};
}

}  // namespace foregather::plan
