#include "cli/sweep_text.h"

#include <fmt/format.h>

#include "core/base/printable.h"
#include "core/base/text.h"
#include "tasks/sweep_rows.h"

namespace foregather::cli {

std::string points_table(const run::SweepInfo& info, const std::vector<run::SweepPoint>& points) {
  TextTable table;
  std::vector<std::string> head;
  for (const auto& axis : info.axes) head.push_back(printable(axis.first));
  for (const char* name : {"step time", "reserved", "GPUs", "tokens/s/GPU", "GPU time/token"})
    head.emplace_back(name);
  table.row(head);
  for (const run::SweepPoint& point : points) {
    const run::PointFigures& figures = point.figures;
    std::vector<std::string> row;
    for (const std::string& value : point.values)
      row.push_back(value.empty() ? "-" : printable(value));
    row.push_back(figures.times ? format_time(figures.times->step) : "-");
    const auto size = tasks::reserved(figures);
    row.push_back(size ? format_bytes(*size) : "-");
    row.push_back(fmt::format("{}", figures.world_size));
    row.push_back(figures.tokens_per_second ? fmt::format("{:.2f}", *figures.tokens_per_second)
                                            : "-");
    const auto cost = tasks::gpu_time_per_token(figures);
    row.push_back(cost ? format_time(*cost / 1000) : "-");
    table.row(row);
  }
  return table.text(2);
}

std::string counts_text(const tasks::SweepCounts& counts) {
  const std::int64_t rows = counts.fits + counts.out_of_memory + counts.failed;
  std::string text =
      fmt::format("{} point{}: {} fit, {} run out of memory, {} failed", format_count(rows),
                  rows == 1 ? "" : "s", format_count(counts.fits),
                  format_count(counts.out_of_memory), format_count(counts.failed));
  if (counts.excluded > 0)
    text += fmt::format("; {} excluded by --where", format_count(counts.excluded));
  if (counts.present > 0)
    text += fmt::format("; {} were there, {} predicted now", format_count(counts.present),
                        format_count(counts.predicted));
  text += "\n";
  if (counts.failed > 0)
    text += fmt::format("the first that failed: {}\n", printable(counts.first_error));
  return text;
}

}  // namespace foregather::cli
