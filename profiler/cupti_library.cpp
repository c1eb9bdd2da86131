#include "profiler/cupti_library.h"

#include <dlfcn.h>

#include <array>

namespace foregather::profiler {
namespace {

constexpr std::array kNames{"libcupti.so.13", "libcupti.so.12"};
constexpr std::array kPlaces{"", "/usr/local/cuda/extras/CUPTI/lib64/", "/usr/local/cuda/lib64/"};

void* open_any(std::string& name) {
  for (const char* known : kNames)
    if (void* const handle = ::dlopen(known, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
      name = known;
      return handle;
    }
  for (const char* place : kPlaces)
    for (const char* known : kNames) {
      name = std::string(place) + known;
      if (void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    }
  return nullptr;
}

}  // namespace

std::string CuptiLibrary::text(int result) const {
  const char* said = nullptr;
  if (get_result_string != nullptr && get_result_string(result, &said) == cupti::kSuccess &&
      said != nullptr)
    return said;
  return "error " + std::to_string(result);
}

std::optional<CuptiLibrary> open_cupti(std::string& error) {
  CuptiLibrary library;
  void* const handle = open_any(library.name);
  if (handle == nullptr) {
    error =
        "libcupti.so.13 and libcupti.so.12 cannot be opened: put the folder of one into "
        "LD_LIBRARY_PATH";
    return std::nullopt;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
    if (function == nullptr && error.empty()) error = library.name + " has no " + name;
  };
  find(library.get_version, "cuptiGetVersion");
  find(library.get_timestamp, "cuptiGetTimestamp");
  find(library.get_result_string, "cuptiGetResultString");
  find(library.subscribe, "cuptiSubscribe");
  find(library.unsubscribe, "cuptiUnsubscribe");
  find(library.register_callbacks, "cuptiActivityRegisterCallbacks");
  find(library.enable, "cuptiActivityEnable");
  find(library.disable, "cuptiActivityDisable");
  find(library.flush_all, "cuptiActivityFlushAll");
  find(library.dropped_records, "cuptiActivityGetNumDroppedRecords");
  find(library.set_thread_id_type, "cuptiSetThreadIdType");
  find(library.next_record, "cuptiActivityGetNextRecord");
  find(library.callback_name, "cuptiGetCallbackName");
  if (!error.empty()) return std::nullopt;
  find(library.enable_driver_api, "cuptiActivityEnableDriverApi");
  find(library.enable_runtime_api, "cuptiActivityEnableRuntimeApi");
  error.clear();
  if (const int result = library.get_version(&library.version); result != cupti::kSuccess)
    error = library.name + ": " + library.text(result);
  else if (library.version < cupti::Layout::kOldest)
    error = library.name + " is older than CUDA 12.0";
  if (!error.empty()) return std::nullopt;
  return library;
}

}  // namespace foregather::profiler
