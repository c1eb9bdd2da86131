#include "core/plan/workload_toml.h"

#include <toml++/toml.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "core/base/file.h"
#include "core/base/toml_depth.h"
#include "core/plan/foreign_config.h"
#include "core/plan/key_values.h"
#include "core/plan/module_tree_toml.h"
#include "core/plan/workload_keys.h"
#include "core/plan/workload_needs.h"
#include "core/plan/workload_warnings.h"

namespace foregather::plan {
namespace {

constexpr std::string_view kTreeKey = "model.tree";
constexpr std::string_view kDeepSpeedKey = "parallel.deepspeed_config";
constexpr std::string_view kTorchtitanKey = "parallel.torchtitan_config";

struct Entry {
  toml::source_position at;  ///< of the key
  toml::source_position value_at;
  std::string name;  ///< dotted
  const toml::node* node;
};

std::string place(const std::string& path, const toml::source_position& at) {
  return fmt::format("{}:{}:{}", path, at.line, at.column);
}

Result<toml::table> parse(std::string_view text, const std::string& path) {
  if (const Status shallow = check_toml_depth(text, path); !shallow)
    return tl::unexpected(shallow.error());
  try {
    return toml::parse(text, std::string_view(path));
  } catch (const toml::parse_error& error) {
    return fail_at(place(path, error.source().begin), "{}", error.description());
  }
}

enum class Tool : std::uint8_t { foregather, deepspeed, torchtitan };

/// A workload, or the file of another tool.
struct Source {
  Tool tool = Tool::foregather;
  toml::table document;  ///< empty where it is another tool's
};

Result<Source> parse_source(std::string_view text, const std::string& path) {
  if (is_deepspeed_config(text)) return Source{Tool::deepspeed, {}};
  auto document = parse(text, path);
  if (!document) return tl::unexpected(document.error());
  // torchtitan's have no [train]: most workloads are parsed once.
  if (!document->contains("train") && is_torchtitan_config(text))
    return Source{Tool::torchtitan, {}};
  return Source{Tool::foregather, std::move(*document)};
}

// All leaves of the document, in the order of the file.
std::vector<Entry> leaves(const toml::table& document) {
  std::vector<Entry> entries;
  for (const auto& [key, node] : document) {
    const toml::table* section = node.as_table();
    if (section == nullptr) {
      entries.push_back({key.source().begin, node.source().begin, std::string(key.str()), &node});
      continue;
    }
    for (const auto& [inner, value] : *section)
      entries.push_back({inner.source().begin, value.source().begin,
                         std::string(key.str()) + "." + std::string(inner.str()), &value});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.at.line, a.at.column) < std::tie(b.at.line, b.at.column);
  });
  return entries;
}

std::string_view kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "an array";
    case toml::node_type::string: return "a text";
    case toml::node_type::integer:
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

Result<KeyValue> value_of(const toml::node& node, bool takes_list) {
  if (const auto flag = node.value_exact<bool>()) return KeyValue{*flag};
  if (const auto integer = node.value_exact<std::int64_t>()) return KeyValue{*integer};
  if (const auto real = node.value_exact<double>()) return KeyValue{*real};
  if (const auto text = node.value_exact<std::string>()) return KeyValue{*text};
  if (const toml::array* array = node.as_array(); array != nullptr && takes_list) {
    std::vector<std::string> list;
    for (const toml::node& each : *array) {
      const auto part = value_of(each, false);
      if (!part) return fail("has an entry that {}", part.error().message);
      const auto* text = std::get_if<std::string>(&part->content);
      list.push_back(text != nullptr ? *text : to_json(*part));
    }
    return KeyValue{std::move(list)};
  }
  return fail("is {}, expected a single value", kind_of(node));
}

// Sections are tables, and known.
Status check_sections(const toml::table& document, const std::string& path) {
  std::set<std::string_view> sections;
  for (const WorkloadKey& key : workload_keys())
    sections.insert(key.name.substr(0, key.name.find('.')));
  for (const auto& [key, node] : document) {
    const std::string at = place(path, key.source().begin);
    const bool is_known = sections.contains(key.str());
    if (is_known && node.is_array_of_tables())
      return fail_at(at, "[[{0}]] is a list of tables, expected one table: [{0}]", key.str());
    if (is_known && !node.is_table())
      return fail_at(at, "'{0}' is {1}, expected a table: [{0}]", key.str(), kind_of(node));
    // A section with keys is reported with its first key.
    if (const toml::table* section = node.as_table(); section != nullptr && section->empty())
      if (!is_known) return fail_at(at, "{}", unknown_key_message(key.str()));
  }
  return {};
}

