#include "runtime/cuda/ranges.cuh"

#include <nvtx3/nvToolsExt.h>

namespace foregather::runtime::cuda {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("foregather");
  return handle;
}

}  // namespace

bool has_range_listener() { return domain() != nullptr; }

RangeScope::RangeScope(const std::string& name) : is_open_(!name.empty() && has_range_listener()) {
  if (!is_open_) return;
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name.c_str();
  nvtxDomainRangePushEx(domain(), &attributes);
}

RangeScope::~RangeScope() {
  if (is_open_) nvtxDomainRangePop(domain());
}

}  // namespace foregather::runtime::cuda
