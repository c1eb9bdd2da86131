#include "traces/nsys_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace foregather::traces {
namespace {

constexpr std::array<std::string_view, 14> kCopies{"Unknown", "HtoD", "DtoH", "HtoA", "AtoH",
                                                   "AtoA",    "AtoD", "DtoA", "DtoD", "HtoH",
                                                   "PtoP",    "HtoD", "DtoH", "DtoD"};
constexpr std::array<std::string_view, 8> kMemories{"Pageable",       "Pinned",  "Device",
                                                    "Array",          "Managed", "Device Static",
                                                    "Managed Static", "Unknown"};
constexpr std::array<std::string_view, 5> kSyncs{"Unknown", "Event Sync", "Stream Wait Event",
                                                 "Stream Sync", "Context Sync"};

template <std::size_t N>
std::string_view name_of(const std::array<std::string_view, N>& names, std::int64_t value) {
  return value >= 0 && value < static_cast<std::int64_t>(N) ? names[static_cast<std::size_t>(value)]
                                                            : "Unknown";
}

}  // namespace

std::string nsys_copy_name(std::int64_t copy_kind, std::int64_t from_kind, std::int64_t to_kind) {
  return fmt::format("Memcpy {} ({} -> {})", name_of(kCopies, copy_kind),
                     name_of(kMemories, from_kind), name_of(kMemories, to_kind));
}

std::string nsys_fill_name(std::int64_t memory_kind) {
  return fmt::format("Memset ({})", name_of(kMemories, memory_kind));
}

std::string_view nsys_sync_name(std::int64_t sync_type) { return name_of(kSyncs, sync_type); }

// The runtime's versions have four digits and more (3020, 7000, 11060).
std::string_view nsys_call_name(std::string_view name) {
  constexpr std::size_t kShortest = 4;
  const auto at = name.rfind("_v");
  if (at == std::string_view::npos) return name;
  const std::string_view version = name.substr(at + 2);
  const bool is_version =
      version.size() >= kShortest &&
      std::all_of(version.begin(), version.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_version ? name.substr(0, at) : name;
}

}  // namespace foregather::traces
