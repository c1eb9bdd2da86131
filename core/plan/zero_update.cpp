#include "core/plan/zero_update.h"

#include <utility>

#include "core/plan/host_step.h"

namespace foregather::plan {

ZeroUpdate::ZeroUpdate(Lowering& lowering, std::vector<ZeroPartition> partitions, DType accumulated,
                       bool offloads_optimizer, bool offloads_parameters)
    : lowering_(lowering),
      partitions_(std::move(partitions)),
      accumulated_(accumulated),
      offloads_optimizer_(offloads_optimizer),
      offloads_parameters_(offloads_parameters) {
  const DType master = lowering.workload.train.master;
  const auto add = [&](std::int64_t elements, DType type, std::string_view name, Cause cause) {
    return lowering.buffer(elements, type, name, cause, lowering.root);
  };
  for (const ZeroPartition& partition : partitions_) {
    State& state = states_.emplace_back();
    const std::int64_t n = partition.elements;
    state.master = add(n, master, "master parameters", Cause::optimizer_state);
    state.gradient = add(n, master, "master gradient", Cause::reduced_gradient);
    if (offloads_optimizer) {
      on_host(lowering, state.master);
      on_host(lowering, state.gradient);
      continue;
    }
    if (partition.flattens && accumulated != master)
      state.flattened = add(n, accumulated, "flattened gradients", Cause::temporary);
    if (offloads_parameters)
      state.narrowed = add(n, lowering.workload.train.compute, "new parameters", Cause::cast_copy);
    state.tensor = {state.master, state.gradient, 0, n, lowering.root};
    state.step = std::make_unique<OptimizerStep>(lowering, std::span(&state.tensor, 1));
  }
}

void ZeroUpdate::init() {
  for (const State& state : states_) {
    lowering_.alloc(state.master, lowering_.compute);
    if (offloads_optimizer_) lowering_.alloc(state.gradient, lowering_.compute);
  }
}

void ZeroUpdate::update() {
  for (std::size_t i = 0; i < partitions_.size(); ++i)
    if (offloads_optimizer_)
      update_on_host(i);
    else
      update_on_device(i);
}

void ZeroUpdate::copy(OpKind kind, Role role, const Buffer& from, const Buffer& to) {
  const std::vector accesses{reads(from), writes(to)};
  const DType type = lowering_.builder.graph().at(to.tensor).dtype;
  lowering_.launch(
      {kind, role, lowering_.compute, lowering_.copy_cost(kind, type, from.bytes, to.bytes), {}},
      lowering_.root, accesses);
}

void ZeroUpdate::prepare_gradient(const ZeroPartition& partition, const State& state) {
  const bool casts = accumulated_ != lowering_.workload.train.master;
  const Buffer* from = &partition.gradients;
  if (state.flattened.storage) {
    lowering_.alloc(state.flattened, lowering_.compute);
    copy(OpKind::copy, Role::copy_in, *from, state.flattened);
    from = &state.flattened;
  }
  lowering_.alloc(state.gradient, lowering_.compute);
  copy(casts ? OpKind::cast : OpKind::copy, Role::cast, *from, state.gradient);
  lowering_.free(state.flattened);
  if (!partition.freed.storage) return;
  if (partition.freed_on != lowering_.compute)
    lowering_.wait_stream(partition.freed_on, lowering_.compute);
  lowering_.free(partition.freed);
}

void ZeroUpdate::update_on_device(std::size_t index) {
  State& state = states_[index];
  Lowering& low = lowering_;
  prepare_gradient(partitions_[index], state);
  const std::vector scaled{updates(state.gradient)};
  low.launch({OpKind::elementwise,
              Role::clip,
              low.compute,
              low.copy_cost(OpKind::elementwise, low.workload.train.master, state.gradient.bytes,
                            state.gradient.bytes),
              {}},
             low.root, scaled);
  if (low.first_step) state.step->create_states();
  if (low.first_step && !state.step->first_update_is_usual())
    state.step->first_update();
  else
    state.step->update();
  const Buffer& parameters = partitions_[index].parameters;
  if (offloads_parameters_) {
    low.alloc(state.narrowed, low.compute);
    copy(OpKind::cast, Role::cast, state.master, state.narrowed);
    copy(OpKind::device_to_host, Role::offload, state.narrowed, parameters);
    low.builder.host_wait_stream(low.compute);
    low.free(state.narrowed);
  } else {
    copy(OpKind::cast, Role::cast, state.master, parameters);
  }
  low.free(state.gradient);
}

void ZeroUpdate::update_on_host(std::size_t index) {
  const ZeroPartition& partition = partitions_[index];
  // stage_1_and_2.py and stage3.py, unscale_and_clip_grads: multiplied whether clipped or not.
  const Workload& workload = lowering_.workload;
  lowering_.builder.host_delay(host_scaling(workload, partition.elements) +
                               host_update(workload, partition.elements));
  if (offloads_parameters_) return;
  copy(OpKind::host_to_device, Role::offload, states_[index].master, partition.parameters);
  lowering_.builder.host_wait_stream(lowering_.compute);
}

void write_zero_norm(Lowering& lowering, const std::vector<Buffer>& gradients,
                     const std::vector<Buffer>& doubles, const Buffer& norms,
                     CommunicatorId communicator, DType summed) {
  GraphBuilder& builder = lowering.builder;
  const auto launch = [&](OpKind kind, Bytes read, Bytes written,
                          std::initializer_list<AccessedTensor> accesses) {
    lowering.launch({kind,
                     Role::clip,
                     lowering.compute,
                     lowering.copy_cost(kind, DType::f64, read, written),
                     {}},
                    lowering.root, std::vector(accesses));
  };
  constexpr Bytes kDouble = 8;
  lowering.alloc(norms, lowering.compute);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const AccessedTensor norm = writes(norms, static_cast<Bytes>(i + 1) * kDouble, kDouble);
    lowering.alloc(doubles[i], lowering.compute);
    launch(OpKind::cast, gradients[i].bytes, doubles[i].bytes,
           {reads(gradients[i]), writes(doubles[i])});
    launch(OpKind::reduction, doubles[i].bytes, kDouble, {reads(doubles[i]), norm});
    lowering.free(doubles[i]);
  }
  const AccessedTensor sum{norms.tensor, Access::accumulate, 0, kDouble};
  const Bytes rest = norms.bytes - kDouble;
  launch(OpKind::reduction, rest, kDouble,
         {AccessedTensor{norms.tensor, Access::read, kDouble, rest}, writes(norms, 0, kDouble)});
  if (communicator) {
    const GroupId group = builder.graph().at(communicator).group;
    lowering.launch({OpKind::all_reduce, Role::clip, lowering.compute,
                     lowering.collective_cost(OpKind::all_reduce, summed, size_of(summed), group),
                     communicator},
                    lowering.root, std::vector{sum});
  }
  launch(OpKind::elementwise, kDouble, kDouble, {sum});
  lowering.free(norms);
}

void write_overflow_flag(Lowering& lowering, const Buffer& flag, CommunicatorId communicator,
                         StreamId stream) {
  GraphBuilder& builder = lowering.builder;
  lowering.alloc(flag, stream);
  lowering.launch({OpKind::cast,
                   Role::clip,
                   stream,
                   lowering.copy_cost(OpKind::cast, DType::u8, 1, flag.bytes),
                   {}},
                  lowering.root, std::vector{writes(flag)});
  if (communicator) {
    const GroupId group = builder.graph().at(communicator).group;
    lowering.launch(
        {OpKind::all_reduce, Role::clip, stream,
         lowering.collective_cost(OpKind::all_reduce, DType::u8, flag.bytes, group), communicator},
        lowering.root, std::vector{updates(flag)});
  }
  builder.host_wait_stream(stream);
  lowering.free(flag);
}

}  // namespace foregather::plan
