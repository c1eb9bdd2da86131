#include "tasks/validation/pairs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

namespace foregather::tasks {
namespace {

constexpr double kNoise = 0.01;
constexpr double kSmall = 0.02;
constexpr double kPairTimeBar = 0.02;
constexpr double kPairMemoryBar = 0.2;

constexpr std::string_view kUnknown = "unknown";

enum class Choice { strategy, checkpointing, compile, compute, optimizer, attention };

// What differs with the strategy, which is counted apart: the fused downcast is before the gather.
std::string gathered_before_casts(const MeasuredRow& row) {
  return row.strategy == "deepcompile_fused" ? row.master : row.param_dtype;
}

// What decides its times.
std::string machine_and_model_of(const MeasuredRow& row) {
  const auto number = [](const auto& count) {
    return count ? fmt::format("{}", *count) : std::string(kUnknown);
  };
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{} {} {} {}\n{} {} {} {}\n{}", row.gpu,
                     gathered_before_casts(row), row.reduce_dtype, row.master, row.config, row.link,
                     row.fabric, row.tensor_parallel, row.context_parallel, row.pipeline_parallel,
                     row.grad_accum, number(row.gpus), number(row.nodes), number(row.micro_batch),
                     number(row.seq_len), number(row.fabric_gbps));
}

std::string setup_of(const MeasuredRow& row) {
  return fmt::format("{}\n{}\n{}", row.group, row.allocator_conf, machine_and_model_of(row));
}

bool compiles(const std::string& strategy) {
  return strategy.starts_with("thunder") || strategy.starts_with("deepcompile");
}

/// How two rows of one setup differ.
struct Contrast {
  std::vector<Choice> choices;
  bool is_stated = true;  ///< false: a value that differs is not stated
};

Contrast contrast_of(const MeasuredRow& a, const MeasuredRow& b) {
  Contrast contrast;
  const auto compare = [&](Choice choice, const std::string& left, const std::string& right) {
    if (left == right) return;
    contrast.choices.push_back(choice);
    if (left == kUnknown || right == kUnknown) contrast.is_stated = false;
  };
  compare(Choice::strategy, a.strategy, b.strategy);
  compare(Choice::checkpointing, a.checkpointing, b.checkpointing);
  if (a.strategy == b.strategy || !(compiles(a.strategy) || compiles(b.strategy)))
    compare(Choice::compile, a.compile, b.compile);
  compare(Choice::optimizer, a.optimizer, b.optimizer);
  compare(Choice::attention, a.attention, b.attention);
  if (a.compute != b.compute || a.fp8_all_gather != b.fp8_all_gather)
    contrast.choices.push_back(Choice::compute);
  if (a.compute == b.compute && (a.fp8_all_gather.empty() != b.fp8_all_gather.empty()))
    contrast.is_stated = false;
  return contrast;
}

bool are_both(const std::string& a, const std::string& b,
              std::initializer_list<std::string_view> family) {
  const auto has = [&](const std::string& value) {
    return std::find(family.begin(), family.end(), value) != family.end();
  };
  return has(a) && has(b);
}

std::string kind_of_strategies(const std::string& a, const std::string& b) {
  if (are_both(a, b, {"fsdp2", "fsdp2_never", "fsdp2_always"}) ||
      are_both(a, b, {"fsdp1", "fsdp1_grad_op"}) ||
      are_both(a, b, {"thunder_zero2", "thunder_zero3"}))
    return "reshard after forward";
  if (are_both(a, b, {"deepcompile", "deepcompile_fused"})) return "fused downcast";
  return fmt::format("{} / {}", std::min(a, b), std::max(a, b));
}

void name(Choice choice, RowPair& pair) {
  const MeasuredRow& a = pair.first->row;
  const MeasuredRow& b = pair.second->row;
  const auto set = [&](std::string kind, const std::string& from, const std::string& to) {
    pair.kind = std::move(kind);
    pair.change = from + " → " + to;
  };
  switch (choice) {
    case Choice::strategy:
      return set(kind_of_strategies(a.strategy, b.strategy), a.strategy, b.strategy);
    case Choice::checkpointing: return set("checkpointing", a.checkpointing, b.checkpointing);
    case Choice::compile: return set("compile", a.compile, b.compile);
    case Choice::compute:
      if (a.compute == b.compute)
        return set("float8", a.compute + ", gathered in fp8: " + a.fp8_all_gather,
                   b.fp8_all_gather);
      return set("float8", a.compute, b.compute);
    case Choice::optimizer: return set("optimizer", a.optimizer, b.optimizer);
    case Choice::attention: return set("attention", a.attention, b.attention);
  }
}

void measure(RowPair& pair) {
  const RowResult& a = *pair.first;
  const RowResult& b = *pair.second;
  if (a.row.step_time_s && b.row.step_time_s)
    pair.time = TimeEffect{
        {*b.row.step_time_s / *a.row.step_time_s - 1,
         static_cast<double>(b.prediction.step) / static_cast<double>(a.prediction.step) - 1}};
  if (a.row.peak_gib && b.row.peak_gib && a.prediction.peak && b.prediction.peak &&
      a.row.memory_metric == b.row.memory_metric && a.row.memory_when == b.row.memory_when)
    pair.memory = MemoryEffect{{*b.row.peak_gib / *a.row.peak_gib - 1,
                                static_cast<double>(*b.prediction.peak - *a.prediction.peak) /
                                    static_cast<double>(GiB) / *a.row.peak_gib}};
}

std::optional<bool> all(std::size_t n, std::size_t m) {
  return m > 0 ? std::optional(n == m) : std::nullopt;
}

std::size_t rank_of(const RowPair& pair) {
  return static_cast<std::size_t>(std::find(kWhatIfKinds.begin(), kWhatIfKinds.end(), pair.kind) -
                                  kWhatIfKinds.begin());
}

void compare(const RowResult& a, const RowResult& b, Pairs& pairs) {
  const Contrast contrast = contrast_of(a.row, b.row);
  if (contrast.choices.size() != 1 || !contrast.is_stated) return;
  if (!a.row.has_answer() || !b.row.has_answer()) return;
  if (!a.prediction.is_predicted() || !b.prediction.is_predicted()) {
    ++pairs.not_predicted;
    return;
  }
  RowPair pair;
  pair.first = &a;
  pair.second = &b;
  name(contrast.choices.front(), pair);
  pair.what_if = rank_of(pair) < kWhatIfKinds.size();
  measure(pair);
  if (pair.time || pair.memory)
    pairs.judged.push_back(std::move(pair));
  else
    ++pairs.nothing_in_common;
}

/// Rows of one setup that nothing tells apart, as sets.
void gather_alike(const std::vector<const RowResult*>& setup, Pairs& pairs) {
  std::vector<bool> is_taken(setup.size());
  for (std::size_t i = 0; i < setup.size(); ++i) {
    if (is_taken[i] || !setup[i]->row.has_answer()) continue;
    std::vector<const RowResult*> alike{setup[i]};
    for (std::size_t j = i + 1; j < setup.size(); ++j) {
      if (!setup[j]->row.has_answer() || !contrast_of(setup[i]->row, setup[j]->row).choices.empty())
        continue;
      is_taken[j] = true;
      alike.push_back(setup[j]);
    }
    if (alike.size() > 1) pairs.alike.push_back(std::move(alike));
  }
}

bool are_one_setup(const RowResult& a, const RowResult& b) {
  return machine_and_model_of(a.row) == machine_and_model_of(b.row) &&
         contrast_of(a.row, b.row).choices.empty();
}

}  // namespace

