#include "tasks/validation/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <span>

#include "sim/cost/hardware.h"
#include "tasks/parallel.h"
#include "tasks/validation/errors.h"
#include "tasks/validation/gpu_steps.h"
#include "tasks/validation/pairs.h"
#include "tasks/validation/row_machine.h"
#include "tasks/validation/row_script.h"

namespace foregather::tasks {
namespace {

constexpr double kMostOfOneRow = 0.3;  // |ln(predicted / published)|
constexpr std::string_view kGpuGroup = "measured on a GPU";

struct Figure {
  std::string_view key, applies;
  std::string_view section, name, also;  ///< in hardware files; `also` may be empty
  bool (*is_of)(const MeasuredRow& row, const std::string& hardware);
  /// `name` of that hardware where the figure is `value` on the boards it is stated for.
  double (*at)(const std::string& hardware, std::string_view name, double value);
  double least, step;
  std::size_t values;

  double value(std::size_t i) const { return least + step * static_cast<double>(i); }
};

bool is_hopper(const std::string& hardware) {
  return hardware.starts_with("h100_") || hardware.starts_with("h200_");
}

double same(const std::string&, std::string_view, double value) { return value; }

// Power grows with clock × voltage², and voltage with clock: (500 W / 700 W)^(1/3).
double at_power(const std::string& hardware, std::string_view, double value) {
  constexpr double kAt500W = 0.894;
  return hardware.find("500w") == std::string::npos ? value : value * kAt500W;
}

// Rows are predicted with the rate that they have; its factor is put into the efficiency.
double triton_rate(const std::string& hardware, std::string_view name, double value) {
  const sim::Hardware::Efficiency of = sim::load_hardware(hardware)->efficiency;
  return (name == "attention_forward" ? of.attention_forward : of.attention_backward) * value /
         kTritonAttention;
}

// The spread ends where sources do: Sinha et al. (SC22) saw GPUs of one kind differ by 8 % between
// the slow and the fast end, here two standard deviations.
constexpr std::array kFigures{
    Figure{"compute.rank_spread", "all", "compute", "rank_spread", "",
           [](const MeasuredRow& row, const std::string&) { return row.gpus.value_or(1) > 1; },
           same, 0.0, 0.01, 5},
    Figure{"compute.sustained_clock", "h100_sxm; × 0.894 for the boards of 500 W", "compute",
           "sustained_clock", "",
           [](const MeasuredRow&, const std::string& hardware) { return is_hopper(hardware); },
           at_power, 0.8, 0.02, 5},
    Figure{"compute.memory_bound_power", "h100_sxm, also the boards of 500 W", "compute",
           "memory_bound_power", "",
           [](const MeasuredRow&, const std::string& hardware) { return is_hopper(hardware); },
           same, 0.6, 0.1, 5},
    Figure{"efficiency.gemm_f8", "h100_sxm", "efficiency", "gemm_f8", "",
           [](const MeasuredRow& row, const std::string& hardware) {
             return is_hopper(hardware) && row.compute != "bf16";
           },
           same, 0.65, 0.05, 5},
    Figure{"kTritonAttention", "MPT", "efficiency", "attention_forward", "attention_backward",
           [](const MeasuredRow& row, const std::string&) { return runs_triton(row); }, triton_rate,
           0.5, 0.05, 5},
};

using FitPoint = std::array<std::size_t, kFigures.size()>;

/// Counts what is done, by any thread.
class Count {
 public:
  /// `progress` is borrowed, and may be empty.
  Count(const std::function<void(const FitProgress&)>& progress, std::string_view of,
        std::size_t all)
      : progress_(progress), now_{of, 0, all} {}

  void add(std::size_t more) {
    const std::lock_guard lock(mutex_);
    now_.done += more;
    if (progress_) progress_(now_);
  }

 private:
  const std::function<void(const FitProgress&)>& progress_;
  std::mutex mutex_;
  FitProgress now_;
};

std::vector<FitPoint> all_points() {
  std::vector<FitPoint> points{FitPoint{}};
  for (std::size_t figure = 0; figure < kFigures.size(); ++figure) {
    std::vector<FitPoint> longer;
    for (const FitPoint& point : points)
      for (std::size_t i = 0; i < kFigures[figure].values; ++i) {
        longer.push_back(point);
        longer.back()[figure] = i;
      }
    points = std::move(longer);
  }
  return points;
}

/// One row's error, ln(predicted / published), for each value of the figures that concern it.
class RowErrors {
 public:
  /// `row` is borrowed.
  RowErrors(const MeasuredRow& row, std::string hardware)
      : row_(&row), hardware_(std::move(hardware)) {
    for (std::size_t i = 0; i < kFigures.size(); ++i)
      concerns_[i] = kFigures[i].is_of(row, hardware_);
  }