void note(Workload& workload, const WorkloadKey& key, KeySource source) {
  workload.sources.insert_or_assign(std::string(key.name), std::move(source));
}

KeySource written_at(const Workload& workload, const Entry& entry) {
  return {KeySource::By::file, place(workload.path, entry.at),
          place(workload.path, entry.value_at)};
}

Status apply_entry(Workload& workload, const Entry& entry) {
  const WorkloadKey* key = find_workload_key(entry.name);
  if (key != nullptr && key->name == kTreeKey) {  // read already
    note(workload, *key, written_at(workload, entry));
    return {};
  }
  const auto value = value_of(*entry.node, key == nullptr || key->is_list);
  if (key == nullptr) {
    if (value && keep_model_key(workload, entry.name, *value, place(workload.path, entry.at)))
      return {};
    return fail_at(place(workload.path, entry.at), "{}", unknown_key_message(entry.name));
  }
  if (!value)
    return fail_at(place(workload.path, entry.value_at), "{} {}", entry.name,
                   value.error().message);
  const auto other = workload.sources.find(key->name);
  if (other != workload.sources.end() && other->second.by == KeySource::By::file)
    return fail_at(place(workload.path, entry.at),
                   "{}: the same key is at {}, expected one of the two", entry.name,
                   other->second.place);
  note(workload, *key, written_at(workload, entry));
  if (const Status set = key->set(workload, *value); !set)
    return fail_at(place(workload.path, entry.value_at), "{}: {}", entry.name, set.error().message);
  return {};
}

// "KEY=VALUE", cut to a readable length.
std::string shown_set(const std::string& text) {
  constexpr std::size_t kLongest = 120;
  return "--set " + (text.size() > kLongest ? text.substr(0, kLongest) + "…" : text);
}

Status apply_set(Workload& workload, const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return fail_at(shown_set(text), "expected KEY=VALUE, for example train.micro_batch=2");
  const std::string name = text.substr(0, equals);
  const WorkloadKey* key = find_workload_key(name);
  const KeyValue value{text.substr(equals + 1), true};
  if (key == nullptr) {
    if (keep_model_key(workload, name, value, "--set " + name)) return {};
    return fail_at(shown_set(name), "{}", unknown_key_message(name));
  }
  note(workload, *key, {KeySource::By::command_line, shown_set(text), "--set " + name});
  if (const Status set = key->set(workload, value); !set)
    return fail_at("--set " + name, "{}", set.error().message);
  return {};
}

// Defaults that depend on which keys were given.
void fill_dependent_defaults(Workload& workload) {
  Parallel& parallel = workload.parallel;
  const bool mixed = workload.train.master != workload.train.compute;
  if (!workload.is_set("parallel.param_dtype")) parallel.param_dtype = workload.train.compute;
  // DeepSpeed's communication_data_type and Thunder's gradients: what is computed in.
  const bool is_torch = is_whole(parallel.strategy) || parallel.strategy == Strategy::fsdp1 ||
                        parallel.strategy == Strategy::fsdp2;
  if (!workload.is_set("parallel.reduce_dtype"))
    parallel.reduce_dtype = mixed && is_torch ? DType::f32 : workload.train.compute;
  // DistributedDataParallel: the small first bucket belongs to the default bucket_cap_mb alone.
  if (workload.is_set("parallel.bucket_bytes") && !workload.is_set("parallel.first_bucket_bytes"))
    parallel.first_bucket_bytes = parallel.bucket_bytes;
  // peft/utils/constants.py: what LoRA adapts in Llama if nothing is said.
  Trainable& trainable = workload.train.trainable;
  if (trainable.kind == Trainable::Kind::lora && trainable.targets.empty())
    trainable.targets = {"q_proj", "v_proj"};
  // Dynamo takes FSDP1 with use_orig_params alone.
  if (trainable.kind == Trainable::Kind::lora && workload.train.compile == Compile::none &&
      !workload.is_set("parallel.use_orig_params"))
    parallel.use_orig_params = false;
  if (!workload.is_set("train.lora_fp32"))
    trainable.wide_adapters = trainable.kind == Trainable::Kind::lora;
  trainable.wide_adapters = trainable.wide_adapters && kOwnDtype.holds(workload) &&
                            (set_of(parallel.strategy) & kPeft) != 0;
  if (is_whole(parallel.strategy) && !workload.is_set("parallel.reduce_dtype"))
    parallel.reduce_dtype = trained_type(workload.train);
  parallel.reentrant_checkpoints = parallel.reentrant_checkpoints &&
                                   parallel.strategy == Strategy::fsdp1 &&
                                   kRecomputedUnits.holds(workload);
  if (!workload.is_set("cluster.gpus_per_node")) workload.cluster.gpus_per_node = 0;
}

