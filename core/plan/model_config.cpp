#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "core/plan/config_file.h"
#include "core/plan/model.h"
#include "core/plan/model_composites.h"
#include "core/plan/model_families.h"
#include "core/plan/model_left_out.h"
#include "core/plan/model_unread.h"
#include "core/plan/model_windows.h"
#include "core/plan/module_tree.h"

namespace foregather::plan {

namespace {

using Activation = ModelConfig::Activation;

std::optional<std::int64_t> if_positive(std::int64_t value) {
  return value > 0 ? std::optional(value) : std::nullopt;
}

struct NamedActivation {
  std::string_view name;
  Activation activation;
};

// transformers/activations.py; gelu_pytorch_tanh and gelu_python are one kernel each here.
constexpr NamedActivation kActivations[] = {
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"gelu", Activation::gelu},
    {"gelu_pytorch_tanh", Activation::gelu},
    {"gelu_new", Activation::gelu_new},
    {"gelu_fast", Activation::gelu_new},
    {"quick_gelu", Activation::quick_gelu},
    {"relu", Activation::relu},
    {"relu2", Activation::relu2},
};

void read_activation(const ConfigFile& file, const Family& family, ModelConfig& c) {
  const std::string_view key = family.keys.activation;
  if (key.empty()) return;
  const std::string name = file.text(key, family.defaults.activation);
  std::string known;
  for (const NamedActivation& row : kActivations) {
    if (row.name == name) {
      c.activation = row.activation;
      return;
    }
    known += (known.empty() ? "\"" : ", \"") + std::string(row.name) + "\"";
  }
  const std::string label = file.label(key);
  file.complain(label.substr(label.rfind('.') + 1),
                fmt::format("'{}' is {}, expected one of {}", label, shown_text(name), known));
}

// The key under which a document has it, for complaints.
std::string_view last_part(const std::string& label) {
  return std::string_view(label).substr(label.rfind('.') + 1);
}

void read_sizes(const ConfigFile& file, const Family& family, ModelConfig& c) {
  const FamilyKeys& keys = family.keys;
  const FamilyDefaults& defaults = family.defaults;
  // A section of a larger config may leave out what the configuration class has defaults for.
  const auto required = [&](std::int64_t usual) {
    return file.is_section() ? if_positive(usual) : std::nullopt;
  };
  c.hidden = file.size(keys.hidden, kLargestSize, required(defaults.hidden));
  c.layers = file.size(keys.layers, kMostLayers, required(defaults.layers));
  c.heads = file.size(keys.heads, kLargestSize, required(defaults.heads));
  c.kv_heads = c.heads;
  if (!keys.kv_heads.empty()) {
    const bool as_heads = file.has_null(keys.kv_heads) || defaults.kv_heads == 0;
    c.kv_heads = file.size(keys.kv_heads, kLargestSize, as_heads ? c.heads : defaults.kv_heads);
  }
  if (!keys.vocab.empty()) c.vocab = file.size(keys.vocab, kLargestSize, required(defaults.vocab));
  if (!keys.positions.empty())
    c.max_positions = file.size(keys.positions, kLargestSize, defaults.positions);
  const std::int64_t derived = defaults.times_hidden * c.hidden;
  c.intermediate = file.size(keys.intermediate, 4 * kLargestSize,
                             derived > 0 ? derived : required(defaults.intermediate));
}

void read_head_dim(const ConfigFile& file, const Family& family, ModelConfig& c) {
  const bool may_differ = !family.keys.kv_heads.empty();
  const bool given = may_differ && (file.has("head_dim") || family.defaults.head_dim > 0);
  const std::string heads = file.label(family.keys.heads);
  if (!given && c.latent.kv_rank == 0 && c.hidden % c.heads != 0)
    file.complain(last_part(heads),
                  fmt::format("'{}' = {} does not divide '{}' = {}, expected a divisor{}", heads,
                              c.heads, file.label(family.keys.hidden), c.hidden,
                              may_differ ? " or a 'head_dim'" : ""));
  const std::int64_t usual = family.defaults.head_dim > 0
                                 ? family.defaults.head_dim
                                 : std::max<std::int64_t>(c.hidden / c.heads, 1);
  c.head_dim = may_differ ? file.size("head_dim", kLargestSize, usual) : usual;
}

void read_dropouts(const ConfigFile& file, const Family& family, ModelConfig& c) {
  const auto rate = [&](std::string_view key) {
    return key.empty() ? 0.0 : file.rate(key, family.defaults.dropout);
  };
  c.attention_dropout = rate(family.keys.attention_dropout);
  c.residual_dropout = rate(family.keys.residual_dropout);
  c.embedding_dropout = rate(family.keys.embedding_dropout);
}

void check_heads(const ConfigFile& file, const Family& family, const ModelConfig& c) {
  const std::string heads = file.label(family.keys.heads);
  if (c.heads % c.kv_heads != 0) {
    std::string key = "n_head_kv";
    if (!family.keys.kv_heads.empty()) key = family.keys.kv_heads;
    if (file.has("num_kv_heads")) key = "num_kv_heads";
    file.complain(file.has(key) ? key : last_part(heads),
                  fmt::format("'{}' = {} does not divide '{}' = {}, expected a divisor",
                              file.label(key), c.kv_heads, heads, c.heads));
  }
  const bool rotates_all =
      c.positions == ModelConfig::Positions::rotary && c.rotary_dim == 0 && c.latent.kv_rank == 0;
  if (rotates_all && c.head_dim % 2 != 0)
    file.complain(file.has("head_dim") ? "head_dim" : last_part(heads),
                  fmt::format("the head dimension is {}, expected an even one: the rotary "
                              "embedding turns pairs",
                              c.head_dim));
}

/// In floating point: the exact count may not fit in 64 bits.
double rough_parameters(const ModelConfig& c) {
  const double hidden = static_cast<double>(c.hidden);
  const double heads = static_cast<double>(2 * (c.heads + c.kv_heads));
  const double width = static_cast<double>(c.head_dim + c.latent.plain_dim + c.latent.value_dim +
                                           c.latent.rotary_dim);
  const double ranks = static_cast<double>(c.latent.query_rank + c.latent.kv_rank);
  const double experts = static_cast<double>(c.experts.count);
  const double block = (hidden + ranks) * heads * width +
                       3 * hidden *
                           (static_cast<double>(c.intermediate + c.experts.shared) +
                            experts * static_cast<double>(c.experts.intermediate));
  const double image = static_cast<double>(c.image.patch) * static_cast<double>(c.image.patch) *
                           static_cast<double>(c.image.channels) +
                       static_cast<double>(c.image.table_rows);
  return block * static_cast<double>(c.layers) +
         hidden * (static_cast<double>(2 * c.vocab + c.max_positions + c.token_types) + image);
}

Result<ModelConfig> read_document(const ConfigFile& file) {
  ModelConfig config = read_tower(file);
  if (file.error()) return tl::unexpected(*file.error());
  return config;
}

}  // namespace

