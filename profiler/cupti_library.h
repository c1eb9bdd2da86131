// CUPTI as a library that is opened at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "profiler/cupti_abi.h"

namespace foregather::profiler {

/// The functions that the recorder calls. Never closed. Each returns cupti::kSuccess or an error.
struct CuptiLibrary {
  int (*get_version)(std::uint32_t* version) = nullptr;
  int (*get_timestamp)(std::uint64_t* ns) = nullptr;
  int (*get_result_string)(int result, const char** text) = nullptr;
  int (*subscribe)(void** subscriber, void (*callback)(void*, int, std::uint32_t, const void*),
                   void* user) = nullptr;
  int (*unsubscribe)(void* subscriber) = nullptr;
  int (*register_callbacks)(cupti::BufferRequested, cupti::BufferCompleted) = nullptr;
  int (*enable)(std::uint32_t kind) = nullptr;
  int (*disable)(std::uint32_t kind) = nullptr;
  int (*flush_all)(std::uint32_t flags) = nullptr;
  int (*dropped_records)(void* context, std::uint32_t stream, std::size_t* dropped) = nullptr;
  int (*set_thread_id_type)(int type) = nullptr;
  /// Stops recording one call of a domain. May be null.
  int (*enable_driver_api)(std::uint32_t callback, std::uint8_t enable) = nullptr;
  int (*enable_runtime_api)(std::uint32_t callback, std::uint8_t enable) = nullptr;
  cupti::NextRecord next_record = nullptr;
  cupti::CallbackName callback_name = nullptr;

  std::string name;           ///< what was opened
  std::uint32_t version = 0;  ///< of the API

  /// "CUPTI_ERROR_…" of a result.
  std::string text(int result) const;
};

/// The one that the process has loaded, else the newest that the loader finds. `error` says why
/// there is none.
std::optional<CuptiLibrary> open_cupti(std::string& error);

}  // namespace foregather::profiler
