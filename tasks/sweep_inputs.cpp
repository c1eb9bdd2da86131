#include "tasks/sweep_inputs.h"

#include <algorithm>

#include "core/store/location.h"
#include "core/store/reader.h"
#include "tasks/stored_prediction.h"
#include "tasks/workload_files.h"

namespace foregather::tasks {
namespace {

/// Keys that name files.
struct Keys {
  std::string text, source;
  std::vector<std::string> sets;
};

// Of a run, those of the workload that it was predicted from.
Keys keys_of(const GridRequest& request, const std::optional<std::string>& text) {
  Keys keys{text.value_or(""), request.source, request.sets};
  if (text) return keys;
  SimulateRequest stored;
  stored.sources.paths = {request.source};
  stored.sets = request.sets;
  if (!open_stored_prediction(stored) || !stored.sources.workload) return keys;
  return {std::move(stored.sources.workload->text), std::move(stored.sources.paths.front()),
          std::move(stored.sets)};
}

// Whether or not its keys make a workload together: another value of an axis may complete it.
void add_files_of(const Keys& keys, const std::vector<std::string>& sets,
                  std::vector<std::string>& files) {
  for (const std::string& path : workload_files(keys.text, keys.source, sets))
    if (std::ranges::find(files, path) == files.end()) files.push_back(path);
}

bool names_files(std::string_view key) {
  return key == "hw" || key.ends_with("_config") || key == "model.config" ||
         key == "model.towers" || key == "cluster.hardware" || key == "cluster.hw" ||
         key == "cluster.topology" || key == "cluster.fabric";
}

}  // namespace

std::vector<std::string> input_files(const GridRequest& request, const SweepAxes& axes,
                                     const std::optional<std::string>& text) {
  std::vector<std::string> files{text || !store::is_run(request.source)
                                     ? request.source
                                     : store::parse_location(request.source).path};
  const Keys keys = keys_of(request, text);
  add_files_of(keys, keys.sets, files);
  for (const sim::Axis& axis : axes.grid().axes()) {
    if (!names_files(axis.key())) continue;
    std::vector<std::string> sets = keys.sets;
    sets.emplace_back();
    for (const std::string& value : axis.examples()) {
      sets.back() = (axis.key() == "hw" ? "cluster.hardware" : axis.key()) + "=" + value;
      add_files_of(keys, sets, files);
    }
  }
  return files;
}

}  // namespace foregather::tasks
