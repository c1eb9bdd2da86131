#include "tasks/validation/row_script.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "core/base/text.h"
#include "tasks/validation/words.h"

namespace foregather::tasks {
namespace {

using plan::HeldOutputs;
using plan::Logits;
using plan::OptimizerImpl;

/// A change of torchtitan: its pull request, and when it landed.
struct Change {
  int request;
  std::pair<int, int> month;
};

constexpr Change kDeletesLogits{391, {2024, 6}};
constexpr Change kCompilesLoss{1033, {2025, 4}};
constexpr Change kWrapsEnds{1500, {2025, 8}};
constexpr Change kGroupsKeys{2259, {2026, 1}};
// When PyTorch's main had what Train::keep_float8_weights names.
constexpr Change kTorchtitanRemakesWeights{1033, {2025, 4}};
constexpr Change kThunderRemakesWeights{1529, {2025, 1}};  // its script sets the flag, since 1528
constexpr int kTorchtitanKeepsAbsolutes = 701;
constexpr int kTorchtitanDropsAbsolutes = 820;
constexpr std::pair kTorchThen{2, 8};        // when it compiled its loss
constexpr std::pair kTorchWrapsEnds{2, 10};  // later than torchtitan wrapped the ends
constexpr std::pair kTorchFusesNorms{2, 9};
constexpr std::int64_t kLitgptMicroBatches = 512 / 8 / 4;  // of its pretrain.py
constexpr std::int64_t kLitgptLoraBatch = 128;             // of its finetune/lora.py

/// The number at the front of `text`, which moves past it.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool is_mpt(const MeasuredRow& row) {
  return lower(row.config).find("\"mpt\"") != std::string::npos;
}

/// Is the row of a time with that change? Absent: it tells neither a date nor a request.
std::optional<bool> comes_after(const Change& change, const MeasuredRow& row) {
  const auto month = month_of(row.notes);
  if (month && *month != change.month) return *month > change.month;
  const auto request = pull_request_of(row.source);
  if (request) return *request >= change.request;
  return std::nullopt;
}

/// Does the row's text name torchao's force_recompute_fp8_weight_in_bwd as what it measures? Notes
/// of a baseline may name it, too.
bool names_remade_weights(const MeasuredRow& row) {
  constexpr std::string_view kWord = "recomp";
  const std::string id = lower(row.id), precision = lower(row.precision_text);
  for (const std::string& text : {id, precision})
    if (text.find(kWord) != std::string::npos) return affirms(text, kWord);
  for (const std::string_view other : {"main", "base", "before"})
    if (id.find(other) != std::string::npos) return false;
  return affirms(lower(row.notes), kWord);
}

/// `change`: when the project had a PyTorch that remakes them.
bool keeps_float8_weights(const MeasuredRow& row, const Change& change) {
  if (row.compute != "fp8_tensorwise" || names_remade_weights(row)) return false;
  if (const auto torch = torch_version_of(row.notes)) return *torch < kTorchThen;
  return !comes_after(change, row).value_or(true);
}

/// "bucketing=block", "--bucketing_mode block": a unit a block in thunder/benchmarks.
bool names_block_buckets(const MeasuredRow& row) {
  const std::string words = spaced(lower(row.id + "; " + row.strategy_text + "; " + row.notes));
  for (const std::string_view name : {"bucketing=block", "bucketing mode=block", "bucketing block",
                                      "bucketing mode block", "block bucketing", "bucket block"})
    if (says(words, name)) return true;
  return false;
}

RowScript torchtitan_script(const MeasuredRow& row) {
  RowScript script;
  const auto request = pull_request_of(row.source);
  const auto torch = torch_version_of(row.notes);
  if (!comes_after(kDeletesLogits, row).value_or(true)) {
    script.held_outputs = HeldOutputs::logits;
    script.logits = Logits::f32;
  }
  script.calls_loss = true;
  // PyTorch knows Blackwell since 2.7, half a year before.
  const std::string gpu = lower(row.gpu);
  const bool is_blackwell =
      gpu.find("b200") != std::string::npos || gpu.find("b300") != std::string::npos;
  const bool is_of_2024 = row.source.find("docs/performance.md") != std::string::npos;
  script.fuses_norms = torch ? *torch >= kTorchFusesNorms : is_blackwell || is_of_2024;
  script.groups_keys = comes_after(kGroupsKeys, row).value_or(false);
  script.wraps_ends = comes_after(kWrapsEnds, row).value_or(torch && *torch >= kTorchWrapsEnds);
  script.turns_complex = lower(row.config).find("qwen") == std::string::npos;
  script.keeps_weights = keeps_float8_weights(row, kTorchtitanRemakesWeights);
  script.keeps_absolutes =
      request && *request >= kTorchtitanKeepsAbsolutes && *request < kTorchtitanDropsAbsolutes;
  script.compiles_loss =
      comes_after(kCompilesLoss, row).value_or(false) || (torch && *torch >= kTorchThen);
  return script;
}

RowScript litgpt_script(const MeasuredRow& row, bool is_litgpts) {
  RowScript script;
  script.held_outputs = is_litgpts ? HeldOutputs::none : HeldOutputs::logits;
  script.logits = is_litgpts ? Logits::f32 : Logits::narrow;
  const bool is_pretrain = is_litgpts && row.source.find("extensions/thunder") != std::string::npos;
  if (!is_pretrain && row.compile == "full") script.compile = "per_block";
  if (is_pretrain && row.strategy == "thunder_zero3") script.strategy = "thunder_zero2";
  if (is_pretrain && (row.strategy == "ddp" || row.strategy == "single"))
    script.micro_batches = kLitgptMicroBatches;
  script.mixes_frozen = true;
  script.keeps_weights = keeps_float8_weights(row, kThunderRemakesWeights);
  script.wraps_leaves =
      !is_litgpts && row.strategy.starts_with("fsdp1") && !names_block_buckets(row);
  const bool is_lora = affirms(lower(row.model + "; " + row.strategy_text), "lora");
  if (is_lora && row.strategy.starts_with("fsdp1") && row.grad_accum == 1)
    script.micro_batches = std::max<std::int64_t>(
        1, kLitgptLoraBatch / std::max<std::int64_t>(1, row.micro_batch.value_or(1)));
  return script;
}

}  // namespace

