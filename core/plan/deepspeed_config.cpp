#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "core/plan/foreign_config.h"

namespace foregather::plan {

namespace {

using Json = nlohmann::json;

// Keys of zero_optimization that are keys of [parallel] by the same name.
constexpr std::string_view kSameName[] = {"stage3_prefetch_bucket_size",
                                          "stage3_param_persistence_threshold",
                                          "stage3_model_persistence_threshold",
                                          "stage3_max_live_parameters",
                                          "stage3_max_reuse_distance",
                                          "reduce_bucket_size",
                                          "sub_group_size",
                                          "zero_hpz_partition_size",
                                          "overlap_comm",
                                          "contiguous_gradients",
                                          "reduce_scatter",
                                          "use_multi_rank_bucket_allreduce"};

const std::map<std::string_view, std::string_view>& dtypes() {
  static const std::map<std::string_view, std::string_view> names{
      {"fp32", "fp32"}, {"float32", "fp32"},  {"float", "fp32"}, {"torch.float32", "fp32"},
      {"bf16", "bf16"}, {"bfloat16", "bf16"}, {"bfp16", "bf16"}, {"torch.bfloat16", "bf16"},
      {"fp16", "fp16"}, {"float16", "fp16"},  {"half", "fp16"},  {"torch.float16", "fp16"}};
  return names;
}

// Parameters of an optimizer that change no cost.
constexpr std::string_view kFreeParams[] = {"lr", "betas", "eps", "weight_decay", "adam_w_mode"};

class DeepSpeedReader {
 public:
  DeepSpeedReader(std::string_view text, const std::string& path) : text_(text) {
    config_.path = path;
  }

  Result<ForeignConfig> read() {
    if (const Status parsed = parse(); !parsed) return tl::unexpected(parsed.error());
    for (const auto& [key, value] : json_.items())
      if (!take(key, value)) config_.ignored.push_back(key);
    if (has_bf16_ && has_fp16_) {
      if (!is_auto_bf16_) complain("fp16.enabled", true, "false, as bf16 is enabled, too");
      has_bf16_ = false;
    }
    deepcompile();
    precision();
    if (!has_clipping_) give("train.clip_grad_norm", false, {});
    if (!has_zero_) choose("ddp", {});
    without_zero();
    world();
    // transformers' Trainer fills these in, and its models' norms are Python.
    const bool is_trainers = text_.find("\"auto\"") != std::string_view::npos;
    if (is_trainers && strategy_ != "deepcompile") give("train.fused_rms_norm", false, {});
    if (error_) return tl::unexpected(*error_);
    return std::move(config_);
  }

 private:
  Status parse() {
    try {
      constexpr bool kThrows = true, kComments = true;
      // DeepSpeed's own templates are Hjson: a comma may stand before a closing bracket.
      json_ = Json::parse(without_last_commas(text_), nullptr, kThrows, kComments);
    } catch (const Json::parse_error& error) {
      return fail_at(place_in_text(config_.path, text_, error.byte > 0 ? error.byte - 1 : 0),
                     "not valid JSON, expected a DeepSpeed configuration");
    } catch (const Json::exception&) {
      return fail_at(config_.path + ":1:1", "not valid JSON, expected a DeepSpeed configuration");
    }
    if (const Status unique = check_unique_keys(text_, config_.path); !unique) return unique;
    if (!json_.is_object())
      return fail_at(config_.path + ":1:1",
                     "a JSON {}, expected the object of a DeepSpeed configuration",
                     json_.type_name());
    return {};
  }

  // Of the last key of "a.b": each is searched behind the one before.
  std::string place(std::string_view path) const {
    std::size_t offset = 0;
    while (!path.empty()) {
      const std::size_t dot = std::min(path.find('.'), path.size());
      const std::string key = fmt::format("\"{}\"", path.substr(0, dot));
      for (auto found = text_.find(key, offset); found != std::string_view::npos;
           found = text_.find(key, found + 1)) {
        const auto next = text_.find_first_not_of(" \t\r\n", found + key.size());
        if (next == std::string_view::npos || text_[next] != ':') continue;  // a value
        offset = found;
        break;
      }
      path.remove_prefix(std::min(dot + 1, path.size()));
    }
    return place_in_text(config_.path, text_, offset);
  }

