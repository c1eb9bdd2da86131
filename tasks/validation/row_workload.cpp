#include "tasks/validation/row_workload.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/alloc/config.h"
#include "core/base/json_writer.h"
#include "core/base/text.h"
#include "core/plan/workload_keys.h"
#include "tasks/validation/row_machine.h"
#include "tasks/validation/row_model.h"
#include "tasks/validation/row_script.h"
#include "tasks/validation/row_text.h"
#include "tasks/validation/words.h"

namespace foregather::tasks {
namespace {

/// What a word of a column sets; several lines with one word set several keys.
struct Meaning {
  std::string_view word, key, value;
};

constexpr std::string_view kFused = "deepcompile_fused";

constexpr Meaning kStrategies[] = {
    {"single", "parallel.strategy", "single"},
    {"ddp", "parallel.strategy", "ddp"},
    {"fsdp1", "parallel.strategy", "fsdp1"},
    {"fsdp1_grad_op", "parallel.strategy", "fsdp1"},
    {"fsdp1_grad_op", "parallel.sharding", "shard_grad_op"},
    {"fsdp1_hybrid", "parallel.strategy", "fsdp1"},
    {"fsdp2", "parallel.strategy", "fsdp2"},
    {"fsdp2_hybrid", "parallel.strategy", "fsdp2"},
    {"fsdp2_never", "parallel.strategy", "fsdp2"},
    {"fsdp2_never", "parallel.reshard_after_forward", "false"},
    {"fsdp2_always", "parallel.strategy", "fsdp2"},
    {"fsdp2_always", "parallel.reshard_after_forward", "true"},
    {"simplefsdp", "parallel.strategy", "fsdp2"},
    // Flat parameters in two buffers that are used in turn: FSDP1 with one gather ahead.
    {"yafsdp", "parallel.strategy", "fsdp1"},
    {"yafsdp", "parallel.limit_all_gathers", "true"},
    {"zero2", "parallel.strategy", "zero2"},
    {"zero3", "parallel.strategy", "zero3"},
    // Measured over many steps: with the passes of the fifth step on.
    {"deepcompile", "parallel.strategy", "deepcompile"},
    {"deepcompile", "parallel.deepcompile_passes", "full"},
    {kFused, "parallel.strategy", "deepcompile"},
    {kFused, "parallel.deepcompile_passes", "full"},
    {"thunder_zero2", "parallel.strategy", "thunder_zero2"},
    {"thunder_zero3", "parallel.strategy", "thunder_zero3"},
};

// Of compute capability 9.0 and 10.0: PyTorch since 2.11 prefers cuDNN's attention there.
bool is_hopper_or_b200(std::string_view hardware) {
  return hardware.starts_with("h") || hardware.starts_with("gh") || hardware.starts_with("b200") ||
         hardware.starts_with("gb200");
}

constexpr Meaning kCompiles[] = {
    {"none", "", ""},
    {"unknown", "", ""},
    {"per_block", "train.compile", "per-block"},
    {"full", "train.compile", "full"},
    {"inductor_parts", "train.compile", "per-block"},
    {"thunder", "train.compile", "thunder"},
};

constexpr Meaning kComputes[] = {
    {"bf16", "", ""},
    {"fp16", "", ""},
    {"fp32", "", ""},
    {"unknown", "", ""},
    {"fp8_tensorwise", "train.float8", "tensorwise"},
    {"fp8_rowwise", "train.float8", "rowwise"},
    {"fp8_delayed", "train.float8", "delayed"},
};

constexpr Meaning kAttentions[] = {
    {"unknown", "train.attention", "sdpa"}, {"sdpa", "train.attention", "sdpa"},
    {"flash", "train.attention", "flash"},  {"flex", "train.attention", "flash"},
    {"eager", "train.attention", "eager"},  {"cudnn", "train.attention", "cudnn"},
};

constexpr Meaning kOptimizers[] = {
    {"unknown", "train.optimizer_impl", "foreach"},
    {"adam", "train.optimizer_impl", "foreach"},
    {"adamw", "train.optimizer_impl", "foreach"},
    {"adamw_fused", "train.optimizer_impl", "fused"},
    {"adamw_for_loop", "train.optimizer_impl", "for-loop"},
};

constexpr std::string_view kNotStated = "unknown";

bool is_stated(std::string_view word) { return !word.empty() && word != kNotStated; }

// "EP 8", not the beginning of "EPYC".
bool names_expert_parallelism(std::string_view strategy) {
  for (auto at = strategy.find(" EP"); at != std::string_view::npos;
       at = strategy.find(" EP", at + 1))
    if (at + 3 == strategy.size() || !is_letter(strategy[at + 3])) return true;
  return false;
}

constexpr std::array<std::string_view, 5> kTables{"model", "train", "parallel", "cluster",
                                                  "allocator"};

bool is_number_or_flag(const std::string& value) {
  return value == "true" || value == "false" ||
         value.find_first_not_of("0123456789.") == std::string::npos;
}

/// Collects the settings of one row; the first thing that cannot be said is the reason.
class Translator {
 public:
  explicit Translator(const MeasuredRow& row) : row_(row), script_(script_of(row)) {}

