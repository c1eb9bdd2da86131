#include "tasks/sweep_inputs.h"

#include <algorithm>

#include "core/store/location.h"
#include "core/store/reader.h"
#include "tasks/workload_files.h"

namespace foregather::tasks {
namespace {

// Whether or not its keys make a workload together: another value of an axis may complete it.
void add_files_of(const std::string& text, const GridRequest& request,
                  const std::vector<std::string>& sets, std::vector<std::string>& files) {
  for (const std::string& path : workload_files(text, request.source, sets))
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
  const std::string keys = text.value_or("");
  add_files_of(keys, request, request.sets, files);
  for (const sim::Axis& axis : axes.grid().axes()) {
    if (!names_files(axis.key())) continue;
    std::vector<std::string> sets = request.sets;
    sets.emplace_back();
    for (const std::string& value : axis.examples()) {
      sets.back() = (axis.key() == "hw" ? "cluster.hardware" : axis.key()) + "=" + value;
      add_files_of(keys, request, sets, files);
    }
  }
  return files;
}

}  // namespace foregather::tasks
