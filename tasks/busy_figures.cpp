#include "tasks/busy_figures.h"

#include <algorithm>

#include "core/compare/critical_path.h"
#include "core/run/key.h"

namespace foregather::tasks {
namespace {

// How much longer the op took than alone, as far as it lies on the path.
Ns contention(run::RunView run, const compare::PathStep& step) {
  const std::size_t row = step.op.row();
  const Ns alone = run.ops.alone[row];
  const Ns took = run.ops.end[row] - run.ops.transfer[row];
  return alone == 0 ? 0 : std::clamp<Ns>(took - alone, 0, step.time);
}

PathFigures path_figures(run::RunView run, const compare::CriticalPath& path) {
  PathFigures figures;
  figures.compute = path.compute;
  figures.comm = path.comm;
  figures.host = path.host;
  figures.other = path.other;
  figures.beside_compute = path.beside_compute;
  figures.beside_comm = path.beside_comm;
  for (const compare::PathStep& step : path.steps) {
    (is_collective(run.ops.kind[step.op.row()]) ? figures.comm_contention
                                                : figures.compute_contention) +=
        contention(run, step);
    std::string key = op_key(run, step.op);
    if (figures.ops.empty() || figures.ops.back().op != key) {
      figures.ops.push_back({std::move(key), step.time, step.gap, run::name(step.reason)});
      continue;
    }
    figures.ops.back().time += step.time;
    figures.ops.back().gap += step.gap;
  }
  return figures;
}

std::vector<CollectiveFigure> collectives_of(run::RunView run, run::StepRow step) {
  const run::OpSpan ops = run::ops_of(run, step);
  std::vector<std::size_t> rows;
  for (std::size_t row = ops.first; row < ops.last; ++row)
    if (is_collective(run.ops.kind[row])) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
    return run.ops.issued[a] < run.ops.issued[b];
  });
  std::vector<CollectiveFigure> figures;
  for (const std::size_t row : rows) {
    const std::string_view scope = run.text_of(run.ops.scope[row]);
    figures.push_back({std::string(scope.empty() ? "-" : scope), run.ops.phase[row],
                       run.ops.kind[row], run.ops.bytes[row],
                       run.communicators[run.ops.communicator[row].row()].ranks});
  }
  return figures;
}

}  // namespace

void fill_times(run::RunView run, Summary& summary) {
  const auto first_steps = run::steps_of(run, run::StepKind::first);
  const bool is_one_step = first_steps.empty();
  for (const run::StepRow row : first_steps) {
    const run::StepInfo& step = run.steps[row.row()];
    summary.classes[step.rank_class.row()].first_step = step.end - step.begin;
  }
  Ns slowest = -1;
  for (const run::StepRow row : run::steps_of(run, run::StepKind::steady)) {
    const run::StepInfo& step = run.steps[row.row()];
    const compare::CriticalPath path = compare::critical_path(run, row);
    const Ns time = step.end - step.begin;
    ClassFigures& figures = summary.classes[step.rank_class.row()];
    figures.times = StepTimes{time, compare::busy_times(run, row), path.host};
    if (is_one_step) figures.first_step = time;
    if (time <= slowest) continue;
    slowest = time;
    summary.slowest = step.rank_class.row();
    summary.path = path_figures(run, path);
    summary.collectives = collectives_of(run, row);
  }
}

}  // namespace foregather::tasks
