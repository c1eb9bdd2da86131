#include "sim/cost/measured.h"

#include <algorithm>
#include <utility>

#include "core/run/kernel_names.h"
#include "sim/cost/collective.h"
#include "sim/cost/hardware.h"
#include "sim/cost/price.h"
#include "sim/cost/roofline.h"

namespace foregather::sim {

namespace {

using run::WorkSample;

constexpr std::size_t kModel = 0, kFlops = 1, kThreads = 2, kBytes = 3;
/// Rows whose mutual prediction chooses a pool's measure, and rows that a line is laid through.
constexpr std::size_t kMostChoosing = 24, kMostOnLine = 200;
constexpr std::size_t kLeastRows = 4;
/// Of one kernel the nearest rows are alike; of many kernels a few more say what is usual.
constexpr std::size_t kNearestOfKernel = 2, kNearestOfKind = 5;
/// How much the other measures count beside the chosen one, and what a row at no distance weighs.
constexpr double kOtherMeasures = 0.3, kNearEnough = 0.02;
constexpr double kUnlike = 8;  // distance of something known from something unknown

double apart(double a, double b) {
  if (a > 0 && b > 0) return std::max(a, b) / std::min(a, b) - 1;
  return a == b ? 0 : kUnlike;
}
double apart(std::int64_t a, std::int64_t b) {
  return apart(static_cast<double>(a), static_cast<double>(b));
}

double median_of(std::vector<double>& values) {
  const std::size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half),
                   values.end());
  if (values.size() % 2 == 1) return values[half];
  const double above = values[half];
  return (above +
          *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half))) /
         2;
}

std::vector<std::uint32_t> every_so_many(std::span<const std::uint32_t> rows, std::size_t most) {
  if (rows.size() <= most) return {rows.begin(), rows.end()};
  std::vector<std::uint32_t> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(rows[i * rows.size() / most]);
  return some;
}

// The names of the pools that a work may be in, from the narrowest.
std::vector<std::string> pools_of(const WorkSample& work) {
  const std::string kind(name(work.cost.kind));
  const std::string typed = kind + " " + std::string(name(work.cost.dtype));
  std::vector<std::string> names;
  if (!work.kernel.empty())
    names = {"kernel " + work.kernel, "family " + run::kernel_family(work.kernel)};
  if (work.has_cost) {
    const auto by_cudnn = is_by_cudnn(work);
    std::vector<std::string> whose;
    if (work.cost.kind != OpKind::attention)
      whose = {""};
    else if (by_cudnn)
      whose = {*by_cudnn ? " by cuDNN" : " by others"};
    else
      whose = {" by cuDNN", " by others"};
    for (const std::string& of : whose)
      names.insert(names.end(), {"cost " + typed + of, "cost " + kind + of});
    names.emplace_back("cost");
  }
  if (!work.kernel.empty()) names.insert(names.end(), {"typed " + typed, "kind " + kind, "all"});
  return names;
}

std::size_t nearest_in(std::string_view pool) {
  return pool.starts_with("kernel") || pool.starts_with("family") ? kNearestOfKernel
                                                                  : kNearestOfKind;
}

}  // namespace

std::optional<bool> is_by_cudnn(const WorkSample& work) {
  if (work.cost.kind != OpKind::attention) return std::nullopt;
  return work.kernel.empty() ? work.by_cudnn : run::is_cudnn_kernel(work.kernel);
}

double modelled_time(const WorkSample& work, const Hardware& hardware) {
  if (!work.has_cost) return 0;
  if (is_collective(work.cost.kind)) {
    CollectivePricer collectives(hardware, 1.0);
    return collectives.price(work.cost.kind, work.cost.message_bytes, work.ranks, 1).work.time;
  }
  if (hardware.has_cudnn_attention() && is_by_cudnn(work).value_or(false))
    return attention_work(work.cost, hardware, AttentionKernels::cudnn).time;
  return compute_work(work.cost, hardware).time;
}

