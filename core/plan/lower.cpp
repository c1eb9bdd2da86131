#include "core/plan/lower.h"

#include <cassert>
#include <memory>
#include <numeric>
#include <string>

#include "core/plan/ddp_schedule.h"
#include "core/plan/deepcompile_schedule.h"
#include "core/plan/fsdp1_schedule.h"
#include "core/plan/fsdp2_schedule.h"
#include "core/plan/lower_checks.h"
#include "core/plan/lowering.h"
#include "core/plan/module_writer.h"
#include "core/plan/step_writer.h"
#include "core/plan/thunder_schedule.h"
#include "core/plan/zero2_schedule.h"
#include "core/plan/zero3_schedule.h"

namespace foregather::plan {

namespace {

std::unique_ptr<StrategySchedule> make_schedule(Lowering& lowering) {
  switch (lowering.workload.parallel.strategy) {
    case Strategy::fsdp2: return std::make_unique<Fsdp2Schedule>(lowering);
    case Strategy::fsdp1: return std::make_unique<Fsdp1Schedule>(lowering);
    case Strategy::ddp:
    case Strategy::single: return std::make_unique<DdpSchedule>(lowering);
    case Strategy::zero3: return std::make_unique<Zero3Schedule>(lowering);
    case Strategy::deepcompile: return std::make_unique<DeepCompileSchedule>(lowering);
    case Strategy::zero2: return std::make_unique<Zero2Schedule>(lowering);
    case Strategy::thunder_zero2:
    case Strategy::thunder_zero3: return std::make_unique<ThunderSchedule>(lowering);
  }
  return nullptr;
}

void alloc_buffers(Lowering& lowering) {
  for (const ModelBuffer& buffer : lowering.model.buffers) {
    const Owner owner{lowering.builder.scope(buffer.module), {}};
    // Whole on each rank, as parameters of an unsharded model are.
    lowering.buffers.push_back(lowering.buffer(buffer.elements, buffer.dtype, buffer.name,
                                               Cause::unsharded_parameter, owner));
    lowering.alloc(lowering.buffers.back(), lowering.compute);
  }
  if (lowering.model.workspace == 0) return;
  for (const std::string_view thread : {"cuBLAS workspace, forward", "cuBLAS workspace, backward"})
    lowering.alloc(lowering.buffer(lowering.model.workspace, DType::u8, thread, Cause::temporary,
                                   lowering.root),
                   lowering.compute);
}

void describe(const Lowering& lowering, ProgramId program, GraphBuilder& builder) {
  const Train& train = lowering.workload.train;
  Graph& graph = builder.graph();
  graph.world_size = lowering.workload.parallel.world_size;
  graph.parameters = lowering.model.parameters;
  graph.tokens_per_rank_step = lowering.model.tokens * train.grad_accum;
  graph.model_flops_per_rank_step = lowering.model.flops * train.grad_accum;
  std::vector<std::uint32_t> ranks(graph.world_size);
  std::iota(ranks.begin(), ranks.end(), 0U);
  RankClass all;
  all.name = graph.strings.intern("all");
  all.program = program;
  builder.rank_class(all, ranks);
}

}  // namespace

Result<Graph> lower(const Model& model, const Workload& workload) {
  if (const Status checked = check_plan(model, workload); !checked)
    return tl::unexpected(checked.error());
  const bool fsdp1 = workload.parallel.strategy == Strategy::fsdp1;
  const Strategy kind = workload.parallel.strategy;
  const bool whole = kind != Strategy::fsdp1 && kind != Strategy::fsdp2;
  const bool two_names = kind == Strategy::fsdp2 && workload.parallel.tied == Tied::two_names;
  Lowering lowering(model, workload,
                    fsdp1       ? TiedUnits::at_root
                    : two_names ? TiedUnits::two_names
                                : TiedUnits::merged,
                    whole ? Wrap::model : workload.parallel.wrap,
                    fsdp1 ? fsdp1_frozen_parts(workload.parallel) : FrozenParts::mixed);
  GraphBuilder& builder = lowering.builder;
  const ProgramId program = builder.begin_program("rank");
  lowering.compute = builder.stream("default");
  lowering.main_thread = builder.thread("main");
  lowering.autograd_thread = builder.thread("autograd");
  lowering.join = builder.event();
  lowering.root.scope = builder.scope("");

  const std::unique_ptr<StrategySchedule> strategy = make_schedule(lowering);
  assert(strategy != nullptr);
  ModuleWriter modules(lowering);
  lowering.select(lowering.main_thread, Section::init);
  strategy->init(modules);
  alloc_buffers(lowering);
  OptimizerStep optimizer(lowering, strategy->optimized());
  modules.reserve(static_cast<std::size_t>(workload.train.grad_accum) *
                  (strategy->first_step_differs() ? 2 : 1));
  StepWriter(lowering, modules, *strategy, optimizer).write();
  builder.end_program();
  describe(lowering, program, builder);
  return builder.finish();
}

}  // namespace foregather::plan
