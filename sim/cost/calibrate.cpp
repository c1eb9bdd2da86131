#include "sim/cost/calibrate.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/run/kernel_names.h"
#include "sim/cost/hardware_schema.h"
#include "sim/cost/least_error.h"
#include "sim/cost/measured.h"

namespace foregather::sim {

namespace {

using run::WorkSample;
using Samples = std::vector<const WorkSample*>;

constexpr std::size_t kLeastShapes = 3;
constexpr int kRounds = 5;
/// An error must shrink to this share, else what was known before stays.
constexpr double kWorthwhile = 0.98;
/// A figure is looked for up to this factor from the base's; within the other one of that it is
/// not found.
constexpr double kFarthest = 10, kEnd = 1.001;
/// A rate above the base's is believed up to this factor of what a sample reached: products that
/// wait for their launch do not tell it.
constexpr double kBelievable = 2;
constexpr double kNarrowest = 0.001;  // what a hardware file may say of a residual
constexpr double kCut = 1;            // an error above counts as this one

double off(double predicted, double measured) {
  const double error = predicted > measured ? predicted - measured : measured - predicted;
  return error / measured;
}

std::optional<Errors> errors_of(std::vector<double> errors) {
  if (errors.empty()) return std::nullopt;
  std::sort(errors.begin(), errors.end());
  const std::size_t n = errors.size();
  const double median = n % 2 == 1 ? errors[n / 2] : (errors[n / 2 - 1] + errors[n / 2]) / 2;
  return Errors{n, median, errors[std::min(n - 1, n * 9 / 10)]};
}

std::string mechanism_of(const WorkSample& sample) {
  const std::string_view kind = name(sample.cost.kind);
  if (sample.cost.kind != OpKind::gemm) return std::string(kind);
  return std::string(kind) + " " + std::string(name(sample.cost.dtype));
}

bool is_host_copy(OpKind kind) {
  return kind == OpKind::host_to_device || kind == OpKind::device_to_host;
}

/// All its figures are fitted to other kinds as well.
bool has_common_figures(OpKind kind) { return is_host_copy(kind) || is_collective(kind); }

std::optional<std::size_t> spec_of(std::string_view section, std::string_view key) {
  const auto specs = figure_specs();
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (specs[i].section == section && specs[i].key == key) return i;
  return std::nullopt;
}

/// A figure and the samples that it is fitted to.
struct Task {
  std::size_t spec = 0;
  Samples samples;
};

class Fit {
 public:
  Fit(std::span<const WorkSample* const> samples, Hardware base)
      : base_(base), hardware_(std::move(base)) {
    for (const WorkSample* sample : samples)
      if (sample->has_cost) by_mechanism_[mechanism_of(*sample)].push_back(sample);
    list_products();
    list_attention();
    list_memory();
    list_links();
  }

  Hardware run() {
    for (int round = 0; round < kRounds; ++round)
      for (const Task& task : tasks_) improve(task);
    return hardware_;
  }
  const std::vector<Task>& tasks() const { return tasks_; }

 private:
  void add(std::string_view section, std::string_view key, const Samples& samples,
           std::size_t least = kLeastShapes) {
    const auto spec = spec_of(section, key);
    if (spec && samples.size() >= least) tasks_.push_back({*spec, samples});
  }

  // One type of number has the efficiency, the others rates of their own.
  void list_products() {
    constexpr std::array<std::pair<DType, std::string_view>, 4> kRates{{
        {DType::bf16, "matmul_bf16"},
        {DType::f16, "matmul_f16"},
        {DType::f64, "matmul_f64"},
        {DType::f32, "matmul_f32"},
    }};
    const auto samples_of = [&](DType type) -> const Samples* {
      const auto found = by_mechanism_.find("gemm " + std::string(name(type)));
      return found == by_mechanism_.end() ? nullptr : &found->second;
    };
    const Samples* main = nullptr;
    for (const DType type : {DType::bf16, DType::f16}) {
      const Samples* const samples = samples_of(type);
      if (samples == nullptr || (main != nullptr && samples->size() <= main->size())) continue;
      main = samples;
    }
    if (main != nullptr) add("efficiency", "gemm", *main);
    // Both types of float8 have one figure.
    Samples float8;
    for (const DType type : {DType::f8e4m3, DType::f8e5m2})
      if (const Samples* const samples = samples_of(type))
        float8.insert(float8.end(), samples->begin(), samples->end());
    if (base_.efficiency.gemm_f8 > 0)
      add("efficiency", "gemm_f8", float8);
    else
      add("compute", "matmul_f8", float8);
    if (main == nullptr && !float8.empty()) main = &float8;
    for (const auto& [type, key] : kRates) {
      const Samples* const samples = samples_of(type);
      if (samples == nullptr || samples == main) continue;
      add("compute", key, *samples);
      if (main == nullptr) main = samples;
    }
    if (main != nullptr) add("kernel", "gemm_ramp", *main, kLeastShapes + 1);
  }