  void give(std::string_view name, KeyValue value, std::string_view from) {
    config_.keys.push_back({std::string(name), std::move(value), place(from)});
  }
  template <class Value>
  void give(std::string_view name, const Value& value, std::string_view from) {
    give(name, KeyValue{value, false}, from);
  }

  void complain(std::string_view key, const Json& value, std::string_view expected) {
    if (error_) return;
    // A nested value may be nested very deeply.
    std::string shown = value.is_structured()
                            ? fmt::format("a JSON {}", value.type_name())
                            : value.dump(-1, ' ', true, Json::error_handler_t::replace);
    constexpr std::size_t kLongest = 80;
    if (shown.size() > kLongest) shown = shown.substr(0, kLongest) + "…";
    error_ = fail_at(place(key), "{} is {}, expected {}", key, shown, expected).value();
  }

  static bool is_auto(const Json& value) { return value == "auto"; }

  // A number without a fraction, also written 5e8.
  std::optional<std::int64_t> whole(std::string_view key, const Json& value) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (value.is_number_unsigned() &&
        value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMost))
      return kMost;
    if (value.is_number_integer()) return value.get<std::int64_t>();
    constexpr double kLargest = 9e18;
    if (value.is_number_float()) {
      const double number = value.get<double>();
      if (number == std::floor(number) && std::fabs(number) < kLargest)
        return static_cast<std::int64_t>(number);
      // sys.maxsize and beyond
      if (number >= kLargest) return std::numeric_limits<std::int64_t>::max();
    }
    complain(key, value, "a whole number or \"auto\"");
    return std::nullopt;
  }

  bool take_size(std::string_view key, const Json& value, std::string_view name) {
    if (is_auto(value)) return true;
    if (const auto number = whole(key, value)) give(name, *number, key);
    return true;
  }

  bool take(const std::string& key, const Json& value) {
    if (key == "train_micro_batch_size_per_gpu") {
      if (!is_auto(value)) micro_batch_ = whole(key, value);
      return take_size(key, value, "train.micro_batch");
    }
    if (key == "gradient_accumulation_steps") {
      if (!is_auto(value)) accumulation_ = whole(key, value);
      return take_size(key, value, "train.grad_accum");
    }
    if (key == "train_batch_size") {
      if (!is_auto(value)) batch_ = whole(key, value);
      return true;
    }
    if (key == "gradient_clipping") {
      has_clipping_ = true;
      if (!is_auto(value) && !value.is_number()) complain(key, value, "a number or \"auto\"");
      give("train.clip_grad_norm", is_auto(value) || (value.is_number() && value.get<double>() > 0),
           key);
      return true;
    }
    if (key == "bf16" || key == "bfloat16") return take_enabled(key, value, has_bf16_);
    if (key == "fp16") return take_enabled(key, value, has_fp16_);
    if (key == "communication_data_type") return take_dtype(key, value, "parallel.reduce_dtype");
    if (key == "data_types") return take_data_types(value);
    if (key == "optimizer") return take_optimizer(value);
    if (key == "zero_optimization") return take_zero(value);
    if (key == "compile") return take_compile(value);
    if (key == "torch_autocast") return take_autocast(value);
    return false;
  }

  // DeepCompile: in the JSON's order of keys this comes before zero_optimization.
  bool take_compile(const Json& value) {
    if (!value.is_object()) return false;
    const auto flag = value.find("deepcompile");
    has_deepcompile_ = flag != value.end() && *flag == true;
    for (const auto& [inner, setting] : value.items()) {
      const std::string key = "compile." + inner;
      if (inner == "deepcompile") {
        if (!setting.is_boolean()) complain(key, setting, "true or false");
      } else if (has_deepcompile_ && (inner == "double_buffer" || inner == "symmetric_memory")) {
        if (!setting.is_boolean()) complain(key, setting, "true or false");
        if (setting.is_boolean()) give("parallel." + inner, setting.get<bool>(), key);
      } else if (!(setting.is_boolean() && setting == false)) {
        config_.ignored.push_back(key);
      }
    }
    return true;
  }

