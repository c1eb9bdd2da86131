#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/plan/build_families.h"
#include "core/plan/model.h"
#include "core/plan/model_parameters.h"

namespace foregather::plan {

namespace {

std::int64_t elements_of(const ParameterShapes& list, bool ties_known) {
  std::int64_t count = 0;
  for (const ParameterShape& parameter : list) {
    if (ties_known && !parameter.tie.empty()) continue;
    std::int64_t elements = 1;
    for (const std::int64_t extent : parameter.shape) elements = times(elements, extent);
    count += elements;
  }
  return count;
}

std::int64_t count_in(const Model& model) {
  std::int64_t count = 0;
  std::vector<std::string> ties;
  for (const Module& module : model.modules) {
    for (const Parameter& parameter : model.tapes[module.tape].parameters) {
      if (!parameter.tie.empty()) {
        if (std::find(ties.begin(), ties.end(), parameter.tie) != ties.end()) continue;
        ties.push_back(parameter.tie);
      }
      count += parameter.elements;
    }
  }
  return count;
}

}  // namespace

std::int64_t weight_flops(std::int64_t parameters, const LayerContext& context) {
  return times(times(6, parameters), context.tokens);
}

std::int64_t attention_flops(const LayerContext& context) {
  const ModelConfig& c = context.config;
  return times(times(times(12, c.heads * c.head_dim), context.positions), context.tokens);
}

std::int64_t count_parameters(const ModelConfig& c) {
  std::int64_t count = elements_of(embedding_parameters(c), false) +
                       elements_of(head_parameters(c), c.tied_embeddings) +
                       elements_of(projector_parameters(c), false);
  std::int64_t with_experts = 0;
  for (std::int64_t layer = 0; layer < c.layers; ++layer) with_experts += c.has_experts(layer);
  const auto block = [&](bool experts) {
    for (std::int64_t layer = 0; layer < c.layers; ++layer)
      if (c.has_experts(layer) == experts) return elements_of(block_parameters(c, layer), false);
    return std::int64_t{0};
  };
  count += with_experts * block(true) + (c.layers - with_experts) * block(false);
  for (const ModelConfig& tower : c.towers) count += count_parameters(tower);
  return count;
}

Status check_model_size(const ModelConfig& c, const Train& train) {
  if (c.family == ModelConfig::Family::gpt2 && train.seq_len > c.max_positions)
    return fail(
        "train.seq_len = {} but the model has {} learned positions (n_positions), expected at most "
        "as many",
        train.seq_len, c.max_positions);
  // In floating point, where nothing overflows; the bounds leave room for sums.
  constexpr double kMostFlops = 4e18;
  constexpr double kMostBytes = 7e16;
  const double tokens = static_cast<double>(train.micro_batch) * static_cast<double>(train.seq_len);
  const double positions = static_cast<double>(train.seq_len);
  const double heads = static_cast<double>(c.heads);
  const double flops =
      8.0 * tokens * static_cast<double>(count_parameters(c)) +
      16.0 * static_cast<double>(c.layers * c.head_dim) * heads * positions * tokens;
  const double widest = static_cast<double>(std::max({c.vocab, 4 * c.intermediate, 4 * c.hidden}));
  const double scores = train.attention == Attention::eager ? heads * positions : 0.0;
  const double bytes = 4.0 * tokens * std::max(widest, scores);
  if (flops * static_cast<double>(train.grad_accum) < kMostFlops && bytes < kMostBytes) return {};
  return fail(
      "train.micro_batch = {} of train.seq_len = {} is more work than can be counted (10^18 FLOPs "
      "a "
      "step), expected a smaller batch",
      train.micro_batch, train.seq_len);
}

Model build_model(const ModelConfig& config, const Train& train,
                  const Implementation& implementation) {
  const LayerContext context{config,         train,
                             implementation, train.micro_batch,
                             train.seq_len,  times(train.micro_batch, train.seq_len)};
  const bool is_gpt2 = config.family == ModelConfig::Family::gpt2;
  FamilyTapes tapes = is_gpt2 ? gpt2_tapes(context) : llama_tapes(context);
  Model model;
  model.name = config.model_type;
  model.tapes = {std::move(tapes.embedding), std::move(tapes.block), std::move(tapes.head)};
  const std::string root = is_gpt2 ? "transformer" : "model";
  const std::string block = root + (is_gpt2 ? ".h." : ".layers.");
  model.modules.push_back({root, 0, false});
  for (std::int64_t i = 0; i < config.layers; ++i)
    model.modules.push_back({block + std::to_string(i), 1, true});
  model.modules.push_back({"", 2, false});
  model.parameters = count_in(model);
  model.tokens = context.tokens;
  return model;
}

}  // namespace foregather::plan
