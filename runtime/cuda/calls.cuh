// The wrapper around calls of CUDA: the first one that fails counts, with its place.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "core/base/result.h"

namespace foregather::runtime::cuda {

/// Calls that belong together. Nothing is called after the first failure.
class Calls {
 public:
  bool is_ok() const { return status_.has_value(); }
  const Status& status() const { return status_; }
  bool note(cudaError_t code, const char* expression, const char* file, int line);
  bool note(CUresult code, const char* expression, const char* file, int line);
  /// A failure of something else; the first one counts.
  bool note(Status status);

 private:
  Status status_;
};

/// True where it and all before it went well.
#define FOREGATHER_CUDA(calls, expression) \
  ((calls).is_ok() && (calls).note((expression), #expression, __FILE__, __LINE__))

}  // namespace foregather::runtime::cuda
