#include "gui/models/residuals.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/csv.h"
#include "core/base/text.h"
#include "gui/models/letters.h"

namespace foregather::gui {
namespace {

using namespace std::string_view_literals;

constexpr std::array kTitles{"kind"sv,      "phase"sv,    "scope"sv,      "op"sv,    "level"sv,
                             "predicted"sv, "measured"sv, "difference"sv, "error"sv, "source"sv};

}  // namespace

Residuals::Residuals(const Session& session) : session_(&session) {
  for (std::size_t p = 0; p < session.pairs().size(); ++p) {
    const RankPair& pair = session.pairs()[p];
    first_of_pair_.push_back(rows_.size());
    if (!pair.matching) continue;
    std::array<std::vector<run::OpRow>, 2> first;
    std::array<std::vector<StringId>, 2> sources;
    for (std::size_t side = 0; side < 2; ++side) {
      first[side].resize(pair.matching->groups.size());
      const auto& group_of = pair.matching->group_of[side];
      const std::size_t begin = run::ops_of(session.run(side), pair.sides[side]->step).first;
      sources[side].resize(first[side].size());
      for (std::size_t i = group_of.size(); i-- > 0;) {
        run::OpRow& op = first[side][group_of[i]];
        StringId& source = sources[side][group_of[i]];
        const StringId own = session.run(side).ops.source[begin + i];
        source = !op || source == own ? own : StringId();
        op = run::OpRow(begin + i);
      }
    }
    for (std::uint32_t g = 0; g < pair.matching->groups.size(); ++g)
      rows_.push_back({p, g, first[0][g], first[1][g], sources[first[0][g] ? 0 : 1][g]});
  }
  filter("", false);
}

const compare::MatchedGroup& Residuals::group(const ResidualRow& row) const {
  return session_->pairs()[row.pair].matching->groups[row.group];
}

std::string_view Residuals::source(const ResidualRow& row) const {
  return session_->run(row.first ? 0 : 1).text_of(row.source);
}

std::string Residuals::title(ResidualColumn column) const {
  const bool has_two = session_->sides() > 1;
  if (has_two && column == ResidualColumn::first) return session_->word(0);
  if (has_two && column == ResidualColumn::second) return session_->word(1);
  return std::string(kTitles[static_cast<std::size_t>(column)]);
}

std::string Residuals::op(const ResidualRow& row) const {
  const RankPair& pair = session_->pairs()[row.pair];
  const std::string key = pair.matching->key(group(row));
  if (session_->pairs().size() == 1) return key;
  const std::uint32_t rank = pair.sides[row.first ? 0 : 1]->rank;
  const bool stands_for = row.first && row.second && pair.sides[1]->rank != rank;
  return stands_for ? fmt::format("r{}|r{}/{}", rank, pair.sides[1]->rank, key)
                    : fmt::format("r{}/{}", rank, key);
}

std::string_view Residuals::scope(const ResidualRow& row) const {
  return session_->pairs()[row.pair].matching->scope(group(row));
}

std::optional<double> Residuals::error(const ResidualRow& row) const {
  const compare::MatchedGroup& met = group(row);
  return met.level ? relative_error(met.first_time, met.second_time) : std::nullopt;
}

void Residuals::filter(const std::string& text, bool met_only) {
  const std::string low = lowered(text);
  shown_.clear();
  unmatched_ = 0;
  for (std::uint32_t i = 0; i < rows_.size(); ++i) {
    const compare::MatchedGroup& met = group(rows_[i]);
    if (met_only && !met.level) continue;
    if (low.empty() || holds_text(op(rows_[i]), low) || holds_text(name(met.kind), low) ||
        holds_text(source(rows_[i]), low)) {
      shown_.push_back(i);
      unmatched_ += met.level ? 0 : 1;
    }
  }
  sort(column_, ascending_);
}

void Residuals::sort(ResidualColumn column, bool ascending) {
  column_ = column;
  ascending_ = ascending;
  const auto by_number = [&](auto&& number) {
    std::stable_sort(shown_.begin(), shown_.end(), [&](std::uint32_t a, std::uint32_t b) {
      const auto left = number(rows_[a]), right = number(rows_[b]);
      return ascending ? left < right : left > right;
    });
  };
  const auto by_text = [&](auto&& text) {
    std::stable_sort(shown_.begin(), shown_.end(), [&](std::uint32_t a, std::uint32_t b) {
      const auto left = text(rows_[a]), right = text(rows_[b]);
      return ascending ? left < right : left > right;
    });
  };
  switch (column) {
    case ResidualColumn::kind:
      return by_text([&](const ResidualRow& row) { return name(group(row).kind); });
    case ResidualColumn::phase:
      return by_number([&](const ResidualRow& row) { return group(row).phase; });
    case ResidualColumn::scope: return by_text([&](const ResidualRow& row) { return scope(row); });
    case ResidualColumn::op:
      return by_text([&](const ResidualRow& row) { return text(row, ResidualColumn::op); });
    case ResidualColumn::level:
      return by_number([&](const ResidualRow& row) {
        return group(row).level ? static_cast<int>(*group(row).level)
                                : static_cast<int>(compare::kMatchLevels);
      });
    case ResidualColumn::first:
      return by_number([&](const ResidualRow& row) { return group(row).first_time; });
    case ResidualColumn::second:
      return by_number([&](const ResidualRow& row) { return group(row).second_time; });
    case ResidualColumn::difference:
      return by_number([&](const ResidualRow& row) { return std::abs(group(row).difference()); });
    case ResidualColumn::error:
      by_number([&](const ResidualRow& row) { return std::abs(error(row).value_or(0)); });
      std::stable_partition(shown_.begin(), shown_.end(),
                            [&](std::uint32_t i) { return error(rows_[i]).has_value(); });
      return;
    case ResidualColumn::source:
      return by_text([&](const ResidualRow& row) { return source(row); });
  }
}

std::string Residuals::text(const ResidualRow& row, ResidualColumn column) const {
  const compare::MatchedGroup& met = group(row);
  const bool knows_kind = !met.level || *met.level <= compare::MatchLevel::scope_kind;
  switch (column) {
    case ResidualColumn::kind: return knows_kind ? std::string(name(met.kind)) : "";
    case ResidualColumn::phase: return std::string(name(met.phase));
    case ResidualColumn::scope: return std::string(scope(row));
    case ResidualColumn::op: return op(row);
    case ResidualColumn::level:
      if (met.level) return std::string(name(*met.level));
      return "only " + title(met.first_ops > 0 ? ResidualColumn::first : ResidualColumn::second);
    case ResidualColumn::first: return met.first_ops > 0 ? format_time(met.first_time) : "";
    case ResidualColumn::second: return met.second_ops > 0 ? format_time(met.second_time) : "";
    case ResidualColumn::difference: return format_time(met.difference());
    case ResidualColumn::error: {
      const auto share = error(row);
      return share ? fmt::format("{:+.1f} %", 100 * *share) : "";
    }
    case ResidualColumn::source: return std::string(source(row));
  }
  return {};
}

ErrorHistogram Residuals::histogram() const {
  ErrorHistogram histogram;
  constexpr double kWidth = 0.1;
  constexpr auto kLast = static_cast<double>(ErrorHistogram::kBins - 1);
  for (const std::uint32_t i : shown_) {
    const auto share = error(rows_[i]);
    if (!share) {
      ++histogram.without;
      continue;
    }
    const double bin = std::clamp(std::floor(*share / kWidth + 0.5) + kLast / 2, 0.0, kLast);
    ++histogram.rows[static_cast<std::size_t>(bin)];
    histogram.measured[static_cast<std::size_t>(bin)] += group(rows_[i]).second_time;
  }
  return histogram;
}

std::string Residuals::csv() const {
  std::string out =
      fmt::format("kind,phase,scope,op,level,{}_ns,{}_ns,difference_ns,error,source\n",
                  title(ResidualColumn::first), title(ResidualColumn::second));
  for (const std::uint32_t i : shown_) {
    const ResidualRow& row = rows_[i];
    const compare::MatchedGroup& met = group(row);
    const auto cell = [&](ResidualColumn column) { return csv_cell(text(row, column)); };
    const auto share = error(row);
    out += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", cell(ResidualColumn::kind),
                       cell(ResidualColumn::phase), cell(ResidualColumn::scope),
                       cell(ResidualColumn::op), cell(ResidualColumn::level), met.first_time,
                       met.second_time, met.difference(),
                       share ? fmt::format("{:.6f}", *share) : "", csv_cell(source(row)));
  }
  return out;
}

std::string_view why_no_residuals(const Session* session) {
  if (session == nullptr) return "Residuals need a prediction and a measurement: open both";
  if (session->sides() > 1)
    return "The runs have no ops in common ranks: there is nothing to compare";
  return session->run(0).about.kind == run::RunKind::measured
             ? "Residuals need a prediction and a measurement: open a prediction of this run, too"
             : "Residuals need a prediction and a measurement: open a measurement of this run, too";
}

}  // namespace foregather::gui