// Keys of which one would be read and the other would not.
Status check_alternatives(const Workload& workload) {
  if (workload.is_own("parallel.deepspeed_config") && workload.is_own("parallel.torchtitan_config"))
    return fail_at(
        workload.place_of({"parallel.torchtitan_config", "parallel.deepspeed_config"}),
        "parallel.deepspeed_config and parallel.torchtitan_config are both set, expected one");
  if (workload.tree) {
    if (!workload.model_keys.empty())
      return fail_at(workload.model_keys.front().place,
                     "model.{} is a key of a config.json, but model.tree is the whole model",
                     workload.model_keys.front().name);
    for (const std::string_view other : {"model.config", "model.towers", "model.layers"})
      if (workload.is_own(other))
        return fail_at(workload.place_of({"model.tree", other}),
                       "model.tree and {} are both set, expected one", other);
  }
  if (workload.towers.empty()) return {};
  if (workload.is_own("model.config"))
    return fail_at(workload.place_of({"model.towers", "model.config"}),
                   "model.config and model.towers are both set, expected one");
  if (!workload.model_keys.empty())
    return fail_at(workload.model_keys.front().place,
                   "model.{} stands for a key of one config.json, but model.towers names several: "
                   "expected it in the tower's file",
                   workload.model_keys.front().name);
  return {};
}

// What the document and the command line say, the latter over the former.
Status apply_own(Workload& workload, const toml::table& document,
                 const std::vector<std::string>& sets) {
  if (Status known = check_sections(document, workload.path); !known) return known;
  for (const Entry& entry : leaves(document))
    if (Status applied = apply_entry(workload, entry); !applied) return applied;
  for (const std::string& set : sets)
    if (Status applied = apply_set(workload, set); !applied) return applied;
  return {};
}

bool is_of_ddp(std::string_view key) {
  return key == "train.no_sync" || key == "parallel.bucket_bytes" ||
         key == "parallel.gradient_as_bucket_view";
}

// The keys of another tool's file. Its model counts where `own` names none, and what is DDP's where
// `own` names no other strategy.
Status apply_foreign(Workload& workload, const ForeignConfig& config, const Workload& own) {
  const bool has_model =
      own.tree || !own.model_config.empty() || !own.towers.empty() || !own.model_keys.empty();
  for (const ForeignKey& foreign : config.keys) {
    if (has_model && foreign.name.starts_with("model.")) continue;
    if (is_of_ddp(foreign.name) && own.is_own("parallel.strategy") &&
        own.parallel.strategy != Strategy::ddp)
      continue;
    const WorkloadKey* key = find_workload_key(foreign.name);
    if (key == nullptr) {
      if (!keep_model_key(workload, foreign.name, foreign.value, foreign.place))
        return fail_at(foreign.place, "{}", unknown_key_message(foreign.name));
      continue;
    }
    note(workload, *key, {KeySource::By::other_tool, foreign.place, foreign.place});
    if (const Status set = key->set(workload, foreign.value); !set)
      return fail_at(foreign.place, "{}: {}", foreign.name, set.error().message);
  }
  if (config.of_all_ranks.batch != 0 || config.of_all_ranks.replicas != 0)
    workload.of_all_ranks = config.of_all_ranks;
  if (!config.ignored.empty())
    workload.warnings.push_back(fmt::format("{}: ignored: {}", config.path,
                                            fmt::format("{}", fmt::join(config.ignored, ", "))));
  return {};
}

Result<ForeignConfig> read_foreign(const Workload& workload, std::string_view key,
                                   const std::string& path) {
  const auto text = read_file(path, kWorkloadFileLimit);
  if (!text) return tl::unexpected(workload.of_named_file(key, path, text.error()));
  return key == kDeepSpeedKey ? read_deepspeed_config(*text, path)
                              : read_torchtitan_config(*text, path);
}

}  // namespace