  bool take_autocast(const Json& value) {
    if (!value.is_object()) return false;
    const auto enabled = value.find("enabled");
    has_autocast_ = enabled != value.end() && *enabled == true;
    for (const auto& [inner, setting] : value.items()) {
      const std::string key = "torch_autocast." + inner;
      if (inner == "enabled") continue;
      const bool is_f16 = setting == "float16" || setting == "fp16";
      if (inner == "dtype")
        has_autocast_f16_ = is_f16;
      else
        config_.ignored.push_back(key);
    }
    return true;
  }

  bool take_enabled(const std::string& key, const Json& value, bool& enabled) {
    if (!value.is_object()) {
      complain(key, value, "an object with \"enabled\"");
      return true;
    }
    for (const auto& [inner, flag] : value.items()) {
      if (inner != "enabled") {
        config_.ignored.push_back(key + "." + inner);
        continue;
      }
      if (!flag.is_boolean() && !is_auto(flag))
        complain(key + ".enabled", flag, "true, false or \"auto\"");
      // Both are usually "auto" in one file: bf16 is what hardware of today trains in.
      enabled = flag == true || (is_auto(flag) && key != "fp16");
      if (key != "fp16") is_auto_bf16_ = is_auto(flag);
    }
    return true;
  }

  bool take_dtype(const std::string& key, const Json& value, std::string_view name) {
    if (value.is_null()) return true;
    const auto known =
        value.is_string() ? dtypes().find(value.get_ref<const std::string&>()) : dtypes().end();
    if (known == dtypes().end())
      complain(key, value, "fp32, bf16 or fp16");
    else
      give(name, std::string(known->second), key);
    return true;
  }

  bool take_data_types(const Json& value) {
    if (!value.is_object()) return false;
    for (const auto& [key, type] : value.items())
      if (key == "grad_accum_dtype")
        take_dtype("data_types." + key, type, "parallel.grad_accum_dtype");
      else
        config_.ignored.push_back("data_types." + key);
    return true;
  }

  bool take_optimizer(const Json& value) {
    if (!value.is_object()) {
      complain("optimizer", value, "an object");
      return true;
    }
    const Json none = Json::object();
    const auto found = value.find("params");
    const Json& params = found != value.end() && found->is_object() ? *found : none;
    for (const auto& [key, inner] : value.items()) {
      if (key == "params" && inner.is_object()) continue;
      if (key != "type") {
        config_.ignored.push_back("optimizer." + key);
        continue;
      }
      std::string name = inner.is_string() ? inner.get<std::string>() : "";
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      const bool is_adam = name == "adam" || name == "adamw";
      if (is_adam) {
        const bool torch = params.contains("torch_adam") && params["torch_adam"] == true;
        give("train.optimizer", std::string("adamw"), "optimizer.type");
        give("train.optimizer_impl", std::string(torch ? "foreach" : "fused"), "optimizer.type");
      } else if (name == "sgd") {
        give("train.optimizer", std::string("sgd"), "optimizer.type");
        take_momentum(params);
      } else {
        config_.ignored.emplace_back("optimizer.type");
      }
      for (const auto& [param, setting] : params.items())
        if (setting != false && param != (is_adam ? "torch_adam" : "momentum") &&
            std::ranges::find(kFreeParams, param) == std::end(kFreeParams))
          config_.ignored.push_back("optimizer.params." + param);
    }
    return true;
  }

  // torch.optim.SGD has none by default.
  void take_momentum(const Json& params) {
    constexpr std::string_view kKey = "optimizer.params.momentum";
    const auto momentum = params.find("momentum");
    if (momentum == params.end())
      give("train.momentum", 0.0, "optimizer.type");
    else if (momentum->is_number())
      give("train.momentum", momentum->get<double>(), kKey);
    else
      complain(kKey, *momentum, "a number");
  }

