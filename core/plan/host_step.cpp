#include "core/plan/host_step.h"

#include "core/plan/host_overhead.h"

namespace foregather::plan {

void write_host_step(Lowering& lowering, std::int64_t elements) {
  const Workload& workload = lowering.workload;
  const Ns pass = host_overhead::cpu_optimizer(elements, workload.cluster.gpus_per_node);
  lowering.builder.host_delay(pass * (workload.train.clip_grad_norm ? 3 : 1));
}

}  // namespace foregather::plan
