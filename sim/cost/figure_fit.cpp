#include "sim/cost/figure_fit.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "core/run/kernel_names.h"
#include "sim/cost/hardware_schema.h"
#include "sim/cost/least_error.h"
#include "sim/cost/measured.h"

namespace foregather::sim {

namespace {

using run::WorkSample;

constexpr int kRounds = 5;
/// An error must shrink to this share, else what was known before stays.
constexpr double kWorthwhile = 0.98;
/// A figure is looked for up to this factor from the base's; within the other one of that it is
/// not found.
constexpr double kFarthest = 10, kEnd = 1.001;
/// A rate above the base's is believed up to this factor of what a sample reached: products that
/// wait for their launch do not tell it.
constexpr double kBelievable = 2;
constexpr double kCut = 1;  // an error above counts as this one

bool is_host_copy(OpKind kind) {
  return kind == OpKind::host_to_device || kind == OpKind::device_to_host;
}

std::optional<std::size_t> spec_of(std::string_view section, std::string_view key) {
  const auto specs = figure_specs();
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (specs[i].section == section && specs[i].key == key) return i;
  return std::nullopt;
}

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

  FittedMachine run() {
    for (int round = 0; round < kRounds; ++round)
      for (const FigureTask& task : tasks_) improve(task);
    return {std::move(hardware_), std::move(tasks_)};
  }

 private:
  void add(std::string_view section, std::string_view key, const SampleList& samples,
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
    const auto samples_of = [&](DType type) -> const SampleList* {
      const auto found = by_mechanism_.find("gemm " + std::string(name(type)));
      return found == by_mechanism_.end() ? nullptr : &found->second;
    };
    const SampleList* main = nullptr;
    for (const DType type : {DType::bf16, DType::f16}) {
      const SampleList* const samples = samples_of(type);
      if (samples == nullptr || (main != nullptr && samples->size() <= main->size())) continue;
      main = samples;
    }
    if (main != nullptr) add("efficiency", "gemm", *main);
    // Both types of float8 have one figure.
    SampleList float8;
    for (const DType type : {DType::f8e4m3, DType::f8e5m2})
      if (const SampleList* const samples = samples_of(type))
        float8.insert(float8.end(), samples->begin(), samples->end());
    if (base_.efficiency.gemm_f8 > 0)
      add("efficiency", "gemm_f8", float8);
    else
      add("compute", "matmul_f8", float8);
    if (main == nullptr && !float8.empty()) main = &float8;
    for (const auto& [type, key] : kRates) {
      const SampleList* const samples = samples_of(type);
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
    SampleList forward, backward;
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
    SampleList all;
    for (const auto& [kind, key] : kEfficiencies) {
      const auto found = by_mechanism_.find(std::string(name(kind)));
      if (found == by_mechanism_.end()) continue;
      add("efficiency", key, found->second);
      all.insert(all.end(), found->second.begin(), found->second.end());
    }
    add("kernel", "floor", all, kLeastShapes + 1);
  }

  void list_links() {
    SampleList copies, collectives;
    for (const auto& [mechanism, samples] : by_mechanism_) {
      const OpKind kind = samples.front()->cost.kind;
      SampleList* const to = is_host_copy(kind)    ? &copies
                             : is_collective(kind) ? &collectives
                                                   : nullptr;
      if (to != nullptr) to->insert(to->end(), samples.begin(), samples.end());
    }
    add("intra", "host_bandwidth", copies);
    add("intra", "efficiency", collectives);
    add("nccl", "launch_floor", collectives, kLeastShapes + 1);
  }

  double error_of(const SampleList& samples) const {
    double sum = 0;
    for (const WorkSample* sample : samples) {
      const double predicted = modelled_time(*sample, hardware_);
      const auto measured = static_cast<double>(sample->time);
      sum += std::min(
          std::max(relative_error(predicted, measured), relative_error(measured, predicted)), kCut);
    }
    return sum;
  }

  void improve(const FigureTask& task) {
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
  static double reached(const SampleList& samples) {
    double most = 0;
    for (const WorkSample* sample : samples)
      if (sample->time > 0)
        most = std::max(most, static_cast<double>(sample->cost.flops) * 1e9 /
                                  static_cast<double>(sample->time));
    return most;
  }

  Hardware base_, hardware_;
  std::map<std::string, SampleList> by_mechanism_;
  std::vector<FigureTask> tasks_;
};

}  // namespace

double relative_error(double predicted, double measured) {
  const double error = predicted > measured ? predicted - measured : measured - predicted;
  return error / measured;
}

std::string mechanism_of(const WorkSample& sample) {
  const std::string_view kind = name(sample.cost.kind);
  if (sample.cost.kind != OpKind::gemm) return std::string(kind);
  return std::string(kind) + " " + std::string(name(sample.cost.dtype));
}

bool has_common_figures(OpKind kind) { return is_host_copy(kind) || is_collective(kind); }

FittedMachine fit_figures(std::span<const WorkSample* const> samples, const Hardware& base) {
  return Fit(samples, base).run();
}

}  // namespace foregather::sim