  bool take_zero(const Json& value) {
    has_zero_ = true;
    if (!value.is_object()) {
      complain("zero_optimization", value, "an object");
      return true;
    }
    const Json whole_model(0);
    const auto stage = value.find("stage");
    take_stage(stage != value.end() ? *stage : whole_model);
    for (const auto& [inner, setting] : value.items()) {
      const std::string key = "zero_optimization." + inner;
      if (inner == "stage") continue;
      const bool of_parameters = inner == "offload_param" || inner == "cpu_offload_param";
      if (of_parameters || inner == "offload_optimizer" || inner == "cpu_offload") {
        take_offload(key, setting, of_parameters ? offloads_parameters_ : offloads_optimizer_);
        continue;
      }
      if (std::find(std::begin(kSameName), std::end(kSameName), inner) == std::end(kSameName)) {
        config_.ignored.push_back(key);
        continue;
      }
      take_same_name(inner, key, setting);
    }
    if (offloads_optimizer_ || offloads_parameters_)
      give("parallel.offload",
           std::string(!offloads_parameters_ ? "optimizer"
                       : offloads_optimizer_ ? "all"
                                             : "parameters"),
           offload_key_);
    return true;
  }

  void take_same_name(const std::string& inner, const std::string& key, const Json& setting) {
    if (setting.is_null()) return;
    const std::string name = "parallel." + inner;
    if (setting.is_boolean())
      give(name, setting.get<bool>(), key);
    else if (is_auto(setting))
      give(name, std::string("auto"), key);
    else if (const auto number = whole(key, setting))
      give(name, *number, key);
  }

  void take_stage(const Json& stage) {
    constexpr std::string_view kStage = "zero_optimization.stage";
    if (stage == 3)
      choose(has_deepcompile_ ? "deepcompile" : "zero3", kStage);
    else if (stage == 2)
      choose("zero2", kStage);
    else if (stage == 0)
      choose("ddp", kStage);
    else
      complain(kStage, stage, "0, 2 or 3: stage 1 is not simulated");
  }

  void choose(std::string_view strategy, std::string_view from) {
    strategy_ = strategy;
    give("parallel.strategy", std::string(strategy), from);
  }

  // runtime/engine.py, allreduce_gradients: once a step, behind the backward, as DDP reduces one
  // bucket of all gradients. What else differs is named.
  void without_zero() {
    if (strategy_ != "ddp") return;
    constexpr std::int64_t kAll = std::int64_t{1} << 40;
    give("train.no_sync", true, {});
    give("parallel.bucket_bytes", kAll, {});
    give("parallel.gradient_as_bucket_view", true, {});  // it copies 2 GB at a time
    const std::string computed = has_bf16_ ? "bf16" : has_fp16_ ? "fp16" : "fp32";
    const std::string reduced = take_back("parallel.reduce_dtype").value_or(computed);
    if (reduced != "fp32")
      config_.ignored.push_back(
          fmt::format("{}reduction in {} (predicted in fp32)",
                      reduced == computed ? "" : "communication_data_type: ", reduced));
    if (take_back("parallel.grad_accum_dtype").value_or("fp32") != "fp32")
      config_.ignored.emplace_back("data_types.grad_accum_dtype (predicted as fp32)");
    if (has_bf16_)
      config_.ignored.emplace_back(
          "BF16_Optimizer: bf16 parameters, sharded states and their gather (predicted: fp32 "
          "parameters under autocast, whole states)");
    else if (has_fp16_)
      config_.ignored.emplace_back(
          "FP16_Optimizer: fp16 parameters and gradients (predicted: fp32 ones under autocast)");
  }

  // What a key was given, and gives it no more.
  std::optional<std::string> take_back(std::string_view name) {
    std::optional<std::string> text;
    std::erase_if(config_.keys, [&](const ForeignKey& key) {
      if (key.name == name) text = std::get<std::string>(key.value.content);
      return key.name == name;
    });
    return text;
  }

