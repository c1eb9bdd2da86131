#include "tasks/validation/row_text.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/text.h"
#include "tasks/validation/words.h"

namespace foregather::tasks {
namespace {

bool denies(std::string_view text, std::string_view word) {
  for (const std::string_view before : {"no ", "without ", "not ", "non ", "vs ", "versus "})
    if (says(text, std::string(before) + std::string(word))) return true;
  for (const std::string_view behind : {" free", " disabled", " merged"})
    if (says(text, std::string(word) + std::string(behind))) return true;
  return false;
}

std::optional<std::int64_t> number_at(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" =:_-"), text.size()));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 1) return std::nullopt;
  return value;
}

/// The number behind `word`, where that does not go on a name: not of "rs".
std::optional<std::int64_t> number_behind(std::string_view text, std::string_view word) {
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::string_view before = text.substr(0, at);
    const bool follows_lora = before.ends_with("lora-") || before.ends_with("lora_");
    if (!before.empty() && !follows_lora &&
        (is_letter(before.back()) || is_digit(before.back()) || before.back() == '-' ||
         before.back() == '_'))
      continue;
    if (const auto number = number_at(text.substr(at + word.size()))) return number;
  }
  return std::nullopt;
}

/// Of "LoRA, rank 8", "LoRA r=8" or "r8 LoRA": not of a "DeepSeek R1" before it.
std::optional<std::int64_t> rank_of(std::string_view text) {
  const std::size_t at = std::min(text.find("lora"), text.size());
  const std::string_view before = trimmed(text.substr(0, at));
  const std::size_t blank = before.find_last_of(" (,;");
  const std::string_view last = before.substr(blank == std::string_view::npos ? 0 : blank + 1);
  for (const std::string_view word : {"rank", "r"})
    if (const auto rank = number_behind(text.substr(at), word)) return rank;
  if (const auto rank = number_behind(text, "rank")) return rank;
  return number_behind(last, "r");
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

constexpr std::string_view kOffload = "offload";

/// "offload_params=False", "no CPU offload", "offloading: never".
bool is_denied_offload(const std::vector<std::string>& clause, std::size_t at) {
  constexpr std::string_view kBefore[] = {"no", "not", "non", "without", "never"};
  constexpr std::string_view kBehind[] = {"no",    "not",   "none",     "off",
                                          "false", "never", "disabled", "unused"};
  const auto is_any = [](const auto& words, const std::string& word) {
    return std::ranges::find(words, word) != std::end(words);
  };
  constexpr std::size_t kNear = 3;
  for (std::size_t i = at - std::min(at, kNear); i < at; ++i)
    if (is_any(kBefore, clause[i])) return true;
  for (std::size_t i = at; i < std::min(clause.size(), at + 1 + kNear); ++i)
    if (is_any(kBehind, clause[i])) return true;
  return false;
}

/// The clauses that name an offload and do not deny it, in words; commas and signs part them.
std::string offloads_in(std::string_view text) {
  std::string found;
  std::vector<std::string> clause;
  bool is_denied = false, is_named = false;
  const auto end_clause = [&] {
    for (std::size_t i = 0; i < clause.size(); ++i) {
      if (clause[i].find(kOffload) == std::string::npos) continue;
      is_named = true;
      is_denied = is_denied || is_denied_offload(clause, i);
    }
    if (is_named && !is_denied)
      for (const std::string& word : clause) found += word + ' ';
    clause.clear();
    is_named = is_denied = false;
  };
  std::string word;
  for (const char c : lower(text) + ',') {
    if (is_letter(c) || is_digit(c)) {
      word += c;
      continue;
    }
    if (!word.empty()) clause.push_back(std::exchange(word, {}));
    if (c == ',' || c == ';' || c == '+' || c == '&') end_clause();
  }
  return std::string(trimmed(found));
}

}  // namespace

Result<std::optional<LoraText>> lora_of(std::string_view text, const plan::ModelNames& names,
                                        bool has_fused_qkv) {
  std::string small = lower(text);
  // Of DeepSeek's attention, which is called so.
  for (const std::string_view own : {"kv_lora_rank", "q_lora_rank"})
    for (auto at = small.find(own); at != std::string::npos; at = small.find(own))
      small.erase(at, own.size());
  const std::string words = spaced(small);
  if (says(words, "qlora")) return fail("4-bit weights (QLoRA) are no subject of predictions");
  if (says(words, "dora") && !denies(words, "dora"))
    return fail("DoRA is no subject of predictions");
  if (!says(words, "lora")) {
    constexpr std::string_view kOthers[] = {
        "llama adapter",       "adapter v2", "adapter tuning", "adapter finetuning",
        "adapter fine tuning", "adapters",   "prefix tuning",  "prompt tuning"};
    constexpr std::string_view kNetworks[] = {"network adapters", "network adapter", "hdr adapters",
                                              "ndr adapters",     "ib adapters",     "no adapters",
                                              "without adapters"};
    const bool is_other = says_any(words, kOthers) || words.ends_with(" adapter");
    if (is_other && !says_any(words, kNetworks))
      return fail("adapters other than LoRA are no subject of predictions");
    return std::nullopt;
  }
  if (denies(words, "lora")) return std::nullopt;
  LoraText lora;
  lora.rank = rank_of(small);
  constexpr std::string_view kAll[] = {"all linear", "all linears"};
  if (says_any(words, kAll))
    lora.targets = {"all-linear"};
  else
    lora.targets = targets_of(small, names, has_fused_qkv);
  if (lora.targets.empty() && has_fused_qkv) lora.targets = {std::string(names.fused)};
  return lora;
}

Result<std::string> offload_of(std::string_view text, std::string_view strategy_key) {
  const std::string words = offloads_in(text);
  if (words.empty()) return std::string();
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
