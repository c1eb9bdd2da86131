#include "tasks/memory_figures.h"

#include "core/ir/op_key.h"
#include "sim/memory/live.h"

namespace foregather::tasks {
namespace {

constexpr std::uint32_t kFirstStep = 0;
constexpr std::uint32_t kSteadyStep = 1;

std::optional<std::string> key_of(const Graph& graph, const RankClass& rank_class,
                                  std::optional<OpId> op, std::uint32_t step) {
  if (!op) return std::nullopt;
  return op_key(graph, *op, graph.ranks_of(rank_class.ranks).front(), step);
}

StepMemory converted(const Graph& graph, const RankClass& rank_class, const sim::MemoryPeaks& peaks,
                     std::uint32_t step) {
  return {{peaks.requested, peaks.allocated, peaks.active, peaks.reserved},
          peaks.retries,
          key_of(graph, rank_class, peaks.at, step),
          peaks.by_cause};
}

StepMemory converted(const Graph& graph, const RankClass& rank_class, const sim::LivePeak& peak,
                     std::uint32_t step) {
  return {{peak.bytes, peak.bytes, peak.bytes, peak.bytes},
          std::nullopt,
          key_of(graph, rank_class, peak.at, step),
          peak.by_cause};
}

void fill_oom(const Graph& graph, const sim::OutOfMemory& oom, Summary& summary) {
  OomFigures figures;
  figures.op = key_of(graph, graph.classes[oom.rank_class], oom.op,
                      oom.in_first_step ? kFirstStep : kSteadyStep);
  figures.storage = graph.text(graph.at(oom.storage).name);
  figures.requested = oom.requested;
  figures.in_first_step = oom.in_first_step;
  summary.classes[oom.rank_class].oom = figures;
  summary.oom = std::move(figures);
}

}  // namespace

void fill_memory(const Graph& graph, const sim::Simulation& simulation, Summary& summary) {
  const bool live = summary.memory_model == MemoryModel::live;
  const auto live_peaks = live ? sim::live_memory(graph) : std::vector<sim::LiveMemory>();
  // Out of memory in the first step: its figures stand for the steady step that never came.
  const std::uint32_t steady =
      simulation.oom && simulation.oom->in_first_step ? kFirstStep : kSteadyStep;
  Bytes largest = -1;
  for (std::size_t c = 0; c < graph.classes.size(); ++c) {
    const RankClass& rank_class = graph.classes[c];
    const sim::ClassResult& result = simulation.classes[c];
    ClassFigures& figures = summary.classes[c];
    if (live) {
      const sim::LiveMemory& memory = live_peaks[rank_class.program.row()];
      figures.memory = converted(graph, rank_class, memory.steady, steady);
      figures.first_memory = converted(graph, rank_class, memory.first, kFirstStep);
    } else {
      figures.memory = converted(graph, rank_class, result.steady.peaks, steady);
      figures.first_memory = converted(graph, rank_class, result.first.peaks, kFirstStep);
    }
    if (figures.memory.peaks.reserved <= largest) continue;
    largest = figures.memory.peaks.reserved;
    summary.largest = c;
  }
  if (simulation.oom) fill_oom(graph, *simulation.oom, summary);
}

void fill_estimate(Bytes peak, Summary& summary) {
  for (ClassFigures& figures : summary.classes)
    for (StepMemory* memory : {&figures.memory, &figures.first_memory})
      *memory = {{peak, peak, peak, peak}, {}, {}, {}};
}

}  // namespace foregather::tasks
