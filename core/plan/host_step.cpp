#include "core/plan/host_step.h"

#include "core/plan/host_overhead.h"

namespace foregather::plan {

namespace {

Bytes state_bytes(const Train& train, std::int64_t elements) {
  constexpr std::int64_t kBlock = 256;
  switch (train.optimizer_state) {
    case StateType::f32: return elements * size_of(DType::f32);
    case StateType::bf16: return elements * size_of(DType::bf16);
    case StateType::int8: return elements + elements / kBlock * size_of(DType::f32);
    case StateType::as_master: break;
  }
  return elements * size_of(trained_type(train));
}

}  // namespace

Bytes host_update_bytes(const Train& train, std::int64_t elements) {
  const Bytes master = elements * size_of(trained_type(train));
  if (train.optimizer == Optimizer::adamw) return 3 * master + 4 * state_bytes(train, elements);
  return (train.momentum != 0 ? 5 : 3) * master;
}

Ns host_update(const Workload& workload, std::int64_t elements) {
  return host_overhead::cpu_pass(host_update_bytes(workload.train, elements),
                                 workload.cluster.gpus_per_node);
}

Ns host_scaling(const Workload& workload, std::int64_t elements) {
  return host_overhead::cpu_pass(2 * elements * size_of(trained_type(workload.train)),
                                 workload.cluster.gpus_per_node);
}

Ns host_norm(const Workload& workload, std::int64_t elements) {
  return host_overhead::cpu_pass(elements * size_of(trained_type(workload.train)),
                                 workload.cluster.gpus_per_node);
}

void write_host_step(Lowering& lowering, std::int64_t elements) {
  const Workload& workload = lowering.workload;
  const Ns clipping = workload.train.clip_grad_norm
                          ? host_norm(workload, elements) + host_scaling(workload, elements)
                          : 0;
  lowering.builder.host_delay(clipping + host_update(workload, elements));
}

}  // namespace foregather::plan
