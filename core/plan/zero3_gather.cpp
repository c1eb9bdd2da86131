#include <algorithm>
#include <cassert>

#include "core/plan/host_overhead.h"
#include "core/plan/zero3_schedule.h"

namespace foregather::plan {

namespace overhead = host_overhead;

void Zero3Schedule::Throttle::wait(GraphBuilder& builder) const {
  constexpr std::size_t kOutstanding = 3;
  if (recorded >= kOutstanding)
    builder.host_wait(events[(recorded - kOutstanding) % events.size()]);
}

void Zero3Schedule::Throttle::record(GraphBuilder& builder, StreamId stream) {
  builder.record(events[recorded++ % events.size()], stream);
}

// --- hooks ---

void Zero3Schedule::begin_forward() {
  // DeepSpeed synchronises the device after the optimizer.
  if (gather_stream_ != lowering_.compute) lowering_.wait_stream(gather_stream_, lowering_.compute);
  const Rows unused = coordinator_->begin_forward();
  for (const std::uint32_t row : unused) await(row);
  release(unused);
  enter(root_submodule_);
}

void Zero3Schedule::end_forward() { leave(root_submodule_); }

void Zero3Schedule::begin_backward() { enter(root_submodule_); }

void Zero3Schedule::before_op(std::uint32_t module, Phase phase, std::uint32_t op) {
  const HookTable& table = hooks_[module];
  for (const SubmoduleSpan& span : table.spans)
    if (span.phase == phase && span.first == op) enter(table.submodules[span.submodule]);
}

void Zero3Schedule::after_op(std::uint32_t module, Phase phase, std::uint32_t op) {
  const HookTable& table = hooks_[module];
  for (auto span = table.spans.rbegin(); span != table.spans.rend(); ++span)
    if (span->phase == phase && span->last == op && !span->is_cut_off)
      leave(table.submodules[span->submodule]);
}

void Zero3Schedule::enter(std::uint32_t submodule) {
  lowering_.builder.host_delay(overhead::kZeroHook);
  const Zero3Coordinator::Entry& entry = coordinator_->enter(submodule);
  if (!gathers()) return;
  gather(entry.fetched);
  for (const std::uint32_t row : entry.awaited) await(row);
  compute_waits();
  gather(entry.prefetched);
}

void Zero3Schedule::leave(std::uint32_t submodule) {
  lowering_.builder.host_delay(overhead::kZeroHook);
  release(coordinator_->leave(submodule));
}

// The compute stream waits for the all-gather stream, in which something is new.
void Zero3Schedule::compute_waits() {
  if (!compute_is_behind_) return;
  compute_is_behind_ = false;
  if (gather_stream_ != lowering_.compute) lowering_.wait_stream(lowering_.compute, gather_stream_);
}

// --- gather ---

void Zero3Schedule::gather(const Rows& rows) {
  Rows primary, secondary;
  for (const std::uint32_t row : rows)
    (parameters_[row].has_secondary ? secondary : primary).push_back(row);
  if (!secondary.empty()) gather_from(secondary, true);
  if (!primary.empty()) gather_from(primary, false);
}

const Zero3Schedule::GatherPlan& Zero3Schedule::plan_of(const Rows& rows, bool secondary) {
  const auto [found, is_new] = plans_.try_emplace({rows, secondary});
  GatherPlan& plan = found->second;
  if (!is_new) return plan;
  plan.was_gathered = lowering_.builder.event();
  if (rows.size() == 1 || is_alone()) return plan;
  std::int64_t elements = 0;
  for (const std::uint32_t row : rows) elements += parameters_[row].shard * world_.ranks;
  plan.flat = lowering_.buffer(elements, type_, "all-gather output", Cause::communication_buffer,
                               lowering_.owners[0]);
  return plan;
}

// `.to(device)` of a pinned partition is synchronous.
void Zero3Schedule::load(Parameter& parameter) {
  lowering_.alloc(parameter.loaded, gather_stream_);
  move(OpKind::host_to_device, Role::offload, gather_stream_, parameter, parameter.partition,
       parameter.loaded);
  lowering_.builder.host_wait_stream(gather_stream_);
}

void Zero3Schedule::gather_from(const Rows& rows, bool secondary) {
  Lowering& low = lowering_;
  low.builder.host_delay(overhead::kZeroGather);
  const GatherPlan& plan = plan_of(rows, secondary);
  Gather gather;
  gather.rows = rows;
  gather.plan = &plan;
  for (const std::uint32_t row : rows) parameters_[row].gather = first_gather_ + gathers_.size();
  if (is_alone()) {  // NoGatherHandle: a copy of each partition
    for (const std::uint32_t row : rows) {
      low.alloc(parameters_[row].full, gather_stream_);
      move(OpKind::host_to_device, Role::offload, gather_stream_, parameters_[row],
           parameters_[row].partition, parameters_[row].full);
    }
    low.builder.record(plan.was_gathered, gather_stream_);
    gathers_.push_back(gather);
    return;
  }
  const ProcessGroup& group = secondary ? secondary_ : world_;
  const StreamId nccl = secondary ? nccl_secondary_ : nccl_;
  const auto source = [&](const Parameter& parameter) -> const Buffer& {
    if (secondary) return parameter.secondary;
    return offloads_parameters() ? parameter.loaded : parameter.partition;
  };
  const bool loads = offloads_parameters() && !secondary;
  const Buffer* output = nullptr;
  Owner owner;
  if (rows.size() == 1) {
    Parameter& parameter = parameters_[rows.front()];
    gather.is_loaded = loads;
    low.alloc(parameter.full, gather_stream_);
    if (loads) load(parameter);
    output = &parameter.full;
    owner = parameter.owner;
    scratch_.assign({reads(source(parameter)), writes(parameter.full)});
  } else {
    output = &plan.flat;
    owner = low.owners[0];
    low.alloc(plan.flat, gather_stream_);
    if (loads)
      for (const std::uint32_t row : rows) load(parameters_[row]);
    const Bytes own = plan.flat.bytes / group.ranks;
    scratch_.clear();
    for (const std::uint32_t row : rows) scratch_.push_back(reads(source(parameters_[row])));
    scratch_.push_back(writes(plan.flat, 0, own));
    low.launch({OpKind::copy,
                Role::copy_in,
                gather_stream_,
                low.copy_cost(OpKind::copy, type_, own, own),
                {}},
               owner, scratch_);
    if (loads)
      for (const std::uint32_t row : rows) low.free(parameters_[row].loaded);
    scratch_.assign({reads(plan.flat, 0, own), writes(plan.flat)});
  }
  low.wait_stream(nccl, gather_stream_);
  low.launch({OpKind::all_gather, Role::gather, nccl,
              low.collective_cost(OpKind::all_gather, type_, output->bytes, group.group),
              group.communicator},
             owner, scratch_);
  low.builder.record(plan.was_gathered, nccl);
  compute_is_behind_ = true;
  gathers_.push_back(gather);
}

void Zero3Schedule::await(std::uint32_t row) {
  Gather& gather = gathers_[parameters_[row].gather - first_gather_];
  awaits_.wait(lowering_.builder);
  if (!gather.is_complete) complete(gather);
  awaits_.record(lowering_.builder, gather_stream_);
  if (++gather.awaited == gather.rows.size() && gather.plan->flat.storage)
    lowering_.free(gather.plan->flat);
  while (!gathers_.empty() && gathers_.front().awaited == gathers_.front().rows.size()) {
    gathers_.pop_front();
    ++first_gather_;
  }
}

void Zero3Schedule::complete(Gather& gather) {
  gather.is_complete = true;
  compute_is_behind_ = true;
  lowering_.builder.wait(gather_stream_, gather.plan->was_gathered);
  if (gather.is_loaded) lowering_.free(parameters_[gather.rows.front()].loaded);
  if (!gather.plan->flat.storage) return;
  // torch.cat of what the ranks sent, parameter by parameter.
  for (const std::uint32_t row : gather.rows) {
    const Parameter& parameter = parameters_[row];
    lowering_.alloc(parameter.full, gather_stream_);
    scratch_.assign({reads(gather.plan->flat), writes(parameter.full)});
    lowering_.launch(
        {OpKind::copy,
         Role::copy_out,
         gather_stream_,
         lowering_.copy_cost(OpKind::copy, type_, parameter.full.bytes, parameter.full.bytes),
         {}},
        parameter.owner, scratch_);
  }
}

// --- release ---

void Zero3Schedule::release(const Rows& rows) {
  if (!gathers()) return;
  for (const std::uint32_t row : rows) {
    Parameter& parameter = parameters_[row];
    if (secondary_.ranks > 1 && !parameter.has_secondary) keep_secondary(parameter);
    lowering_.builder.record_stream(parameter.full.storage, lowering_.compute);
    lowering_.free(parameter.full);
  }
}

void Zero3Schedule::keep_secondary(Parameter& parameter) {
  parameter.has_secondary = true;
  lowering_.alloc(parameter.secondary, lowering_.compute);
  scratch_.assign(
      {reads(parameter.full, 0, parameter.secondary.bytes), writes(parameter.secondary)});
  lowering_.launch({OpKind::copy,
                    Role::copy_out,
                    lowering_.compute,
                    lowering_.copy_cost(OpKind::copy, type_, parameter.secondary.bytes,
                                        parameter.secondary.bytes),
                    {}},
                   parameter.owner, scratch_);
  lowering_.builder.host_wait_stream(lowering_.compute);
}

}  // namespace foregather::plan
