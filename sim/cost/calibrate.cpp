#include "sim/cost/calibrate.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sim/cost/figure_fit.h"
#include "sim/cost/hardware_schema.h"
#include "sim/cost/measured.h"

namespace foregather::sim {

namespace {

using run::WorkSample;

constexpr double kNarrowest = 0.001;  // what a hardware file may say of a residual

std::optional<Errors> errors_of(std::vector<double> errors) {
  if (errors.empty()) return std::nullopt;
  std::sort(errors.begin(), errors.end());
  const std::size_t n = errors.size();
  const double median = n % 2 == 1 ? errors[n / 2] : (errors[n / 2 - 1] + errors[n / 2]) / 2;
  return Errors{n, median, errors[std::min(n - 1, n * 9 / 10)]};
}

/// The errors of one mechanism as they come in.
struct Tally {
  std::vector<double> base, fitted, held_out, inside, priced;
  std::vector<std::pair<double, Ns>> ratios;  // measured / priced, and the time of all repeats

  void add(const Tally& more) {
    const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(base, more.base);
    append(fitted, more.fitted);
    append(held_out, more.held_out);
    append(inside, more.inside);
    append(priced, more.priced);
  }
  void write(Mechanism& mechanism) const {
    mechanism.base = errors_of(base);
    mechanism.fitted = errors_of(fitted);
    mechanism.held_out = errors_of(held_out);
    mechanism.inside = errors_of(inside);
    mechanism.priced = errors_of(priced);
    if (!held_out.empty())
      mechanism.extrapolated =
          1 - static_cast<double>(inside.size()) / static_cast<double>(held_out.size());
  }
};

class Calibrating {
 public:
  Calibrating(std::span<const WorkSample> samples, const Hardware& base,
              const CalibrationOptions& options)
      : samples_(samples), base_(base), options_(options) {
    base_.measured = nullptr;
  }

  Calibration run() {
    list_mechanisms();
    const std::vector<std::size_t> costs = numbers_of_costs();
    const auto validate_each = [&](auto is_held_out) {
      validate(is_held_out, &Calibrating::judge_shape);
      validate([&](std::size_t i) { return is_held_out(costs[i]); }, &Calibrating::judge_price);
    };
    if (options_.holdout) {
      validate_each([&](std::size_t i) { return is_held_out(i); });
    } else {
      validate_each([](std::size_t i) { return i % 2 == 0; });
      validate_each([](std::size_t i) { return i % 2 == 1; });
    }
    fit_all();
    write();
    return std::move(calibration_);
  }

 private:
  void list_mechanisms() {
    for (const WorkSample& sample : samples_) {
      const auto [row, is_new] =
          rows_.try_emplace({sample.cost.kind, mechanism_of(sample)}, rows_.size());
      (void)row;
      (void)is_new;
    }
    std::size_t next = 0;
    for (auto& [key, row] : rows_) {
      row = next++;
      Mechanism& mechanism = calibration_.mechanisms.emplace_back();
      mechanism.kind = key.first;
      mechanism.name = key.second;
    }
    tallies_.resize(rows_.size());
    for (const WorkSample& sample : samples_) {
      Mechanism& mechanism = calibration_.mechanisms[row_of(sample)];
      ++mechanism.shapes;
      mechanism.priced_shapes += sample.has_cost ? 1 : 0;
      mechanism.total = run::sum_of_times(mechanism.total, sample.total);
    }
  }
  std::size_t row_of(const WorkSample& sample) const {
    return rows_.at({sample.cost.kind, mechanism_of(sample)});
  }

  // Equal costs have one number, in order of their coming: what several kernels did at one shape is
  // held out together where the kernel does not count.
  std::vector<std::size_t> numbers_of_costs() const {
    std::map<std::tuple<OpKind, DType, std::array<std::int64_t, 8>>, std::size_t> known;
    std::vector<std::size_t> numbers;
    for (const WorkSample& sample : samples_) {
      const Cost& cost = sample.cost;
      numbers.push_back(known
                            .try_emplace({cost.kind,
                                          cost.dtype,
                                          {cost.flops, cost.bytes_read, cost.bytes_written, cost.m,
                                           cost.n, cost.k, cost.batch, cost.message_bytes}},
                                         known.size())
                            .first->second);
    }
    return numbers;
  }

  // Evenly over the order.
  bool is_held_out(std::size_t i) const {
    const auto before = static_cast<std::int64_t>(static_cast<double>(i) * *options_.holdout);
    const auto after = static_cast<std::int64_t>(static_cast<double>(i + 1) * *options_.holdout);
    return after > before;
  }

  using Judge = void (Calibrating::*)(const WorkSample&, const MeasuredTable&, const Hardware&);

  template <class IsHeldOut>
  void validate(IsHeldOut is_held_out, Judge judge) {
    SampleList rest;
    std::vector<WorkSample> rows;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (is_held_out(i)) continue;
      rest.push_back(&samples_[i]);
      rows.push_back(samples_[i]);
    }
    const Hardware fitted = fit_figures(rest, base_).hardware;
    const MeasuredTable table(std::move(rows), fitted);
    for (std::size_t i = 0; i < samples_.size(); ++i)
      if (is_held_out(i)) (this->*judge)(samples_[i], table, fitted);
  }

