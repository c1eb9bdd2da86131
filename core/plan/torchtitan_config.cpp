#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "core/base/toml_depth.h"
#include "core/plan/foreign_config.h"

namespace foregather::plan {

namespace {

constexpr std::string_view kTitanSections[] = {"training", "parallelism", "activation_checkpoint",
                                               "lr_scheduler", "job"};

/// torchtitan/models/llama3/__init__.py; the feed-forward size follows from its multipliers.
struct Flavor {
  std::string_view name;
  std::int64_t hidden, layers, heads, intermediate;
};
constexpr std::array kLlama3{Flavor{"8B", 4096, 32, 32, 14336}, Flavor{"70B", 8192, 80, 64, 28672},
                             Flavor{"405B", 16384, 126, 128, 53248}};

// torchtitan/config/job_config.py, and config_manager.py before it
constexpr std::int64_t kLocalBatch = 8, kSequence = 2048;

// apply_ddp: replicate(model, bucket_cap_mb=100)
constexpr std::int64_t kDdpBucket = 100 << 20;

class TorchtitanReader {
 public:
  explicit TorchtitanReader(const std::string& path) { config_.path = path; }

  Result<ForeignConfig> read(const toml::table& document) {
    give("parallel.strategy", std::string("fsdp2"), nullptr);
    give("train.precision", std::string("bf16-mixed"), nullptr);
    give("train.optimizer_impl", std::string("fused"), nullptr);
    give("train.micro_batch", kLocalBatch, nullptr);
    give("train.seq_len", kSequence, nullptr);
    if (!document.contains("activation_checkpoint")) checkpointing({});
    for (const auto& [section, node] : document) {
      const toml::table* table = node.as_table();
      if (table == nullptr || !has_effect(section.str())) {
        config_.ignored.emplace_back(section.str());
        continue;
      }
      if (section.str() == "model") {
        model(*table);
        continue;
      }
      if (section.str() == "activation_checkpoint") {
        checkpointing(*table);
        continue;
      }
      if (section.str() == "compile") {
        compile(*table);
        continue;
      }
      if (section.str() == "float8" || section.str() == "quantize") {
        float8(std::string(section.str()), *table);
        continue;
      }
      for (const auto& [key, value] : *table) {
        const std::string name = std::string(section.str()) + "." + std::string(key.str());
        if (!take(name, value)) config_.ignored.push_back(name);
      }
    }
    degrees();
    linears();
    stored();
    if (early_stop_) give("train.early_stop", *early_stop_, nullptr);
    if (error_) return tl::unexpected(*error_);
    return std::move(config_);
  }

 private:
  static bool has_effect(std::string_view section) {
    return section == "model" || section == "training" || section == "parallelism" ||
           section == "experimental" || section == "activation_checkpoint" ||
           section == "optimizer" || section == "compile" || section == "float8" ||
           section == "quantize";
  }

  std::string place(const toml::node* node) const {
    if (node == nullptr) return config_.path;
    return fmt::format("{}:{}:{}", config_.path, node->source().begin.line,
                       node->source().begin.column);
  }

  template <class Value>
  void give(std::string_view name, const Value& value, const toml::node* node) {
    config_.keys.push_back({std::string(name), KeyValue{value, false}, place(node)});
  }

  void complain(std::string_view name, const toml::node& node, std::string_view expected) {
    if (!error_) error_ = fail_at(place(&node), "{} is not {}", name, expected).value();
  }

  std::optional<std::int64_t> whole(std::string_view name, const toml::node& node) {
    const auto number = node.value_exact<std::int64_t>();
    if (!number) complain(name, node, "a whole number");
    return number;
  }

  std::string text(std::string_view name, const toml::node& node) {
    const auto value = node.value_exact<std::string>();
    if (!value) complain(name, node, "a text");
    return value.value_or("");
  }

  bool flag(std::string_view name, const toml::node& node) {
    const auto value = node.value_exact<bool>();
    if (!value) complain(name, node, "true or false");
    return value.value_or(false);
  }

