#include "tasks/stored_prediction.h"

#include <algorithm>
#include <charconv>

#include "core/store/location.h"
#include "core/store/reader.h"
#include "tasks/sniff.h"
#include "tasks/workload_files.h"

namespace foregather::tasks {
namespace {

bool is_of_workload(const run::RunInfo& about) {
  const auto kind = sniff(about.source_text, about.source);
  return about.kind == run::RunKind::predicted && kind && *kind == SourceKind::workload;
}

}  // namespace

void prepend_options(std::string_view options, SimulateRequest& request) {
  std::vector<std::string> sets, passes;
  while (!options.empty()) {
    const std::string_view line = options.substr(0, options.find('\n'));
    options.remove_prefix(std::min(line.size() + 1, options.size()));
    constexpr std::string_view kSet = "--set ", kWhatIf = "--what-if ", kStep = "--step ";
    if (line.starts_with(kSet)) sets.emplace_back(line.substr(kSet.size()));
    if (line.starts_with(kWhatIf)) passes.emplace_back(line.substr(kWhatIf.size()));
    std::int64_t step = 0;
    if (line.starts_with(kStep) && !request.sources.step &&
        std::from_chars(line.data() + kStep.size(), line.data() + line.size(), step).ec ==
            std::errc())
      request.sources.step = step;
  }
  request.sets.insert(request.sets.begin(), sets.begin(), sets.end());
  request.what_if.insert(request.what_if.begin(), passes.begin(), passes.end());
}

bool ask_as_predicted(const run::RunInfo& about, SimulateRequest& request) {
  if (!is_of_workload(about)) return false;
  request.sources.paths = {about.source};
  request.sources.workload = StoredWorkload{about.source_text, about.source, about.inputs};
  const auto named = workload_files("", about.source, request.sets);
  std::erase_if(request.sources.workload->inputs, [&](const auto& input) {
    return std::ranges::find(named, input.first) != named.end();
  });
  prepend_options(about.options, request);
  return true;
}

Result<std::vector<std::string>> open_stored_prediction(SimulateRequest& request) {
  const std::string location = request.sources.paths.front();
  if (!store::is_run(location)) return std::vector<std::string>();
  const auto about = store::read_about(location);
  if (!about) return tl::unexpected(about.error());
  if (!is_of_workload(*about)) return std::vector<std::string>();
  if (request.sources.paths.size() > 1)
    return fail_at(location, "is the prediction of a whole job, expected it alone");
  if (request.sources.step)
    return fail_at("--step", "chooses a step of a recorded run, and {} is predicted", location);
  ask_as_predicted(*about, request);
  request.sources.workload->location = location;
  return std::vector{store::parse_location(location).path};
}

}  // namespace foregather::tasks
