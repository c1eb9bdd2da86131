#include "tests/support/example_run.h"

namespace foregather::test {
namespace {

using namespace foregather::run;

struct Rows {
  StepRow step;
  StreamRow compute, comm;
};

Rows add_class(Run& run, const char* name, std::vector<std::uint32_t> ranks, Ns end) {
  const ClassRow rank_class = run.add(ClassInfo{run.text(name), std::move(ranks)});
  Rows rows;
  rows.compute = run.add(StreamInfo{rank_class, run.text("compute"), 0});
  rows.comm = run.add(StreamInfo{rank_class, run.text("comm"), -1});
  StepInfo step;
  step.rank_class = rank_class;
  step.kind = StepKind::steady;
  step.number = 1;
  step.begin = 90;
  step.end = end;
  step.host_end = 120;
  step.peak_requested = 900;
  step.peak_allocated = 1024;
  step.peak_active = 1024;
  step.peak_reserved = 2048;
  step.causes_inferred = end == 150;
  rows.step = run.add(step);
  return rows;
}

OpRecord op(Run& run, const Rows& rows, OpKind kind, const char* scope, Ns start, Ns end) {
  OpRecord record;
  record.step = rows.step;
  record.stream = rows.compute;
  record.kind = kind;
  record.role = Role::compute;
  record.phase = Phase::forward;
  record.scope = run.text(scope);
  record.issued = start - 2;
  record.start = record.transfer = start;
  record.end = end;
  record.alone = end - start;
  record.source = run.text("roofline");
  record.bytes = 64;
  record.flops = 128;
  return record;
}

OpRecord gather(Run& run, const Rows& rows, Ns start) {
  OpRecord record = op(run, rows, OpKind::all_gather, "layers.0", start, 130);
  record.stream = rows.comm;
  record.role = Role::gather;
  record.communicator = CommunicatorRow(0);
  record.sequence = 7;
  record.transfer = 115;
  record.alone = 15;
  record.bytes = 4096;
  record.wire_bytes = 3072;
  record.flops = 0;
  return record;
}

}  // namespace

Run example_run() {
  Run run;
  run.about.name = "example";
  run.about.tool = "foregather test";
  run.about.source = "example.toml";
  run.about.source_text = "[model]\n";
  run.about.inputs = {{"config.json", "a digest"}, {"hardware.toml", "another"}};
  run.about.hardware = "h100_sxm";
  run.about.strategy = "fsdp2";
  run.about.world_size = 4;
  run.about.parameters = 1000;
  run.about.capacity = 80 * GiB;
  run.add(CommunicatorInfo{run.text("fsdp"), 4, 1});
  const Rows fast = add_class(run, "fast", {0, 1, 3}, 150);
  const Rows slow = add_class(run, "slow", {2}, 140);

  const ThreadRow thread = run.add(ThreadInfo{ClassRow(0), run.text("17"), run.text("main")});
  const HostCallRow launch = run.add(HostCallRecord{thread, run.text("cudaLaunchKernel"), 96, 98});
  const HostCallRow wait = run.add(HostCallRecord{thread, run.text("cudaStreamWaitEvent"), 98, 99});
  run.add(StreamWaitRecord{fast.comm, wait, launch, run.text("compute")});

  OpRecord first = op(run, fast, OpKind::gemm, "layers.0.attn", 100, 110);
  first.reason = BoundReason::host;
  first.launch = launch;
  const OpRow first_row = run.add(first);
  run.add(KernelLaunch{first_row,
                       run.text("aten::mm"),
                       run.text("[[8, 16], [16, 32]]"),
                       run.text("[\"float\", \"float\"]"),
                       {},
                       true,
                       1 << 20});
  OpRecord early = gather(run, fast, 110);
  early.reason = BoundReason::rendezvous;
  early.bound_by = OpRow(4);
  const OpRow early_row = run.add(early);
  run.add(CollectiveRecord{early_row, run.text("_allgather_base"), run.text("BFloat16"),
                           run.text("fsdp"), run.text("[0, 1, 2, 3]"), 512, 2048, 4, 7});
  OpRecord last = op(run, fast, OpKind::gemm, "layers.0.mlp", 130, 150);
  last.reason = BoundReason::event;
  last.bound_by = early_row;
  run.add(last);

  OpRecord straggler = op(run, slow, OpKind::gemm, "layers.0.attn", 100, 115);
  straggler.reason = BoundReason::stream;
  straggler.bound_by_previous_step = true;
  const OpRow straggler_row = run.add(straggler);
  OpRecord late = gather(run, slow, 115);
  late.reason = BoundReason::event;
  late.bound_by = straggler_row;
  const OpRow late_row = run.add(late);
  OpRecord norm = op(run, slow, OpKind::norm, "", 130, 140);
  norm.reason = BoundReason::event;
  norm.bound_by = late_row;
  run.add(norm);

  BindingRecord binding;
  binding.step = fast.step;
  binding.name = run.text("weight, unsharded");
  binding.scope = run.text("layers.0");
  binding.cause = Cause::unsharded_parameter;
  binding.bytes = 900;
  binding.block_bytes = 1024;
  binding.address = 0xffff800000000200U;
  binding.allocated = 95;
  binding.freed = 140;
  binding.before_op = first_row;
  run.add(binding);
  run.add(SegmentRecord{fast.step, fast.compute, SegmentChange::held, true, false, 90, 4096, 2048});
  run.add(MemoryRecord{fast.step, 95, 900, 1024, 1024, 2048});
  run.add(MemoryRecord{fast.step, 140, 0, 0, 0, 2048});
  run.add(CauseRecord{fast.step, Cause::unsharded_parameter, 1024});
  FailureRecord failure;
  failure.step = fast.step;
  failure.name = run.text("loss");
  failure.bytes = 4096;
  failure.time = 140;
  failure.kind = OpKind::gemm;
  failure.phase = Phase::backward;
  failure.ordinal = 2;
  run.add(failure);
  run.steps[fast.step.row()].peak_at = first_row;
  return run;
}

}  // namespace foregather::test