  // The backward does five products where the forward does two. The figures are FlashAttention's:
  // cuDNN's attention takes about half the time.
  void list_attention() {
    const auto found = by_mechanism_.find(std::string(name(OpKind::attention)));
    if (found == by_mechanism_.end()) return;
    Samples forward, backward;
    for (const WorkSample* sample : found->second) {
      if (run::is_cudnn_kernel(sample->kernel)) continue;
      const Cost& cost = sample->cost;
      const double triples = static_cast<double>(cost.batch) * static_cast<double>(cost.m) *
                             static_cast<double>(cost.n) * static_cast<double>(cost.k);
      const bool is_backward = static_cast<double>(cost.flops) > 4.5 * triples;
      (is_backward ? backward : forward).push_back(sample);
    }
    add("efficiency", "attention_forward", forward);
    add("efficiency", "attention_backward", backward);
    add("kernel", "attention_ramp", forward, kLeastShapes + 1);
  }

  void list_memory() {
    constexpr std::array<std::pair<OpKind, std::string_view>, 7> kEfficiencies{{
        {OpKind::elementwise, "elementwise"},
        {OpKind::norm, "norm"},
        {OpKind::softmax, "softmax"},
        {OpKind::reduction, "reduction"},
        {OpKind::copy, "copy"},
        {OpKind::cast, "cast"},
        {OpKind::fill, "fill"},
    }};
    Samples all;
    for (const auto& [kind, key] : kEfficiencies) {
      const auto found = by_mechanism_.find(std::string(name(kind)));
      if (found == by_mechanism_.end()) continue;
      add("efficiency", key, found->second);
      all.insert(all.end(), found->second.begin(), found->second.end());
    }
    add("kernel", "floor", all, kLeastShapes + 1);
  }

  void list_links() {
    Samples copies, collectives;
    for (const auto& [mechanism, samples] : by_mechanism_) {
      const OpKind kind = samples.front()->cost.kind;
      Samples* const to = is_host_copy(kind)    ? &copies
                          : is_collective(kind) ? &collectives
                                                : nullptr;
      if (to != nullptr) to->insert(to->end(), samples.begin(), samples.end());
    }
    add("intra", "host_bandwidth", copies);
    add("intra", "efficiency", collectives);
    add("nccl", "launch_floor", collectives, kLeastShapes + 1);
  }

  double error_of(const Samples& samples) const {
    double sum = 0;
    for (const WorkSample* sample : samples) {
      const double predicted = modelled_time(*sample, hardware_);
      const auto measured = static_cast<double>(sample->time);
      sum += std::min(std::max(off(predicted, measured), off(measured, predicted)), kCut);
    }
    return sum;
  }

  void improve(const Task& task) {
    const FigureSpec& spec = figure_specs()[task.spec];
    double& figure = spec.field(hardware_);
    const double before = figure;
    const double error_before = error_of(task.samples);
    const double base = spec.field(base_);
    if (base <= 0) return;
    const double low = std::max(spec.least, base / kFarthest);
    const double high = std::min(spec.most, base * kFarthest);
    const double best = least_error(low, high, [&](double value) {
      figure = value;
      return error_of(task.samples);
    });
    figure = best;
    // At the end of the search the samples do not say where the figure is.
    const bool is_at_end = best < low * kEnd || (high < spec.most && best * kEnd > high);
    if (is_at_end || error_of(task.samples) > kWorthwhile * error_before ||
        (spec.section == "compute" && figure > base &&
         figure > kBelievable * reached(task.samples)))
      figure = before;
  }

  /// The highest rate of the samples, operations a second.
  static double reached(const Samples& samples) {
    double most = 0;
    for (const WorkSample* sample : samples)
      if (sample->time > 0)
        most = std::max(most, static_cast<double>(sample->cost.flops) * 1e9 /
                                  static_cast<double>(sample->time));
    return most;
  }

  Hardware base_, hardware_;
  std::map<std::string, Samples> by_mechanism_;
  std::vector<Task> tasks_;
};

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
    Samples rest;
    std::vector<WorkSample> rows;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (is_held_out(i)) continue;
      rest.push_back(&samples_[i]);
      rows.push_back(samples_[i]);
    }
    const Hardware fitted = Fit(rest, base_).run();
    const MeasuredTable table(std::move(rows), fitted);
    for (std::size_t i = 0; i < samples_.size(); ++i)
      if (is_held_out(i)) (this->*judge)(samples_[i], table, fitted);
  }

  void judge_shape(const WorkSample& sample, const MeasuredTable& table, const Hardware& fitted) {
    const auto estimate = table.estimate(sample, fitted);
    if (!estimate) return;
    Tally& tally = tallies_[row_of(sample)];
    const double error = off(estimate->time, static_cast<double>(sample.time));
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
    tally.priced.push_back(off(predicted, measured));
    if (predicted > 0) tally.ratios.emplace_back(measured / predicted, sample.total);
  }

  void fit_all() {
    Samples all;
    for (const WorkSample& sample : samples_) all.push_back(&sample);
    Fit fit(all, base_);
    calibration_.hardware = fit.run();
    for (const WorkSample& sample : samples_) {
      if (!sample.has_cost) continue;
      Tally& tally = tallies_[row_of(sample)];
      const auto measured = static_cast<double>(sample.time);
      tally.base.push_back(off(modelled_time(sample, base_), measured));
      tally.fitted.push_back(off(modelled_time(sample, calibration_.hardware), measured));
    }
    for (const Task& task : fit.tasks()) {
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
