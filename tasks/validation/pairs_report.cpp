#include "tasks/validation/pairs_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/text.h"
#include "tasks/validation/markdown.h"
#include "tasks/validation/mechanism.h"

namespace foregather::tasks {
namespace {

constexpr std::size_t kWorstPairs = 10;

const std::vector<std::string> kPairHeads{"differ in",          "pairs",
                                          "time: sign right",   "within 2 points",
                                          "memory: sign right", "difference within 20 %"};

struct KindCounts {
  std::string kind;
  PairCounts counts;
};

/// Every kind of what-if, the what-ifs together, every other kind, all.
std::vector<KindCounts> counts_of(const Pairs& pairs) {
  std::vector<KindCounts> what_ifs, others;
  for (const std::string& kind : kWhatIfKinds) what_ifs.push_back({kind, {}});
  KindCounts together{"what-ifs together", {}}, all{"all pairs", {}};
  for (const RowPair& pair : pairs.judged) {
    std::vector<KindCounts>& kinds = pair.what_if ? what_ifs : others;
    auto at = std::find_if(kinds.begin(), kinds.end(),
                           [&](const KindCounts& counts) { return counts.kind == pair.kind; });
    if (at == kinds.end()) at = kinds.insert(kinds.end(), {pair.kind, {}});
    at->counts.add(pair);
    if (pair.what_if) together.counts.add(pair);
    all.counts.add(pair);
  }
  what_ifs.push_back(together);
  what_ifs.insert(what_ifs.end(), others.begin(), others.end());
  what_ifs.push_back(all);
  return what_ifs;
}

std::vector<std::string> count_cells(const KindCounts& kind) {
  const PairCounts& n = kind.counts;
  return {kind.kind,
          fmt::format("{}", n.pairs),
          n_of_m(n.time_signs, n.times),
          n_of_m(n.times_within, n.times),
          n_of_m(n.memory_signs, n.memories),
          n_of_m(n.memories_within, n.memories)};
}

std::string effect_text(const Effect& effect) {
  return fmt::format("{} ({})", signed_percent(effect.predicted), signed_percent(effect.published));
}

std::string verdict(const RowPair& pair) {
  std::vector<std::string_view> misses;
  if (pair.time && !pair.time->is_sign_right()) misses.emplace_back("time's sign");
  if (pair.time && !pair.time->is_within()) misses.emplace_back("time");
  if (pair.memory && !pair.memory->is_sign_right()) misses.emplace_back("memory's sign");
  if (pair.memory && !pair.memory->is_within()) misses.emplace_back("memory");
  return fmt::format("{}", fmt::join(misses, ", "));
}

std::vector<std::string> pair_cells(const RowPair& pair) {
  return {pair.kind,
          "`" + pair.first->row.id + "`",
          "`" + pair.second->row.id + "`",
          pair.change,
          pair.time ? effect_text(*pair.time) : "–",
          pair.memory ? effect_text(*pair.memory) : "–",
          verdict(pair)};
}

double gap_of(const Effect& effect) { return std::abs(effect.predicted - effect.published); }

/// Which of the two results the gap comes from, and why.
std::string explanation(const RowPair& pair, bool is_time) {
  const auto error_of = [&](const RowResult& row) {
    return (is_time ? row.time_error() : row.peak_error()).value_or(0);
  };
  const bool is_second = std::abs(error_of(*pair.second)) > std::abs(error_of(*pair.first));
  const RowResult& worse = is_second ? *pair.second : *pair.first;
  return fmt::format("Errors of the two: {} and {}. {}: {}", signed_percent(error_of(*pair.first)),
                     signed_percent(error_of(*pair.second)), is_second ? "The second" : "The first",
                     is_time ? mechanism_of_time(worse) : mechanism_of_peak(worse));
}

std::string worst_text(const Pairs& pairs, bool is_time) {
  const auto effect_of = [&](const RowPair& pair) -> const Effect* {
    if (is_time) return pair.time && !pair.time->is_within() ? &*pair.time : nullptr;
    return pair.memory && !pair.memory->is_within() ? &*pair.memory : nullptr;
  };
  std::vector<const RowPair*> worst;
  for (const RowPair& pair : pairs.judged)
    if (pair.what_if && effect_of(pair)) worst.push_back(&pair);
  std::stable_sort(worst.begin(), worst.end(), [&](const RowPair* a, const RowPair* b) {
    return gap_of(*effect_of(*a)) > gap_of(*effect_of(*b));
  });
  worst.resize(std::min(worst.size(), kWorstPairs));
  std::string text;
  for (const RowPair* pair : worst)
    text += fmt::format("- {}, `{}` and `{}`: {} {} predicted, {} published. {}\n", pair->kind,
                        pair->first->row.id, pair->second->row.id, is_time ? "time" : "peak",
                        signed_percent(effect_of(*pair)->predicted),
                        signed_percent(effect_of(*pair)->published), explanation(*pair, is_time));
  return text;
}

std::string contradictions_text(const Pairs& pairs) {
  std::string text;
  const auto pair_text = [](const RowPair& pair) {
    return fmt::format("`{}` to `{}` ({})", pair.first->row.id, pair.second->row.id,
                       signed_percent(pair.time->published));
  };
  for (const Contradiction& each : find_contradictions(pairs))
    text += fmt::format("- {}: {}, {}\n", each.a->kind, pair_text(*each.a), pair_text(*each.b));
  if (text.empty()) return {};
  return "\nPublished changes of one setup that differ by more than 4 points: at most one of the "
         "two can be predicted within 2.\n\n" +
         text;
}

/// "step times up to 11.7 % apart"; nothing where fewer than two have the figure.
void add_spread(const std::vector<const RowResult*>& rows,
                std::optional<double> MeasuredRow::*figure, std::string_view name,
                std::vector<std::string>& texts) {
  std::vector<double> values;
  for (const RowResult* row : rows)
    if (row->row.*figure) values.push_back(*(row->row.*figure));
  if (values.size() < 2) return;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  texts.push_back(fmt::format("{} up to {} apart", name, percent(*most / *least - 1)));
}

std::string alike_text(const Pairs& pairs) {
  if (pairs.alike.empty()) return {};
  std::string text =
      "\nNo column tells these results apart, although they are of different runs:\n\n";
  for (const auto& rows : pairs.alike) {
    std::vector<std::string> ids, spreads;
    for (const RowResult* row : rows) ids.push_back("`" + row->row.id + "`");
    add_spread(rows, &MeasuredRow::step_time_s, "step times", spreads);
    add_spread(rows, &MeasuredRow::peak_gib, "peaks", spreads);
    text += fmt::format(
        "- {}: {}\n", fmt::join(ids, ", "),
        spreads.empty() ? "no figure in common" : fmt::format("{}", fmt::join(spreads, ", ")));
  }
  return text;
}

constexpr std::string_view kPairIntroduction =
    "\n## Pairs: what one choice changes\n\n"
    "Two results of one group that differ in one choice and agree in every other column of the run "
    "(GPUs, model,\nbatch, dtypes, ...): what the second changes, as a share of the first, "
    "predicted and in brackets published. A strategy that\ncompiles (Thunder, DeepCompile) brings "
    "its own compile_key. Values that are not stated make no pair. What must hold for "
    "what-ifs:\nthe sign is right, times differ by at most 2 points, differences of the peak by at "
    "most 20 % of the published one. A published\neffect below 1 % is none: then both hold where "
    "less than 2 % is predicted (of time, within 2 points too).\nChunked cross-entropy is not told "
    "by the columns.\n\n";

std::string left_out_text(const Pairs& pairs) {
  return fmt::format(
      "\n{} more pairs have a result that is not predicted; {} have no figure in common.\n",
      pairs.not_predicted, pairs.nothing_in_common);
}

void write_effect(JsonWriter& json, std::string_view name, const Effect& effect, bool is_within) {
  json.key(name).begin_object();
  json.field("published", effect.published);
  json.field("predicted", effect.predicted);
  json.field("sign_right", effect.is_sign_right());
  json.field("within", is_within);
  json.end_object();
}

void write_pair(JsonWriter& json, const RowPair& pair) {
  json.begin_object();
  json.field("kind", std::string_view(pair.kind));
  json.field("change", std::string_view(pair.change));
  json.field("what_if", pair.what_if);
  json.field("first", std::string_view(pair.first->row.id));
  json.field("second", std::string_view(pair.second->row.id));
  if (pair.time) write_effect(json, "time", *pair.time, pair.time->is_within());
  if (pair.memory) write_effect(json, "memory", *pair.memory, pair.memory->is_within());
  json.end_object();
}

void write_counts(JsonWriter& json, const PairCounts& counts) {
  json.begin_object();
  json.field("pairs", counts.pairs);
  json.field("time_n", counts.times);
  json.field("time_sign_right", counts.time_signs);
  json.field("time_within_2_points", counts.times_within);
  json.field("memory_n", counts.memories);
  json.field("memory_sign_right", counts.memory_signs);
  json.field("memory_within_20_percent", counts.memories_within);
  json.end_object();
}

}  // namespace

std::string pairs_markdown(const std::vector<RowResult>& rows) {
  const Pairs pairs = find_pairs(rows);
  if (pairs.judged.empty()) return {};
  std::vector<std::vector<std::string>> counts, cells;
  for (const KindCounts& kind : counts_of(pairs)) counts.push_back(count_cells(kind));
  for (const RowPair& pair : pairs.judged) cells.push_back(pair_cells(pair));
  std::string text = std::string(kPairIntroduction) + markdown_table(kPairHeads, counts);
  text += left_out_text(pairs) + "\n";
  text +=
      markdown_table({"differ in", "first", "second", "change", "time", "peak", "does not hold"},
                     cells, "llllrrl");
  const std::string worst = worst_text(pairs, true) + worst_text(pairs, false);
  if (!worst.empty()) text += "\nThe worst what-ifs:\n\n" + worst;
  return text + contradictions_text(pairs) + alike_text(pairs);
}

std::string pairs_text(const std::vector<RowResult>& rows) {
  const Pairs pairs = find_pairs(rows);
  if (pairs.judged.empty()) return {};
  TextTable table;
  table.row(kPairHeads);
  for (const KindCounts& kind : counts_of(pairs)) table.row(count_cells(kind));
  return "\n" + table.text();
}

void write_pairs(JsonWriter& json, const std::vector<RowResult>& rows) {
  const Pairs pairs = find_pairs(rows);
  json.key("pair_counts").begin_object();
  for (const KindCounts& kind : counts_of(pairs)) {
    json.key(kind.kind);
    write_counts(json, kind.counts);
  }
  json.end_object();
  json.field("pairs_not_predicted", pairs.not_predicted);
  json.field("pairs_without_common_figure", pairs.nothing_in_common);
  json.key("pairs").begin_array();
  for (const RowPair& pair : pairs.judged) write_pair(json, pair);
  json.end_array();
  json.key("alike").begin_array();
  for (const auto& alike : pairs.alike) {
    json.begin_array();
    for (const RowResult* row : alike) json.value(std::string_view(row->row.id));
    json.end_array();
  }
  json.end_array();
}

}  // namespace foregather::tasks
