#include "cli/summary_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/printable.h"
#include "core/base/text.h"

namespace foregather::cli {
namespace {

using tasks::Summary;

double percent(Ns part, Ns whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

// `part` of `whole` as a bar of eighths of blocks.
std::string bar(Ns part, Ns whole) {
  constexpr std::int64_t kWidth = 40;
  constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const std::int64_t eighths =
      whole <= 0 ? 0
                 : static_cast<std::int64_t>(std::clamp(percent(part, whole), 0.0, 100.0) / 100 *
                                             8 * kWidth);
  std::string text;
  for (std::int64_t i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  const std::int64_t drawn = eighths / 8 + (eighths % 8 != 0 ? 1 : 0);
  for (std::int64_t i = drawn; i < kWidth; ++i) text += "·";
  return text;
}

std::string header(const Summary& summary) {
  std::string text = printable(summary.name) + "\n";
  if (!summary.model.empty())
    text += fmt::format("  {}{}\n", summary.model,
                        summary.recorded.empty()
                            ? fmt::format(", {} parameters", format_count(summary.parameters))
                            : std::string());
  text += fmt::format("  {}{} × {}{}\n", summary.strategy.empty() ? "" : summary.strategy + " on ",
                      format_count(summary.world_size), printable(summary.hardware),
                      summary.batch.empty() ? "" : ", " + summary.batch);
  for (const tasks::WhatIfFigure& pass : summary.what_if)
    text += fmt::format("  what if {}: {}\n", printable(pass.pass), printable(pass.did));
  return text;
}

const char* how_sure(const tasks::Interval& interval) {
  return interval.is_validated
             ? " in nine of ten cases, by how far published runs were off"
             : ", a range assumed of a GPU of which few published steps are known";
}

std::string step_line(const Summary& summary) {
  std::string text = fmt::format("\nStep time  {}", format_time(*summary.step_time()));
  if (summary.tokens_per_second)
    text += fmt::format("   {} tokens/s/GPU",
                        format_count(static_cast<std::int64_t>(*summary.tokens_per_second + 0.5)));
  if (summary.mfu)
    text += *summary.mfu < 0.001 ? "   MFU < 0.1 %"
                                 : fmt::format("   MFU {:.1f} %", *summary.mfu * 100);
  text += "\n";
  if (const auto& before = summary.as_recorded) {
    const auto change = [](Ns by, const char* more, const char* less) {
      return fmt::format("{} {}", format_time(std::abs(by)), by < 0 ? less : more);
    };
    text += fmt::format("  {} than as recorded ({}); exposed communication {} before, {}\n",
                        change(*summary.step_time() - before->step, "more", "less"),
                        format_time(before->step), format_time(before->exposed),
                        change(summary.slow().times->busy.exposed - before->exposed,
                               "newly exposed", "no longer exposed"));
  }
  // Of recorded times, which stay as they are, there is no range.
  if (const auto& range = summary.interval.step_time;
      range && format_time(range->first) != format_time(range->second))
    text += fmt::format("  between {} and {}{}\n", format_time(range->first),
                        format_time(range->second), how_sure(summary.interval));
  return text;
}

std::string bars(const Summary& summary) {
  const tasks::StepTimes& times = *summary.slow().times;
  TextTable table;
  const auto row = [&](const char* what, Ns time) {
    table.row({what, bar(time, times.step), format_time(time),
               fmt::format("{:.1f} %", percent(time, times.step))});
  };
  row("compute", times.busy.compute);
  row("communication", times.busy.comm);
  row("  exposed", times.busy.exposed);
  if (times.busy.wait > 0)
    table.row({"waiting for other ranks", "", format_time(times.busy.wait), ""});
  return table.text(2);
}

// What lies between the bound and the step. The critical path is compute, communication and waits;
// what compute on it takes alone is set against the bound, so that the rows add
// up (but for those of nearly nothing).
std::string above_bound(const Summary& summary) {
  const Ns step = *summary.step_time();
  const Ns bound = *summary.bound;
  const tasks::PathFigures& path = summary.path;
  std::string text = fmt::format("\nBound      {}", format_time(bound));
  if (step == bound) return text + "   the step cannot be faster in any order\n";
  text += fmt::format("   the step takes {} ({:.1f} %) more, on its critical path:\n",
                      format_time(step - bound), percent(step - bound, bound));
  TextTable table;
  const auto row = [&](const char* what, Ns time) {
    if (std::abs(time) < step / 2000) return;  // 0.0 %
    const std::string_view sign = time < 0 ? "−" : "";
    table.row({what, fmt::format("{}{}", sign, format_time(std::abs(time))),
               fmt::format("{}{:.1f} %", sign, percent(std::abs(time), step))});
  };
  row("communication", path.comm - path.comm_contention);
  row("contention of overlapped work", path.compute_contention + path.comm_contention);
  row("waiting for the host's launches", path.host);
  row(summary.recorded.empty() ? "work of the step before"
                               : "waiting for other ranks, or unexplained",
      path.other);
  row("compute, less the bound", path.compute - path.compute_contention - bound);
  return text + table.text(2);
}

std::string collectives(const Summary& summary) {
  TextTable table;
  const tasks::StepTimes& times = *summary.slow().times;
  table.row({"Collectives", "count", "bytes", "busy", "exposed"});
  for (std::size_t kind = 0; kind < compare::kOpKinds; ++kind) {
    const compare::CollectiveUse& use = times.busy.by_kind[kind];
    if (use.count == 0) continue;
    const bool is_known = times.busy.knows_bytes(static_cast<OpKind>(kind));
    table.row({"  " + std::string(name(static_cast<OpKind>(kind))), format_count(use.count),
               is_known ? format_bytes(use.bytes) : "not known", format_time(use.busy),
               format_time(use.exposed)});
  }
  if (!summary.recorded.empty() || !times.busy.knows_bytes()) return "\n" + table.text();
  return fmt::format("\n{}  {} on the wire, sent by each rank\n", table.text(),
                     format_bytes(times.busy.wire_bytes));
}

std::string causes(const tasks::StepMemory& memory) {
  std::vector<std::size_t> order;
  for (std::size_t cause = 0; cause < kScheduleCauses; ++cause)
    if (memory.by_cause[cause] > 0) order.push_back(cause);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return memory.by_cause[a] > memory.by_cause[b];
  });
  TextTable table;
  for (const std::size_t cause : order) {
    std::string what(name(static_cast<Cause>(cause)));
    std::replace(what.begin(), what.end(), '_', ' ');
    table.row({what, format_bytes(memory.by_cause[cause]),
               fmt::format("{:.1f} %", percent(memory.by_cause[cause], memory.peaks.allocated))});
  }
  std::string text = table.text(4);
  if (memory.peak_at) text += fmt::format("    at {}\n", printable(*memory.peak_at));
  return text;
}

std::string memory(const Summary& summary) {
  const tasks::StepMemory& steady = summary.large().memory;
  const bool live = summary.memory_model != tasks::MemoryModel::allocator;
  const bool estimated = summary.memory_model == tasks::MemoryModel::thunder_estimator;
  TextTable table;
  const auto row = [&](const char* what, Bytes bytes) { table.row({what, format_bytes(bytes)}); };
  if (!live) {
    row("requested", steady.peaks.requested);
    row("allocated", steady.peaks.allocated);
    row("active", steady.peaks.active);
    row("reserved", steady.peaks.reserved);
  } else {
    row(estimated ? "estimated" : "live", steady.peaks.requested);
  }
  row("bound", summary.memory_bound);
  if (estimated) return fmt::format("\nPeak memory (Thunder's estimator)\n{}", table.text(2));
  return fmt::format("\nPeak memory{}\n{}  held at the peak by\n{}",
                     live ? " (live bytes, no allocator)" : "", table.text(2), causes(steady));
}

std::string retries(const Summary& summary) {
  const std::uint64_t count = summary.large().memory.retries.value_or(0);
  if (count == 0) return {};
  return fmt::format(
      "  {} allocation{} of each step {} the device full: all that is cached goes back to the "
      "driver, and the device is waited for\n",
      count, count == 1 ? "" : "s", count == 1 ? "finds" : "find");
}

std::string close_call(const Summary& summary) {
  if (!summary.interval.is_close_call) return {};
  const auto& [low, high] = *summary.interval.reserved;
  return fmt::format("  a close call: {} to {} are reserved{}\n", format_bytes(low),
                     format_bytes(high), how_sure(summary.interval));
}

std::string fits(const Summary& summary) {
  std::string text =
      fmt::format("\n{} of {}, {} outside the allocator: ", printable(summary.hardware),
                  format_bytes(summary.capacity), format_bytes(summary.outside_allocator));
  if (summary.oom) {
    text += fmt::format("does not fit\n  out of memory{}: {} for {}",
                        summary.oom->in_first_step ? " in the first step" : "",
                        format_bytes(summary.oom->requested), printable(summary.oom->storage));
    if (summary.oom->op) text += fmt::format(", before {}", printable(*summary.oom->op));
    return text + "\n";
  }
  const Bytes margin = *summary.margin();
  text += margin >= 0 ? fmt::format("fits, {} left\n", format_bytes(margin))
                      : fmt::format("does not fit, {} too much\n", format_bytes(-margin));
  return text + close_call(summary) + (margin >= 0 ? retries(summary) : "");
}

std::string recorded(const Summary& summary) {
  TextTable table;
  const bool has_clocks =
      std::any_of(summary.recorded.begin(), summary.recorded.end(),
                  [](const tasks::RecordedFigures& rank) { return rank.clock.has_value(); });
  std::vector<std::string> head{"Recorded", summary.is_measured ? "measured" : "predicted",
                                "replayed", "unexplained",
                                "streams",  "waits"};
  if (has_clocks) head.emplace_back("clock ahead by");
  table.row(head);
  for (std::size_t i = 0; i < summary.recorded.size(); ++i) {
    const tasks::RecordedFigures& rank = summary.recorded[i];
    std::vector<std::string> row{
        fmt::format("  rank {}", rank.rank),
        format_time(rank.measured),
        format_time(summary.classes[i].times->step),
        format_time(rank.unexplained),
        format_count(rank.streams),
        fmt::format("{} recorded, {} inferred", rank.recorded_deps, rank.inferred_deps)};
    if (has_clocks) row.push_back(rank.clock ? clock_text(*rank.clock) : "not known");
    table.row(row);
  }
  return "\n" + table.text();
}

std::string first_step(const Summary& summary) {
  const std::optional<Ns> time = summary.first_step();
  if (!time || (!summary.has_memory && !summary.recorded.empty())) return {};
  if (!summary.has_memory) return fmt::format("First step {}\n", format_time(*time));
  const bool live = summary.memory_model != tasks::MemoryModel::allocator;
  return fmt::format("First step {}, {} {}\n", format_time(*time), live ? "live" : "reserved",
                     format_bytes(summary.large().first_memory.peaks.reserved));
}

}  // namespace

std::string clock_text(const tasks::ClockFigures& clock) {
  return fmt::format("{}{} ± {}", clock.offset < 0 ? "−" : "", format_time(std::abs(clock.offset)),
                     format_time(clock.uncertainty));
}

std::string summary_text(const Summary& summary) {
  std::string text = header(summary);
  if (summary.step_time()) {
    text += step_line(summary) + bars(summary) + above_bound(summary);
    if (summary.slow().times->busy.comm > 0) text += collectives(summary);
  }
  if (!summary.recorded.empty()) text += recorded(summary);
  if (summary.has_memory) text += memory(summary) + fits(summary);
  text += first_step(summary);
  return text;
}

}  // namespace foregather::cli