  const MeasuredRow& row() const { return *row_; }
  const std::string& group() const { return row_->group; }
  bool concerns(std::size_t figure) const { return concerns_[figure]; }

  void predict(std::span<const FitPoint> points, const std::string& directory) {
    for (const FitPoint& point : points) {
      const auto [at, is_new] = errors_.try_emplace(own(point), std::nullopt);
      if (!is_new) continue;
      const RowPrediction prediction = predict_row(*row_, directory, overlay(point));
      if (prediction.is_predicted())
        at->second = std::log(static_cast<double>(prediction.step) / 1e9 / *row_->step_time_s);
    }
  }

  std::optional<double> at(const FitPoint& point) const { return errors_.at(own(point)); }
  void set(const FitPoint& point, double error) { errors_[own(point)] = error; }

  /// The point without the figures that do not concern the row.
  FitPoint own(FitPoint point) const {
    for (std::size_t i = 0; i < point.size(); ++i)
      if (!concerns_[i]) point[i] = 0;
    return point;
  }

  /// Sections of a hardware file with the point's figures.
  std::string overlay(const FitPoint& point) const {
    std::map<std::string_view, std::string> sections;
    for (std::size_t i = 0; i < kFigures.size(); ++i) {
      const Figure& figure = kFigures[i];
      if (!concerns_[i]) continue;
      for (const std::string_view name : {figure.name, figure.also})
        if (!name.empty())
          sections[figure.section] +=
              fmt::format("{} = {{ value = {:.6f}, unit = \"1\", source = \"tried by a fit\" }}\n",
                          name, figure.at(hardware_, name, figure.value(point[i])));
    }
    std::string text;
    for (const auto& [section, lines] : sections) text += fmt::format("[{}]\n{}", section, lines);
    return text;
  }