bool prefers_cudnn(const MeasuredRow& row) {
  constexpr std::pair kSince{2024, 7}, kUntil{2024, 10};
  if (lower(row.notes).find("torch 2.5.0") != std::string::npos) return true;
  if (!row.strategy.starts_with("fsdp2")) return false;
  const auto month = month_of(row.notes);
  return row.source.find("lightning-thunder") != std::string::npos && month && kSince <= *month &&
         *month < kUntil;
}

std::optional<int> pull_request_of(std::string_view source) {
  for (const std::string_view before : {"PR #", "pull/", "pulls/"}) {
    const auto at = source.find(before);
    if (at == std::string_view::npos) continue;
    std::string_view rest = source.substr(at + before.size());
    if (const auto number = take_number(rest)) return number;
  }
  return std::nullopt;
}

std::optional<std::pair<int, int>> torch_version_of(std::string_view notes) {
  constexpr std::string_view kTorch = "torch ";
  const std::string text = lower(notes);
  for (auto at = text.find(kTorch); at != std::string::npos; at = text.find(kTorch, at + 1)) {
    std::string_view rest = std::string_view(text).substr(at + kTorch.size());
    const auto major = take_number(rest);
    if (!major || !rest.starts_with('.')) continue;
    rest.remove_prefix(1);
    if (const auto minor = take_number(rest)) return std::pair(*major, *minor);
  }
  return std::nullopt;
}

std::optional<std::pair<int, int>> month_of(std::string_view text) {
  // Not of a tokenizer or a driver.
  constexpr std::string_view kBefore[] = {"; ",       ", ",      "(",       "torch ",  "titan ",
                                          "nightly ", "log of ", "run of ", "toml of "};
  for (auto at = text.find("20"); at != std::string_view::npos; at = text.find("20", at + 1)) {
    std::string_view rest = text.substr(at);
    const std::string_view before = text.substr(0, at);
    const auto ends = [&](std::string_view word) { return before.ends_with(word); };
    if (!trimmed(before).empty() && std::ranges::none_of(kBefore, ends)) continue;
    const auto year = take_number(rest);
    if (!year || *year > 2030 || *year < 2020 || !rest.starts_with('-')) continue;
    rest.remove_prefix(1);
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const auto month = take_number(rest);
    if (month && digits == 2 && 1 <= *month && *month <= 12) return std::pair(*year, *month);
  }
  return std::nullopt;
}

bool runs_foundry(const MeasuredRow& row) {
  const std::string words = lower(row.source + ' ' + row.group + ' ' + row.notes);
  for (const char* name : {"llm-foundry", "mosaicml", "composer", "databricks"})
    if (words.find(name) != std::string::npos) return true;
  return false;
}

bool runs_triton(const MeasuredRow& row) {
  const bool may_be =
      row.attention == "flash" || row.attention == "unknown" || row.attention.empty();
  if (!may_be || !is_mpt(row) || !runs_foundry(row)) return false;
  const std::string words =
      lower(row.notes + ' ' + row.precision_text + ' ' + row.strategy_text + ' ' + row.source);
  const auto has = [&](std::string_view word) { return words.find(word) != std::string::npos; };
  if (has("triton")) return affirms(words, "triton");
  if (has("attn_impl") || has("flashattention-2")) return false;
  return has("/scripts/train/benchmarking") || has("/llm/throughput");
}

bool runs_litgpt(const MeasuredRow& row) {
  return row.source.find("Lightning-AI/") != std::string::npos ||
         row.strategy.starts_with("thunder");
}