  // What follows from keys of several tables.
  void deepcompile() {
    const bool is_used = strategy_ == "deepcompile";
    if (has_deepcompile_ && !is_used)
      config_.ignored.push_back("compile.deepcompile (only ZeRO-3 is simulated with it)");
    if (has_autocast_ && !is_used) config_.ignored.push_back("torch_autocast.enabled");
    // The engine of bf16 and fp16 stores what it gathers; autocast casts fp32 parameters.
    if (is_used && (has_bf16_ || has_fp16_))
      give("parallel.param_dtype", std::string(has_bf16_ ? "bf16" : "fp16"),
           has_bf16_ ? "bf16" : "fp16");
    autocasts_ = is_used && has_autocast_ && !has_bf16_ && !has_fp16_;
  }

  // Earlier versions had true or false, as "cpu_offload" and "cpu_offload_param".
  void take_offload(const std::string& key, const Json& value, bool& offloads) {
    if (value.is_null()) return;
    const bool is_old = key.find(".cpu_") != std::string::npos;
    if (is_old ? !value.is_boolean() : !value.is_object())
      return complain(key, value, is_old ? "true or false" : "an object");
    offload_key_ = key;
    if (is_old) {
      offloads = offloads || value.get<bool>();
      return;
    }
    for (const auto& [inner, setting] : value.items()) {
      if (inner != "device") {
        config_.ignored.push_back(key + "." + inner);
        continue;
      }
      if (setting != "cpu" && setting != "nvme" && setting != "none")
        complain(key + ".device", setting, "cpu, nvme or none");
      offloads = setting == "cpu" || setting == "nvme";
      if (setting == "nvme") config_.ignored.push_back(key + ".device nvme (simulated as cpu)");
    }
  }

  void precision() {
    const char* name = has_bf16_ ? "bf16-mixed" : has_fp16_ ? "fp16-mixed" : "fp32";
    if (autocasts_)
      return give("train.precision", std::string(has_autocast_f16_ ? "fp16-mixed" : "bf16-mixed"),
                  "torch_autocast");
    give("train.precision", std::string(name), has_bf16_ ? "bf16" : has_fp16_ ? "fp16" : "");
  }

  void world() {
    if (!batch_) return;
    if (*batch_ < 1) return complain("train_batch_size", *batch_, "a positive whole number");
    config_.of_all_ranks.batch = *batch_;
    config_.of_all_ranks.batch_key = "train_batch_size";
    config_.of_all_ranks.batch_place = place("train_batch_size");
    if (!micro_batch_ || !accumulation_ || *micro_batch_ < 1 || *accumulation_ < 1) return;
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    if (*micro_batch_ > kMost || *accumulation_ > kMost) return;
    const std::int64_t each = *micro_batch_ * *accumulation_;
    if (*batch_ % each == 0)
      give("parallel.world_size", *batch_ / each, "train_batch_size");
    else
      complain("train_batch_size", *batch_,
               fmt::format("a multiple of micro-batch {} × accumulation {}", *micro_batch_,
                           *accumulation_));
  }

  std::string_view text_;
  Json json_;
  ForeignConfig config_;
  std::optional<Error> error_;
  std::string_view strategy_;
  bool is_auto_bf16_ = false;
  bool has_bf16_ = false, has_fp16_ = false, has_clipping_ = false, has_zero_ = false;
  bool has_deepcompile_ = false, has_autocast_ = false, has_autocast_f16_ = false;
  bool autocasts_ = false;
  bool offloads_optimizer_ = false, offloads_parameters_ = false;
  std::string offload_key_;  ///< the last of these
  std::optional<std::int64_t> micro_batch_, accumulation_, batch_;
};

}  // namespace

bool is_deepspeed_config(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return false;
  for (const std::string_view key :
       {"\"zero_optimization\"", "\"train_micro_batch_size_per_gpu\"", "\"train_batch_size\""})
    if (text.find(key) != std::string_view::npos) return true;
  return false;
}

Result<ForeignConfig> read_deepspeed_config(std::string_view text, const std::string& path) {
  return DeepSpeedReader(text, path).read();
}

}  // namespace foregather::plan
