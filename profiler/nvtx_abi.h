// NVTX version 3 as an injection library sees it, in declarations of our own, so that building
// needs no CUDA toolkit. Source: nvtx3/nvToolsExt.h, nvtxDetail/nvtxTypes.h, nvtxExtTypes.h and
// nvToolsExtPayload.h of CUDA 13.0; tests/unit/profiler compares them with the headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foregather::profiler::nvtx {

// Modules of callbacks, and the slots in their tables.
inline constexpr int kCore = 1, kCore2 = 5;
enum CoreSlot : std::size_t {
  kMarkEx = 1,
  kMarkA = 2,
  kMarkW = 3,
  kRangeStartEx = 4,
  kRangeStartA = 5,
  kRangeStartW = 6,
  kRangeEnd = 7,
  kRangePushEx = 8,
  kRangePushA = 9,
  kRangePushW = 10,
  kRangePop = 11,
  kNameCategoryA = 12,
  kNameOsThreadA = 14,
};
enum Core2Slot : std::size_t {
  kDomainMarkEx = 1,
  kDomainRangeStartEx = 2,
  kDomainRangeEnd = 3,
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainNameCategoryA = 8,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
};

using Function = void (*)();
struct CallbackTables {  // NvtxExportTableCallbacks
  std::size_t struct_size;
  int (*functions_of)(int module, Function*** table, unsigned* size);
};
using GetExportTable = const void* (*)(std::uint32_t id);
inline constexpr std::uint32_t kCallbackTables = 1;

// Messages of events.
inline constexpr std::int32_t kAscii = 1, kUnicode = 2, kRegistered = 3;
union Message {
  const char* ascii;
  const wchar_t* unicode;
  const void* registered;
};

// Payloads of events.
inline constexpr std::int32_t kUnsigned64 = 1, kSigned64 = 2, kUnsigned32 = 4, kSigned32 = 5;
/// The payload is a pointer to PayloadData, as many as Attributes::reserved says.
inline constexpr std::int32_t kExtended = static_cast<std::int32_t>(0xDFBD0009);

struct Attributes {  // nvtxEventAttributes_v2
  std::uint16_t version, size;
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t payload_type, reserved;
  union {
    std::uint64_t unsigned_64;
    std::int64_t signed_64;
    std::uint32_t unsigned_32;
    std::int32_t signed_32;
  } payload;
  std::int32_t message_type;
  Message message;
};

// The payload extension.
inline constexpr std::uint16_t kPayloadModule = 2;
enum PayloadSlot : std::size_t {
  kSchemaRegister = 0,
  kMarkPayload = 2,
  kPushPayload = 3,
  kPopPayload = 4,
  kStartPayload = 5,
  kEndPayload = 6
};

struct PayloadData {
  std::uint64_t schema;
  std::size_t size;
  const void* bytes;
};
struct SchemaEntry {
  std::uint64_t flags, type;
  const char *name, *description;
  std::uint64_t detail, offset;
  const void *semantics, *reserved;
};
struct Schema {
  std::uint64_t fields;
  const char* name;
  std::uint64_t type, flags;
  const SchemaEntry* entries;
  std::size_t entry_count, static_size, alignment;
  std::uint64_t id;
  void* extension;
};
// Bits of Schema::fields.
inline constexpr std::uint64_t kHasName = 1U << 1U, kHasEntries = 1U << 4U, kHasCount = 1U << 5U,
                               kHasSize = 1U << 6U, kHasAlignment = 1U << 7U, kHasId = 1U << 8U;

struct Segment {
  std::size_t id, slots;
  std::intptr_t* functions;
};
struct ModuleInfo {
  std::uint16_t version, struct_size, module, compatibility;
  std::size_t segment_count;
  Segment* segments;
  std::intptr_t (*get_export)(std::uint32_t id);
  const void* info;
};

}  // namespace foregather::profiler::nvtx