  bool take(const std::string& name, const toml::node& node) {
    if (name == "training.local_batch_size" || name == "training.batch_size") {
      if (const auto size = whole(name, node)) give("train.micro_batch", *size, &node);
      return true;
    }
    if (name == "training.global_batch_size") {
      const auto size = whole(name, node);
      if (!size || *size == -1) return true;  // one micro-batch a step
      if (*size < 1) complain(name, node, "1 or more, or -1");
      config_.of_all_ranks.batch = std::max<std::int64_t>(*size, 0);
      config_.of_all_ranks.batch_key = "global_batch_size";
      config_.of_all_ranks.batch_place = place(&node);
      return true;
    }
    if (name == "training.dtype") {
      const std::string type = text(name, node);
      if (type == "bfloat16") stored_ = &node;
      return type == "float32" || type == "bfloat16";
    }
    if (name == "training.seq_len") {
      if (const auto size = whole(name, node)) give("train.seq_len", *size, &node);
      return true;
    }
    if (name == "training.gradient_accumulation_steps") {
      if (const auto steps = whole(name, node)) give("train.grad_accum", *steps, &node);
      return true;
    }
    if (name == "training.max_norm") {
      const auto norm = node.value<double>();
      if (!norm) complain(name, node, "a number");
      give("train.clip_grad_norm", norm.value_or(0) > 0, &node);
      return true;
    }
    if (name == "training.mixed_precision_param") {
      const std::string type = text(name, node);
      give("train.precision", std::string(type == "float32" ? "fp32" : "bf16-mixed"), &node);
      return type == "float32" || type == "bfloat16";
    }
    if (name == "training.mixed_precision_reduce") {
      const std::string type = text(name, node);
      give("parallel.reduce_dtype", std::string(type == "bfloat16" ? "bf16" : "fp32"), &node);
      return type == "float32" || type == "bfloat16";
    }
    if (name == "training.enable_cpu_offload") {
      if (flag(name, node)) give("parallel.offload", std::string("all"), &node);
      return true;
    }
    if (name == "training.compile") {
      if (flag(name, node)) give("train.compile", std::string("per-block"), &node);
      return true;
    }
    if (name == "optimizer.name") {
      const std::string optimizer = text(name, node);
      if (optimizer != "AdamW" && optimizer != "Adam") return false;
      give("train.optimizer", std::string("adamw"), &node);
      return true;
    }
    if (name == "optimizer.implementation") {
      const std::string how = text(name, node);
      if (how != "fused" && how != "foreach" && how != "for-loop") return false;
      give("train.optimizer_impl", how, &node);
      return true;
    }
    if (name == "optimizer.fused") {  // in 2024
      give("train.optimizer_impl", std::string(flag(name, node) ? "fused" : "foreach"), &node);
      return true;
    }
    return take_parallelism(name, node);
  }

  // Of [parallelism]; in 2024 of [training] and [experimental], at first with one degree of data
  // parallelism.
  bool take_parallelism(const std::string& name, const toml::node& node) {
    if (name.starts_with("optimizer.")) return false;
    const std::string_view key = std::string_view(name).substr(name.find('.') + 1);
    if (key == "data_parallel_shard_degree" || key == "data_parallel_degree") {
      shard_ = whole(name, node);
      shard_node_ = &node;
      return true;
    }
    if (key == "data_parallel_replicate_degree") {
      replicate_ = whole(name, node);
      replicate_node_ = &node;
      return true;
    }
    if (key == "fsdp_reshard_after_forward") {
      const std::string policy = text(name, node);
      if (policy == "default") return true;
      if (policy != "always" && policy != "never") return false;
      give("parallel.reshard_after_forward", policy == "always", &node);
      return true;
    }
    // One of each kind is none at all.
    if (key.ends_with("_degree")) {
      const std::int64_t degree = whole(name, node).value_or(1);
      if (degree != 1)
        config_.ignored.push_back(fmt::format(
            "{} = {} (not predicted: the step is that of data parallelism alone)", name, degree));
      return true;
    }
    return false;
  }

  // torchtitan applies these to FSDP alone.
  void drop_what_shards() {
    for (const std::string_view key :
         {"parallel.reduce_dtype", "parallel.offload", "parallel.reshard_after_forward"})
      if (std::erase_if(config_.keys, [&](const ForeignKey& known) { return known.name == key; }) >
          0)
        config_.ignored.push_back(fmt::format("what {} stands for (nothing is sharded)", key));
    std::erase_if(config_.keys,
                  [](const ForeignKey& known) { return known.name == "parallel.wrap"; });
    if (std::exchange(gathers_float8_, false))
      config_.ignored.emplace_back("enable_fsdp_float8_all_gather (nothing is sharded)");
  }

  // Too many are refused by the key.
  static std::int64_t whole_world(std::int64_t shard, std::int64_t replicas) {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    return std::min(shard, kMost) * std::min(replicas, kMost);
  }