 private:
  const MeasuredRow* row_;
  std::string hardware_;
  std::array<bool, kFigures.size()> concerns_{};
  std::map<FitPoint, std::optional<double>> errors_;
};

/// Results of one source, and what-ifs among them.
struct Group {
  std::vector<const RowErrors*> rows;
  std::vector<std::pair<const RowErrors*, const RowErrors*>> what_ifs;
};

using Groups = std::map<std::string, Group>;

Groups groups_of(const std::vector<RowErrors>& rows) {
  Groups groups;
  std::vector<RowResult> results;
  std::map<std::string, const RowErrors*> by_id;
  for (const RowErrors& row : rows) {
    if (!row.at(FitPoint{})) continue;
    groups[row.group()].rows.push_back(&row);
    by_id[row.row().id] = &row;
    results.push_back({row.row(), {}});
  }
  for (const RowPair& pair : find_pairs(results).judged)
    if (pair.what_if)
      groups[pair.first->row.group].what_ifs.emplace_back(by_id.at(pair.first->row.id),
                                                          by_id.at(pair.second->row.id));
  return groups;
}

/// The mean |error| of the steps, and of what each what-if changes: half of it each.
double loss(const Group& group, const FitPoint& point) {
  const auto limited = [](double error) { return std::min(std::abs(error), kMostOfOneRow); };
  double steps = 0;
  for (const RowErrors* row : group.rows) steps += limited(row->at(point).value_or(kMostOfOneRow));
  steps /= static_cast<double>(group.rows.size());
  if (group.what_ifs.empty()) return steps;
  double changes = 0;
  for (const auto& [first, second] : group.what_ifs)
    if (const auto a = first->at(point), b = second->at(point); a && b) changes += limited(*b - *a);
  return (steps + changes / static_cast<double>(group.what_ifs.size())) / 2;
}

/// By group, of each of the points.
using Losses = std::map<std::string, std::vector<double>>;

Losses losses_of(const Groups& groups, std::span<const FitPoint> points) {
  Losses losses;
  for (const auto& [name, group] : groups)
    for (const FitPoint& point : points) losses[name].push_back(loss(group, point));
  return losses;
}

FitPoint best(const Losses& losses, std::span<const FitPoint> points, const std::string& left_out) {
  FitPoint at{};
  double least = INFINITY;
  for (std::size_t i = 0; i < points.size(); ++i) {
    double sum = 0;
    for (const auto& [name, of] : losses)
      if (name != left_out) sum += of[i];
    if (sum >= least) continue;
    least = sum;
    at = points[i];
  }
  return at;
}

void add_errors(const std::vector<const RowErrors*>& rows, const FitPoint& point,
                std::vector<std::pair<double, double>>& errors) {
  for (const RowErrors* row : rows)
    if (const auto error = row->at(point))
      errors.emplace_back(std::abs(std::exp(*error) - 1), 1.0 / static_cast<double>(rows.size()));
}

/// The steps of one group, of an H200. `like` is what figures ask of rows: as of float8, whose
/// figure changes nothing of the others.
struct GpuRows {
  MeasuredRow like;
  std::vector<RowErrors> errors;
};

Status predict_gpu_rows(const std::string& path, const std::string& directory,
                        std::span<const FitPoint> points,
                        const std::function<void(const FitProgress&)>& progress, GpuRows& rows) {
  rows.like.group = kGpuGroup;
  rows.like.compute = "fp8";
  rows.like.gpus = 1;
  const RowErrors any(rows.like, "h200_sxm");
  std::set<FitPoint> own;
  for (const FitPoint& point : points) own.insert(any.own(point));
  Count count(progress, "measured steps", own.size());
  for (const FitPoint& point : own) {
    const auto steps = predict_busy_gpu_steps(path, directory, any.overlay(point));
    if (!steps) return tl::unexpected(steps.error());
    rows.errors.resize(steps->size(), any);
    for (std::size_t i = 0; i < steps->size(); ++i)
      rows.errors[i].set(point, std::log(static_cast<double>((*steps)[i].predicted_step) /
                                         static_cast<double>((*steps)[i].step)));
    count.add(1);
  }
  return {};
}

}  // namespace

Result<Fit> fit(const std::string& measured, const std::string& directory,
                const std::string& gpu_steps,
                const std::function<void(const FitProgress&)>& progress) {
  const auto table = read_measured(measured);
  if (!table) return tl::unexpected(table.error());
  std::vector<RowErrors> rows;
  for (const MeasuredRow& row : *table) {
    if (!row.fault.empty()) continue;
    const auto machine = machine_of(row);
    if (row.tier == "A" && row.step_time_s && machine) rows.emplace_back(row, machine->hardware);
  }
  if (rows.empty()) return fail_at(measured, "has no step times of tier A to fit to");
  const std::vector<FitPoint> points = all_points();
  Count count(progress, "rows", rows.size());
  in_parallel(rows.size(), [&](std::size_t i) {
    rows[i].predict(points, directory);
    count.add(1);
  });

  Groups groups = groups_of(rows);
  GpuRows of_gpu;
  if (!gpu_steps.empty()) {
    if (Status done = predict_gpu_rows(gpu_steps, directory, points, progress, of_gpu); !done)
      return tl::unexpected(done.error());
    for (const RowErrors& row : of_gpu.errors) groups[row.group()].rows.push_back(&row);
  }
  const Losses losses = losses_of(groups, points);
  const FitPoint all = best(losses, points, {});
  Fit result;
  for (std::size_t i = 0; i < kFigures.size(); ++i) {
    const double value = kFigures[i].value(all[i]);
    result.figures.push_back({kFigures[i].key, kFigures[i].applies, value, value, value, 0});
  }
  std::vector<std::pair<double, double>> errors, held_out;
  for (const auto& [name, group] : groups) {
    const auto& own = group.rows;
    const FitPoint without = best(losses, points, name);
    if (name != kGpuGroup) {
      add_errors(own, all, errors);
      add_errors(own, without, held_out);
    }
    for (std::size_t i = 0; i < kFigures.size(); ++i) {
      FittedFigure& figure = result.figures[i];
      if (std::any_of(own.begin(), own.end(), [&](const RowErrors* r) { return r->concerns(i); }))
        ++figure.groups;
      figure.least = std::min(figure.least, kFigures[i].value(without[i]));
      figure.most = std::max(figure.most, kFigures[i].value(without[i]));
    }
  }
  result.median = weighted_quantile(errors, 0.5);
  result.held_out_median = weighted_quantile(held_out, 0.5);
  return result;
}

std::string fit_text(const Fit& fit) {
  std::string text;
  for (const FittedFigure& figure : fit.figures)
    text +=
        fmt::format("{} = {:.3f}   {}; {} groups; {:.3f} to {:.3f} with one left out\n", figure.key,
                    figure.value, figure.applies, figure.groups, figure.least, figure.most);
  text += fmt::format(
      "tier A, step time, groups weighted equally: median error {:.1f} %, {:.1f} % held out\n",
      100 * fit.median.value_or(0), 100 * fit.held_out_median.value_or(0));
  return text;
}

}  // namespace foregather::tasks
