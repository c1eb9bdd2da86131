#include "runtime/cuda/calls.cuh"

#include <string>
#include <string_view>
#include <utility>

namespace foregather::runtime::cuda {
namespace {

Status failure(std::string_view why, std::string_view expression, std::string_view file, int line) {
  return fail_work("", "{} ({} at {}:{})", why, expression.substr(0, expression.find('(')),
                   file.substr(file.rfind('/') + 1), line);
}

}  // namespace

bool Calls::note(cudaError_t code, const char* expression, const char* file, int line) {
  if (code == cudaSuccess) return true;
  (void)cudaGetLastError();  // the next launch is not to blame
  if (status_) status_ = failure(cudaGetErrorString(code), expression, file, line);
  return false;
}

bool Calls::note(CUresult code, const char* expression, const char* file, int line) {
  if (code == CUDA_SUCCESS) return true;
  if (status_)
    status_ = failure("the driver says " + std::to_string(static_cast<int>(code)), expression, file,
                      line);
  return false;
}

bool Calls::note(Status status) {
  if (status_ && !status) status_ = std::move(status);
  return status_.has_value();
}

}  // namespace foregather::runtime::cuda
