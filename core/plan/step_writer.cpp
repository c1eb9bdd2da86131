#include "core/plan/step_writer.h"

#include "core/plan/gradient_clip.h"
#include "core/plan/host_overhead.h"

namespace foregather::plan {

StepWriter::StepWriter(Lowering& lowering, ModuleWriter& modules, StrategySchedule& strategy,
                       OptimizerStep& optimizer)
    : lowering_(lowering),
      builder_(lowering.builder),
      modules_(modules),
      strategy_(strategy),
      optimizer_(optimizer),
      old_outputs_(lowering, modules) {
  const Bytes batch = modules.batch().bytes;
  batch_cost_ = lowering.copy_cost(OpKind::host_to_device, DType::i64, batch, batch);
  const Bytes loss = modules.loss_gradient().bytes;
  loss_cost_ = lowering.copy_cost(OpKind::fill, DType::f32, 0, loss);
}

void StepWriter::write() {
  lowering_.first_step = true;
  lowering_.select(lowering_.main_thread, Section::first);
  micro_batches(Section::first);
  finish_first();
  read_loss();
  lowering_.phase = Phase::other;
  strategy_.end_first_step();

  lowering_.first_step = false;
  lowering_.select(lowering_.main_thread, Section::body);
  lowering_.phase = Phase::other;
  builder_.mark(0, Phase::other);
  strategy_.drop_gradients();
  if (strategy_.first_step_differs())
    micro_batches(Section::body);
  else
    copy_step();
  finish_body();
  read_loss();
  strategy_.finish();
}

void StepWriter::micro_batches(Section section) {
  for (std::int64_t m = 0; m < lowering_.workload.train.grad_accum; ++m) {
    lowering_.micro_batch = static_cast<std::uint16_t>(m);
    forward();
    backward(section);
  }
}

void StepWriter::load_batch() {
  const Buffer& batch = modules_.batch();
  if (batch.bytes == 0) return;
  lowering_.alloc(batch, lowering_.compute);
  lowering_.launch({OpKind::host_to_device, Role::other, lowering_.compute, batch_cost_, {}},
                   lowering_.root, {writes(batch)});
}

void StepWriter::forward() {
  lowering_.phase = Phase::forward;
  builder_.mark(lowering_.micro_batch, Phase::forward);
  load_batch();
  strategy_.begin_forward();
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m) {
    strategy_.before_forward(m);
    modules_.forward(m, strategy_);
    strategy_.after_forward(m);
  }
  strategy_.end_forward();
  old_outputs_.call_returned();
}

void StepWriter::backward(Section section) {
  lowering_.phase = Phase::backward;
  const Buffer& gradient = modules_.loss_gradient();
  lowering_.alloc(gradient, lowering_.compute);
  lowering_.launch({OpKind::fill, Role::other, lowering_.compute, loss_cost_, {}}, lowering_.root,
                   {writes(gradient)});
  const std::uint32_t begun = builder_.position();
  builder_.mark(lowering_.micro_batch, Phase::backward);

  lowering_.select(lowering_.autograd_thread, section);
  if (section == Section::first) waits_.push_back(builder_.position());
  builder_.host_wait_action(lowering_.main_thread, begun);
  strategy_.begin_backward();
  for (std::uint32_t m = lowering_.modules(); m-- > 0;) {
    if (!lowering_.tape_of(m).has_hooks()) {
      modules_.backward(m, strategy_);
      old_outputs_.backward_ended(m);
      continue;
    }
    strategy_.before_backward(m);
    modules_.backward(m, strategy_);
    old_outputs_.backward_ended(m);
    strategy_.after_backward(m);
  }
  strategy_.end_backward();
  const std::uint32_t last = builder_.position() - 1;

  lowering_.select(lowering_.main_thread, section);
  builder_.host_wait_action(lowering_.autograd_thread, last);
  lowering_.free(modules_.loss());
  old_outputs_.backward_over();
}

// FSDP2's parameters and gradients are DTensors.
void StepWriter::for_dtensors(Ns time) {
  if (lowering_.workload.parallel.strategy == Strategy::fsdp2)
    builder_.host_delay(static_cast<Ns>(strategy_.optimized().size()) * time);
}

void StepWriter::clip() {
  if (!lowering_.workload.train.clip_grad_norm) return;
  for_dtensors(host_overhead::kNormDTensor);
  write_gradient_clip(lowering_, strategy_.optimized(), strategy_.norm_communicators(),
                      strategy_.clips_by_tensor());
}

void StepWriter::finish_first() {
  lowering_.phase = Phase::optimizer;
  batches_end_ = builder_.position();
  builder_.mark(lowering_.micro_batch, Phase::optimizer);
  if (strategy_.has_own_optimizer()) return strategy_.optimizer_phase();
  clip_.first = batches_end_;
  clip();
  clip_.count = builder_.position() - clip_.first;
  optimizer_.create_states();
  update_.first = builder_.position();
  for_dtensors(host_overhead::kUpdateDTensor);
  if (optimizer_.first_update_is_usual())
    optimizer_.update();
  else
    optimizer_.first_update();
  update_.count = builder_.position() - update_.first;
}

void StepWriter::finish_body() {
  lowering_.phase = Phase::optimizer;
  if (strategy_.has_own_optimizer()) {
    builder_.mark(lowering_.micro_batch, Phase::optimizer);
    return strategy_.optimizer_phase();
  }
  // Collectives come in the order of their sequence numbers: new ones follow new ones.
  if (strategy_.first_step_differs()) {
    builder_.mark(lowering_.micro_batch, Phase::optimizer);
    clip();
  } else {
    append(lowering_.main_thread, clip_.first, clip_.end());
  }
  if (optimizer_.first_update_is_usual()) {
    append(lowering_.main_thread, update_.first, update_.end());
  } else {
    for_dtensors(host_overhead::kUpdateDTensor);
    optimizer_.update();
  }
}

// loss.item(): a copy to the host on the compute stream, behind all that is on it.
void StepWriter::read_loss() {
  if (lowering_.workload.train.reads_loss) builder_.host_wait_stream(lowering_.compute);
}

void StepWriter::copy_step() {
  const std::uint32_t shift = builder_.position();
  append(lowering_.main_thread, 0, batches_end_);
  HostThread& autograd = builder_.graph().programs.back().threads[lowering_.autograd_thread];
  std::vector<Action>& body = autograd.sections[static_cast<std::size_t>(Section::body)];
  const std::size_t begin = body.size();
  append(lowering_.autograd_thread, 0,
         static_cast<std::uint32_t>(autograd.actions(Section::first).size()));
  for (const std::uint32_t wait : waits_) body[begin + wait].b += shift;
  strategy_.step_copied(shift);
  old_outputs_.step_copied(shift);
}

// Appends actions [first, end) of section first to the body.
void StepWriter::append(std::uint32_t thread, std::uint32_t first, std::uint32_t end) {
  HostThread& host = builder_.graph().programs.back().threads[thread];
  const std::vector<Action>& from = host.sections[static_cast<std::size_t>(Section::first)];
  std::vector<Action>& to = host.sections[static_cast<std::size_t>(Section::body)];
  to.insert(to.end(), from.begin() + first, from.begin() + end);
}

}  // namespace foregather::plan
