// Measured times of pieces of work, and what they say of work between them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/run/work_sample.h"

namespace foregather::sim {

struct Hardware;

/// Is it attention by cuDNN's kernels? Nothing where neither a kernel nor the schedule says.
std::optional<bool> is_by_cudnn(const run::WorkSample& work);

/// Time in ns of one piece of work by the model alone, without measured rows.
double modelled_time(const run::WorkSample& work, const Hardware& hardware);

struct Estimate {
  double time = 0;  ///< ns
  /// Outside of what was measured: larger or smaller than every row that it rests on, or of a
  /// kernel that has none.
  bool is_extrapolated = false;
};

/// Rows of measured work in pools: those of one kernel, of one family of kernels (their names
/// without template arguments), of one kind and type of number, of one kind, and all; of the latter
/// three first the rows with a cost, for work that has one, of attention those of its kernels. A
/// work is estimated by the narrowest pool that has rows: a straight line of time over the measure
/// of work (the model's time, FLOPs, threads or bytes) under which the rows predict each other
/// best, fitted by the median of all slopes (Theil and Sen), times how far the nearest rows lie off
/// that line. A pool of less than four rows takes the line of the next wider one.
///
/// Deterministic: + − × ÷ and comparisons. Making it: a pool of n rows takes min(n, 24)³ log n;
/// an estimate is linear in its pool.
class MeasuredTable {
 public:
  /// The model's time of each row is by the figures of `hardware`.
  MeasuredTable(std::vector<run::WorkSample> rows, const Hardware& hardware);

  /// Of a work whose kernel is known, or not (`kernel` empty): then only rows with a cost count,
  /// and nothing comes of a kind that has none.
  std::optional<Estimate> estimate(const run::WorkSample& work, const Hardware& hardware) const;

  std::span<const run::WorkSample> rows() const { return rows_; }

 private:
  static constexpr std::size_t kMeasures = 4;
  using Measures = std::array<double, kMeasures>;  ///< 0: not known
  struct Line {
    double floor = 0, slope = 0;
    double at(double measure) const { return floor + slope * measure; }
  };
  struct Pool {
    std::vector<std::uint32_t> rows;
    std::optional<std::size_t> measure;  ///< absent: too few rows, or none that all of them have
    std::array<std::optional<Line>, kMeasures> lines;
  };
  using Pools = std::map<std::string, Pool, std::less<>>;
  struct Basis {
    std::size_t measure = 0;
    Line line;
  };

  Measures measures_of(const run::WorkSample& work, const Hardware& hardware) const;
  double distance(const run::WorkSample& a, const Measures& of_a, std::uint32_t row,
                  std::size_t measure) const;
  Line line_of(std::span<const std::uint32_t> rows, std::size_t measure) const;
  double beside(std::span<const std::uint32_t> rows, const run::WorkSample& work,
                const Measures& measures, std::size_t measure, const Line& line,
                std::size_t nearest) const;
  void choose_measure(Pool& pool, std::size_t nearest) const;
  const Pool* pool(const std::string& name) const;  ///< null: no rows
  /// How the first of these pools measures work of these measures; nothing: they share none.
  std::optional<Basis> basis(std::span<const std::string> names, const Measures& measures) const;
  bool is_inside(const Pool& pool, const run::WorkSample& work, const Measures& measures) const;

  std::vector<run::WorkSample> rows_;
  std::vector<Measures> measures_;
  Pools pools_;
};

}  // namespace foregather::sim
