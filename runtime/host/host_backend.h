// The backend that needs nothing but a machine: threads play the devices.
#pragma once

#include "runtime/device.h"
#include "runtime/host/rating.h"

namespace foregather::runtime {

/// Streams are threads, collectives move bytes through shared memory, memory is mapped, products
/// are OpenBLAS's. Every collective and cast is checked; wrong numbers fail the job.
std::unique_ptr<Backend> make_host_backend(const Rating& rating = {});

}  // namespace foregather::runtime
