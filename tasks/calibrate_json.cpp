#include "core/base/json_writer.h"
#include "tasks/calibrate.h"

namespace foregather::tasks {
namespace {

constexpr int kCalibrateSchema = 1;

void write_errors(JsonWriter& json, std::string_view key,
                  const std::optional<sim::Errors>& errors) {
  json.key(key);
  if (!errors) {
    json.null();
    return;
  }
  json.begin_object()
      .field("shapes", errors->shapes)
      .field("median", errors->median)
      .field("p90", errors->p90)
      .end_object();
}

void write_mechanism(JsonWriter& json, const sim::Mechanism& mechanism) {
  json.begin_object()
      .field("name", mechanism.name)
      .field("shapes", mechanism.shapes)
      .field("priced_shapes", mechanism.priced_shapes)
      .field("time_ns", mechanism.total);
  write_errors(json, "base", mechanism.base);
  write_errors(json, "fit", mechanism.fitted);
  write_errors(json, "held_out", mechanism.held_out);
  write_errors(json, "held_out_inside", mechanism.inside);
  write_errors(json, "held_out_priced", mechanism.priced);
  json.key("extrapolated");
  if (mechanism.held_out)
    json.value(mechanism.extrapolated);
  else
    json.null();
  json.key("stays_at_base");
  if (mechanism.stays.empty())
    json.null();
  else
    json.value(mechanism.stays);
  json.end_object();
}

}  // namespace

std::string to_json(const CalibrateReport& report) {
  JsonWriter json;
  json.begin_object().field("schema", kCalibrateSchema).key("sources").begin_array();
  for (const std::string& source : report.sources) json.value(source);
  json.end_array();
  json.key("device");
  if (report.device.empty())
    json.null();
  else
    json.value(report.device);
  json.field("base", report.hardware)
      .field("output", report.output)
      .field("activities", report.samples.activities)
      .field("activities_with_shapes", report.samples.with_shapes)
      .field("activities_of_no_length", report.samples.empty);
  json.key("figures").begin_array();
  for (const CalibratedFigure& figure : report.figures)
    json.begin_object()
        .field("figure", figure.name)
        .field("mechanism", figure.mechanism)
        .field("base", figure.base)
        .field("value", figure.value)
        .end_object();
  json.end_array().key("mechanisms").begin_array();
  for (const sim::Mechanism& mechanism : report.calibration.mechanisms)
    write_mechanism(json, mechanism);
  json.end_array().key("all");
  write_mechanism(json, report.calibration.all);
  json.key("residuals").begin_object();
  for (const sim::Residual& residual : report.calibration.residuals)
    json.key(name(residual.kind))
        .begin_array()
        .value(residual.low)
        .value(residual.high)
        .end_array();
  json.end_object().key("warnings").begin_array();
  for (const std::string& warning : report.warnings) json.value(warning);
  json.end_array().end_object();
  return json.text() + "\n";
}

}  // namespace foregather::tasks
