#include "core/rebuild/call_class.h"

#include <algorithm>
#include <array>
#include <utility>

namespace foregather::rebuild {
namespace {

constexpr std::array<std::pair<std::string_view, CallClass>, 10> kStems{{
    {"Launch", CallClass::launch},
    {"Memcpy", CallClass::launch},
    {"Memset", CallClass::launch},
    {"EventRecord", CallClass::record_event},
    {"StreamWaitEvent", CallClass::wait_event},
    {"DeviceSynchronize", CallClass::synchronize_device},
    {"CtxSynchronize", CallClass::synchronize_device},
    {"StreamSynchronize", CallClass::synchronize},
    {"EventSynchronize", CallClass::synchronize},
    {"Synchronize", CallClass::synchronize},
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
