#include "tasks/calibrate.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/base/file.h"
#include "core/rebuild/window.h"
#include "core/store/reader.h"
#include "sim/cost/hardware_schema.h"
#include "sim/cost/overlay.h"
#include "tasks/device_hardware.h"
#include "tasks/outputs.h"
#include "tasks/recorded_source.h"

namespace foregather::tasks {
namespace {

// What the hardware file says that it was measured from: no directories, they say nothing later.
std::string names_of(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths)
    names.push_back(std::filesystem::path(path).filename().string());
  constexpr std::size_t kMost = 3;
  if (names.size() <= kMost) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", names.front(), names.size() - 1);
}

// A hardware as a file beside it names it: a name, or the path from there.
std::string name_from(const std::string& file, const std::string& hardware) {
  if (sim::hardware_files(hardware).empty()) return hardware;
  namespace fs = std::filesystem;
  const std::string path =
      fs::absolute(hardware)
          .lexically_normal()
          .lexically_proximate(fs::absolute(file).lexically_normal().parent_path())
          .string();
  return path.find('/') == std::string::npos ? "./" + path : path;
}

Result<std::string> base_of(const CalibrateRequest& request, const std::string& device) {
  if (!request.hardware.empty()) return request.hardware;
  if (auto known = hardware_of_device(device)) return *known;
  const std::string names = fmt::format("{}", fmt::join(sim::hardware_names(), ", "));
  if (device.empty())
    return fail_at(request.sources.front(),
                   "does not say which GPU it was recorded on: give --hw NAME, one of {}, or the "
                   "path of a .toml file",
                   names);
  return fail_at(request.sources.front(),
                 "was recorded on '{}', which no built-in machine has: give --hw NAME, the nearest "
                 "of {}, or the path of a .toml file",
                 device, names);
}

}  // namespace

Result<CalibrateReport> calibrate_hardware(const CalibrateRequest& request) {
  for (const std::string& source : request.sources)
    if (is_same_file(source, request.output))
      return fail_at(request.output, "is one of the sources, expected another file to write");
  auto output = PendingFile::create(request.output);
  if (!output) return tl::unexpected(output.error());
  auto read = read_recorded(request.sources, std::nullopt);
  if (!read) return tl::unexpected(read.error());

  CalibrateReport report;
  report.sources = request.sources;
  report.device = read->device;
  report.output = request.output;
  report.warnings = std::move(read->warnings);
  if (!read->other_device.empty())
    return fail_at(read->other_source,
                   "was recorded on '{}', others of these on '{}': expected recordings of one "
                   "machine",
                   read->other_device, read->device);
  if (read->is_predicted)
    report.warnings.push_back(
        "some of it is a prediction: figures fitted to one are those it was made with, of no "
        "device");
  std::vector<const run::Recording*> recordings;
  for (const auto& recording : read->recordings) {
    if (const auto all = rebuild::window_of(*recording, std::nullopt); !all)
      return tl::unexpected(all.error());
    recordings.push_back(recording.get());
  }
  report.samples = rebuild::work_samples(recordings);
  if (report.samples.rows.empty())
    return fail_at(request.sources.front(),
                   "holds no device work to fit: expected kernels or copies of a GPU{}{}",
                   report.warnings.empty() ? "" : "; ", fmt::join(report.warnings, "; "));

  const auto has_shape = [](const run::WorkSample& sample) {
    return sample.has_cost && sample.cost.m > 0;
  };
  for (const std::string& source : request.sources)
    if (store::is_run(source) && std::ranges::none_of(report.samples.rows, has_shape))
      report.warnings.push_back(
          fmt::format("{}: says no shapes of operators, by which figures are fitted: expected a "
                      "run that this version "
                      "imported, from a recording with shapes (record_shapes=True)",
                      source));

  auto hardware = base_of(request, read->device);
  if (!hardware) return tl::unexpected(hardware.error());
  report.hardware = *hardware;
  for (const std::string& file : sim::hardware_files(report.hardware))
    if (is_same_file(file, request.output))
      return fail_at(request.output,
                     "is the hardware that --hw names, or one that it rests on: "
                     "expected another file to write");
  const auto base = sim::load_hardware(report.hardware);
  if (!base) return tl::unexpected(base.error());
  const auto recorded_on = hardware_of_device(read->device);
  if (recorded_on && *recorded_on != base->name && *recorded_on != report.hardware)
    report.warnings.push_back(fmt::format(
        "recorded on '{}', of which {} is the machine: figures are fitted over those of {}",
        read->device, *recorded_on, base->name));
  report.calibration = sim::calibrate(report.samples.rows, *base, {request.holdout});
  for (const sim::FittedFigure& figure : report.calibration.figures) {
    const sim::FigureSpec& spec = sim::figure_specs()[figure.spec];
    report.figures.push_back({fmt::format("{}.{}", spec.section, spec.key), figure.from.name,
                              figure.base, figure.value});
  }
  report.calibration.hardware.name = base->name + "_calibrated";
  const std::string text =
      sim::overlay_text(report.calibration, report.samples.rows,
                        name_from(request.output, report.hardware), names_of(request.sources));
  if (const auto again = sim::parse_hardware(text, request.output); !again)
    return tl::unexpected(again.error());
  if (Status written = output->write(text); !written) return tl::unexpected(written.error());
  if (Status written = output->commit(); !written) return tl::unexpected(written.error());
  return report;
}

}  // namespace foregather::tasks
