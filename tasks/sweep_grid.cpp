#include "tasks/sweep_grid.h"

#include "sim/passes/registry.h"
#include "tasks/sweep_inputs.h"
#include "tasks/version.h"
#include "tasks/workload_files.h"

namespace foregather::tasks {
namespace {

std::string options_text(const GridRequest& request) {
  std::string text;
  for (const std::string& set : request.sets) text += "--set " + set + "\n";
  for (const std::string& pass : request.what_if) text += "--what-if " + pass + "\n";
  for (const std::string& condition : request.where) text += "--where " + condition + "\n";
  return text;
}

}  // namespace

Result<SweepGrid> SweepGrid::read(const GridRequest& request) {
  auto text = workload_text(request.source);
  if (!text) return tl::unexpected(text.error());
  auto axes = SweepAxes::read(request.vary);
  if (!axes) return tl::unexpected(axes.error());
  if (const Status checked = check_sets(request.sets); !checked)
    return tl::unexpected(checked.error());
  if (const Status checked = axes->check_beside(request.sets); !checked)
    return tl::unexpected(checked.error());
  if (const auto passes = sim::parse_passes(request.what_if); !passes)
    return tl::unexpected(passes.error());
  auto conditions =
      SweepConditions::read(request.where, *axes, request.sets, *text, request.source);
  if (!conditions) return tl::unexpected(conditions.error());
  run::SweepInfo info;
  info.tool = version();
  info.source = request.source;
  info.source_text = text->value_or("");
  info.options = options_text(request);
  for (const sim::Axis& axis : axes->grid().axes())
    info.axes.emplace_back(axis.key(), axis.written());
  info.points = axes->grid().size();
  std::vector<std::string> files = input_files(request, *axes, *text);
  info.inputs = digests_of(files, text->has_value() ? request.source : "");
  return SweepGrid{request,          std::move(info), std::move(*axes), std::move(*conditions),
                   std::move(*text), std::move(files)};
}

Candidate SweepGrid::candidate(const std::vector<std::string>& values) const {
  Candidate candidate{request.sets, request.what_if};
  axes.apply(values, candidate);
  return candidate;
}

run::SweepPoint predict_point(const SweepGrid& grid, std::int64_t index, Candidates& candidates,
                              CandidateGroup& group, Candidates::Worker& worker) {
  return predict_values(grid, index, grid.points().values(index), candidates, group, worker);
}

run::SweepPoint predict_values(const SweepGrid& grid, std::int64_t index,
                               std::vector<std::string> values, Candidates& candidates,
                               CandidateGroup& group, Candidates::Worker& worker) {
  run::SweepPoint point;
  point.index = index;
  point.values = std::move(values);
  auto figures = candidates.predict(grid.candidate(point.values), group, worker);
  point.warnings = std::move(worker.warnings);
  if (!figures) {
    point.error = figures.error().text();
    return point;
  }
  const bool out_of_memory = figures->memory && figures->memory->oom_bytes;
  point.status = out_of_memory ? run::PointStatus::out_of_memory : run::PointStatus::fits;
  point.figures = std::move(*figures);
  return point;
}

}  // namespace foregather::tasks