bool ModelConfig::has_experts(std::int64_t layer) const {
  if (experts.count == 0 || layer < experts.first_layer) return false;
  if ((layer + 1) % experts.every != 0) return false;
  return std::find(experts.dense_layers.begin(), experts.dense_layers.end(), layer) ==
         experts.dense_layers.end();
}

bool ModelConfig::has_positions(std::int64_t layer) const {
  return std::find(unrotated.begin(), unrotated.end(), layer) == unrotated.end();
}

bool ModelConfig::has_window(std::int64_t layer) const {
  return window > 0 && (windowed.empty() || std::ranges::find(windowed, layer) != windowed.end());
}

ModelConfig read_tower(const ConfigFile& file) {
  const NamedFamily named = find_family(file);
  if (named.family == nullptr) return {};
  if (named.family->compose == nullptr) return read_as(file, named);
  ModelConfig config = named.family->compose(file);
  config.model_type = named.model_type;
  read_left_out(file, config);
  return config;
}

ModelConfig read_as(const ConfigFile& file, const NamedFamily& named) {
  const Family& family = *named.family;
  ModelConfig c = family.shape;
  c.model_type = named.model_type;
  read_sizes(file, family, c);
  if (file.error()) return c;
  // DeepSeek's heads have sizes of their own.
  if (c.family != ModelConfig::Family::deepseek) read_head_dim(file, family, c);
  if (!family.keys.vocab.empty())
    c.tied_embeddings = file.flag("tie_word_embeddings", c.tied_embeddings);
  read_activation(file, family, c);
  read_dropouts(file, family, c);
  check_unread(file);
  if (family.details != nullptr) family.details(file, named.architecture, c);
  read_left_out(file, c);
  read_window(file, c);
  if (file.error()) return c;
  check_heads(file, family, c);
  if (c.is_vision()) c.max_positions = c.image.tokens();
  if (rough_parameters(c) > kMostParameters)
    file.complain(last_part(file.label(family.keys.hidden)),
                  fmt::format("these sizes make a model of more than {} parameters, expected "
                              "smaller ones",
                              static_cast<std::int64_t>(kMostParameters)));
  return c;
}

Result<ModelConfig> read_model_config(const std::string& path) {
  const Result<ConfigFile> file = ConfigFile::read(path);
  if (!file) return tl::unexpected(file.error());
  return read_document(*file);
}