  Result<RowWorkload> translate() {
    if (Status done = check_supported(); !done) return tl::unexpected(done.error());
    auto model = model_of(row_.config, runs_litgpt(row_), *row_.seq_len);
    if (!model) return tl::unexpected(model.error());
    model_ = std::move(*model);
    out_.model = model_.json;
    for (Status (Translator::*part)() :
         {&Translator::train, &Translator::precision, &Translator::checkpointing,
          &Translator::parallel, &Translator::cluster})
      if (Status done = (this->*part)(); !done) return tl::unexpected(done.error());
    allocator();
    if (unknown_key_.empty()) return std::move(out_);
    return fail("'{}' cannot be expressed yet", unknown_key_);
  }

 private:
  /// `value` as TOML writes it; instead of an earlier one.
  void put(std::string_view key, std::string value) {
    if (plan::find_workload_key(key) == nullptr && unknown_key_.empty())
      unknown_key_ = fmt::format("{} = {}", key, value);
    const auto earlier = std::ranges::find(out_.settings, key, &Setting::key);
    if (earlier == out_.settings.end())
      out_.settings.push_back({std::string(key), std::move(value)});
    else
      earlier->value = std::move(value);
  }

  void set(std::string_view key, std::string value) {
    if (!is_number_or_flag(value)) value = json_quote(value);
    put(key, std::move(value));
  }

  void set(std::string_view key, std::int64_t value) { set(key, std::to_string(value)); }

  template <std::size_t N>
  Status set_by(const Meaning (&meanings)[N], std::string_view column, std::string_view word) {
    bool known = false;
    if (word.empty()) word = kNotStated;
    for (const Meaning& meaning : meanings) {
      if (meaning.word != word) continue;
      known = true;
      if (!meaning.key.empty()) set(meaning.key, std::string(meaning.value));
    }
    if (!known) return fail("{} '{}' cannot be expressed", column, word);
    if (word == kNotStated) assume(fmt::format("{} is not stated", column));
    return {};
  }

  void assume(std::string text) { out_.assumptions.push_back(std::move(text)); }

  Status check_supported() const {
    if (!row_.fault.empty()) return fail("{}", row_.fault);
    if (row_.tensor_parallel > 1) return fail("tensor parallelism is no subject of predictions");
    if (row_.context_parallel > 1) return fail("context parallelism is no subject of predictions");
    if (row_.pipeline_parallel > 1)
      return fail("pipeline parallelism is no subject of predictions");
    if (names_expert_parallelism(row_.strategy_text))
      return fail("expert parallelism is no subject of predictions");
    if (!row_.gpus) return fail("the number of GPUs is not stated");
    if (!row_.micro_batch || !row_.seq_len)
      return fail("micro-batch or sequence length are not stated");
    return {};
  }

