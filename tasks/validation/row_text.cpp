#include "tasks/validation/row_text.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "tasks/validation/words.h"

namespace foregather::tasks {
namespace {

bool denies(std::string_view text, std::string_view word) {
  for (const std::string_view before : {"no ", "without ", "not ", "non "})
    if (says(text, std::string(before) + std::string(word))) return true;
  return says(text, std::string(word) + " free") || says(text, std::string(word) + " disabled");
}

std::optional<std::int64_t> number_at(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" =:_-"), text.size()));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 1) return std::nullopt;
  return value;
}

/// The number behind `word`, where that does not go on a name: not of "deepseek-r1", nor of "rs".
std::optional<std::int64_t> number_behind(std::string_view text, std::string_view word) {
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::string_view before = text.substr(0, at);
    const bool follows_lora = before.ends_with("lora-");
    if (!before.empty() && !follows_lora &&
        (is_letter(before.back()) || is_digit(before.back()) || before.back() == '-'))
      continue;
    if (const auto number = number_at(text.substr(at + word.size()))) return number;
  }
  return std::nullopt;
}

/// The linears of a block that a word stands for: "q", "v_proj", "qkvo", "gate"; none: another
/// word.
std::vector<std::string_view> linears_of(std::string_view word, const plan::ModelNames& names,
                                         bool has_fused_qkv) {
  if (word.ends_with("_proj")) word.remove_suffix(5);
  if (word == "gate") return {names.gate};
  if (word == "up") return {names.up};
  if (word == "down") return {names.down};
  std::vector<std::string_view> all;
  for (const char c : word) {
    if (c != 'q' && c != 'k' && c != 'v' && c != 'o') return {};
    all.push_back(c == 'o'        ? names.out
                  : has_fused_qkv ? names.fused
                  : c == 'q'      ? names.query
                  : c == 'k'      ? names.key
                                  : names.value);
  }
  return all;
}

/// Of the first words side by side that all are linears: "(q,k,v,o)", "q_proj and v_proj".
std::vector<std::string> targets_of(std::string_view text, const plan::ModelNames& names,
                                    bool has_fused_qkv) {
  constexpr std::string_view kBetween = " ,/+&()[]{};:=\"'";
  std::vector<std::string> targets;
  std::size_t words = 0;
  bool is_written_out = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty() || word == "and") continue;
    const auto linears = linears_of(word, names, has_fused_qkv);
    if (linears.empty() && (words > 1 || is_written_out)) break;
    if (linears.empty()) {
      targets.clear();
      words = 0;
      continue;
    }
    words += linears.size();
    is_written_out |= word.ends_with("_proj");
    for (const std::string_view linear : linears)
      if (std::ranges::find(targets, linear) == targets.end()) targets.emplace_back(linear);
  }
  if (words < 2 && !is_written_out) targets.clear();
  return targets;
}

}  // namespace

Result<std::optional<LoraText>> lora_of(std::string_view text, const plan::ModelNames& names,
                                        bool has_fused_qkv) {
  const std::string small = lower(text);
  const std::string words = spaced(small);
  if (says(words, "qlora")) return fail("4-bit weights (QLoRA) are no subject of predictions");
  if (says(words, "dora") && !denies(words, "dora"))
    return fail("DoRA is no subject of predictions");
  if (!says(words, "lora")) {
    for (const char* other : {"adapter", "adapters"})
      if (says(words, other) && !denies(words, other))
        return fail("adapters other than LoRA are no subject of predictions");
    return std::nullopt;
  }
  if (denies(words, "lora")) return std::nullopt;
  LoraText lora;
  lora.rank = number_behind(small, "rank");
  if (!lora.rank) lora.rank = number_behind(small, "r");
  constexpr std::string_view kAll[] = {"all linear", "all linears"};
  if (says_any(words, kAll))
    lora.targets = {"all-linear"};
  else
    lora.targets = targets_of(small, names, has_fused_qkv);
  if (lora.targets.empty() && has_fused_qkv) lora.targets = {std::string(names.fused)};
  return lora;
}

Result<std::string> offload_of(std::string_view text, std::string_view strategy_key) {
  const std::string words = spaced(lower(text));
  constexpr std::string_view kForms[] = {"offload", "offloading", "offloaded", "offloads"};
  constexpr std::string_view kWithout[] = {
      "no cpu offload", "without cpu offload", "no cpu offloading", "without cpu offloading",
      "offload none",   "offload off",         "offload false",     "offload no"};
  if (!says_any(words, kForms) || says_any(words, kWithout)) return std::string();
  for (const std::string_view form : kForms)
    if (denies(words, form)) return std::string();
  constexpr std::string_view kElsewhere[] = {"nvme", "disk", "ssd", "activation", "activations"};
  if (says_any(words, kElsewhere))
    return fail("offload of activations or to disks is no subject of predictions");
  constexpr std::string_view kParameters[] = {"param",      "params", "parameter",
                                              "parameters", "weight", "weights"};
  const bool is_optimizers = says(words, "optimizer") || says(words, "optimizers");
  const bool is_parameters = says_any(words, kParameters);
  if (strategy_key == "zero2" && !is_parameters) return std::string("optimizer");
  if (strategy_key == "zero3" && is_optimizers && !is_parameters) return std::string("optimizer");
  if (strategy_key == "zero3") return std::string("all");
  const bool is_fsdp = strategy_key.starts_with("fsdp") || strategy_key == "simplefsdp";
  if (is_fsdp && (is_parameters || !is_optimizers)) return std::string("all");
  return fail("the offload that strategy names cannot be expressed for strategy_key '{}'",
              strategy_key);
}

}  // namespace foregather::tasks