const std::vector<std::string> kWhatIfKinds{"reshard after forward", "checkpointing", "compile",
                                            "fused downcast", "float8"};

bool Effect::is_none() const { return std::abs(published) < kNoise; }

bool Effect::is_sign_right() const {
  return is_none() ? std::abs(predicted) < kSmall : published * predicted > 0;
}

bool TimeEffect::is_within() const { return std::abs(predicted - published) <= kPairTimeBar; }

bool MemoryEffect::is_within() const {
  return is_none() ? std::abs(predicted) < kSmall
                   : std::abs(predicted - published) <= kPairMemoryBar * std::abs(published);
}

void PairCounts::add(const RowPair& pair) {
  ++pairs;
  if (pair.time) {
    ++times;
    time_signs += pair.time->is_sign_right() ? 1 : 0;
    times_within += pair.time->is_within() ? 1 : 0;
  }
  if (pair.memory) {
    ++memories;
    memory_signs += pair.memory->is_sign_right() ? 1 : 0;
    memories_within += pair.memory->is_within() ? 1 : 0;
  }
}

std::optional<bool> PairCounts::are_signs_right() const {
  return all(time_signs + memory_signs, times + memories);
}
std::optional<bool> PairCounts::are_times_within() const { return all(times_within, times); }
std::optional<bool> PairCounts::are_memories_within() const {
  return all(memories_within, memories);
}

PairCounts count_what_ifs(const std::vector<RowResult>& rows) {
  PairCounts counts;
  for (const RowPair& pair : find_pairs(rows).judged)
    if (pair.what_if) counts.add(pair);
  return counts;
}

Pairs find_pairs(const std::vector<RowResult>& rows) {
  std::map<std::string, std::size_t> known;
  std::vector<std::vector<const RowResult*>> setups;
  for (const RowResult& row : rows) {
    const auto [at, is_new] = known.try_emplace(setup_of(row.row), setups.size());
    if (is_new) setups.emplace_back();
    setups[at->second].push_back(&row);
  }
  Pairs pairs;
  for (const auto& setup : setups) {
    for (std::size_t i = 0; i < setup.size(); ++i)
      for (std::size_t j = i + 1; j < setup.size(); ++j) compare(*setup[i], *setup[j], pairs);
    gather_alike(setup, pairs);
  }
  std::stable_sort(pairs.judged.begin(), pairs.judged.end(), [](const auto& a, const auto& b) {
    return std::pair(rank_of(a), a.kind) < std::pair(rank_of(b), b.kind);
  });
  return pairs;
}

std::vector<Contradiction> find_contradictions(const Pairs& pairs) {
  std::vector<Contradiction> found;
  for (std::size_t i = 0; i < pairs.judged.size(); ++i) {
    const RowPair& a = pairs.judged[i];
    for (std::size_t j = i + 1; a.what_if && a.time && j < pairs.judged.size(); ++j) {
      const RowPair& b = pairs.judged[j];
      if (!b.time || std::abs(a.time->published - b.time->published) <= 2 * kPairTimeBar) continue;
      if (are_one_setup(*a.first, *b.first) && are_one_setup(*a.second, *b.second))
        found.push_back({&a, &b});
    }
  }
  return found;
}

}  // namespace foregather::tasks