  // torchtitan/distributed/parallel_dims.py: −1 shards over all ranks that the replicas leave;
  // replicas that shard nothing are DDP.
  void degrees() {
    const std::int64_t replicas = replicate_.value_or(1);
    const std::int64_t shard = shard_.value_or(-1);
    if (replicas < 1) complain("data_parallel_replicate_degree", *replicate_node_, "1 or more");
    if (shard == 0 || shard < -1)
      complain("data_parallel_shard_degree", *shard_node_, "1 or more, or -1");
    if (error_) return;
    if (replicas > 1 && shard == 1) {
      give("parallel.strategy", std::string("ddp"), replicate_node_);
      give("parallel.world_size", replicas, replicate_node_);
      give("parallel.bucket_bytes", kDdpBucket, replicate_node_);
      drop_what_shards();
    } else if (shard > 0) {
      give("parallel.shard_size", shard, shard_node_);
      give("parallel.world_size", whole_world(shard, replicas), shard_node_);
    } else if (replicas > 1) {
      config_.of_all_ranks.replicas = replicas;
      config_.of_all_ranks.replicas_place = place(replicate_node_);
    }
  }

  void checkpointing(const toml::table& table) {
    std::string mode = "selective", option = "2";
    const toml::node* at = nullptr;
    for (const auto& [key, node] : table) {
      const std::string name = "activation_checkpoint." + std::string(key.str());
      if (key.str() == "mode") {
        mode = text(name, node);
        at = &node;
      } else if (key.str() == "selective_ac_option") {
        option = text(name, node);
      } else if (key.str() == "early_stop") {
        early_stop_ = flag(name, node);
      } else {
        config_.ignored.push_back(name);
      }
    }
    if (mode == "selective" && option != "op") mode += ":" + option;
    if (mode == "memory_budget") {
      config_.ignored.emplace_back("activation_checkpoint.mode: memory_budget");
      return;
    }
    give("train.activation_checkpointing", mode, at);
  }

  // The model's blocks are compiled one by one, the loss by itself. Files have the table since pull
  // request 1608 (August 2025), which came after 1094: that wraps the embedding, norm and head.
  // Since 0.2 (October 2025) checkpoints do not stop early unless they are told to.
  void compile(const toml::table& table) {
    give("parallel.wrap", std::string("block_embed_head"), &table);
    if (!early_stop_) early_stop_ = false;
    bool enabled = false, blocks = true, loss = true;
    const toml::node* at = nullptr;
    for (const auto& [key, node] : table) {
      const std::string name = "compile." + std::string(key.str());
      if (key.str() == "enable") {
        enabled = flag(name, node);
        at = &node;
      } else if (key.str() == "components") {
        blocks = lists(name, node, "model");
        loss = lists(name, node, "loss");
      } else {
        config_.ignored.push_back(name);
      }
    }
    if (!enabled) return;
    if (blocks) give("train.compile", std::string("per-block"), at);
    if (loss) give("train.compile_loss", true, at);
  }

  bool lists(std::string_view name, const toml::node& node, std::string_view what) {
    const toml::array* array = node.as_array();
    if (array == nullptr) {
      complain(name, node, "a list of texts");
      return false;
    }
    for (const toml::node& element : *array)
      if (element.value_or(std::string_view()) == what) return true;
    return false;
  }

  // [float8] until 2025, then [quantize.linear.float8].
  void float8(const std::string& path, const toml::table& table) {
    const bool is_linear = path == "float8" || path == "quantize.linear.float8";
    for (const auto& [key, node] : table) {
      const std::string name = path + "." + std::string(key.str());
      const toml::table* inner = node.as_table();
      if (inner != nullptr && (name == "quantize.linear" || name == "quantize.linear.float8"))
        float8(name, *inner);
      else if (!is_linear || !take_float8(key.str(), name, node))
        config_.ignored.push_back(name);
    }
  }

  bool take_float8(std::string_view key, const std::string& name, const toml::node& node) {
    if (key == "enable_float8_linear") {
      if (flag(name, node) && converter_ == nullptr) converter_ = &node;
      return true;
    }
    if (key == "enable_fsdp_float8_all_gather") {
      gathers_float8_ = flag(name, node);
      return true;
    }
    if (key == "recipe_name") {
      recipe_ = text(name, node);
      return recipe_.empty() || recipe_ == "tensorwise" || recipe_ == "rowwise";
    }
    // PyTorch 2.8 and later do so by themselves.
    if (key == "force_recompute_float8_weight_in_bwd") return flag(name, node);
    return key == "precompute_float8_dynamic_scale_for_fsdp" && !flag(name, node);
  }