  Status train() {
    for (const std::string& column : row_.taken_as_one) assume(column + " is not stated: 1");
    set("train.micro_batch", *row_.micro_batch);
    set("train.seq_len", *row_.seq_len);
    set("train.grad_accum", row_.grad_accum * script_.micro_batches);
    // nanoGPT's, Accelerate's and Fabric's loops reduce in the last micro-batch alone.
    const bool is_ddp = row_.strategy == "ddp";
    const bool reduces_late = is_ddp || (row_.strategy.starts_with("fsdp") && names_no_sync(row_));
    if (script_.micro_batches > 1 || (reduces_late && row_.grad_accum > 1))
      set("train.no_sync", std::string("true"));
    out_.timed_parts = script_.micro_batches;
    if (script_.reenters && row_.strategy.starts_with("fsdp1"))
      set("parallel.reentrant_checkpoints", std::string("true"));
    else if (script_.reenters)
      set("train.early_stop", std::string("false"));
    // Where nothing says otherwise, results are older than PyTorch 2.9 and repeat keys and values;
    // a compiler fuses the norms.
    const bool fuses_norms = script_.fuses_norms || row_.compile != "none";
    set("train.fused_rms_norm", std::string(fuses_norms ? "true" : "false"));
    set("train.repeat_kv", std::string(script_.groups_keys ? "false" : "true"));
    if (Status done = adapters(); !done) return done;
    const bool is_flash = runs_triton(row_);
    if (is_flash && row_.attention != "flash") assume("attention is not stated");
    const std::string_view attention = is_flash ? "flash" : std::string_view(row_.attention);
    if (Status done = set_by(kAttentions, "attention", attention); !done) return done;
    choose_kernels();
    if (const double speed = attention_speed(); speed != 1)
      set("train.attention_speed", fmt::format("{}", speed));
    script();
    // thunder/benchmarks/benchmark_litgpt.py and litgpt/pretrain.py print the loss of each step.
    if (runs_litgpt(row_)) set("train.reads_loss", std::string("true"));
    constexpr std::array<std::string_view, 3> kAdamw{"adamw", "adamw_fused", "adamw_for_loop"};
    const std::string_view optimizer =
        row_.optimizer == "adamw" ? kAdamw[static_cast<std::size_t>(script_.optimizer_impl)]
                                  : std::string_view(row_.optimizer);
    if (Status done = set_by(kOptimizers, "optimizer", optimizer); !done) return done;
    // Thunder's strategies compile by themselves.
    if (row_.strategy.starts_with("thunder") && row_.compile == "thunder") return {};
    return set_by(kCompiles, "compile_key",
                  script_.compile.empty() ? std::string_view(row_.compile) : script_.compile);
  }

  Status adapters() {
    const auto lora = lora_of(row_.model + " | " + row_.strategy_text,
                              plan::names_of(model_.family), model_.has_fused_qkv);
    if (!lora) return tl::unexpected(lora.error());
    if (!*lora) return {};
    set("train.trainable", std::string("lora"));
    if (script_.mixes_frozen && row_.strategy.starts_with("fsdp1"))
      set("parallel.use_orig_params", std::string("true"));
    const bool has_dtypes =
        row_.strategy == "single" || row_.strategy == "ddp" || row_.strategy.starts_with("fsdp1");
    if (has_dtypes) set("train.lora_fp32", std::string(names_peft(row_) ? "true" : "false"));
    if ((*lora)->rank) set("train.lora_rank", *(*lora)->rank);
    if ((*lora)->targets.empty()) return {};
    std::vector<std::string> quoted;
    for (const std::string& target : (*lora)->targets) quoted.push_back(json_quote(target));
    put("train.lora_targets", fmt::format("[{}]", fmt::join(quoted, ", ")));
    return {};
  }