Result<Workload> parse_workload(std::string_view text, const std::string& path,
                                const std::vector<std::string>& sets) {
  const auto source = parse_source(text, path);
  if (!source) return tl::unexpected(source.error());
  std::vector<Result<ForeignConfig>> foreign;
  if (source->tool == Tool::deepspeed) foreign.push_back(read_deepspeed_config(text, path));
  if (source->tool == Tool::torchtitan) foreign.push_back(read_torchtitan_config(text, path));

  std::shared_ptr<const ModuleTree> tree;
  if (source->document.at_path(kTreeKey).node() != nullptr) {
    auto read = read_tree(text, path);
    if (!read) return tl::unexpected(read.error());
    tree = std::make_shared<const ModuleTree>(std::move(*read));
  }
  Workload own;
  own.path = path;
  own.tree = std::move(tree);
  if (const Status applied = apply_own(own, source->document, sets); !applied)
    return tl::unexpected(applied.error());
  if (!own.deepspeed_config.empty())
    foreign.push_back(read_foreign(own, kDeepSpeedKey, own.deepspeed_config));
  if (!own.torchtitan_config.empty())
    foreign.push_back(read_foreign(own, kTorchtitanKey, own.torchtitan_config));
  Workload workload;
  if (foreign.empty()) {
    workload = std::move(own);
  } else {
    workload.path = path;
    workload.tree = own.tree;
    for (const Result<ForeignConfig>& config : foreign) {
      if (!config) return tl::unexpected(config.error());
      if (const Status applied = apply_foreign(workload, *config, own); !applied)
        return tl::unexpected(applied.error());
    }
    if (const Status applied = apply_own(workload, source->document, sets); !applied)
      return tl::unexpected(applied.error());
  }

  if (const Status chosen = check_alternatives(workload); !chosen)
    return tl::unexpected(chosen.error());
  if (!workload.tree && workload.model_config.empty() && workload.towers.empty() &&
      workload.model_keys.empty())
    return fail_at(path, "model.config is missing: it names the model's config.json{}",
                   foreign.empty() ? "" : "; set it, the other tool's file names no known model");
  fill_dependent_defaults(workload);
  if (const Status resolved = resolve_cluster(workload); !resolved)
    return tl::unexpected(resolved.error());
  if (const Status shared = share_batch(workload); !shared) return tl::unexpected(shared.error());
  for (std::string& warning : workload_warnings(workload))
    workload.warnings.push_back(std::move(warning));
  return workload;
}

Result<Workload> parse_own_keys(std::string_view text, const std::string& path,
                                const std::vector<std::string>& sets) {
  const auto source = parse_source(text, path);
  if (!source) return tl::unexpected(source.error());
  Workload own;
  own.path = path;
  if (const Status applied = apply_own(own, source->document, sets); !applied)
    return tl::unexpected(applied.error());
  return own;
}

Result<std::map<std::string, std::string>> written_keys(std::string_view text,
                                                        const std::string& path) {
  const auto source = parse_source(text, path);
  if (!source) return tl::unexpected(source.error());
  std::map<std::string, std::string> keys;
  for (const Entry& entry : leaves(source->document)) {
    const auto value = value_of(*entry.node, false);
    if (!value) continue;
    const auto* content = std::get_if<std::string>(&value->content);
    keys[entry.name] = content != nullptr ? *content : written(*value);
  }
  return keys;
}

Result<Workload> machine_of_sets(const std::vector<std::string>& sets) {
  static const std::set<std::string_view> kOpen = {
      "cluster.hardware",    "cluster.topology",      "cluster.fabric",
      "cluster.fabric_gbps", "cluster.gpus_per_node", "cluster.link_bandwidth_scale",
      "cluster.contention",  "train.attention",       "train.attention_speed",
      "allocator.conf"};
  Workload workload;
  for (const std::string& set : sets) {
    if (const Status applied = apply_set(workload, set); !applied)
      return tl::unexpected(applied.error());
    for (const auto& [key, source] : workload.sources)
      if (!kOpen.contains(key))
        return fail_at(source.place,
                       "the source is a ready schedule; only {} can "
                       "be set",
                       fmt::join(kOpen, ", "));
  }
  if (workload.train.attention == Attention::eager)
    return fail_at(workload.place_of({"train.attention"}),
                   "the source is a ready schedule, whose attention is there: expected sdpa, flash "
                   "or cudnn, the kernels that price it");
  return workload;
}

Result<Workload> read_workload(const std::string& path, const std::vector<std::string>& sets) {
  const auto text = read_file(path, kWorkloadFileLimit);
  if (!text) return tl::unexpected(text.error());
  return parse_workload(*text, path, sets);
}

}  // namespace foregather::plan
