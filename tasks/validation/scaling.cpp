#include "tasks/validation/scaling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

namespace foregather::tasks {
namespace {

constexpr double kBar = 0.1;

bool has_times(const RowResult& row) { return row.time_error() && row.row.gpus; }

std::string family_of(const MeasuredRow& row) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{} {} {} {} {}",
                     row.group, row.gpu, row.strategy, row.param_dtype, row.reduce_dtype,
                     row.compute, row.fp8_all_gather, row.master, row.checkpointing, row.compile,
                     row.attention, row.optimizer, row.allocator_conf, row.config, row.link,
                     row.tensor_parallel, row.context_parallel, row.pipeline_parallel,
                     row.micro_batch.value_or(0), row.seq_len.value_or(0));
}

std::string fabric_of(const MeasuredRow& row) {
  return fmt::format("{} {}", row.fabric, row.fabric_gbps.value_or(0));
}

bool is_within_node(const RowResult& row) { return row.row.nodes == 1; }

/// Per token of one micro-batch: families agree in the rest of what tokens/s/GPU counts.
double log_rate(const RowResult& row, double step_seconds) {
  return std::log(static_cast<double>(row.row.grad_accum) / step_seconds);
}

/// Sums of least squares about the means.
struct Moments {
  double xx = 0, published = 0, predicted = 0;
};

Moments moments_of(const std::vector<const RowResult*>& rows) {
  std::vector<std::array<double, 3>> points;
  std::array<double, 3> mean{};
  for (const RowResult* row : rows) {
    points.push_back({std::log(static_cast<double>(*row->row.gpus)),
                      log_rate(*row, *row->row.step_time_s),
                      log_rate(*row, static_cast<double>(row->prediction.step) / 1e9)});
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += points.back()[i] / static_cast<double>(rows.size());
  }
  Moments moments;
  for (const auto& point : points) {
    const double x = point[0] - mean[0];
    moments.xx += x * x;
    moments.published += x * (point[1] - mean[1]);
    moments.predicted += x * (point[2] - mean[2]);
  }
  return moments;
}

/// Rows of one setup, divided by the fabric of those on several nodes.
std::vector<std::vector<const RowResult*>> by_fabric(const std::vector<const RowResult*>& setup) {
  std::set<std::string> fabrics;
  for (const RowResult* row : setup)
    if (!is_within_node(*row)) fabrics.insert(fabric_of(row->row));
  std::vector<std::vector<const RowResult*>> families;
  for (const std::string& fabric : fabrics) {
    families.emplace_back();
    for (const RowResult* row : setup)
      if (is_within_node(*row) || fabric_of(row->row) == fabric) families.back().push_back(row);
  }
  if (fabrics.empty()) families.push_back(setup);
  return families;
}

double ratio_of(const ScalingFamily& family, double slope) {
  return std::pow(
      static_cast<double>(family.most_gpus()) / static_cast<double>(family.least_gpus()), slope);
}

}  // namespace

double ScalingFamily::published_ratio() const { return ratio_of(*this, published_slope); }
double ScalingFamily::predicted_ratio() const { return ratio_of(*this, predicted_slope); }
bool ScalingFamily::is_within() const { return std::abs(error()) <= kBar; }
bool ScalingFamily::is_slope_within() const {
  return std::abs(predicted_slope - published_slope) <= kBar * std::abs(published_slope);
}

std::optional<bool> Scaling::are_within() const {
  if (families.empty()) return std::nullopt;
  return std::all_of(families.begin(), families.end(),
                     [](const ScalingFamily& family) { return family.is_within(); });
}

Scaling find_scaling(const std::vector<RowResult>& rows) {
  std::map<std::string, std::size_t> known;
  std::vector<std::vector<const RowResult*>> setups;
  for (const RowResult& row : rows) {
    if (!has_times(row)) continue;
    const auto [at, is_new] = known.try_emplace(family_of(row.row), setups.size());
    if (is_new) setups.emplace_back();
    setups[at->second].push_back(&row);
  }
  Scaling scaling;
  Moments all;
  for (const auto& setup : setups) {
    for (auto& members : by_fabric(setup)) {
      std::stable_sort(members.begin(), members.end(),
                       [](const auto* a, const auto* b) { return *a->row.gpus < *b->row.gpus; });
      ScalingFamily family{std::move(members)};
      if (family.least_gpus() == family.most_gpus()) continue;
      const Moments moments = moments_of(family.rows);
      family.published_slope = moments.published / moments.xx;
      family.predicted_slope = moments.predicted / moments.xx;
      all.xx += moments.xx;
      all.published += moments.published;
      all.predicted += moments.predicted;
      scaling.families.push_back(std::move(family));
    }
  }
  if (all.xx > 0) {
    scaling.published_slope = all.published / all.xx;
    scaling.predicted_slope = all.predicted / all.xx;
  }
  return scaling;
}

}  // namespace foregather::tasks