namespace {

Status set_layers(const Workload& workload, ModelConfig& config) {
  if (workload.layers != 0) config.layers = workload.layers;
  if (workload.tower_layers.empty()) return {};
  if (workload.tower_layers.size() != config.towers.size() + 1)
    return fail_at(workload.place_of({"model.layers"}),
                   "model.layers names {} towers, expected {}: the model has {}",
                   workload.tower_layers.size(), config.towers.size() + 1,
                   config.towers.size() + 1);
  for (std::size_t t = 0; t < config.towers.size(); ++t)
    config.towers[t].layers = workload.tower_layers[t];
  config.layers = workload.tower_layers.back();
  return {};
}

Result<ModelConfig> read_towers(const Workload& workload) {
  std::vector<ModelConfig> towers;
  for (const std::string& path : workload.towers) {
    Result<ModelConfig> tower = read_model_config(path);
    if (!tower) return tl::unexpected(workload.of_named_file("model.towers", path, tower.error()));
    const bool is_last = &path == &workload.towers.back();
    if (!tower->towers.empty() || (tower->is_vision() == is_last && workload.towers.size() > 1))
      return fail_at(path,
                     "is {}, but model.towers expects vision towers and then one language "
                     "model",
                     tower->model_type);
    towers.push_back(std::move(*tower));
  }
  ModelConfig language = std::move(towers.back());
  towers.pop_back();
  return join_towers(std::move(towers), std::move(language));
}

// Modules of a tree are single layers: there are no blocks to checkpoint or to compile.
Status check_tree_keys(const Workload& workload) {
  const Train& train = workload.train;
  const Parallel& parallel = workload.parallel;
  const auto refuse = [&](std::string_view key, std::string_view why) {
    return fail_at(workload.place_of({key}), "{} is set, but model.tree {}", key, why);
  };
  constexpr std::string_view kNoBlocks = "has no repeated blocks: leave it out";
  if (train.checkpointing != Checkpointing::none)
    return refuse("train.activation_checkpointing", kNoBlocks);
  if (train.compile != Compile::none) return refuse("train.compile", kNoBlocks);
  if (train.float8 != Float8::none) return refuse("train.float8", kNoBlocks);
  if (train.trainable.kind == Trainable::Kind::lora) return refuse("train.trainable", kNoBlocks);
  if (parallel.wrap == Wrap::block_embed_head || parallel.wrap == Wrap::leaf)
    return refuse("parallel.wrap", "says itself what is wrapped: leave it out, or set model");
  return {};
}

Result<ModelConfig> read_module_tree(const Workload& workload) {
  if (const Status keys = check_tree_keys(workload); !keys) return tl::unexpected(keys.error());
  const Train& train = workload.train;
  const Parallel& parallel = workload.parallel;
  auto plan = plan_tree(*workload.tree, {train.micro_batch, train.seq_len, workload.target_len});
  if (!plan) return tl::unexpected(plan.error());
  const bool is_fsdp1 = parallel.strategy == Strategy::fsdp1;
  const bool is_fsdp = is_fsdp1 || parallel.strategy == Strategy::fsdp2;
  if (is_fsdp && parallel.wrap != Wrap::model)
    if (const Status tied = check_tied_wraps(*plan); !tied) return tl::unexpected(tied.error());
  if (is_fsdp1 && parallel.wrap != Wrap::model && !plan->list_place.empty())
    return fail_at(plan->list_place,
                   "a unit of several modules, expected parallel.strategy = \"fsdp2\": FSDP1 wraps "
                   "modules one by one");
  ModelConfig config;
  config.family = ModelConfig::Family::tree;
  config.model_type = "module tree";
  config.layers = static_cast<std::int64_t>(plan->leaves.size());
  config.hidden = plan->in;
  config.max_positions = 1;
  config.causal = false;
  config.target_len = workload.target_len;
  config.tree_loss =
      workload.tree_loss.value_or(plan->takes_ids ? TreeLoss::cross_entropy : TreeLoss::sum);
  if (workload.is_set("train.attention"))
    config.left_out.push_back(fmt::format(
        "{}: train.attention has no effect: torch.nn.Transformer calls a fused attention",
        workload.place_of({"train.attention"})));
  const bool has_own_group = std::any_of(plan->wraps.begin(), plan->wraps.end(),
                                         [](const WrapMark& mark) { return mark.is_alone; });
  if (has_own_group && !(is_fsdp1 && parallel.wrap != Wrap::model))
    config.left_out.push_back(fmt::format(
        "{}: group_size has no effect: a module's own process group is simulated for FSDP1 with "
        "wrapped modules, here its parameters are the job's",
        workload.tree->place));
  config.tree = workload.tree;
  config.tree_plan = std::make_shared<const TreePlan>(std::move(*plan));
  return config;
}

Result<ModelConfig> read_config(const Workload& workload) {
  if (workload.tree) return read_module_tree(workload);
  if (!workload.towers.empty()) return read_towers(workload);
  if (workload.model_config.empty())
    return read_document(ConfigFile::of_keys(workload.path, workload.model_keys));
  const std::string& path = workload.model_config;
  Result<ConfigFile> file = ConfigFile::read(path);
  if (!file) return tl::unexpected(workload.of_named_file("model.config", path, file.error()));
  file->override_with(workload.model_keys);
  return read_document(*file);
}

}  // namespace

Result<ModelConfig> read_model(const Workload& workload) {
  Result<ModelConfig> config = read_config(workload);
  if (!config) return config;
  if (const Status set = set_layers(workload, *config); !set) return tl::unexpected(set.error());
  return config;
}

}  // namespace foregather::plan