  // PyTorch before 2.11 prefers FlashAttention-2 everywhere, but for some months on Hopper;
  // Thunder's default executors take cuDNN's attention first (thunder/__init__.py). No
  // FlashAttention of PyTorch runs on what is older than Ampere. FlashAttention-3 and -4 are as
  // fast as cuDNN's (FA3 paper; NVIDIA/cudnn-frontend, benchmark/attention_training: within 5 %).
  void choose_kernels() {
    const std::string hardware = hardware_of(row_);
    std::string& attention =
        std::ranges::find(out_.settings, "train.attention", &Setting::key)->value;
    const bool is_old =
        hardware.starts_with("v100") || hardware == "t4" || hardware == "rtx_2080_ti";
    if (is_old && row_.attention != "eager") attention = json_quote("sdpa");
    if (attention == json_quote("flash") && is_newer_flash(hardware))
      attention = json_quote("cudnn");
    if (attention != json_quote("sdpa") || row_.compute == "fp32") return;
    if (!is_hopper_or_b200(hardware)) return;
    constexpr std::pair kPrefersCudnn{2, 11};
    if (row_.compile == "thunder" || prefers_cudnn(row_))
      attention = json_quote("cudnn");
    else if (torch_version_of(row_.notes) < kPrefersCudnn)  // also where it is not stated
      attention = json_quote("flash");
  }

  bool is_newer_flash(std::string_view hardware) const {
    const std::string notes = lower(row_.notes);
    const bool is_b300 = hardware.starts_with("b300") || hardware.starts_with("gb300");
    return (is_hopper_or_b200(hardware) && affirms(notes, "fa3")) ||
           ((is_hopper_or_b200(hardware) || is_b300) && affirms(notes, "fa4"));
  }

  void script() {
    if (script_.held_outputs != plan::HeldOutputs::none)
      set("train.held_outputs",
          std::string(script_.held_outputs == plan::HeldOutputs::cache ? "cache" : "logits"));
    constexpr std::array<std::string_view, 5> kLogits{"compute", "fp32", "fp32-shifted", "narrow",
                                                      "fused"};
    if (script_.fuses_projection)
      set("train.loss_chunks", fused_parts());
    else if (script_.logits != plan::Logits::compute)
      set("train.logits", std::string(kLogits[static_cast<std::size_t>(script_.logits)]));
    if (script_.turns_complex) set("train.complex_rotary", std::string("true"));
    if (script_.keeps_weights && row_.checkpointing == "none" &&
        (row_.compile == "per_block" || row_.compile == "full"))
      set("train.keep_float8_weights", std::string("true"));
    if (script_.keeps_absolutes && row_.compute.starts_with("fp8") &&
        row_.checkpointing == "selective_op" && row_.compile == "none")
      set("train.keep_absolute_values", std::string("true"));
    if (script_.calls_loss && (row_.strategy.starts_with("fsdp") || row_.compile == "full"))
      set("train.loss_in_call", std::string("false"));
    if (script_.wraps_leaves) set("parallel.wrap", std::string("leaf"));
    if (script_.wraps_ends && row_.strategy.starts_with("fsdp2"))
      set("parallel.wrap", std::string("block_embed_head"));
    constexpr std::int64_t kParts = 8;
    if (script_.chunks_loss) set("train.logits_chunks", kParts);
    if (script_.compiles_loss && row_.compile != "none" && row_.compile != "unknown")
      set("train.compile_loss", std::string("true"));
  }

  // Liger's fused linear cross-entropy (ops/fused_linear_cross_entropy.py): logits of a part take
  // no more memory than the hidden states of all tokens.
  std::int64_t fused_parts() const {
    const std::int64_t tokens = *row_.micro_batch * *row_.seq_len;
    const std::int64_t wider =
        (model_.vocab + model_.hidden - 1) / std::max<std::int64_t>(model_.hidden, 1);
    if (wider <= 1) return 1;
    const auto part = std::bit_ceil(static_cast<std::uint64_t>((tokens + wider - 1) / wider));
    return (tokens + static_cast<std::int64_t>(part) - 1) / static_cast<std::int64_t>(part);
  }

