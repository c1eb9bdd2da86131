#include "gui/app/resimulate.h"

#include <fstream>

#include "tasks/device_hardware.h"
#include "tasks/keys.h"
#include "tasks/recorded_source.h"
#include "tasks/simulate.h"
#include "tasks/stored_prediction.h"

namespace foregather::gui {
namespace {

// The files of a prediction that is no workload's may be others now, and it may have had several.
Status check_predicted(const WhatIfSource& source, tasks::SimulateRequest request) {
  request.sets = source.sets;
  request.what_if = source.passes;
  const auto now = tasks::simulate(request);
  if (!now) return tl::unexpected(now.error());
  const run::Run& before = *source.predicted->run;
  if (now->run.classes.size() == before.classes.size() &&
      what_if_figures(now->run) == what_if_figures(before))
    return {};
  return fail_at(source.predicted->location,
                 "cannot be turned: {} alone, as it is now, predicts something else",
                 source.location);
}

}  // namespace

KnobNames knob_names() {
  return {tasks::hardware_names(), tasks::topology_names(), tasks::fabric_names()};
}

Result<WhatIf> what_if_of(const OpenRun& open) {
  WhatIfSource source;
  source.location = source.workload_path = open.location;
  tasks::SimulateRequest request;
  if (tasks::ask_as_predicted(open.run->about, request)) {
    source.is_text = true;
    source.workload = std::move(request.sources.workload->text);
    source.inputs = std::move(request.sources.workload->inputs);
    source.workload_path = request.sources.paths.front();
    source.stored_sets = std::move(request.sets);
    source.stored_passes = std::move(request.what_if);
    return WhatIf(std::move(source), knob_names());
  }
  const run::RunInfo& about = open.run->about;
  if (about.kind == run::RunKind::predicted) {
    const auto recorded = tasks::is_recorded(about.source);
    if (!recorded)
      return fail_at(open.location, "was predicted from {}, which cannot be read: {}", about.source,
                     recorded.error().message);
    tasks::prepend_options(about.options, request);
    source.location = source.workload_path = about.source;
    source.sets = std::move(request.sets);
    source.passes = std::move(request.what_if);
    source.step = request.sources.step;
    source.is_recorded = *recorded;
    source.predicted = open;
    return WhatIf(std::move(source), knob_names());
  }
  constexpr int kPickle = 0x80;
  if (std::ifstream(open.location, std::ios::binary).get() == kPickle)
    return fail_at(open.location, "is a memory snapshot: there is no schedule to turn knobs of");
  if (tasks::is_timeline(open.location))
    return fail_at(open.location,
                   "is one rank and one step here: knobs turn the job that it is, which "
                   "'foregather simulate' writes with -o RUN.db");
  source.is_recorded = tasks::is_recorded(open.location).value_or(false);
  source.step = step_to_turn(*open.run);
  return WhatIf(std::move(source), knob_names());
}

Result<Resimulated> laid_over(OpenRun run, std::optional<OpenRun> below) {
  std::vector<OpenRun> runs{run};
  if (below) runs.push_back(std::move(*below));
  auto document = Document::open(std::move(runs));
  if (!document) return tl::unexpected(document.error());
  return Resimulated{std::move(run), std::move(*document)};
}

Result<Resimulated> resimulate(const WhatIf& what_if, std::optional<OpenRun> below) {
  const WhatIfSource& source = what_if.source();
  tasks::SimulateRequest request;
  request.sources.paths = {source.location};
  request.sources.step = source.step;
  if (source.is_text) {
    request.sources.paths = {source.workload_path};
    request.sources.workload =
        tasks::StoredWorkload{source.workload.value_or(""), source.location, source.inputs};
    request.sets = source.stored_sets;
    request.what_if = source.stored_passes;
  }
  request.ranges = false;
  if (source.predicted)
    if (const Status same = check_predicted(source, request); !same)
      return tl::unexpected(same.error());
  const auto append = [](std::vector<std::string>& all, const std::vector<std::string>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  append(request.sets, what_if.sets());
  append(request.what_if, what_if.passes());
  auto outcome = tasks::simulate(request);
  if (!outcome) return tl::unexpected(outcome.error());
  std::string title = source.location;
  if (const std::string turned = what_if.title(); !turned.empty()) title += " with " + turned;
  auto machine = tasks::hardware_of_device(outcome->run.about.hardware);
  return laid_over({std::make_shared<const run::Run>(std::move(outcome->run)), std::move(title),
                    std::move(outcome->summary.warnings), std::move(machine)},
                   std::move(below));
}

}  // namespace foregather::gui
