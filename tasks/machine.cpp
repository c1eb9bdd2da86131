#include "tasks/machine.h"

namespace foregather::tasks {
namespace {

constexpr double kBytesPerSecond = 1e9 / 8;  // of one Gb/s

Error with_key(Error error, const char* key) {
  if (error.place.empty()) error.place = key;
  return error;
}

}  // namespace

Result<sim::Hardware> load_machine(const plan::Cluster& cluster) {
  auto hardware = sim::load_hardware(cluster.hardware);
  if (!hardware) return tl::unexpected(with_key(std::move(hardware.error()), "cluster.hardware"));
  if (!cluster.topology.empty())
    if (Status applied = sim::apply_topology(*hardware, cluster.topology); !applied)
      return tl::unexpected(with_key(std::move(applied.error()), "cluster.topology"));
  if (!cluster.fabric.empty())
    if (Status applied = sim::apply_fabric(*hardware, cluster.fabric); !applied)
      return tl::unexpected(with_key(std::move(applied.error()), "cluster.fabric"));
  if (cluster.fabric_gbps > 0)
    hardware->inter.nic_bandwidth = cluster.fabric_gbps * kBytesPerSecond;
  if (cluster.gpus_per_node == 1) hardware->intra.gpus = 1;
  return hardware;
}

bool has_flash_attention(const sim::Hardware& hardware) {
  constexpr double kAmpere = 80;
  return hardware.compute.compute_capability >= kAmpere;
}

Status check_machine(const plan::Workload& workload, const sim::Hardware& hardware) {
  if (workload.train.attention == plan::Attention::flash && !has_flash_attention(hardware))
    return fail_at(workload.place_of({"train.attention", "cluster.hardware"}),
                   "train.attention is flash, which needs compute capability 8.0, and {} has "
                   "{:.1f}: expected sdpa or eager",
                   hardware.name, hardware.compute.compute_capability / 10);
  if (workload.train.attention == plan::Attention::cudnn && !hardware.has_cudnn_attention())
    return fail_at(workload.place_of({"train.attention", "cluster.hardware"}),
                   "train.attention is cudnn, of which {} has no figures of its own "
                   "(efficiency.cudnn_forward, cudnn_backward): expected sdpa",
                   hardware.name);
  if (workload.train.float8 != plan::Float8::none && hardware.compute.matmul_f8 == 0)
    return fail_at(workload.place_of({"train.float8", "cluster.hardware"}),
                   "train.float8 needs float8 units, which {} has not: expected none",
                   hardware.name);
  return {};
}

std::vector<std::string> machine_warnings(const plan::Workload& workload,
                                          const sim::Hardware& hardware) {
  std::vector<std::string> warnings;
  if (workload.train.compute == DType::bf16 && hardware.compute.matmul_bf16 == 0)
    warnings.push_back(fmt::format(
        "{}: train.precision computes in bf16, for which {} has no units: products run at its rate "
        "of fp32",
        workload.place_of({"train.precision", "cluster.hardware"}), hardware.name));
  const plan::Train& train = workload.train;
  const bool makes_scales =
      train.float8 == plan::Float8::rowwise && plan::is_inductors(train.compile);
  if (makes_scales && hardware.compute.vector_f64 == 0)
    warnings.push_back(fmt::format(
        "{}: compiled rowwise float8 makes its scales in doubles, which cost nothing here: {} has "
        "no compute.vector_f64",
        workload.place_of({"train.float8", "cluster.hardware"}), hardware.name));
  if (workload.cluster.gpus_per_node > hardware.intra.gpus)
    warnings.push_back(fmt::format(
        "{}: {} GPUs a node, but the links of {} join at most {}: set cluster.gpus_per_node",
        workload.place_of({"cluster.gpus_per_node", "parallel.world_size", "cluster.hardware"}),
        workload.cluster.gpus_per_node, hardware.name, hardware.intra.gpus));
  const bool is_assumed =
      !workload.is_set("cluster.gpus_per_node") && !workload.is_set("cluster.nodes");
  const bool is_cut =
      workload.cluster.nodes > 1 && workload.cluster.gpus_per_node < hardware.intra.gpus;
  constexpr std::uint32_t kMostOfHost = 8;  // links of more GPUs join several hosts
  if (is_cut && is_assumed)
    warnings.push_back(
        fmt::format("{}: {} GPUs a node are assumed, but the links of {} join up to {}: set "
                    "cluster.gpus_per_node",
                    workload.place_of({"parallel.world_size", "cluster.hardware"}),
                    workload.cluster.gpus_per_node, hardware.name, hardware.intra.gpus));
  else if (is_cut && hardware.intra.gpus > kMostOfHost)
    warnings.push_back(
        fmt::format("{}: nodes of {} GPUs are joined by the network, but the links of {} join up "
                    "to {}, of several hosts: cluster.gpus_per_node counts these",
                    workload.place_of({"cluster.gpus_per_node", "cluster.nodes"}),
                    workload.cluster.gpus_per_node, hardware.name, hardware.intra.gpus));
  return warnings;
}

}  // namespace foregather::tasks
