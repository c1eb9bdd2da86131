// What a call of the CUDA or HIP runtime does, by its name.
#pragma once

#include <cstdint>
#include <string_view>

namespace foregather::rebuild {

enum class CallClass : std::uint8_t {
  launch,  ///< kernels, graphs, copies, fills
  record_event,
  wait_event,  ///< a stream waits for an event
  synchronize_device,
  synchronize_stream,
  synchronize_event,
  may_block,  ///< gives memory back, or makes host memory: may wait for the device
  other,
};

/// Names of runtime and driver, with version suffixes ("cudaLaunchKernelExC_v11060",
/// "cuStreamWaitEvent", "hipMemcpyAsync"), and what a run of the
/// host backend records ("hostLaunch").
CallClass call_class(std::string_view name);

}  // namespace foregather::rebuild
