#include "cli/calibrate_text.h"

#include "core/base/printable.h"

namespace foregather::cli {
namespace {

using sim::Errors;

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string median(const std::optional<Errors>& errors) {
  return errors ? percent(errors->median) : std::string("–");
}

std::string line(const sim::Mechanism& mechanism) {
  const auto p90 = mechanism.held_out ? percent(mechanism.held_out->p90) : std::string("–");
  const auto outside = mechanism.held_out ? percent(mechanism.extrapolated) : std::string("–");
  return fmt::format("{:<16}{:>7}{:>7}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", mechanism.name,
                     mechanism.shapes, mechanism.priced_shapes, median(mechanism.base),
                     median(mechanism.fitted), median(mechanism.priced), median(mechanism.held_out),
                     p90, median(mechanism.inside), outside);
}

std::string figures_text(const std::vector<tasks::CalibratedFigure>& figures) {
  if (figures.empty())
    return "No figure changed: no mechanism had shapes enough that say more than the base.\n";
  std::string text = fmt::format("{:<32}{:>14}{:>14}  from\n", "figure", "base", "calibrated");
  for (const tasks::CalibratedFigure& figure : figures)
    text += fmt::format("{:<32}{:>14.4g}{:>14.4g}  {}\n", figure.name, figure.base, figure.value,
                        figure.mechanism);
  return text;
}

}  // namespace

std::string calibrate_text(const tasks::CalibrateReport& report) {
  std::string text;
  for (const std::string& source : report.sources) text += printable(source) + "\n";
  text += fmt::format(
      "{}{} device activities, {} with the shapes of their operators: {} distinct (kernel, shape)\n"
      "over {}\n\n",
      report.device.empty() ? "" : printable(report.device) + ": ", report.samples.activities,
      report.samples.with_shapes, report.samples.rows.size(), printable(report.hardware));
  text += fmt::format("{:<16}{:>7}{:>7}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "", "", "",
                      "model", "model", "held out", "held out", "held out", "held out", "extra-");
  text += fmt::format("{:<16}{:>7}{:>7}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "mechanism",
                      "shapes", "priced", "of base", "fitted", "priced", "median", "p90", "inside",
                      "polated");
  for (const sim::Mechanism& mechanism : report.calibration.mechanisms) text += line(mechanism);
  text += line(report.calibration.all);
  bool is_first = true;
  for (const sim::Mechanism& mechanism : report.calibration.mechanisms) {
    if (mechanism.stays.empty()) continue;
    if (is_first) text += "\nStay at the base's figures:\n";
    is_first = false;
    text += fmt::format("  {:<16}{}\n", mechanism.name, mechanism.stays);
  }
  text += "\n" + figures_text(report.figures);
  return text + fmt::format("\nwrote {}\n", printable(report.output));
}

}  // namespace foregather::cli