  void judge_shape(const WorkSample& sample, const MeasuredTable& table, const Hardware& fitted) {
    const auto estimate = table.estimate(sample, fitted);
    if (!estimate) return;
    Tally& tally = tallies_[row_of(sample)];
    const double error = relative_error(estimate->time, static_cast<double>(sample.time));
    tally.held_out.push_back(error);
    if (!estimate->is_extrapolated) tally.inside.push_back(error);
  }

  void judge_price(const WorkSample& sample, const MeasuredTable& table, const Hardware& fitted) {
    if (!sample.has_cost) return;
    Tally& tally = tallies_[row_of(sample)];
    const auto measured = static_cast<double>(sample.time);
    WorkSample any = sample;
    any.by_cudnn = is_by_cudnn(sample);
    any.kernel.clear();
    any.threads = 0;
    double predicted = modelled_time(any, fitted);
    if (!is_collective(any.cost.kind))
      if (const auto estimate = table.estimate(any, fitted); estimate && !estimate->is_extrapolated)
        predicted = estimate->time;
    tally.priced.push_back(relative_error(predicted, measured));
    if (predicted > 0) tally.ratios.emplace_back(measured / predicted, sample.total);
  }

  void fit_all() {
    SampleList all;
    for (const WorkSample& sample : samples_) all.push_back(&sample);
    FittedMachine fitted = fit_figures(all, base_);
    calibration_.hardware = std::move(fitted.hardware);
    for (const WorkSample& sample : samples_) {
      if (!sample.has_cost) continue;
      Tally& tally = tallies_[row_of(sample)];
      const auto measured = static_cast<double>(sample.time);
      tally.base.push_back(relative_error(modelled_time(sample, base_), measured));
      tally.fitted.push_back(
          relative_error(modelled_time(sample, calibration_.hardware), measured));
    }
    for (const FigureTask& task : fitted.tasks) {
      const FigureSpec& spec = figure_specs()[task.spec];
      const double base = spec.field(base_), value = spec.field(calibration_.hardware);
      if (value == base) continue;
      std::set<std::size_t> rows;
      for (const WorkSample* sample : task.samples) rows.insert(row_of(*sample));
      is_fitted_.insert(rows.begin(), rows.end());
      calibration_.figures.push_back({task.spec, base, value, together(rows)});
    }
  }

  Mechanism together(const std::set<std::size_t>& rows) const {
    Mechanism mechanism;
    Tally tally;
    for (const std::size_t row : rows) {
      const Mechanism& one = calibration_.mechanisms[row];
      mechanism.kind = one.kind;
      mechanism.name += (mechanism.name.empty() ? "" : ", ") + one.name;
      mechanism.shapes += one.shapes;
      mechanism.priced_shapes += one.priced_shapes;
      mechanism.total = run::sum_of_times(mechanism.total, one.total);
      tally.add(tallies_[row]);
    }
    tally.write(mechanism);
    return mechanism;
  }

  void write() {
    Tally all;
    Mechanism& sum = calibration_.all;
    sum.name = "all";
    for (std::size_t row = 0; row < tallies_.size(); ++row) {
      Mechanism& mechanism = calibration_.mechanisms[row];
      tallies_[row].write(mechanism);
      all.add(tallies_[row]);
      sum.shapes += mechanism.shapes;
      sum.priced_shapes += mechanism.priced_shapes;
      sum.total = run::sum_of_times(sum.total, mechanism.total);
      if (mechanism.priced_shapes == 0)
        mechanism.stays = "no shapes that a schedule would say were recorded";
      else if (mechanism.priced_shapes < kLeastShapes &&
               !(has_common_figures(mechanism.kind) && is_fitted_.contains(row)))
        mechanism.stays = "too few shapes";
      add_residual(mechanism.kind, tallies_[row].ratios);
    }
    all.write(sum);
  }

  // Work counts by its time: a step is as far off as what it spends its time on.
  void add_residual(OpKind kind, std::vector<std::pair<double, Ns>> ratios) {
    constexpr std::size_t kLeastRatios = 10;
    constexpr double kLow = 0.05, kHigh = 0.95;
    if (ratios.size() < kLeastRatios) return;
    std::sort(ratios.begin(), ratios.end());
    double all = 0;
    for (const auto& [ratio, time] : ratios) all += static_cast<double>(time);
    const auto at = [&](double share) {
      double before = 0;
      for (const auto& [ratio, time] : ratios) {
        before += static_cast<double>(time);
        if (before >= share * all) return ratio;
      }
      return ratios.back().first;
    };
    const Residual residual{kind, std::clamp(at(kLow), kNarrowest, 1.0),
                            std::clamp(at(kHigh), 1.0, 1 / kNarrowest)};
    // Two mechanisms of one kind: the wider of both.
    for (Residual& known : calibration_.residuals) {
      if (known.kind != kind) continue;
      known.low = std::min(known.low, residual.low);
      known.high = std::max(known.high, residual.high);
      return;
    }
    calibration_.residuals.push_back(residual);
  }

  std::span<const WorkSample> samples_;
  Hardware base_;
  CalibrationOptions options_;
  std::map<std::pair<OpKind, std::string>, std::size_t> rows_;
  std::vector<Tally> tallies_;
  std::set<std::size_t> is_fitted_;  // mechanisms that a figure is fitted to
  Calibration calibration_;
};

}  // namespace

Calibration calibrate(std::span<const WorkSample> samples, const Hardware& base,
                      const CalibrationOptions& options) {
  return Calibrating(samples, base, options).run();
}

}  // namespace foregather::sim
