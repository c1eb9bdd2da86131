#include "cli/search_text.h"

#include <fmt/format.h>

#include "cli/sweep_text.h"
#include "core/base/printable.h"
#include "core/base/text.h"

namespace foregather::cli {
namespace {

using tasks::SearchGoal;
using tasks::SearchReport;

std::string limit_text(const SearchReport& report) {
  return report.goal == SearchGoal::memory ? format_time(*report.request.time_limit)
                                           : format_bytes(*report.request.memory_limit);
}

// So that what is beyond the limit never looks like it.
std::string beyond_text(const SearchReport& report, std::int64_t need) {
  const bool is_memory = report.goal == SearchGoal::memory;
  const auto text = [&](std::int64_t value) {
    return is_memory ? format_time(value) : format_bytes(value);
  };
  const std::int64_t limit = is_memory ? *report.request.time_limit : *report.request.memory_limit;
  if (need <= limit || text(need) != text(limit)) return text(need);
  return fmt::format("{}, and {} more", text(limit), text(need - limit));
}

std::string best_text(const SearchReport& report) {
  const tasks::SearchBest& best = *report.best;
  const bool is_memory = report.goal == SearchGoal::memory;
  std::string text = fmt::format(
      "{} {}: {} a step, {} of a device\n",
      is_memory                                       ? "The smallest that takes at most"
      : report.goal == SearchGoal::gpu_time_per_token ? "The cheapest token that fits"
                                                      : "The fastest that fits",
      limit_text(report), format_time(best.point.figures.times->step), format_bytes(best.memory));
  text += "  " + printable(best.command) + "\n";
  text += fmt::format("  {:.1f} % above the bound of its ops, {}\n", best.gap * 100,
                      is_memory ? format_bytes(best.memory_bound) : format_time(best.time_bound));
  text += fmt::format("  limited by {}: {}\n", best.limited_by, best.because);
  return text;
}

std::string miss_text(const SearchReport& report) {
  const bool is_memory = report.goal == SearchGoal::memory;
  std::string text =
      fmt::format("{} {} {}\n", report.is_proved ? "Nothing" : "Nothing that was tried",
                  is_memory ? "takes at most" : "fits", limit_text(report));
  if (!report.closest) return text;
  const tasks::SearchMiss& miss = *report.closest;
  std::string settings;
  for (std::size_t i = 0; i < miss.values.size(); ++i)
    settings += fmt::format("{}{}={}", i == 0 ? "" : ", ", report.info.axes[i].first,
                            miss.values[i].empty() ? "(as it is)" : miss.values[i]);
  text += fmt::format("  closest: {} {}{}{}\n    {}\n", is_memory ? "takes" : "needs",
                      miss.is_simulated ? "" : "at least ", beyond_text(report, miss.need),
                      miss.runs_out_of_memory ? ", and runs out of the device's memory" : "",
                      printable(settings));
  return text;
}

std::string cost_text(const SearchReport& report, std::int64_t cost) {
  if (report.goal == SearchGoal::memory) return format_bytes(cost);
  if (report.goal == SearchGoal::step_time) return format_time(cost);
  return fmt::format("{:.4g} µs a token", static_cast<double>(cost) / 1e6);
}

std::string floor_text(const SearchReport& report, const tasks::BlockSearch& search) {
  const std::string by = search.solver.empty() ? "" : " (" + search.solver + ")";
  if (search.is_proved)
    return (report.best ? "Proved: no other set of blocks is better" : "Proved: no set fits") + by +
           ".\n";
  if (!search.floor) return "Not proved: " + printable(search.no_floor) + ".\n";
  const std::string bound =
      fmt::format("no set that fits is below {}{}", cost_text(report, *search.floor), by);
  if (!report.best) return "Not proved: " + bound + ".\n";
  return fmt::format("Not proved: {}; the gap is {:.1f} %.\n", bound, search.gap * 100);
}

std::string blocks_text(const SearchReport& report) {
  if (!report.blocks) return "";
  const tasks::BlockSearch& search = *report.blocks;
  const std::string_view outcome = search.is_best ? "one is better than all points"
                                   : report.best  ? "none is better than the best point"
                                                  : "none fits";
  return fmt::format("\nSets of {} blocks to recompute: {} simulated, {}\n", search.blocks,
                     format_count(search.simulated), outcome) +
         floor_text(report, search);
}

std::string looked_at_text(const SearchReport& report) {
  const std::int64_t rest = report.info.points - report.simulated - report.ruled_out -
                            report.excluded - report.impossible;
  std::string text = fmt::format("\n{} points: {} simulated, {} ruled out by bounds",
                                 format_count(report.info.points), format_count(report.simulated),
                                 format_count(report.ruled_out));
  if (report.excluded > 0)
    text += fmt::format(", {} excluded by --where", format_count(report.excluded));
  if (report.impossible > 0) text += fmt::format(", {} cannot be", format_count(report.impossible));
  if (rest > 0) text += fmt::format(", {} left", format_count(rest));
  text += "\n";
  if (report.impossible > 0)
    text += fmt::format("the first that cannot be: {}\n", printable(report.first_error));
  if (!report.best) return text;
  const bool is_point = !report.blocks || !report.blocks->is_best;
  if (report.is_proved)
    return text +
           (is_point ? "Proved: no other point is better.\n" : "Proved: no point is better.\n");
  if (report.grid_gap)
    return text + fmt::format("Not proved: another point could be up to {:.1f} % better.\n",
                              (1 - 1 / (1 + *report.grid_gap)) * 100);
  return text + "Not proved: not all points were looked at.\n";
}

}  // namespace

std::string search_text(const SearchReport& report) {
  std::string text = report.best ? best_text(report) : miss_text(report);
  text += looked_at_text(report);
  text += blocks_text(report);
  if (!report.runners_up.empty())
    text += "\nThe next ones of another kind:\n" + points_table(report.info, report.runners_up);
  return text;
}

}  // namespace foregather::cli