MeasuredTable::MeasuredTable(std::vector<WorkSample> rows, const Hardware& hardware)
    : rows_(std::move(rows)) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    measures_.push_back(measures_of(rows_[i], hardware));
    const auto row = static_cast<std::uint32_t>(i);
    for (const std::string& pool : pools_of(rows_[i])) pools_[pool].rows.push_back(row);
  }
  for (auto& [name, pool] : pools_) choose_measure(pool, nearest_in(name));
}

MeasuredTable::Measures MeasuredTable::measures_of(const WorkSample& work,
                                                   const Hardware& hardware) const {
  Measures measures{};
  measures[kModel] = modelled_time(work, hardware);
  measures[kFlops] = static_cast<double>(work.cost.flops);
  measures[kBytes] = static_cast<double>(work.bytes());
  measures[kThreads] = static_cast<double>(work.threads);
  return measures;
}

double MeasuredTable::distance(const WorkSample& a, const Measures& of_a, std::uint32_t row,
                               std::size_t measure) const {
  const WorkSample& b = rows_[row];
  double others = apart(a.cost.m, b.cost.m) + apart(a.cost.n, b.cost.n) +
                  apart(a.cost.k, b.cost.k) + apart(a.cost.batch, b.cost.batch) +
                  apart(std::int64_t{a.ranks}, std::int64_t{b.ranks});
  for (const std::size_t other : {kFlops, kThreads, kBytes})
    if (of_a[other] > 0 || !a.kernel.empty()) others += apart(of_a[other], measures_[row][other]);
  return apart(of_a[measure], measures_[row][measure]) + kOtherMeasures * others;
}

MeasuredTable::Line MeasuredTable::line_of(std::span<const std::uint32_t> rows,
                                           std::size_t measure) const {
  const std::vector<std::uint32_t> some = every_so_many(rows, kMostOnLine);
  std::vector<double> values;
  double least = 0;
  for (std::size_t i = 0; i < some.size(); ++i) {
    const auto time = static_cast<double>(rows_[some[i]].time);
    least = i == 0 ? time : std::min(least, time);
    for (std::size_t j = 0; j < i; ++j) {
      const double step = measures_[some[i]][measure] - measures_[some[j]][measure];
      if (step == 0) continue;
      values.push_back((time - static_cast<double>(rows_[some[j]].time)) / step);
    }
  }
  Line line;
  if (!values.empty()) line.slope = std::max(median_of(values), 0.0);
  values.clear();
  for (const std::uint32_t row : some)
    values.push_back(static_cast<double>(rows_[row].time) - line.slope * measures_[row][measure]);
  line.floor = std::clamp(median_of(values), 0.0, least);
  if (line.floor == 0 && line.slope == 0) line.floor = least;
  return line;
}

double MeasuredTable::beside(std::span<const std::uint32_t> rows, const WorkSample& work,
                             const Measures& measures, std::size_t measure, const Line& line,
                             std::size_t nearest) const {
  std::vector<std::pair<double, std::uint32_t>> near;
  near.reserve(rows.size());
  for (const std::uint32_t row : rows)
    near.emplace_back(distance(work, measures, row, measure), row);
  const std::size_t count = std::min(nearest, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
  double weights = 0, ratios = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [far, row] = near[i];
    const double weight = 1 / ((kNearEnough + far) * (kNearEnough + far));
    const double on_line = std::max(line.at(measures_[row][measure]), 1.0);
    ratios += weight * static_cast<double>(rows_[row].time) / on_line;
    weights += weight;
  }
  return std::max(line.at(measures[measure]), 1.0) * ratios / weights;
}

