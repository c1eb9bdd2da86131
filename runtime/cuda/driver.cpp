#include "runtime/cuda/driver.cuh"

#include <cuda_runtime_api.h>

namespace foregather::runtime::cuda {
namespace {

// As of CUDA 12.0.
template <class Entry>
Status find_entry(const char* name, Entry& entry) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t code =
      cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status);
#else
  const cudaError_t code = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &status);
#endif
  if (code != cudaSuccess || status != cudaDriverEntryPointSuccess || found == nullptr) {
    (void)cudaGetLastError();
    return fail_work("", "the driver has no {}: install one of CUDA 12 or later", name);
  }
  entry = reinterpret_cast<Entry>(found);
  return {};
}

}  // namespace

Result<Driver> Driver::find() {
  Driver driver;
  Status status;
  const auto look = [&](const char* name, auto& entry) {
    if (status) status = find_entry(name, entry);
  };
  look("cuMemAddressReserve", driver.reserve);
  look("cuMemAddressFree", driver.unreserve);
  look("cuMemCreate", driver.create);
  look("cuMemRelease", driver.release);
  look("cuMemMap", driver.map);
  look("cuMemUnmap", driver.unmap);
  look("cuMemSetAccess", driver.set_access);
  look("cuStreamBatchMemOp", driver.batch_memory_ops);
  look("cuDeviceGetAttribute", driver.attribute);
  if (!status) return tl::unexpected(status.error());
  return driver;
}

}  // namespace foregather::runtime::cuda
