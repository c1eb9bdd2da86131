#include "tasks/validation/gpu_steps.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

#include "core/base/csv.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/plan/workload_toml.h"
#include "tasks/parallel.h"
#include "tasks/simulate.h"
#include "tasks/validation/markdown.h"

namespace foregather::tasks {
namespace {

constexpr Bytes kMostTable = 16 * MiB;

class StepReader {
 public:
  explicit StepReader(const CsvTable& table) : table_(table) {}

  Status find_columns() {
    for (const std::string_view name : {"id", "workload", "settings", "step_ms", "host_step_ms",
                                        "peak_allocated_bytes", "peak_reserved_bytes"}) {
      const auto column = table_.column(name);
      if (!column) return fail_at(table_.path(), "has no column '{}'", name);
      columns_.push_back(*column);
    }
    return {};
  }

  const std::string& text(std::size_t row, std::size_t which) const {
    return table_.cell(row, columns_[which]);
  }

  /// Of milliseconds from a nanosecond on, or of bytes.
  Result<double> number(std::size_t row, std::size_t which) const {
    const bool is_time = which < kFirstBytes;
    const double least = is_time ? 1e-6 : 1, most = is_time ? 1e12 : 1e17;
    const std::string& text = table_.cell(row, columns_[which]);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() ||
        !(value >= least && value <= most))
      return fail_at(table_.place(row, columns_[which]), "'{}', expected a number from {} to {}",
                     text, least, most);
    return value;
  }

  /// What `simulate` says of the row's workload and settings, at the row's place.
  tl::unexpected<Error> refusal(std::size_t row, const Error& error) const {
    return tl::unexpected(Error{table_.place(row, columns_[1]), error.text(), error.fault});
  }

  Result<GpuStep> read(std::size_t row) const {
    GpuStep step;
    step.id = text(row, 0);
    std::array<double, 4> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto value = number(row, 3 + i);
      if (!value) return tl::unexpected(value.error());
      numbers[i] = *value;
    }
    step.step = std::llround(numbers[0] * static_cast<double>(kMillisecond));
    step.host_step = std::llround(numbers[1] * static_cast<double>(kMillisecond));
    step.allocated = std::llround(numbers[2]);
    step.reserved = std::llround(numbers[3]);
    return step;
  }

