#include "tasks/validation/row_script.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace foregather::tasks {
namespace {

using plan::HeldOutputs;
using plan::Logits;

constexpr int kTorchtitanDeletesLogits = 391;
constexpr int kTorchtitanKeepsAbsolutes = 701;
constexpr int kTorchtitanDropsAbsolutes = 820;
constexpr int kTorchtitanCompilesLoss = 1033;
constexpr std::pair kTorchThen{2, 8};
constexpr std::int64_t kLitgptMicroBatches = 512 / 8 / 4;  // of its pretrain.py

/// The number at the front of `text`, which moves past it.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

RowScript torchtitan_script(const MeasuredRow& row) {
  RowScript script;
  const auto request = pull_request_of(row.source);
  const auto torch = torch_version_of(row.notes);
  if (request && *request < kTorchtitanDeletesLogits) {
    script.held_outputs = HeldOutputs::logits;
    script.logits = Logits::f32;
  }
  script.chunks_loss = names_chunked_loss(row);
  script.turns_complex = true;
  script.keeps_absolutes =
      request && *request >= kTorchtitanKeepsAbsolutes && *request < kTorchtitanDropsAbsolutes;
  script.compiles_loss =
      (request && *request >= kTorchtitanCompilesLoss) || (torch && *torch >= kTorchThen);
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
  return script;
}

}  // namespace

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
  for (auto at = notes.find(kTorch); at != std::string_view::npos;
       at = notes.find(kTorch, at + 1)) {
    std::string_view rest = notes.substr(at + kTorch.size());
    const auto major = take_number(rest);
    if (!major || !rest.starts_with('.')) continue;
    rest.remove_prefix(1);
    if (const auto minor = take_number(rest)) return std::pair(*major, *minor);
  }
  return std::nullopt;
}

bool runs_triton(const MeasuredRow& row) {
  return row.attention == "flash" && row.config.find("\"mpt\"") != std::string::npos;
}

bool runs_litgpt(const MeasuredRow& row) {
  return row.source.find("Lightning-AI/") != std::string::npos ||
         row.strategy.starts_with("thunder");
}

bool names_chunked_loss(const MeasuredRow& row) {
  const auto names = [](std::string_view text, std::string_view word) {
    const auto is_same = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
    return std::search(text.begin(), text.end(), word.begin(), word.end(), is_same) != text.end();
  };
  for (const std::string_view other : {"nochunk", "no-chunk", "unchunk", "no chunk"})
    if (names(row.id, other) || names(row.precision_text, other)) return false;
  if (names(row.id, "chunk") || names(row.precision_text, "chunk")) return true;
  const bool is_baseline = names(row.id, "base") || names(row.notes, "baseline") ||
                           names(row.notes, "without") || names(row.notes, "before");
  return names(row.notes, "chunked cross") && !is_baseline;
}

RowScript script_of(const MeasuredRow& row) {
  const auto comes_from = [&](std::string_view place) {
    return row.source.find(place) != std::string::npos;
  };
  if (comes_from("dlrover/")) {
    RowScript script;
    script.held_outputs = HeldOutputs::cache;
    script.logits = Logits::f32_shifted;
    script.param_dtype = "bf16";
    return script;
  }
  if (runs_litgpt(row)) return litgpt_script(row, comes_from("Lightning-AI/litgpt"));
  if (comes_from("yandex/YaFSDP")) {
    RowScript script;
    script.reduce_dtype = "fp32";
    return script;
  }
  constexpr std::string_view kTorchtitanPaper = "arxiv.org/abs/2410.06511";
  if (comes_from("pytorch/torchtitan") || comes_from("pytorch/ao") || comes_from(kTorchtitanPaper))
    return torchtitan_script(row);
  return {};
}

}  // namespace foregather::tasks
