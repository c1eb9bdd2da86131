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
  return hardware;
}

}  // namespace foregather::tasks
