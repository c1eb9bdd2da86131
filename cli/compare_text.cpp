#include "cli/compare_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <tuple>

#include "core/base/printable.h"
#include "core/base/text.h"

namespace foregather::cli {
namespace {

constexpr std::size_t kMost = 12, kMostOfPath = 5, kLongestName = 72;

std::string signed_percent(double share) {
  return fmt::format("{}{:.1f} %", share < 0 ? "−" : "+", 100 * std::abs(share));
}

std::string signed_time(Ns time) { return (time < 0 ? "−" : "+") + format_time(std::abs(time)); }
std::string signed_bytes(Bytes bytes) {
  return (bytes < 0 ? "−" : "+") + format_bytes(std::abs(bytes));
}

// Bytes of the second over zero say nothing.
std::string share(std::int64_t first, std::int64_t second) {
  return second == 0
             ? ""
             : signed_percent(static_cast<double>(first - second) / static_cast<double>(second));
}

std::string shown(std::string_view key) { return "  " + printable(key.substr(0, kLongestName)); }

std::string words(std::string_view identifier) {
  std::string text(identifier);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string more(std::size_t all) {
  return all <= kMost ? ""
                      : fmt::format("  …and {} more\n",
                                    format_count(static_cast<std::int64_t>(all - kMost)));
}

std::string side_name(const tasks::ComparedSide& side) {
  if (side.is_measured) return fmt::format("measured, rank {}, step {}", side.rank, side.step);
  return fmt::format("predicted, rank {}", side.rank);
}

std::string times(const tasks::Comparison& comparison) {
  const tasks::ComparedSide& a = comparison.first;
  const tasks::ComparedSide& b = comparison.second;
  TextTable table;
  table.row({"", side_name(a), side_name(b), "difference", ""});
  const auto row = [&](const std::string& what, Ns first, Ns second) {
    const auto cell = [](const tasks::ComparedSide& side, Ns time) {
      return side.is_cut ? "–" : format_time(time);
    };
    const bool both = comparison.has_times();
    table.row({what, cell(a, first), cell(b, second), both ? signed_time(first - second) : "",
               both ? share(first, second) : ""});
  };
  if (comparison.has_ops()) {
    row("step", a.step_time, b.step_time);
    row("compute", a.busy.compute, b.busy.compute);
    row("communication", a.busy.comm, b.busy.comm);
    row("  exposed", a.busy.exposed, b.busy.exposed);
    row("  hidden", a.busy.comm - a.busy.exposed, b.busy.comm - b.busy.exposed);
    row("  transfers, summed", a.busy.transfer, b.busy.transfer);
    if (a.knows_waits && b.knows_waits) {
      row("  waiting for ranks, summed", a.busy.wait, b.busy.wait);
    } else {
      const auto cell = [](const tasks::ComparedSide& side) {
        return side.knows_waits && !side.is_cut ? format_time(side.busy.wait) : "not known";
      };
      table.row({"  waiting for ranks, summed", cell(a), cell(b), "", ""});
    }
  }
  const auto bytes = [&](const char* what, Bytes first, Bytes second) {
    if (first <= 0 || second <= 0) return;
    table.row({what, format_bytes(first), format_bytes(second), signed_bytes(first - second),
               share(first, second)});
  };
  bytes("peak allocated", a.peak_allocated, b.peak_allocated);
  bytes("peak reserved", a.peak_reserved, b.peak_reserved);
  return table.text(2);
}

std::string memory(const tasks::Comparison& comparison) {
  const auto& [a, b] = std::tie(comparison.first, comparison.second);
  if (a.memory.total() == 0 && b.memory.total() == 0) return "";
  const auto side = [](const char* which, const compare::MemoryAtPeak& memory) {
    return std::string(which) + (memory.is_inferred ? ", inferred" : "");
  };
  TextTable table;
  table.row(
      {"Held at the peak by", side("first", a.memory), side("second", b.memory), "difference", ""});
  for (std::size_t cause = 0; cause < a.memory.by_cause.size(); ++cause) {
    const Bytes first = a.memory.by_cause[cause], second = b.memory.by_cause[cause];
    if (first == 0 && second == 0) continue;
    const bool knows_first = a.memory.knows(static_cast<Cause>(cause));
    const bool knows_second = b.memory.knows(static_cast<Cause>(cause));
    const bool are_both = knows_first && knows_second;
    table.row({"  " + words(name(static_cast<Cause>(cause))),
               knows_first ? format_bytes(first) : "not known",
               knows_second ? format_bytes(second) : "not known",
               are_both ? signed_bytes(first - second) : "", are_both ? share(first, second) : ""});
  }
  return "\n" + table.text();
}

std::string paths(const tasks::Comparison& comparison) {
  const auto& [a, b] = std::tie(comparison.first, comparison.second);
  TextTable table;
  table.row({"On the critical path", "first", "second", "difference", ""});
  const auto rows = [&](const char* prefix, const auto& first, const auto& second) {
    std::set<std::string_view> names;
    for (const auto* side : {&first, &second})
      for (const auto& [word, time] : *side) names.insert(word);
    const auto of = [](const auto& side, std::string_view word) {
      const auto found = side.find(word);
      return found == side.end() ? Ns{0} : found->second;
    };
    for (const std::string_view word : names) {
      const Ns x = of(first, word), y = of(second, word);
      if (x == 0 && y == 0) continue;
      table.row({fmt::format("  {}{}", prefix, words(word)), format_time(x), format_time(y),
                 signed_time(x - y), share(x, y)});
    }
  };
  rows("", a.path_kinds, b.path_kinds);
  rows("gaps behind ", a.path_reasons, b.path_reasons);
  return "\n" + table.text();
}

std::string longest(const char* which, const tasks::ComparedSide& side) {
  TextTable table;
  table.row({fmt::format("Longest on the path of the {}", which), "op", "gap before", "behind"});
  for (std::size_t i = 0; i < std::min(kMostOfPath, side.path_longest.size()); ++i) {
    const tasks::PathEntry& entry = side.path_longest[i];
    table.row({shown(entry.op), format_time(entry.time), format_time(entry.gap),
               std::string(name(entry.reason))});
  }
  return "\n" + table.text();
}

std::vector<std::string> residual(const std::string& key, const tasks::Residual& residual) {
  return {shown(key),
          format_count(residual.n),
          format_time(residual.first),
          format_time(residual.second),
          signed_percent(residual.error()),
          fmt::format("{:.1f} %", 100 * residual.mape)};
}

std::string residuals(const tasks::Comparison& comparison) {
  TextTable kinds;
  kinds.row({"By kind", "n", "first", "second", "error", "mean |error|"});
  for (const auto& [kind, row] : comparison.by_kind) kinds.row(residual(kind, row));
  const auto scopes = most_changed(comparison.by_scope);
  if (scopes.empty()) return "\n" + kinds.text();
  TextTable changed;
  changed.row({"By scope, changed most", "n", "first", "second", "error", "mean |error|"});
  for (std::size_t i = 0; i < std::min(kMost, scopes.size()); ++i)
    changed.row(residual(scopes[i].first, scopes[i].second));
  return "\n" + kinds.text() + "\n" + changed.text() + more(scopes.size());
}

std::string matched(const tasks::Comparison& comparison) {
  const compare::Matching& matching = comparison.matching;
  std::string text = "\nMatched, by busy time of the second:";
  for (std::size_t level = 0; level < compare::kMatchLevels; ++level)
    text += fmt::format(" {} {:.1f} %", name(static_cast<compare::MatchLevel>(level)),
                        matching.second_time == 0
                            ? 0.0
                            : 100.0 * static_cast<double>(matching.second_matched[level]) /
                                  static_cast<double>(matching.second_time));
  return text +
         fmt::format("\n  {} groups\n", format_count(static_cast<std::int64_t>(matching.matched)));
}

std::string unmatched(const char* which, const compare::Matching& matching,
                      std::span<const compare::MatchedGroup> groups) {
  if (groups.empty()) return "";
  std::int64_t ops = 0;
  for (const auto& group : groups) ops += group.first_ops + group.second_ops;
  TextTable table;
  table.row({fmt::format("Only in the {}: {} ops", which, format_count(ops)), "n", "time"});
  for (std::size_t i = 0; i < std::min(kMost, groups.size()); ++i)
    table.row({shown(matching.key(groups[i])),
               format_count(groups[i].first_ops + groups[i].second_ops),
               format_time(groups[i].first_time + groups[i].second_time)});
  return "\n" + table.text() + more(groups.size());
}

std::string changed(const tasks::Comparison& comparison) {
  const auto groups = most_changed(comparison);
  if (groups.empty()) return "\nNo group took another time.\n";
  TextTable table;
  table.row({"Changed most", "first", "second", "difference"});
  for (std::size_t i = 0; i < std::min(kMost, groups.size()); ++i)
    table.row({shown(comparison.matching.key(*groups[i])), format_time(groups[i]->first_time),
               format_time(groups[i]->second_time), signed_time(groups[i]->difference())});
  return "\n" + table.text() + more(groups.size());
}

std::string kernels(const tasks::Comparison& comparison) {
  TextTable table;
  table.row({"Changed most, by kernel", "n", "first", "n", "second", "difference"});
  for (std::size_t i = 0; i < std::min(kMost, comparison.kernels.size()); ++i) {
    const compare::KernelChange& kernel = comparison.kernels[i];
    table.row({shown(kernel.name), format_count(kernel.first_ops), format_time(kernel.first_time),
               format_count(kernel.second_ops), format_time(kernel.second_time),
               signed_time(kernel.first_time - kernel.second_time)});
  }
  return "\n" + table.text() + more(comparison.kernels.size());
}

}  // namespace

std::string text_of(const tasks::Comparison& comparison) {
  const compare::Matching& matching = comparison.matching;
  std::string text =
      fmt::format("{} against {}\n{}{}", printable(comparison.first.run),
                  printable(comparison.second.run), times(comparison), memory(comparison));
  if (comparison.has_times())
    text += paths(comparison) + longest("first", comparison.first) +
            longest("second", comparison.second);
  if (comparison.has_ops())
    text += residuals(comparison) + matched(comparison) +
            (comparison.kernels.empty() ? changed(comparison) : kernels(comparison));
  return text + unmatched("first", matching, matching.of_first_alone()) +
         unmatched("second", matching, matching.of_second_alone());
}

}  // namespace foregather::cli
