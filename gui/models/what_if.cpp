#include "gui/models/what_if.h"

#include <algorithm>
#include <sstream>

#include "core/base/text.h"
#include "core/compare/exposed.h"
#include "core/compare/matching.h"
#include "core/compare/replayed.h"
#include "core/plan/model.h"
#include "core/plan/workload_toml.h"

namespace foregather::gui {
namespace {

std::string signed_percent(std::int64_t now, std::int64_t before) {
  if (before == 0) return now == 0 ? "0.0 %" : "was none";
  const double share = static_cast<double>(now - before) / static_cast<double>(before) * 100;
  return now == before ? "0.0 %" : fmt::format("{:+.1f} %", share);
}

template <class Format>
std::string figure(const char* what, const auto& now, const auto& before, Format&& format) {
  if (!now) return {};
  return fmt::format("{} {}{}", what, format(*now),
                     before ? fmt::format(" ({})", signed_percent(*now, *before)) : "");
}

// The whole of what the file says, with the defaults that the model gives where it can be read.
Result<plan::Workload> workload_of(const WhatIfSource& source,
                                   const std::vector<std::string>& sets) {
  auto workload = plan::parse_workload(*source.workload, source.workload_path, sets);
  if (!workload) return workload;
  const auto model = plan::read_model(*workload);
  if (!model || !plan::resolve_workload(*workload, *model)) return workload;
  workload->layers = model->layers;
  return workload;
}

Ns length(run::RunView run, run::StepRow step) {
  return run.steps[step.row()].end - run.steps[step.row()].begin;
}

WhatIfFigures figures_of(run::RunView run, std::optional<std::int64_t> number) {
  WhatIfFigures figures;
  figures.is_oom = !run.failures.empty();
  run::StepRow slowest;
  for (std::size_t c = 0; c < run.classes.size(); ++c) {
    const run::StepRow step = compare::step_to_compare(run, run::ClassRow(c), number);
    if (!step) continue;
    if (!slowest || length(run, step) > length(run, slowest)) slowest = step;
    const Bytes peak = run.steps[step.row()].peak_reserved;
    if (peak > figures.peak.value_or(0)) figures.peak = peak;
  }
  if (!slowest || figures.is_oom) return figures;
  figures.step = length(run, slowest);
  figures.exposed = compare::busy_times(run, slowest).exposed;
  return figures;
}

}  // namespace

WhatIfFigures what_if_figures(run::RunView run) { return figures_of(run, std::nullopt); }

WhatIfFigures what_if_figures(const run::Run& run, const run::Run& beside) {
  if (!compare::meets_all_steps(beside, run)) {
    WhatIfFigures figures = figures_of(run, compare::replayed_step(beside));
    figures.is_of_all_steps = compare::meets_all_steps(run, beside);
    return figures;
  }
  run::Run joined = run;
  compare::join_steps(joined);
  WhatIfFigures figures = what_if_figures(joined);
  figures.is_of_all_steps = true;
  return figures;
}

std::optional<std::int64_t> step_to_turn(run::RunView measured) {
  if (measured.steps.size() <= measured.classes.size()) return std::nullopt;
  run::StepRow slowest;
  for (std::size_t c = 0; c < measured.classes.size(); ++c) {
    const run::StepRow step = compare::step_to_compare(measured, run::ClassRow(c), std::nullopt);
    if (!step) return std::nullopt;
    if (!slowest || length(measured, step) > length(measured, slowest)) slowest = step;
  }
  const std::uint32_t number = measured.steps[slowest.row()].number;
  for (std::size_t c = 0; c < measured.classes.size(); ++c)
    if (std::ranges::none_of(measured.steps, [&](const run::StepInfo& step) {
          return step.rank_class == run::ClassRow(c) && step.number == number;
        }))
      return std::nullopt;
  return number;
}

std::string difference_text(const WhatIfFigures& now, const WhatIfFigures& baseline) {
  std::vector<std::string> found{
      figure(now.is_of_all_steps ? "all steps" : "step", now.step, baseline.step, format_time),
      figure("exposed", now.exposed, baseline.exposed, format_time),
      figure("peak", now.peak, baseline.peak, format_bytes)};
  if (now.is_oom) found.insert(found.begin(), "out of memory");
  std::erase(found, std::string());
  return fmt::format("{}", fmt::join(found, ", "));
}

WhatIf::WhatIf(WhatIfSource source, KnobNames names)
    : source_(std::move(source)), names_(std::move(names)) {
  find_knobs();
}

void WhatIf::find_knobs() {
  if (!source_.workload) {
    knobs_ = schedule_knobs(names_, source_.is_recorded);
    return;
  }
  // What a knob is turned to may not fit the others: then they stay.
  std::vector<std::string> all = source_.stored_sets;
  for (const std::string& set : sets()) all.push_back(set);
  auto workload = workload_of(source_, all);
  if (!workload && !knobs_.empty()) return;
  if (!workload) {
    knobs_ = schedule_knobs(names_, source_.is_recorded);
    return;
  }
  std::vector<std::pair<std::string, std::string>> written;
  if (const auto keys = plan::written_keys(*source_.workload, source_.workload_path))
    written.assign(keys->begin(), keys->end());
  std::vector<std::string> before = source_.stored_sets;
  before.insert(before.end(), source_.sets.begin(), source_.sets.end());
  for (const std::string& set : before)
    if (const auto equals = set.find('='); equals != set.npos)
      written.emplace_back(set.substr(0, equals), set.substr(equals + 1));
  const auto given = workload_of(source_, before);
  knobs_ = workload_knobs(*workload, written, given ? *given : *workload, names_);
}

std::string WhatIf::value(const Knob& knob) const {
  const auto found = values_.find(knob.name);
  return found == values_.end() ? std::string() : found->second;
}

bool WhatIf::turn(const std::string& name, const std::string& value) {
  std::map<std::string, std::string> turned = values_;
  if (value.empty())
    turned.erase(name);
  else
    turned[name] = value;
  if (turned == values_) return false;
  values_ = std::move(turned);
  find_knobs();
  return true;
}

void WhatIf::set_further_passes(const std::string& text) { further_ = text; }

void WhatIf::reset() {
  values_.clear();
  further_.clear();
  find_knobs();
}

void WhatIf::turn_as(const WhatIf& other) {
  values_ = other.values_;
  further_ = other.further_;
  find_knobs();
}

std::vector<std::string> WhatIf::sets() const {
  std::vector<std::string> found = source_.sets;
  for (const Knob& knob : knobs_)
    if (const std::string set = value(knob); !knob.is_pass && !set.empty())
      found.push_back(knob.argument(set));
  return found;
}

std::vector<std::string> WhatIf::passes() const {
  std::vector<std::string> found = source_.passes;
  for (const Knob& knob : knobs_)
    if (const std::string set = value(knob); knob.is_pass && !set.empty())
      found.push_back(knob.argument(set));
  std::istringstream further(further_);
  for (std::string pass; further >> pass;) found.push_back(pass);
  return found;
}

std::string WhatIf::command_line() const {
  if (empty()) return {};
  std::string line = "foregather simulate " + shell_word(source_.location);
  if (source_.step) line += fmt::format(" --step {}", *source_.step);
  for (const std::string& set : sets()) line += " --set " + shell_word(set);
  for (const std::string& pass : passes()) line += " --what-if " + shell_word(pass);
  return line;
}

std::string WhatIf::title() const {
  std::vector<std::string> words;
  for (const std::string& set : sets())
    words.push_back(set.substr(set.rfind('.', set.find('=')) + 1));
  for (const std::string& pass : passes()) words.push_back(pass);
  return fmt::format("{}", fmt::join(words, " "));
}

std::string shell_word(const std::string& word) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./=:,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace foregather::gui
