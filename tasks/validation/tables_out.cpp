#include "tasks/validation/tables_out.h"

#include <limits>

#include "core/base/csv.h"
#include "core/base/json_writer.h"
#include "tasks/validation/bars.h"
#include "tasks/validation/by_mechanism.h"
#include "tasks/validation/pairs_report.h"
#include "tasks/validation/scaling_report.h"

namespace foregather::tasks {
namespace {

constexpr double kNsPerSecond = 1e9;
constexpr Bytes kLarge = 1 * MiB;

void optional_field(JsonWriter& json, std::string_view key, std::optional<double> value) {
  json.key(key);
  if (value)
    json.value(*value);
  else
    json.null();
}

void write_spread(JsonWriter& json, const std::string& name, const Spread& spread) {
  json.field(name + "_n", spread.n);
  optional_field(json, name + "_median", spread.median);
  optional_field(json, name + "_p90", spread.p90);
  optional_field(json, name + "_worst", spread.worst);
}

void write_figures(JsonWriter& json, const GroupFigures& figures) {
  json.begin_object();
  json.field("n", figures.n);
  json.field("predicted", figures.predicted);
  write_spread(json, "time", figures.time);
  write_spread(json, "peak", figures.peak);
  json.end_object();
}

void write_row(JsonWriter& json, const RowResult& row) {
  json.begin_object();
  json.field("id", std::string_view(row.row.id));
  json.field("tier", std::string_view(row.row.tier));
  json.field("group", std::string_view(row.row.group));
  if (row.prediction.is_predicted()) {
    json.field("step_time_s", static_cast<double>(row.prediction.step) / kNsPerSecond);
    optional_field(json, "time_error", row.time_error());
    if (row.prediction.peak)
      json.field("peak_mem_gib",
                 static_cast<double>(*row.prediction.peak) / static_cast<double>(GiB));
    optional_field(json, "peak_error", row.peak_error());
    const auto& [low, high] = row.prediction.step_range;
    json.key("step_time_interval_s").begin_array();
    json.value(static_cast<double>(low) / kNsPerSecond);
    json.value(static_cast<double>(high) / kNsPerSecond).end_array();
    json.field("fits", row.prediction.fits);
    json.field("compute_share", row.prediction.shares.compute);
    json.field("exposed_comm_share", row.prediction.shares.exposed_comm);
    json.field("host_share", row.prediction.shares.host);
  } else {
    json.field("skipped", std::string_view(row.prediction.skipped));
  }
  json.end_object();
}

}  // namespace

std::string predictions_csv(const std::vector<RowResult>& rows) {
  std::string text = "id,step_time_s,peak_mem_gib,fits,skip_reason\n";
  for (const RowResult& row : rows) {
    const RowPrediction& prediction = row.prediction;
    text += csv_cell(row.row.id);
    if (prediction.is_predicted()) {
      // A blank table may leave the metric open: allocated bytes then.
      const Bytes peak = prediction.peak.value_or(prediction.allocated);
      text += fmt::format(
          ",{:.6f},{:.4f},{},\n", static_cast<double>(prediction.step) / kNsPerSecond,
          static_cast<double>(peak) / static_cast<double>(GiB), prediction.fits ? "yes" : "no");
    } else {
      text += fmt::format(",,,,{}\n", csv_cell(prediction.skipped));
    }
  }
  return text;
}

std::string nccl_predictions_csv(const std::vector<NcclRow>& rows) {
  std::string text =
      "table,collective,nranks,nnodes,gpu,interconnect,size_bytes,time_us,skip_reason\n";
  for (const NcclRow& row : rows) {
    text +=
        fmt::format("{},{},{},{},{},{},{},", csv_cell(row.table), csv_cell(row.collective),
                    row.ranks, row.nodes, csv_cell(row.gpu), csv_cell(row.interconnect), row.size);
    text += row.predicted_us ? fmt::format("{:.2f},\n", *row.predicted_us)
                             : fmt::format(",{}\n", csv_cell(row.skipped));
  }
  return text;
}

std::string to_json(const Validation& validation) {
  JsonWriter json;
  json.begin_object();
  json.key("tier_a");
  write_figures(json, figures_of(of_tier(validation.rows, "A"), true));
  json.key("tier_b");
  write_figures(json, figures_of(of_tier(validation.rows, "B"), true));
  json.key("tier_c");
  write_figures(json, figures_of(of_tier(validation.rows, "C"), true));
  json.key("groups").begin_object();
  for (const auto& [group, rows] : by_group(validation.rows)) {
    json.key(group);
    write_figures(json, figures_of(rows, false));
  }
  json.end_object();
  json.field("wrong_fit", validation.wrong_fits());
  json.key("interval_coverage").begin_object();
  optional_field(json, "time", coverage_of(validation.rows, &RowResult::time_inside).share());
  optional_field(json, "peak", coverage_of(validation.rows, &RowResult::peak_inside).share());
  json.end_object();
  constexpr Bytes kAny = std::numeric_limits<Bytes>::max();
  optional_field(json, "nccl_large_median", nccl_median(validation.collectives, kLarge, kAny));
  optional_field(json, "nccl_small_median", nccl_median(validation.collectives, 0, kLarge));
  json.key("skipped").begin_object();
  for (const auto& [reason, count] : validation.skipped()) json.field(reason, count);
  json.end_object();
  json.key("bars").begin_object();
  for (const Bar& bar : bars(validation)) {
    if (bar.holds)
      json.field(bar.text, *bar.holds);
    else
      json.key(bar.text).null();
  }
  json.end_object();
  write_pairs(json, validation.rows);
  write_scaling(json, validation.rows);
  write_mechanisms(json, validation.rows);
  json.key("rows").begin_array();
  for (const RowResult& row : validation.rows) write_row(json, row);
  json.end_array();
  json.end_object();
  return json.text() + "\n";
}

}  // namespace foregather::tasks
