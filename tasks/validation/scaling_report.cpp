#include "tasks/validation/scaling_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "tasks/validation/markdown.h"
#include "tasks/validation/mechanism.h"

namespace foregather::tasks {
namespace {

struct Counts {
  std::size_t within = 0, slope_within = 0;
};

Counts counts_of(const Scaling& scaling) {
  Counts counts;
  for (const ScalingFamily& family : scaling.families) {
    counts.within += family.is_within() ? 1 : 0;
    counts.slope_within += family.is_slope_within() ? 1 : 0;
  }
  return counts;
}

std::string summary(const Scaling& scaling) {
  const std::size_t n = scaling.families.size();
  const Counts counts = counts_of(scaling);
  return fmt::format(
      "Change of tokens/s/GPU from the fewest to the most GPUs within 10 %: {}; the slope itself: "
      "{}. One slope for all: {:+.4f} predicted, {:+.4f} published, error of the exponent {:+.4f}.",
      n_of_m(counts.within, n), n_of_m(counts.slope_within, n), *scaling.predicted_slope,
      *scaling.published_slope, *scaling.predicted_slope - *scaling.published_slope);
}

std::string gpus_text(const ScalingFamily& family) {
  std::vector<std::int64_t> gpus;
  for (const RowResult* row : family.rows) gpus.push_back(*row->row.gpus);
  gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
  return fmt::format("{}", fmt::join(gpus, ", "));
}

const RowResult& worst_row(const ScalingFamily& family) {
  return **std::max_element(family.rows.begin(), family.rows.end(),
                            [](const auto* a, const auto* b) {
                              return std::abs(*a->time_error()) < std::abs(*b->time_error());
                            });
}

std::vector<std::string> family_cells(const ScalingFamily& family) {
  return {"`" + family.rows.front()->row.id + "`",
          gpus_text(family),
          fmt::format("{:+.4f}", family.predicted_slope),
          fmt::format("{:+.4f}", family.published_slope),
          fmt::format("{:+.4f}", family.predicted_slope - family.published_slope),
          signed_percent(family.predicted_ratio() - 1),
          signed_percent(family.published_ratio() - 1),
          family.is_within() ? "yes" : "**no**"};
}

std::string worst_text(const Scaling& scaling) {
  std::string text;
  for (const ScalingFamily& family : scaling.families)
    if (!family.is_within())
      text += fmt::format("- `{}` ...: {} too much. {}\n", family.rows.front()->row.id,
                          signed_percent(family.error()), mechanism_of_time(worst_row(family)));
  return text.empty() ? text : "\n" + text;
}

constexpr std::string_view kScalingIntroduction =
    "\n## Scaling over numbers of GPUs\n\n"
    "Results of one group that are equal but for the number of GPUs and nodes (and micro-batches a "
    "step): the least-squares slope of\nln(tokens/s/GPU) against ln(GPUs), and what it makes of "
    "tokens/s/GPU from the fewest to the most GPUs. Perfect scaling has the slope 0,\nand "
    "published "
    "slopes are near it, often within the noise: 10 % of such a slope is less than one measurement "
    "tells. So a family holds where the\npredicted change of throughput is within 10 % of the "
    "published one; slopes are given beside it. `One slope for all` gives each family\nits own "
    "intercept.\n\n";

}  // namespace

std::string scaling_markdown(const std::vector<RowResult>& rows) {
  const Scaling scaling = find_scaling(rows);
  if (scaling.families.empty()) return {};
  std::vector<std::vector<std::string>> cells;
  for (const ScalingFamily& family : scaling.families) cells.push_back(family_cells(family));
  return std::string(kScalingIntroduction) + summary(scaling) + "\n\n" +
         markdown_table({"fewest GPUs", "GPUs", "slope", "published", "difference",
                         "fewest to most", "published", "within 10 %"},
                        cells) +
         worst_text(scaling);
}

std::string scaling_text(const std::vector<RowResult>& rows) {
  const Scaling scaling = find_scaling(rows);
  return scaling.families.empty() ? std::string() : "\nScaling. " + summary(scaling) + "\n";
}

void write_scaling(JsonWriter& json, const std::vector<RowResult>& rows) {
  const Scaling scaling = find_scaling(rows);
  const Counts counts = counts_of(scaling);
  json.key("scaling").begin_object();
  json.field("n", scaling.families.size());
  json.field("within", counts.within);
  json.field("slope_within", counts.slope_within);
  if (scaling.published_slope) {
    json.field("published_slope", *scaling.published_slope);
    json.field("predicted_slope", *scaling.predicted_slope);
  }
  json.key("families").begin_array();
  for (const ScalingFamily& family : scaling.families) {
    json.begin_object();
    json.key("rows").begin_array();
    for (const RowResult* row : family.rows) json.value(std::string_view(row->row.id));
    json.end_array();
    json.field("published_slope", family.published_slope);
    json.field("predicted_slope", family.predicted_slope);
    json.field("published_ratio", family.published_ratio());
    json.field("predicted_ratio", family.predicted_ratio());
    json.field("within", family.is_within());
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

}  // namespace foregather::tasks