  // FlexAttention's announcement (PyTorch, 2024): 90 % of FlashAttention-2 in the forward, 85 % in
  // the backward.
  double attention_speed() const {
    constexpr double kFlex = 0.86;
    if (runs_triton(row_)) return kTritonAttention;
    return row_.attention == "flex" ? kFlex : 1;
  }

  Status precision() {
    const bool is_half = row_.compute == "fp16" || row_.param_dtype == "fp16";
    if (row_.compute == "fp32" && (row_.master == "fp32" || !is_stated(row_.master))) {
      set("train.precision", std::string("fp32"));
    } else if (row_.strategy.starts_with("thunder") && !is_stated(row_.master) && !is_half) {
      set("train.precision", std::string("bf16"));
    } else if (row_.master == "fp32" || !is_stated(row_.master)) {
      set("train.precision", std::string(is_half ? "fp16-mixed" : "bf16-mixed"));
    } else if (row_.master == "bf16" && !is_half && row_.compute != "fp32") {
      set("train.precision", std::string("bf16"));
    } else {
      return fail("master '{}' cannot be expressed", row_.master);
    }
    if (!is_stated(row_.master)) assume("the master dtype is not stated");
    const bool shards = row_.strategy != "ddp" && row_.strategy != "single";
    if (shards) {
      std::string gathered(script_.param_dtype.empty() ? row_.param_dtype : script_.param_dtype);
      // The pass is what makes bf16 of the gathers of fp32 shards.
      if (row_.strategy == kFused && row_.master == "fp32") gathered = row_.master;
      const std::string reduced(script_.reduce_dtype.empty() ? row_.reduce_dtype
                                                             : script_.reduce_dtype);
      constexpr std::string_view kTypes[] = {"bf16", "fp16", "fp32"};
      const auto is_type = [&](const std::string& word) {
        return std::ranges::find(kTypes, word) != std::end(kTypes);
      };
      // DeepSpeed gathers in the dtype it computes in, under its torch_autocast, too.
      const bool is_zero = row_.strategy.starts_with("zero");
      // Thunder reduces in the dtype of the stored parameters.
      const bool is_narrow = row_.strategy.starts_with("thunder") && row_.master == "bf16";
      if (is_zero && gathered == "fp32" && row_.compute != "fp32")
        assume("param_dtype is fp32: ZeRO gathers what it computes in");
      else if (is_type(gathered))
        set("parallel.param_dtype", gathered);
      else if (is_stated(gathered))
        return fail("param_dtype '{}' cannot be expressed", gathered);
      else
        assume("param_dtype is not stated");
      if (is_narrow && reduced == "fp32")
        assume("reduce_dtype is fp32: Thunder reduces what it stores");
      else if (is_type(reduced))
        set("parallel.reduce_dtype", reduced);
      else if (is_stated(reduced) && reduced != "none")
        return fail("reduce_dtype '{}' cannot be expressed", reduced);
    }
    if (Status done = set_by(kComputes, "compute", row_.compute); !done) return done;
    if (row_.fp8_all_gather == "yes") set("train.float8_all_gather", std::string("true"));
    return {};
  }

  Status checkpointing() {
    constexpr std::string_view kKey = "train.activation_checkpointing";
    // What the table's author assumed is not stated.
    const bool is_assumed = row_.checkpointing_text.find("assumed") != std::string::npos;
    const std::string word =
        is_assumed || row_.checkpointing.empty() ? std::string(kNotStated) : row_.checkpointing;
    if (word == "first_k:0") {
      set(kKey, std::string("none"));
    } else if (word == "none" || word == "full" || word.starts_with("selective:")) {
      set(kKey, word);
    } else if (word == "selective_op" || word == "selective") {
      set(kKey, std::string("selective"));
      if (word == "selective") assume("ac_key is selective: per op");
    } else if (word.starts_with("first_k:")) {
      set(kKey, "first:" + word.substr(word.find(':') + 1));
    } else if (word == kNotStated) {
      // Users turn it on where the memory asks for it. DeepCompile's are about what fits without:
      // its compiler chooses what is kept.
      set(kKey, std::string("none"));
      if (row_.strategy.starts_with("deepcompile")) {
        assume("checkpointing is not stated: none");
        return {};
      }
      out_.if_too_large.push_back({std::string(kKey), "\"full\""});
      assume("checkpointing is not stated: full where the step does not fit without");
    } else {
      return fail("ac_key '{}' cannot be expressed", word);
    }
    return {};
  }

