#include "sim/cost/host_cost.h"

#include <algorithm>

#include "sim/cost/rounding.h"

namespace foregather::sim {

HostPrices host_prices(const Hardware& hardware) {
  const Hardware::Host& host = hardware.host;
  return {.alloc = round_ns(host.alloc),
          .free = round_ns(host.free),
          .record = round_ns(host.record),
          .wait = round_ns(host.wait),
          .synchronize = round_ns(host.synchronize),
          .device_malloc = round_ns(host.device_malloc),
          .device_malloc_per_gib = round_ns(host.device_malloc_per_gib),
          .device_free = round_ns(host.device_free),
          .device_map = round_ns(host.device_map)};
}

double host_time(const Cost& cost, const Hardware& hardware) {
  if (cost.is_fixed && cost.kernels == 0) return 0;
  if (is_collective(cost.kind)) return hardware.host.collective_dispatch;
  return hardware.host.dispatch * std::max<double>(cost.host_ops, 1) +
         hardware.host.launch * std::max<double>(cost.kernels, 1);
}

}  // namespace foregather::sim
