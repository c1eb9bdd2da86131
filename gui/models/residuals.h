// The table of residuals: what was predicted, what was measured, and why.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gui/models/session.h"

namespace foregather::gui {

enum class ResidualColumn : std::uint8_t {
  kind,
  phase,
  scope,
  op,
  level,
  first,
  second,
  difference,
  error,
  source,
};
inline constexpr std::size_t kResidualColumns = 10;

/// A group of compare::Matching: usually one op and its counterpart.
struct ResidualRow {
  std::size_t pair = 0;
  std::uint32_t group = 0;
  run::OpRow first, second;  ///< the first op of each side; absent: that side has none
  StringId source;  ///< of all its ops of the first side, else of the second; absent: they differ
};

/// How many of the rows lie in which bin of the relative error.
struct ErrorHistogram {
  static constexpr std::size_t kBins = 21;
  /// −105…−95 %, …, −5…+5 %, …; the outer two hold what lies beyond, too.
  std::array<std::int64_t, kBins> rows{};
  std::array<Ns, kBins> measured{};  ///< their measured time
  std::int64_t without = 0;          ///< rows that have no relative error
};

/// Every group of every pair, those of one side alone included. The session must outlive it.
class Residuals {
 public:
  explicit Residuals(const Session& session);

  std::size_t all() const { return rows_.size(); }
  /// Of those shown: groups of one side alone.
  std::size_t unmatched() const { return unmatched_; }
  /// Those that pass the filter, in order; initially all, the largest difference first.
  const std::vector<std::uint32_t>& shown() const { return shown_; }
  const ResidualRow& row(std::uint32_t index) const { return rows_[index]; }
  /// That of a group of a pair that was compared.
  const ResidualRow& of(std::size_t pair, std::uint32_t group) const {
    return rows_[first_of_pair_[pair] + group];
  }
  const compare::MatchedGroup& group(const ResidualRow& row) const;

  /// Equal rows keep their order. Rows that have no error are last, whichever way.
  void sort(ResidualColumn column, bool ascending);
  /// Rows whose key, kind or source holds the text, case ignored; with `met_only` no unmatched one.
  void filter(const std::string& text, bool met_only);

  /// Of the column; two runs of one kind are A and B.
  std::string title(ResidualColumn column) const;
  std::string text(const ResidualRow& row, ResidualColumn column) const;
  std::optional<double> error(const ResidualRow& row) const;
  ErrorHistogram histogram() const;  ///< of the rows shown
  /// The rows shown as comma-separated values with a header: integer ns, error as a fraction.
  std::string csv() const;

 private:
  /// Its key; where several ranks are open, with its rank.
  std::string op(const ResidualRow& row) const;
  std::string_view source(const ResidualRow& row) const;
  std::string_view scope(const ResidualRow& row) const;

  const Session* session_;
  std::vector<ResidualRow> rows_;
  std::vector<std::size_t> first_of_pair_;  ///< in rows_
  std::vector<std::uint32_t> shown_;
  std::size_t unmatched_ = 0;
  ResidualColumn column_ = ResidualColumn::difference;
  bool ascending_ = false;
};

/// What is missing where there are no residuals, and what to do; null: nothing is open.
std::string_view why_no_residuals(const Session* session);

}  // namespace foregather::gui
