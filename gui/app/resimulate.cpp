#include "gui/app/resimulate.h"

#include <fstream>

#include "core/base/file.h"
#include "tasks/keys.h"
#include "tasks/recorded_source.h"
#include "tasks/simulate.h"
#include "tasks/sniff.h"
#include "tasks/stored_prediction.h"

namespace foregather::gui {
namespace {

constexpr Bytes kLongestWorkload = 1 * MiB;

// The text, if the file is a workload.
std::optional<std::string> workload_text(const std::string& path) {
  auto text = read_file(path, kLongestWorkload);
  if (!text) return std::nullopt;
  const auto kind = tasks::sniff(*text, path);
  if (!kind || *kind != tasks::SourceKind::workload) return std::nullopt;
  return std::move(*text);
}

}  // namespace

KnobNames knob_names() {
  return {tasks::hardware_names(), tasks::topology_names(), tasks::fabric_names()};
}

Result<WhatIf> what_if_of(const std::string& location) {
  constexpr int kPickle = 0x80;
  if (std::ifstream(location, std::ios::binary).get() == kPickle)
    return fail_at(location, "is a memory snapshot: there is no schedule to turn knobs of");
  tasks::SimulateRequest request;
  request.sources.paths = {location};
  const auto stored = tasks::open_stored_prediction(request);
  if (!stored) return tl::unexpected(stored.error());
  WhatIfSource source;
  source.location = location;
  source.workload_path = request.sources.paths.front();
  source.stored_sets = request.sets;
  source.workload = request.sources.workload;
  if (!source.workload && stored->empty()) source.workload = workload_text(location);
  source.is_recorded = !source.workload && tasks::is_recorded(location).value_or(false);
  return WhatIf(std::move(source), knob_names());
}

Result<Resimulated> resimulate(const WhatIf& what_if, std::optional<OpenRun> below) {
  tasks::SimulateRequest request;
  request.sources.paths = {what_if.source().location};
  if (what_if.source().is_text) request.sources.workload = what_if.source().workload;
  request.sets = what_if.sets();
  request.what_if = what_if.passes();
  request.ranges = false;
  auto outcome = tasks::simulate(request);
  if (!outcome) return tl::unexpected(outcome.error());
  std::string title = what_if.source().location;
  if (const std::string turned = what_if.title(); !turned.empty()) title += " with " + turned;
  Resimulated made{{std::make_shared<const run::Run>(std::move(outcome->run)), std::move(title),
                    std::move(outcome->summary.warnings)},
                   nullptr};
  std::vector<OpenRun> runs{made.run};
  if (below) runs.push_back(std::move(*below));
  auto document = Document::open(std::move(runs));
  if (!document) return tl::unexpected(document.error());
  made.document = std::move(*document);
  return made;
}

}  // namespace foregather::gui
