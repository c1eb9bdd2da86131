#include "sim/cost/overlay.h"

#include <algorithm>
#include <vector>

#include "core/base/json_writer.h"
#include "core/base/printable.h"
#include "sim/cost/hardware_schema.h"
#include "sim/cost/measured_toml.h"

namespace foregather::sim {

namespace {

std::string overlay_quoted(std::string_view text) { return json_quote(printable(text)); }

std::string percent(const std::optional<Errors>& errors) {
  return errors ? fmt::format("{:.1f} %", 100 * errors->median) : std::string("not known");
}

std::string_view base_unit(Dimension dimension) {
  switch (dimension) {
    case Dimension::size: return "B";
    case Dimension::rate: return "B/s";
    case Dimension::flops: return "FLOP/s";
    case Dimension::time: return "ns";
    case Dimension::frequency: return "Hz";
    case Dimension::number: return "1";
  }
  return "1";
}

std::string source_of(const Mechanism& mechanism, const std::string& from) {
  return fmt::format("calibrated from {} distinct shapes of {} of {}, median error {}, held-out {}",
                     mechanism.priced_shapes, mechanism.name, from, percent(mechanism.fitted),
                     percent(mechanism.priced));
}

}  // namespace

std::string overlay_text(const Calibration& calibration, std::span<const run::WorkSample> samples,
                         const std::string& base, const std::string& from) {
  std::string text = fmt::format(
      "# Written by foregather calibrate: figures over {} and measured times.\nbase = {}\nname = "
      "{}\ndescription = {}\n",
      printable(base), overlay_quoted(base), overlay_quoted(calibration.hardware.name),
      overlay_quoted(calibration.hardware.description));
  std::vector<FittedFigure> figures = calibration.figures;
  std::sort(figures.begin(), figures.end(),
            [](const FittedFigure& a, const FittedFigure& b) { return a.spec < b.spec; });
  std::string_view section;
  for (const FittedFigure& figure : figures) {
    const FigureSpec& spec = figure_specs()[figure.spec];
    if (spec.section != section) text += fmt::format("\n[{}]\n", spec.section);
    section = spec.section;
    text +=
        fmt::format("{} = {{ value = {}, unit = \"{}\", source = {} }}\n", spec.key, figure.value,
                    base_unit(spec.dimension), overlay_quoted(source_of(figure.from, from)));
  }
  return text + measured_text(samples, calibration.residuals, from);
}

}  // namespace foregather::sim