// The measure under which each row is predicted best by the others.
void MeasuredTable::choose_measure(Pool& pool, std::size_t nearest) const {
  const std::vector<std::uint32_t> some = every_so_many(pool.rows, kMostChoosing);
  double best = 0;
  std::vector<std::uint32_t> others;
  for (std::size_t measure = 0; measure < kMeasures; ++measure) {
    const bool all_have = std::all_of(pool.rows.begin(), pool.rows.end(), [&](std::uint32_t row) {
      return measures_[row][measure] > 0;
    });
    if (!all_have) continue;
    pool.lines[measure] = line_of(pool.rows, measure);
    if (some.size() < kLeastRows) continue;
    std::vector<double> errors;
    for (std::size_t i = 0; i < some.size(); ++i) {
      others = some;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      const WorkSample& work = rows_[some[i]];
      const double time =
          beside(others, work, measures_[some[i]], measure, line_of(others, measure), nearest);
      errors.push_back(apart(time, static_cast<double>(work.time)));
    }
    const double error = median_of(errors);
    if (pool.measure && error >= best) continue;
    best = error;
    pool.measure = measure;
  }
}

bool MeasuredTable::is_inside(const Pool& pool, const WorkSample& work,
                              const Measures& measures) const {
  const auto within = [&](double value, auto of_row) {
    double low = of_row(pool.rows.front()), high = low;
    for (const std::uint32_t row : pool.rows) {
      low = std::min(low, of_row(row));
      high = std::max(high, of_row(row));
    }
    return value >= low && value <= high;
  };
  for (const std::size_t measure : {kFlops, kThreads, kBytes})
    if (measures[measure] > 0 &&
        !within(measures[measure], [&](std::uint32_t row) { return measures_[row][measure]; }))
      return false;
  for (std::int64_t Cost::*size : {&Cost::m, &Cost::n, &Cost::k, &Cost::batch})
    if (work.cost.*size > 0 && work.cost.kind != OpKind::copy &&  // its chunks are in no recording
        !within(static_cast<double>(work.cost.*size),
                [&](std::uint32_t row) { return static_cast<double>(rows_[row].cost.*size); }))
      return false;
  return within(work.ranks, [&](std::uint32_t row) { return double{1} * rows_[row].ranks; });
}

const MeasuredTable::Pool* MeasuredTable::pool(const std::string& name) const {
  const auto found = pools_.find(name);
  return found == pools_.end() ? nullptr : &found->second;
}

std::optional<MeasuredTable::Basis> MeasuredTable::basis(std::span<const std::string> names,
                                                         const Measures& measures) const {
  const Pool& own = *pool(names.front());
  if (own.measure && measures[*own.measure] > 0)
    return Basis{*own.measure, *own.lines[*own.measure]};
  for (std::size_t measure = 0; measure < kMeasures; ++measure) {
    if (measures[measure] == 0 || !own.lines[measure]) continue;
    for (const std::string& name : names.subspan(1)) {
      const Pool* const wider = pool(name);
      if (wider != nullptr && wider->rows.size() >= kLeastRows && wider->lines[measure])
        return Basis{measure, *wider->lines[measure]};
    }
    return Basis{measure, *own.lines[measure]};
  }
  return std::nullopt;
}

std::optional<Estimate> MeasuredTable::estimate(const WorkSample& work,
                                                const Hardware& hardware) const {
  const Measures measures = measures_of(work, hardware);
  const std::vector<std::string> names = pools_of(work);
  for (std::size_t i = 0; i < names.size(); ++i) {
    // Of a work without a kernel, those of other kinds say nothing but how times grow.
    if (names[i] == "cost" && work.kernel.empty()) break;
    const Pool* const rows = pool(names[i]);
    if (rows == nullptr) continue;
    const auto by = basis(std::span(names).subspan(i), measures);
    if (!by) continue;
    const double time =
        beside(rows->rows, work, measures, by->measure, by->line, nearest_in(names[i]));
    return Estimate{time, i > 0 || !is_inside(*rows, work, measures)};
  }
  return std::nullopt;
}

}  // namespace foregather::sim
