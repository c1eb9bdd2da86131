#include "core/plan/workload_warnings.h"

#include <algorithm>

#include "core/ir/graph.h"
#include "core/plan/model.h"
#include "core/plan/optimizer_step.h"
#include "core/plan/workload_keys.h"

namespace foregather::plan {
namespace {

std::string names_of(StrategySet strategies) {
  std::string names;
  for (std::size_t s = 0; s < strategy_names().size(); ++s)
    if ((strategies & set_of(static_cast<Strategy>(s))) != 0)
      names += (names.empty() ? "" : ", ") + std::string(strategy_names()[s]);
  return names;
}

std::string placed(const Workload& workload, const WorkloadKey& key) {
  return fmt::format("{}: {}", workload.place_of({key.name}), key.name);
}

bool is_of_strategy(const Workload& workload, const WorkloadKey& key) {
  return (key.strategies & set_of(workload.parallel.strategy)) != 0;
}

bool has_needs(const Workload& workload, const WorkloadKey& key) {
  return key.needs.holds == nullptr || key.needs.holds(workload);
}

}  // namespace

std::vector<std::string> workload_warnings(const Workload& workload) {
  std::vector<std::string> warnings;
  const Strategy strategy = workload.parallel.strategy;
  for (const WorkloadKey& key : workload_keys()) {
    if (!workload.is_own(key.name)) continue;
    if (!is_of_strategy(workload, key))
      warnings.push_back(fmt::format("{} has no effect with {}: it belongs to {}",
                                     placed(workload, key), name(strategy),
                                     names_of(key.strategies)));
    else if (!has_needs(workload, key))
      warnings.push_back(
          fmt::format("{} has no effect: it needs {}", placed(workload, key), key.needs.text));
  }
  const bool checks_overflow = strategy == Strategy::zero2 || strategy == Strategy::zero3;
  if (workload.train.compute == DType::f16 && !checks_overflow)
    warnings.push_back(
        fmt::format("{}: training in fp16 scales the loss: the scaler's pass over the gradients, "
                    "and the host's wait for it, are left out",
                    workload.place_of({"train.precision"})));
  if (workload.train.held_outputs == HeldOutputs::cache && strategy == Strategy::deepcompile)
    warnings.push_back(
        fmt::format("{}: DeepCompile writes one graph for all steps: that the variable keeps the "
                    "old outputs until the next call returns is left out, and peaks may be too low",
                    workload.place_of({"train.held_outputs"})));
  return warnings;
}

std::vector<std::string> model_key_warnings(const Workload& workload, const ModelConfig& model) {
  std::vector<std::string> warnings;
  for (const WorkloadKey& key : workload_keys()) {
    if (!workload.is_own(key.name) || key.models.holds == nullptr || key.models.holds(model))
      continue;
    if (is_of_strategy(workload, key) && has_needs(workload, key))
      warnings.push_back(
          fmt::format("{} has no effect: it needs {}", placed(workload, key), key.models.text));
  }
  const Train& train = workload.train;
  const bool is_first = train.checkpointing == Checkpointing::first_layers;
  const bool is_every = train.checkpointing == Checkpointing::selective_layers;
  const std::int64_t named = is_first   ? std::int64_t{train.checkpoint_first}
                             : is_every ? std::int64_t{train.checkpoint_every}
                                        : 0;
  if (model.causal && model.towers.empty() && named > model.layers)
    warnings.push_back(fmt::format("{}: {}{}, of {} blocks: {} checkpointed",
                                   workload.place_of({"train.activation_checkpointing"}),
                                   is_first ? "first:" : "selective:", named, model.layers,
                                   is_first ? "all are" : "none is"));
  const std::int64_t tokens = train.micro_batch * train.seq_len;
  if (tokens > 0 && train.loss_chunks > tokens && workload.is_own("train.loss_chunks"))
    warnings.push_back(fmt::format("{}: train.loss_chunks = {}, of {} tokens: each is a part",
                                   workload.place_of({"train.loss_chunks"}), train.loss_chunks,
                                   tokens));
  return warnings;
}

std::vector<std::string> state_warnings(const Workload& workload, const Graph& graph) {
  const Offload offload = workload.parallel.offload;
  const bool is_wanted = workload.train.optimizer == Optimizer::adamw &&
                         workload.train.optimizer_state == StateType::int8 &&
                         offload != Offload::optimizer && offload != Offload::all;
  const auto is_narrow = [&](const Tensor& tensor) {
    return tensor.dtype == DType::u8 && graph.at(tensor.storage).cause == Cause::optimizer_state;
  };
  if (!is_wanted || std::ranges::any_of(graph.tensors, is_narrow)) return {};
  return {fmt::format(
      "{}: train.optimizer_state = int8 has no effect: a tensor has int8 states "
      "if it is {} elements or more, and a multiple of {}, and no rank trains one",
      workload.place_of({"train.optimizer_state"}), kFewestOfBlockStates, kBlockOfStates)};
}

std::vector<std::string> padding_warnings(const Workload& workload, const ModelConfig& model) {
  const Parallel& parallel = workload.parallel;
  const std::int64_t count = model.experts.count;
  if (parallel.strategy != Strategy::fsdp2 || count == 0) return {};
  const std::int64_t ranks = parallel.shard_size > 0 ? parallel.shard_size : parallel.world_size;
  const std::int64_t padded = (count + ranks - 1) / ranks * ranks;
  if (2 * padded < 3 * count) return {};
  return {fmt::format(
      "{}: FSDP2 cuts dimension 0, so that {} ranks pad the {} experts that a layer stacks to {}: "
      "gathers and reductions move {:.3g} times their bytes. That torchtitan then cuts another "
      "dimension is not simulated",
      workload.place_of({"parallel.shard_size", "parallel.world_size"}), ranks, count, padded,
      static_cast<double>(padded) / static_cast<double>(count))};
}

}  // namespace foregather::plan
