#include "core/rebuild/call_class.h"

#include <algorithm>
#include <array>
#include <utility>

namespace foregather::rebuild {
namespace {

constexpr std::array<std::pair<std::string_view, CallClass>, 22> kStems{{
    {"Launch", CallClass::launch},
    {"Memcpy", CallClass::launch},
    {"Memset", CallClass::launch},
    {"EventRecord", CallClass::record_event},
    {"StreamWaitEvent", CallClass::wait_event},
    {"DeviceSynchronize", CallClass::synchronize_device},
    {"CtxSynchronize", CallClass::synchronize_device},
    {"ThreadSynchronize", CallClass::synchronize_device},
    {"StreamSynchronize", CallClass::synchronize_stream},
    {"EventSynchronize", CallClass::synchronize_event},
    {"Synchronize", CallClass::synchronize_event},
    {"FreeAsync", CallClass::other},
    {"MemFreeAsync", CallClass::other},
    {"Free", CallClass::may_block},
    {"MemFree", CallClass::may_block},
    {"MemUnmap", CallClass::may_block},
    {"HostAlloc", CallClass::may_block},
    {"MallocHost", CallClass::may_block},
    {"HostMalloc", CallClass::may_block},
    {"MemHostAlloc", CallClass::may_block},
    {"HostRegister", CallClass::may_block},
    {"HostUnregister", CallClass::may_block},
}};

}  // namespace

CallClass call_class(std::string_view name) {
  for (const std::string_view prefix : {"cuda", "hip", "cu", "host"})
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  const auto* const found = std::find_if(
      kStems.begin(), kStems.end(), [&](const auto& row) { return name.starts_with(row.first); });
  return found == kStems.end() ? CallClass::other : found->second;
}

}  // namespace foregather::rebuild