  Status parallel() {
    const std::string_view strategy =
        script_.strategy.empty() ? std::string_view(row_.strategy) : script_.strategy;
    if (Status done = set_by(kStrategies, "strategy_key", strategy); !done) return done;
    if (row_.strategy == kFused) out_.what_if = {"fuse-downcast"};
    const auto offload = offload_of(row_.strategy_text, row_.strategy);
    if (!offload) return tl::unexpected(offload.error());
    if (!offload->empty()) set("parallel.offload", *offload);
    set("parallel.world_size", *row_.gpus);
    if (row_.strategy.ends_with("_hybrid"))
      set("parallel.shard_size", std::max<std::int64_t>(1, *row_.gpus / nodes_of(row_)));
    return {};
  }

  void allocator() {
    constexpr std::string_view kNoConf[] = {"", "unknown", "none", "default"};
    std::string_view conf = trimmed(row_.allocator_conf);
    if (const auto name = conf.find("ALLOC_CONF="); name != std::string_view::npos)
      conf.remove_prefix(conf.find('=') + 1);
    if (std::ranges::find(kNoConf, lower(conf)) != std::end(kNoConf)) return;
    const auto read = alloc::parse_alloc_conf(conf);
    if (read && !read->native_backend)
      assume(fmt::format("alloc_conf is {}: PyTorch's own allocator instead", conf));
    else
      set("allocator.conf", std::string(conf));
  }

  Status cluster() {
    auto machine = machine_of(row_);
    if (!machine) return tl::unexpected(machine.error());
    set("cluster.hardware", machine->hardware);
    if (!machine->topology.empty()) set("cluster.topology", machine->topology);
    if (!machine->fabric.empty()) set("cluster.fabric", machine->fabric);
    if (machine->fabric_gbps) set("cluster.fabric_gbps", fmt::format("{}", *machine->fabric_gbps));
    // Trays of one NVLink domain have no network between them.
    if (!row_.nodes) assume(fmt::format("n_nodes is not stated: {}", nodes_of(row_)));
    set("cluster.nodes", row_.fabric == "none" ? std::int64_t{1} : nodes_of(row_));
    if (!machine->assumed.empty()) assume(machine->assumed);
    return {};
  }

  const MeasuredRow& row_;
  const RowScript script_;
  RowModel model_;
  RowWorkload out_;
  std::string unknown_key_;
};

}  // namespace

Result<RowWorkload> workload_of(const MeasuredRow& row) { return Translator(row).translate(); }

std::string toml_of(const RowWorkload& workload, const std::string& model_path, bool too_large) {
  std::vector<Setting> all = workload.settings;
  if (too_large)
    for (const Setting& other : workload.if_too_large)
      for (Setting& setting : all)
        if (setting.key == other.key) setting = other;
  std::string text;
  for (const std::string& assumption : workload.assumptions) text += "# " + assumption + "\n";
  for (const std::string& pass : workload.what_if) text += "# with --what-if " + pass + "\n";
  for (const std::string_view section : kTables) {
    std::string lines;
    if (section == "model") lines = fmt::format("config = {}\n", json_quote(model_path));
    for (const Setting& setting : all) {
      const auto dot = setting.key.find('.');
      if (setting.key.substr(0, dot) != section) continue;
      lines += fmt::format("{} = {}\n", setting.key.substr(dot + 1), setting.value);
    }
    if (!lines.empty()) text += fmt::format("[{}]\n{}\n", section, lines);
  }
  return text;
}

}  // namespace foregather::tasks