  SimulateRequest request(std::size_t row) const {
    SimulateRequest request;
    request.sources.paths = {
        (std::filesystem::path(table_.path()).parent_path() / text(row, 1)).string()};
    for (std::string_view rest = text(row, 2); !rest.empty();) {
      const std::size_t end = std::min(rest.find(';'), rest.size());
      request.sets.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    request.record_memory = false;
    request.ranges = false;
    return request;
  }

 private:
  static constexpr std::size_t kFirstBytes = 5;

  const CsvTable& table_;
  std::vector<std::size_t> columns_;
};

double step_error(std::int64_t predicted, std::int64_t measured) {
  return static_cast<double>(predicted - measured) / static_cast<double>(measured);
}

std::optional<double> middle(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::string median_error(std::vector<double> errors) {
  for (double& error : errors) error = std::abs(error);
  return percent(middle(std::move(errors)));
}

const std::vector<std::string> kStepHeads{"case",     "predicted step", "measured",
                                          "error",    "waits for",      "predicted peak, allocated",
                                          "measured", "error",          "error, reserved"};

struct StepTable {
  std::vector<std::vector<std::string>> rows;
  std::string medians;
};

StepTable step_table(const std::vector<GpuStep>& steps) {
  StepTable table;
  std::vector<double> times, waits, allocated, reserved;  // waits: measured / predicted
  for (const GpuStep& step : steps) {
    const double time = step_error(step.predicted_step, step.step);
    if (!step.waits_for_host())
      times.push_back(time);
    else
      waits.push_back(1 / (1 + time));
    allocated.push_back(step_error(step.predicted_allocated, step.allocated));
    reserved.push_back(step_error(step.predicted_reserved, step.reserved));
    table.rows.push_back({step.id, format_time(step.predicted_step), format_time(step.step),
                          signed_percent(time), step.waits_for_host() ? "host" : "device",
                          format_bytes(step.predicted_allocated), format_bytes(step.allocated),
                          signed_percent(allocated.back()), signed_percent(reserved.back())});
  }
  table.medians = fmt::format(
      "Median |error| of the step where the device is busy: {}; of allocated peaks: {}; of "
      "reserved "
      "ones: {}.",
      median_error(times), median_error(allocated), median_error(reserved));
  if (const auto slower = middle(waits))
    table.medians += fmt::format(
        " Steps that wait for the host took {:.1f} times as long as predicted in the median: that "
        "says how fast the host was.",
        *slower);
  return table;
}

}  // namespace

bool GpuStep::waits_for_host() const {
  constexpr double kShare = 0.98;
  return static_cast<double>(host_step) > kShare * static_cast<double>(step);
}

namespace {

/// Figures that replace those of the steps' machine, in files of that folder; empty: none do.
struct OtherFigures {
  std::string directory, sections;
};

Status take_figures(const OtherFigures& figures, std::size_t row, SimulateRequest& request) {
  if (figures.sections.empty()) return {};
  const auto workload = plan::read_workload(request.sources.paths.front(), request.sets);
  if (!workload) return tl::unexpected(workload.error());
  const std::string path = fmt::format("{}/gpu_step_{}.hardware.toml", figures.directory, row);
  request.sets.push_back("cluster.hardware=" + path);
  std::string base = workload->cluster.hardware;  // a file's path starts where `path` does not
  if (std::filesystem::exists(base)) base = std::filesystem::absolute(base).string();
  auto file = PendingFile::create(path);
  if (!file) return tl::unexpected(file.error());
  return file->write(fmt::format("base = \"{}\"\nname = \"tried\"\n{}", base, figures.sections))
      .and_then([&] { return file->commit_unflushed(); });
}

Result<std::vector<GpuStep>> predict_steps(const std::string& path, const OtherFigures& figures) {
  const auto text = read_file(path, kMostTable);
  if (!text) return tl::unexpected(text.error());
  const auto table = parse_csv(*text, path);
  if (!table) return tl::unexpected(table.error());
  StepReader reader(*table);
  if (Status found = reader.find_columns(); !found) return tl::unexpected(found.error());
  std::vector<Result<GpuStep>> read(table->rows(), GpuStep{});
  in_parallel(read.size(), [&](std::size_t row) {
    read[row] = reader.read(row);
    if (!read[row] || (!figures.sections.empty() && read[row]->waits_for_host())) return;
    SimulateRequest request = reader.request(row);
    if (Status taken = take_figures(figures, row, request); !taken) {
      read[row] = tl::unexpected(taken.error());
      return;
    }
    const auto outcome = simulate(request);
    if (!outcome) {
      read[row] = reader.refusal(row, outcome.error());
      return;
    }
    const auto step = outcome->summary.step_time();
    if (!step) {
      read[row] = reader.refusal(
          row, {{}, "runs out of memory as predicted, expected what fits", Fault::input});
      return;
    }
    const Peaks& peaks = outcome->summary.classes.front().memory.peaks;
    read[row]->predicted_step = *step;
    read[row]->predicted_allocated = peaks.allocated;
    read[row]->predicted_reserved = peaks.reserved;
  });
  std::vector<GpuStep> steps;
  for (Result<GpuStep>& step : read) {
    if (!step) return tl::unexpected(step.error());
    steps.push_back(std::move(*step));
  }
  return steps;
}

}  // namespace

Result<std::vector<GpuStep>> predict_gpu_steps(const std::string& path) {
  return predict_steps(path, {});
}

Result<std::vector<GpuStep>> predict_busy_gpu_steps(const std::string& path,
                                                    const std::string& directory,
                                                    const std::string& figures) {
  auto steps = predict_steps(path, {directory, figures});
  if (steps) std::erase_if(*steps, [](const GpuStep& step) { return step.waits_for_host(); });
  return steps;
}

std::string gpu_steps_markdown(const std::vector<GpuStep>& steps) {
  const StepTable table = step_table(steps);
  return fmt::format(
             "\n## Steps measured on a GPU\n\n"
             "Training steps of PyTorch (`traces/measured/README.md`: which GPU, versions, date "
             "and "
             "command), one rank of a job whose\ncollectives move nothing over links, predicted "
             "from "
             "their configuration. Nothing is calibrated on them but the figures of\nattention, of "
             "the host and of float8's scales whose sources name them; for the clock under load "
             "they "
             "are one\ngroup of nine (`./dev validate --fit`).\n\n{}\n\n",
             table.medians) +
         markdown_table(kStepHeads, table.rows);
}

std::string gpu_steps_text(const std::vector<GpuStep>& steps) {
  const StepTable table = step_table(steps);
  TextTable text;
  text.row(kStepHeads);
  for (const std::vector<std::string>& row : table.rows) text.row(row);
  return text.text() + table.medians + "\n";
}

}  // namespace foregather::tasks
