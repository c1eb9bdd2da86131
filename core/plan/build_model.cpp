#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "core/plan/build_families.h"
#include "core/plan/build_loss.h"
#include "core/plan/build_tree.h"
#include "core/plan/compile_tape.h"
#include "core/plan/fsdp1_unit.h"
#include "core/plan/model.h"
#include "core/plan/model_names.h"
#include "core/plan/model_parameters.h"
#include "core/plan/module_tree.h"
#include "core/plan/trainable.h"

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

std::vector<std::string> trained_ties(const Model& model) {
  std::vector<std::string> ties;
  for (const Tape& tape : model.tapes)
    for (const Parameter& parameter : tape.parameters)
      if (parameter.trainable && !parameter.tie.empty()) ties.push_back(tie_as_name(parameter.tie));
  return ties;
}

// A graph of all of the model has no op whose result nobody reads.
void drop_idle_ops(Model& model) {
  for (Tape& tape : model.tapes)
    if (tape.is_idle) tape.forward.clear();
}

bool has_backward(const TapeBuilder& tape, const LayerContext& context) {
  return context.input_needs_gradient || tape.trained_elements() > 0;
}

}  // namespace

std::int64_t weight_flops(const TapeBuilder& tape, const LayerContext& context,
                          const IdleWeights& idle) {
  const std::int64_t trained = tape.trained_elements();
  const std::int64_t frozen = tape.parameter_elements() - trained;
  const bool back = has_backward(tape, context);
  const std::int64_t all = 6 * (trained - idle.trained) + (back ? 4 : 2) * (frozen - idle.frozen);
  return times(all - (back ? 2 * tape.without_input_gradient() : 0), context.tokens);
}

std::int64_t attention_flops(const TapeBuilder& tape, const LayerContext& context) {
  const ModelConfig& c = context.config;
  const std::int64_t width = c.heads * (c.query_dim() + c.value_dim());
  const std::int64_t passes = has_backward(tape, context) ? 6 : 2;
  return times(times(times(passes, width), context.positions), context.tokens);
}

