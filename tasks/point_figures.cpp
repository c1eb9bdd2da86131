#include "tasks/point_figures.h"

#include "tasks/memory_figures.h"
#include "tasks/rates.h"

namespace foregather::tasks {
namespace {

run::PointFigures::Peaks converted(const Peaks& peaks) {
  return {peaks.requested, peaks.allocated, peaks.active, peaks.reserved};
}

}  // namespace

run::PointFigures figures_of(const Summary& summary) {
  run::PointFigures figures;
  figures.hardware = summary.hardware;
  figures.strategy = summary.strategy;
  figures.world_size = summary.world_size;
  figures.parameters = summary.parameters;
  figures.tokens_per_rank_step = summary.tokens_per_rank_step;
  figures.warnings = std::ssize(summary.warnings);
  if (summary.slow().times) {
    const StepTimes& times = *summary.slow().times;
    figures.times = {times.step,
                     times.busy.compute,
                     times.busy.comm,
                     times.busy.exposed,
                     times.host_bound,
                     times.busy.ops,
                     {},
                     {},
                     {}};
    // A recording's first step is any.
    if (summary.has_memory || summary.recorded.empty())
      figures.times->first_step = summary.first_step();
    if (summary.knows_waits(summary.slowest)) figures.times->comm_wait = times.busy.wait;
    if (summary.recorded.empty()) figures.times->on_wire = times.busy.wire_bytes;
    figures.tokens_per_second = summary.tokens_per_second;
    figures.mfu = summary.mfu;
  }
  if (!summary.has_memory) return figures;
  figures.memory = run::PointFigures::Memory{};
  run::PointFigures::Memory& memory = *figures.memory;
  memory.capacity = summary.capacity;
  memory.outside_allocator = summary.outside_allocator;
  memory.peaks = converted(summary.large().memory.peaks);
  memory.first_peaks = converted(summary.large().first_memory.peaks);
  memory.margin = summary.margin();
  if (!summary.oom) return figures;
  memory.oom_bytes = summary.oom->requested;
  memory.oom_op = summary.oom->op;
  return figures;
}

run::PointFigures FigureReader::read(const sim::Simulation& simulation,
                                     const sim::Hardware& hardware, double compute_scale,
                                     const DeviceLimits& limits) {
  Summary summary;
  summary.hardware = hardware.name;
  summary.world_size = graph_->world_size;
  summary.parameters = graph_->parameters;
  summary.tokens_per_rank_step = graph_->tokens_per_rank_step;
  summary.capacity = limits.capacity;
  summary.outside_allocator = limits.outside_allocator;
  summary.classes.resize(graph_->classes.size());
  fill_memory(*graph_, simulation, summary);
  if (!simulation.oom) {
    Ns slowest = -1;
    for (std::uint32_t c = 0; c < graph_->classes.size(); ++c) {
      summary.classes[c].first_step = simulation.classes[c].first.time();
      summary.classes[c].times = steps_.read(simulation, c);
      if (summary.classes[c].times->step <= slowest) continue;
      slowest = summary.classes[c].times->step;
      summary.slowest = c;
    }
    summary.tokens_per_second = tokens_per_second(*graph_, slowest);
    summary.mfu = mfu(*graph_, hardware, slowest, compute_scale);
  }
  return figures_of(summary);
}

}  // namespace foregather::tasks
