// The entries of the driver that the CUDA runtime has no calls for. Asked for at run time: a
// library that links libcuda cannot even be opened where there is no driver.
#pragma once

#include <cuda.h>

#include "core/base/result.h"

namespace foregather::runtime::cuda {

struct Driver {
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) unreserve = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuStreamBatchMemOp) batch_memory_ops = nullptr;
  decltype(&cuDeviceGetAttribute) attribute = nullptr;

  /// Errors: a driver that lacks one of them (older than CUDA 12).
  static Result<Driver> find();
};

}  // namespace foregather::runtime::cuda