bool names_chunked_loss(const MeasuredRow& row) {
  static constexpr std::string_view kNames[] = {"chunked cross", "chunked ce",     "chunkedce",
                                                "chunked loss",  "cewithchunked",  "loss chunked",
                                                "chunk ce",      "chunked logits", "chunked-ce"};
  const std::string id = lower(row.id), precision = lower(row.precision_text);
  const auto is_in = [](std::string_view text) {
    return std::ranges::any_of(kNames, [&](std::string_view name) { return affirms(text, name); });
  };
  if (is_in(precision)) return true;
  if (precision.find("chunk") != std::string::npos) return false;
  const auto at = id.find("chunk");
  for (const std::string_view other : {"no", "no-", "no_", "un"})
    if (at != std::string::npos && id.substr(0, at).ends_with(other)) return false;
  if (at != std::string::npos && id.find("prefill") == std::string::npos) return true;
  return id.find("base") == std::string::npos && is_in(lower(row.notes));
}

bool names_fused_projection(const MeasuredRow& row) {
  const std::string words = lower(row.precision_text + "; " + row.strategy_text + "; " + row.notes);
  return affirms(words, "liger") || affirms(words, "fused linear cross") ||
         affirms(words, "cut cross");
}

bool names_fused_loss(const MeasuredRow& row) {
  static constexpr std::string_view kNames[] = {"fused cross entropy", "fused crossentropy",
                                                "fusedcrossentropy",   "fused ce",
                                                "fused loss",          "fused softmax cross"};
  const std::string words =
      spaced(lower(row.precision_text + "; " + row.strategy_text + "; " + row.notes));
  return std::ranges::any_of(kNames, [&](std::string_view name) { return affirms(words, name); });
}

bool names_fused_norms(const MeasuredRow& row) {
  const std::string words = lower(row.precision_text + "; " + row.strategy_text + "; " + row.notes);
  const bool is_liger = affirms(words, "liger kernel") || affirms(words, "liger kernels") ||
                        affirms(words, "liger on") || affirms(words, "liger rmsnorm");
  return is_liger || affirms(words, "foak");
}

bool names_peft(const MeasuredRow& row) {
  const std::string words = lower(row.source + "; " + row.strategy_text + "; " + row.notes);
  const auto names = [&](std::string_view word) {
    return says(spaced(words), word) && affirms(words, word);
  };
  return names("peft") || names("sfttrainer") ||
         words.find("fms-acceleration") != std::string::npos;
}

bool names_no_sync(const MeasuredRow& row) {
  const std::string words = lower(row.strategy_text + "; " + row.notes);
  return affirms(words, "no_sync") || affirms(words, "no-sync") ||
         words.find("set_requires_gradient_sync(false") != std::string::npos;
}

namespace {

bool names_reentrant_checkpoints(const MeasuredRow& row) {
  const std::string words =
      lower(row.checkpointing_text + "; " + row.strategy_text + "; " + row.notes);
  const auto says = [&](std::string_view word) { return affirms(words, word); };
  return !row.strategy.starts_with("fsdp2") && row.checkpointing == "full" &&
         row.compile == "none" && says("gradient_checkpointing") &&
         (says("accelerate") || says("trainer"));
}

RowScript script_of_source(const MeasuredRow& row) {
  const auto comes_from = [&](std::string_view place) {
    return row.source.find(place) != std::string::npos;
  };
  if (comes_from("dlrover/")) {
    RowScript script;
    script.held_outputs = HeldOutputs::cache;
    script.logits = Logits::f32_shifted;
    script.param_dtype = "bf16";
    script.mixes_frozen = true;
    return script;
  }
  if (comes_from("AnswerDotAI/fsdp_qlora")) {
    RowScript script;
    script.held_outputs = HeldOutputs::logits;
    script.logits = Logits::f32_shifted;
    return script;
  }
  if (runs_litgpt(row)) return litgpt_script(row, comes_from("Lightning-AI/litgpt"));
  if (comes_from("yandex/YaFSDP")) {
    RowScript script;
    script.reduce_dtype = "fp32";
    return script;
  }
  if (is_mpt(row) && runs_foundry(row)) {
    RowScript script;
    script.held_outputs = HeldOutputs::logits;
    script.logits = Logits::fused;
    script.optimizer_impl = OptimizerImpl::for_loop;
    return script;
  }
  if (comes_from("KempnerForge")) {
    RowScript script;
    script.held_outputs = HeldOutputs::logits;
    script.logits = Logits::narrow;
    script.calls_loss = true;
    return script;
  }
  constexpr std::string_view kTorchtitanPaper = "arxiv.org/abs/2410.06511";
  if (comes_from("pytorch/torchtitan") || comes_from("pytorch/ao") || comes_from(kTorchtitanPaper))
    return torchtitan_script(row);
  if (comes_from("torchtune")) {
    RowScript script;
    script.optimizer_impl = OptimizerImpl::fused;
    script.compiles_loss = names_chunked_loss(row) && !names_fused_projection(row);
    return script;
  }
  return {};
}

}  // namespace

RowScript script_of(const MeasuredRow& row) {
  RowScript script = script_of_source(row);
  script.fuses_projection = names_fused_projection(row);
  if (!script.fuses_projection && script.logits != Logits::narrow && names_fused_loss(row))
    script.logits = Logits::fused;
  script.fuses_norms = script.fuses_norms || names_fused_norms(row);
  script.reenters = names_reentrant_checkpoints(row);
  script.chunks_loss = !script.fuses_projection && names_chunked_loss(row);
  return script;
}

}  // namespace foregather::tasks