std::int64_t count_parameters(const ModelConfig& c) {
  if (c.tree_plan) return c.tree_plan->parameters;
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

namespace {

// In floating point, where nothing overflows; the bounds leave room for sums.
constexpr double kMostFlops = 4e18;
constexpr double kMostTraffic = 7e16;

Status check_work(double flops, double bytes, const Train& train) {
  const bool is_countable = flops < kMostFlops && bytes < kMostTraffic;
  if (is_countable && flops * static_cast<double>(train.grad_accum) < kMostFlops) return {};
  if (is_countable)
    return fail_at(
        "train.grad_accum",
        "train.grad_accum = {} times train.micro_batch = {} of train.seq_len = {} is more "
        "work than can be counted (4·10^18 FLOPs or 7·10^16 bytes), expected fewer "
        "micro-batches",
        train.grad_accum, train.micro_batch, train.seq_len);
  return fail_at("train.micro_batch",
                 "train.micro_batch = {} of train.seq_len = {} is more work than can be counted "
                 "(4·10^18 FLOPs or 7·10^16 bytes), expected a smaller batch",
                 train.micro_batch, train.seq_len);
}

}  // namespace

Status check_model_size(const ModelConfig& c, const Train& train) {
  if (c.tree_plan)
    return check_work(4 * c.tree_plan->matmul_flops + 100 * c.tree_plan->widest,
                      8 * c.tree_plan->widest, train);
  const bool is_learned =
      c.positions == ModelConfig::Positions::learned || c.family == ModelConfig::Family::gpt2;
  if (is_learned && !c.is_vision() && train.seq_len > c.max_positions)
    return fail_at("train.seq_len",
                   "train.seq_len = {} but the model has {} learned positions{}, expected at most "
                   "as many",
                   train.seq_len, c.max_positions,
                   c.family == ModelConfig::Family::gpt2 ? " (n_positions)" : "");
  for (const ModelConfig& tower : c.towers) {
    const std::int64_t patches = tower.image.tokens() - tower.image.dropped;
    if (train.seq_len <= patches)
      return fail_at("train.seq_len",
                     "train.seq_len = {} counts the {} patches of an image, expected more",
                     train.seq_len, patches);
    const ModelConfig& first = c.towers.front();
    if (patches != first.image.tokens() - first.image.dropped)
      return fail_at("model.towers",
                     "the vision towers make {} and {} patches, expected as many of each",
                     first.image.tokens() - first.image.dropped, patches);
  }
  std::int64_t longest = train.seq_len;
  for (const ModelConfig& tower : c.towers) longest = std::max(longest, tower.image.tokens());
  if (c.is_vision()) longest = c.image.tokens();
  const double tokens = static_cast<double>(train.micro_batch) * static_cast<double>(longest);
  const double positions = static_cast<double>(longest);
  const double heads = static_cast<double>(c.heads);
  const double flops = 8.0 * tokens * static_cast<double>(count_parameters(c)) +
                       16.0 *
                           static_cast<double>(c.layers * std::max(c.query_dim(), c.value_dim())) *
                           heads * positions * tokens;
  const std::int64_t experts = c.experts.take_all ? c.experts.count : c.experts.active;
  const double widest = static_cast<double>(
      std::max({c.vocab, 4 * c.intermediate, 4 * c.hidden, 2 * experts * c.experts.intermediate,
                c.experts.take_all ? experts * c.hidden : 0,
                c.image.channels * c.image.patch * c.image.patch}));
  const double scores = train.attention == Attention::eager ? heads * positions : 0.0;
  const double bytes = 4.0 * tokens * std::max(widest, scores);
  return check_work(flops, bytes, train);
}

namespace {

/// The chain of modules under construction.
class ModelBuilder {
 public:
  ModelBuilder(const ModelConfig& config, const TrainOfModules& train,
               const Implementation& implementation)
      : config_(config), train_of_(train), train_(train[0]), implementation_(implementation) {}

  Model build() {
    model_.name = config_.model_type;
    if (config_.is_vision()) {
      vision_tower(config_, 0);
      add("", vision_head_tape(image_context(config_)));
      model_.tokens = image_context(config_).tokens;
    } else {
      towers();
      language();
      model_.tokens = text_context().tokens;
    }
    compile();
    model_.parameters = count_in(model_);
    return std::move(model_);
  }

 private:
  LayerContext context_of(const ModelConfig& config, std::int64_t positions,
                          std::string path) const {
    const Train& train = train_of_[model_.modules.size()];
    LayerContext context{config, train, implementation_, 0, 0, 0, true, false, {}};
    context.sequences = train_.micro_batch;
    context.positions = positions;
    context.tokens = times(train_.micro_batch, positions);
    context.input_needs_gradient = needs_gradient_;
    context.path = std::move(path);
    return context;
  }
  LayerContext text_context(std::string path = {}) const {
    return context_of(config_, train_.seq_len, std::move(path));
  }
  LayerContext image_context(const ModelConfig& tower, std::string path = {}) const {
    return context_of(tower, tower.image.tokens(), std::move(path));
  }

  void compile() {
    const bool is_whole = train_.compile == Compile::full || train_.compile == Compile::thunder;
    const bool ends_before_loss = train_.compile == Compile::full && !train_.loss_in_call;
    if (train_.compile_loss && (!is_whole || ends_before_loss))
      for (Tape& tape : model_.tapes) compile_scope(tape, kLossScope);
    if (train_.compile == Compile::none) return;
    if (is_whole) drop_idle_ops(model_);
    const Partition partition =
        train_.compile == Compile::thunder ? Partition::thunder : Partition::min_cut;
    std::vector<bool> is_block(model_.tapes.size(), false);
    for (const Module& module : model_.modules)
      if (module.is_block) is_block[module.tape] = true;
    for (std::size_t i = 0; i < model_.tapes.size(); ++i)
      if (ends_before_loss)
        compile_rest(model_.tapes[i], kLossScope);
      else if (is_whole || is_block[i])
        compile_tape(model_.tapes[i], partition);
  }

  std::uint32_t add_tape(Tape tape) {
    needs_gradient_ = tape.has_output_grad;
    model_.tapes.push_back(std::move(tape));
    return static_cast<std::uint32_t>(model_.tapes.size() - 1);
  }
  void add(std::string path, Tape tape) {
    model_.modules.push_back({std::move(path), add_tape(std::move(tape)), false});
  }

  // Blocks of one kind share a tape; the first one may have no gradient to hand on.
  void blocks(const ModelConfig& config, const std::string& path, std::int64_t positions,
              std::int64_t count) {
    std::array<std::optional<std::uint32_t>, 16> known;
    ModelConfig unrotated = config;
    unrotated.positions = ModelConfig::Positions::none;
    for (std::int64_t i = 0; i < count; ++i) {
      const bool experts = config.has_experts(i);
      const bool rotates = config.has_positions(i);
      const bool windowed = config.has_window(i);
      std::optional<std::uint32_t>& tape = known[(windowed ? 8 : 0) + (rotates ? 0 : 4) +
                                                 (experts ? 2 : 0) + (needs_gradient_ ? 1 : 0)];
      LayerContext context = context_of(rotates ? config : unrotated, positions, path);
      context.windowed = windowed;
      if (!tape)
        tape = add_tape(config.family == ModelConfig::Family::gpt2 ? gpt2_block_tape(context)
                                                                   : block_tape(context, experts));
      needs_gradient_ = model_.tapes[*tape].has_output_grad;
      model_.modules.push_back({path + std::to_string(i), *tape, true});
    }
  }

  void vision_tower(const ModelConfig& tower, std::int64_t features_before) {
    const ModelNames& names = names_of(tower.family);
    std::string root(names.root);
    if (!config_.is_vision()) root = "vision_tower_" + std::to_string(++towers_);
    add(root, image_embedding_tape(image_context(tower, root), features_before));
    const std::string list = root + "." + std::string(names.blocks) + ".";
    const std::int64_t idle = std::min(tower.image.idle_blocks, tower.layers);
    blocks(tower, list, tower.image.tokens(), tower.layers - idle);
    for (std::int64_t i = tower.layers - idle; i < tower.layers; ++i) {
      add(list + std::to_string(i), idle_block_tape(image_context(tower, list)));
      model_.modules.back().is_block = true;
    }
    if (!config_.is_vision()) add(root + ".features", vision_features_tape(image_context(tower)));
  }

  void towers() {
    std::int64_t before = 0;
    for (const ModelConfig& tower : config_.towers) {
      vision_tower(tower, before);
      patches_ = train_.micro_batch * (tower.image.tokens() - tower.image.dropped);
      last_features_ = patches_ * tower.hidden;
      before += last_features_;
    }
    if (config_.towers.empty()) return;
    add("projector", projector_tape(text_context("projector"), patches_, before - last_features_));
  }

  void language() {
    const bool is_gpt2 = config_.family == ModelConfig::Family::gpt2;
    const ModelNames& names = names_of(config_.family);
    const std::string root = is_gpt2 ? "transformer" : std::string(names.root);
    const std::string list = is_gpt2 ? "h" : std::string(names.blocks);
    if (!config_.towers.empty())
      add(root, joined_embedding_tape(text_context(root), patches_));
    else
      add(root,
          is_gpt2 ? gpt2_embedding_tape(text_context(root)) : embedding_tape(text_context(root)));
    blocks(config_, root + "." + list + ".", train_.seq_len, config_.layers);
    add("", is_gpt2 ? gpt2_head_tape(text_context()) : head_tape(text_context()));
  }

  const ModelConfig& config_;
  const TrainOfModules& train_of_;
  const Train& train_;  // of what does not depend on the module
  const Implementation& implementation_;
  Model model_;
  bool needs_gradient_ = false;  // of the next module's input
  int towers_ = 0;
  std::int64_t patches_ = 0;
  std::int64_t last_features_ = 0;
};

Model build_whole(const ModelConfig& config, const Train& train,
                  const Implementation& implementation, std::vector<bool> frozen_get_gradients) {
  Train as = train;
  // Left out: autocast's fp32 stream of vision towers.
  if (config.is_vision() || !config.towers.empty()) as.autocast = false;
  const auto build = [&] {
    const TrainOfModules modules(as, frozen_get_gradients);
    return config.tree_plan ? build_tree_model(config, modules, implementation)
                            : ModelBuilder(config, modules, implementation).build();
  };
  Model model = build();
  if (train.trainable.kind == Trainable::Kind::named) {
    const std::vector<std::string> ties = trained_ties(model);
    as.trainable.names.insert(as.trainable.names.end(), ties.begin(), ties.end());
    if (!ties.empty()) model = build();
  }
  if (config.tree_plan) model.parameters = count_in(model);
  for (const Module& module : model.modules) model.flops += model.tapes[module.tape].model_flops;
  model.workspace = implementation.workspace;
  return model;
}

}  // namespace

Model build_model(const ModelConfig& config, const Train& train,
                  const Implementation& implementation) {
  return build_whole(config, train, implementation, {});
}

Model build_model(const ModelConfig& config, const Workload& workload,
                  const Implementation& implementation) {
  const Train& train = workload.train;
  const Parallel& parallel = workload.parallel;
  Model model = build_model(config, train, implementation);
  if (parallel.strategy == Strategy::deepcompile) drop_idle_ops(model);
  if (parallel.strategy != Strategy::fsdp1 || train.trainable.kind == Trainable::Kind::all ||
      fsdp1_frozen_parts(parallel) != FrozenParts::mixed)
    return model;
  const ShardLayout layout = shard_layout(model, parallel.wrap, TiedUnits::at_root);
  const std::vector<bool> in_part = trained_in_part(model, layout);
  std::vector<bool> get_gradients;
  get_gradients.reserve(layout.unit_of_module.size());
  for (const std::uint32_t unit : layout.unit_of_module) get_gradients.push_back(in_part[unit]);
  if (std::ranges::find(get_gradients, true) == get_gradients.end()) return model;
  const std::int64_t flops = model.flops;
  model = build_whole(config, train, implementation, std::move(get_gradients));
  model.flops = flops;
  return model;
}

}  // namespace foregather::plan