  // The recipes gather in high precision but for tensorwise.
  void linears() {
    if (converter_ == nullptr) return;
    const bool is_rowwise = recipe_.starts_with("rowwise");
    give("train.float8", std::string(is_rowwise ? "rowwise" : "tensorwise"), converter_);
    if (gathers_float8_ && !is_rowwise) give("train.float8_all_gather", true, converter_);
  }

  // Parameters of 16 bits are reduced in fp32 unless the file says otherwise, as others are.
  void stored() {
    if (stored_ == nullptr) return;
    const auto is_given = [&](std::string_view key) {
      return std::ranges::any_of(config_.keys,
                                 [&](const ForeignKey& known) { return known.name == key; });
    };
    const bool is_sharded = !is_given("parallel.bucket_bytes");
    if (is_sharded && !is_given("parallel.reduce_dtype"))
      give("parallel.reduce_dtype", std::string("fp32"), stored_);
    give("train.precision", std::string("bf16"), stored_);
  }

  void model(const toml::table& table) {
    const std::string name = table["name"].value_or(std::string());
    const std::string flavor = table["flavor"].value_or(std::string());
    const Flavor* known = nullptr;
    for (const Flavor& candidate : kLlama3)
      if (name == "llama3" && flavor == candidate.name) known = &candidate;
    for (const auto& [key, node] : table) {
      const std::string path = "model." + std::string(key.str());
      if (key.str() == "converters") {
        if (lists(path, node, "float8") || lists(path, node, "quantize.linear.float8"))
          converter_ = &node;
        const toml::array* all = node.as_array();
        if (all != nullptr && all->size() > (converter_ == &node ? 1U : 0U))
          config_.ignored.push_back(path);
      } else if (known == nullptr || (key.str() != "name" && key.str() != "flavor")) {
        config_.ignored.push_back(path);
      }
    }
    if (known == nullptr) return;
    const toml::node* at = table.get("flavor");
    constexpr std::int64_t kVocabulary = 128'256, kKeyValueHeads = 8, kPositions = 131'072;
    give("model.model_type", std::string("llama"), at);
    give("train.complex_rotary", true, at);
    give("train.loss_in_call", false, at);
    give("model.hidden_size", known->hidden, at);
    give("model.num_hidden_layers", known->layers, at);
    give("model.num_attention_heads", known->heads, at);
    give("model.num_key_value_heads", kKeyValueHeads, at);
    give("model.intermediate_size", known->intermediate, at);
    give("model.vocab_size", kVocabulary, at);
    give("model.max_position_embeddings", kPositions, at);
    give("model.tie_word_embeddings", false, at);
  }

  ForeignConfig config_;
  std::optional<Error> error_;
  std::optional<std::int64_t> shard_, replicate_;
  const toml::node* shard_node_ = nullptr;
  const toml::node* replicate_node_ = nullptr;
  const toml::node* converter_ = nullptr;  // to float8 linears
  const toml::node* stored_ = nullptr;     // says that parameters are stored in 16 bits
  bool gathers_float8_ = false;
  std::optional<bool> early_stop_;
  std::string recipe_;
};

bool has_torchtitan_table(const toml::table& document) {
  return std::any_of(
      std::begin(kTitanSections), std::end(kTitanSections),
      [&](std::string_view section) { return document.get_as<toml::table>(section) != nullptr; });
}

}  // namespace

bool is_torchtitan_config(std::string_view text) {
  if (!check_toml_depth(text, {})) return false;
  try {
    const toml::table document = toml::parse(text);
    return has_torchtitan_table(document) && !document.contains("train");
  } catch (const toml::parse_error&) {
    return false;
  }
}

Result<ForeignConfig> read_torchtitan_config(std::string_view text, const std::string& path) {
  if (const Status shallow = check_toml_depth(text, path); !shallow)
    return tl::unexpected(shallow.error());
  try {
    const toml::table document = toml::parse(text, std::string_view(path));
    if (!has_torchtitan_table(document))
      return fail_at(path, "is no torchtitan configuration, expected one of the tables {}",
                     fmt::join(kTitanSections, ", "));
    return TorchtitanReader(path).read(document);
  } catch (const toml::parse_error& error) {
    return fail_at(
        fmt::format("{}:{}:{}", path, error.source().begin.line, error.source().begin.column), "{}",
        std::string(error.description()));
  }
}

}  // namespace foregather::plan
