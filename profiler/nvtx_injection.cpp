// What NVTX calls of the injection library: NVTX_INJECTION64_PATH. Each library of a process that
// uses NVTX attaches by itself, so the entries run several times.
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/nvtx_abi.h"
#include "profiler/nvtx_ranges.h"
#include "profiler/recorder.h"

namespace foregather::profiler {
namespace nvtx_entries {
namespace {

// Never freed: the program may call until it is gone.
NvtxRanges& ranges() {
  static auto* const ranges = new NvtxRanges;
  return *ranges;
}

/// Strings that the program registered. Their addresses are the handles.
class RegisteredStrings {
 public:
  const void* add(std::string text) {
    const std::lock_guard lock(mutex_);
    if (bytes_ > kMostBytes) return &*texts_.emplace("(too many registered strings)").first;
    const auto [known, is_new] = texts_.insert(std::move(text));
    bytes_ += is_new ? known->size() + 64 : 0;
    return &*known;
  }

 private:
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20U;
  std::mutex mutex_;
  std::set<std::string> texts_;
  std::size_t bytes_ = 0;
};

RegisteredStrings& registered() {
  static auto* const strings = new RegisteredStrings;
  return *strings;
}

std::string utf8(const wchar_t* text) {
  std::string out;
  for (; text != nullptr && *text != 0; ++text) {
    const auto c = static_cast<std::uint32_t>(*text);
    const auto tail = [&](unsigned shift) {
      out += static_cast<char>(0x80U | (c >> shift & 0x3fU));
    };
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += static_cast<char>(0xc0U | c >> 6U);
      tail(0);
    } else if (c < 0x10000) {
      out += static_cast<char>(0xe0U | c >> 12U);
      tail(6), tail(0);
    } else {
      out += static_cast<char>(0xf0U | (c >> 18U & 7U));
      tail(12), tail(6), tail(0);
    }
  }
  return out;
}

std::string_view view(const char* text) { return text == nullptr ? "" : text; }

std::int64_t number(const void* domain) {
  return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(domain));
}

/// An event from its attributes; `unicode` holds the text of wide ones.
NvtxEvent event_of(const void* domain, const nvtx::Attributes* from, std::string& unicode) {
  NvtxEvent event;
  event.domain = number(domain);
  if (from == nullptr || from->size < sizeof(nvtx::Attributes)) return event;
  switch (from->message_type) {
    case nvtx::kAscii: event.text = view(from->message.ascii); break;
    case nvtx::kUnicode: event.text = unicode = utf8(from->message.unicode); break;
    case nvtx::kRegistered:
      if (from->message.registered != nullptr)
        event.text = *static_cast<const std::string*>(from->message.registered);
      break;
    default: break;
  }
  if (from->category != 0) event.category = from->category;
  if (from->color_type != 0) event.color = from->color;
  switch (from->payload_type) {
    case nvtx::kUnsigned64:
      event.unsigned_value = static_cast<std::int64_t>(from->payload.unsigned_64);
      break;
    case nvtx::kUnsigned32: event.unsigned_value = from->payload.unsigned_32; break;
    case nvtx::kSigned64: event.signed_value = from->payload.signed_64; break;
    case nvtx::kSigned32: event.signed_value = from->payload.signed_32; break;
    case nvtx::kExtended: {
      const auto* const data =
          reinterpret_cast<const nvtx::PayloadData*>(from->payload.unsigned_64);
      constexpr std::int32_t kMost = 64;
      for (std::int32_t i = 0; data != nullptr && i < from->reserved && i < kMost; ++i)
        if (data[i].bytes != nullptr && data[i].size <= HostEvents::kLongestText)
          event.payloads.emplace_back(
              data[i].schema,
              std::string_view(static_cast<const char*>(data[i].bytes), data[i].size));
      break;
    }
    default: break;
  }
  return event;
}

NvtxEvent event_of(std::string_view text) {
  NvtxEvent event;
  event.text = text;
  return event;
}

// No exception may leave through the program's C code.
template <class Result, class Do>
Result guarded(Result otherwise, const Do& action) {
  try {
    return action();
  } catch (const std::exception&) {
    return otherwise;
  }
}
template <class Do>
void guarded(const Do& action) {
  try {
    action();
  } catch (const std::exception&) {
    return;
  }
}

int domain_push(const void* domain, const nvtx::Attributes* attributes) {
  return guarded(0, [&] {
    std::string unicode;
    return ranges().push(event_of(domain, attributes, unicode));
  });
}
int domain_pop(const void* domain) {
  return guarded(0, [&] { return ranges().pop(number(domain)); });
}
void domain_mark(const void* domain, const nvtx::Attributes* attributes) {
  guarded([&] {
    std::string unicode;
    ranges().mark(event_of(domain, attributes, unicode));
  });
}
std::uint64_t domain_start(const void* domain, const nvtx::Attributes* attributes) {
  return guarded(std::uint64_t{0}, [&] {
    std::string unicode;
    return ranges().start(event_of(domain, attributes, unicode));
  });
}
void domain_end(const void*, std::uint64_t range) {
  guarded([&] { ranges().end(range); });
}
void domain_name_category(const void* domain, std::uint32_t category, const char* name) {
  guarded([&] { ranges().name_category(number(domain), category, view(name)); });
}
const void* domain_register(const void*, const char* text) {
  return guarded(static_cast<const void*>(nullptr),
                 [&] { return registered().add(std::string(view(text))); });
}
const void* domain_register_wide(const void*, const wchar_t* text) {
  return guarded(static_cast<const void*>(nullptr), [&] { return registered().add(utf8(text)); });
}
void* create_domain(const char* name) {
  return guarded(static_cast<void*>(nullptr), [&] {
    return reinterpret_cast<void*>(static_cast<std::intptr_t>(ranges().create_domain(view(name))));
  });
}
void* create_domain_wide(const wchar_t* name) {
  return guarded(static_cast<void*>(nullptr), [&] {
    return reinterpret_cast<void*>(static_cast<std::intptr_t>(ranges().create_domain(utf8(name))));
  });
}

int push_ex(const nvtx::Attributes* attributes) { return domain_push(nullptr, attributes); }
int push(const char* text) {
  return guarded(0, [&] { return ranges().push(event_of(view(text))); });
}
int push_wide(const wchar_t* text) {
  return guarded(0, [&] { return ranges().push(event_of(utf8(text))); });
}
int pop() { return domain_pop(nullptr); }
void mark_ex(const nvtx::Attributes* attributes) { domain_mark(nullptr, attributes); }
void mark(const char* text) {
  guarded([&] { ranges().mark(event_of(view(text))); });
}
void mark_wide(const wchar_t* text) {
  guarded([&] { ranges().mark(event_of(utf8(text))); });
}
std::uint64_t start_ex(const nvtx::Attributes* attributes) {
  return domain_start(nullptr, attributes);
}
std::uint64_t start(const char* text) {
  return guarded(std::uint64_t{0}, [&] { return ranges().start(event_of(view(text))); });
}
std::uint64_t start_wide(const wchar_t* text) {
  return guarded(std::uint64_t{0}, [&] { return ranges().start(event_of(utf8(text))); });
}
void end(std::uint64_t range) { domain_end(nullptr, range); }
void name_category(std::uint32_t category, const char* name) {
  domain_name_category(nullptr, category, name);
}
void name_thread(std::uint32_t thread, const char* name) {
  guarded([&] { ranges().name_thread(thread, view(name)); });
}

// The payload extension.
NvtxEvent payload_event(const void* domain, const nvtx::PayloadData* data, std::size_t count) {
  nvtx::Attributes attributes{};
  attributes.size = sizeof attributes;
  attributes.payload_type = nvtx::kExtended;
  attributes.reserved = static_cast<std::int32_t>(std::min<std::size_t>(count, 64));
  attributes.payload.unsigned_64 = reinterpret_cast<std::uint64_t>(data);
  std::string unicode;
  return event_of(domain, &attributes, unicode);
}
int push_payload(const void* domain, const nvtx::PayloadData* data, std::size_t count) {
  return guarded(0, [&] { return ranges().push(payload_event(domain, data, count)); });
}
int pop_payload(const void* domain, const nvtx::PayloadData*, std::size_t) {
  return domain_pop(domain);
}
std::uint64_t start_payload(const void* domain, const nvtx::PayloadData* data, std::size_t count) {
  return guarded(std::uint64_t{0},
                 [&] { return ranges().start(payload_event(domain, data, count)); });
}
void end_payload(const void* domain, std::uint64_t range, const nvtx::PayloadData*, std::size_t) {
  domain_end(domain, range);
}
void mark_payload(const void* domain, const nvtx::PayloadData* data, std::size_t count) {
  guarded([&] { ranges().mark(payload_event(domain, data, count)); });
}

std::uint64_t register_schema(const void* domain, const nvtx::Schema* schema) {
  constexpr std::uint64_t kFirstDynamic = std::uint64_t{1} << 32U;  // NVTX's own range of ids
  static std::atomic<std::uint64_t> next{kFirstDynamic};
  if (schema == nullptr) return 0;
  const bool has_id = (schema->fields & nvtx::kHasId) != 0 && schema->id != 0;
  const std::uint64_t id = has_id ? schema->id : next.fetch_add(1);
  guarded([&] {
    Recorder* const recorder = Recorder::instance();
    if (recorder == nullptr) return;
    constexpr std::size_t kMostEntries = 1024;
    struct Entry {
      std::int64_t flags, type, detail, offset;
      std::string name, description;
    };
    std::vector<Entry> entries;
    const bool has_entries = (schema->fields & nvtx::kHasEntries) != 0 &&
                             (schema->fields & nvtx::kHasCount) != 0 && schema->entries != nullptr;
    for (std::size_t i = 0; has_entries && i < schema->entry_count && i < kMostEntries; ++i) {
      const nvtx::SchemaEntry& entry = schema->entries[i];
      entries.push_back(
          {static_cast<std::int64_t>(entry.flags), static_cast<std::int64_t>(entry.type),
           static_cast<std::int64_t>(entry.detail), static_cast<std::int64_t>(entry.offset),
           std::string(view(entry.name)), std::string(view(entry.description))});
    }
    const std::string name((schema->fields & nvtx::kHasName) != 0 ? view(schema->name) : "");
    recorder->later([=, domain = number(domain), type = static_cast<std::int64_t>(schema->type),
                     flags = static_cast<std::int64_t>(schema->flags),
                     size = static_cast<std::int64_t>(schema->static_size),
                     alignment = static_cast<std::int64_t>(schema->alignment)](RawFile& file) {
      const auto number_of = static_cast<std::int64_t>(id);
      file.run("INSERT INTO NVTX_PAYLOAD_SCHEMAS VALUES (?, ?, ?, ?, ?, ?, ?, ?)", domain,
               number_of, std::string_view(name), type, flags,
               static_cast<std::int64_t>(entries.size()), size, alignment);
      for (std::size_t i = 0; i < entries.size(); ++i)
        file.run("INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                 domain, number_of, static_cast<std::int64_t>(i), entries[i].flags, entries[i].type,
                 std::string_view(entries[i].name), std::string_view(entries[i].description),
                 entries[i].detail, entries[i].offset);
    });
  });
  return id;
}

template <class F>
nvtx::Function slot(F* function) {
  return reinterpret_cast<nvtx::Function>(function);
}

bool attach(const nvtx::CallbackTables& tables, int module,
            std::initializer_list<std::pair<std::size_t, nvtx::Function>> slots) {
  nvtx::Function** table = nullptr;
  unsigned size = 0;
  if (tables.functions_of(module, &table, &size) == 0 || table == nullptr) return false;
  for (const auto& [at, function] : slots)
    if (at < size && table[at] != nullptr) *table[at] = function;
  return true;
}

bool attach_all(nvtx::GetExportTable get_table) {
  Recorder* const recorder = Recorder::instance();
  if (recorder == nullptr || !has(recorder->settings().kinds, Kind::nvtx)) return false;
  const auto* const tables =
      static_cast<const nvtx::CallbackTables*>(get_table(nvtx::kCallbackTables));
  if (tables == nullptr || tables->struct_size < sizeof *tables) return false;
  return attach(*tables, nvtx::kCore,
                {{nvtx::kMarkEx, slot(mark_ex)},
                 {nvtx::kMarkA, slot(mark)},
                 {nvtx::kMarkW, slot(mark_wide)},
                 {nvtx::kRangeStartEx, slot(start_ex)},
                 {nvtx::kRangeStartA, slot(start)},
                 {nvtx::kRangeStartW, slot(start_wide)},
                 {nvtx::kRangeEnd, slot(end)},
                 {nvtx::kRangePushEx, slot(push_ex)},
                 {nvtx::kRangePushA, slot(push)},
                 {nvtx::kRangePushW, slot(push_wide)},
                 {nvtx::kRangePop, slot(pop)},
                 {nvtx::kNameCategoryA, slot(name_category)},
                 {nvtx::kNameOsThreadA, slot(name_thread)}}) &&
         attach(*tables, nvtx::kCore2,
                {{nvtx::kDomainMarkEx, slot(domain_mark)},
                 {nvtx::kDomainRangeStartEx, slot(domain_start)},
                 {nvtx::kDomainRangeEnd, slot(domain_end)},
                 {nvtx::kDomainRangePushEx, slot(domain_push)},
                 {nvtx::kDomainRangePop, slot(domain_pop)},
                 {nvtx::kDomainNameCategoryA, slot(domain_name_category)},
                 {nvtx::kDomainRegisterStringA, slot(domain_register)},
                 {nvtx::kDomainRegisterStringW, slot(domain_register_wide)},
                 {nvtx::kDomainCreateA, slot(create_domain)},
                 {nvtx::kDomainCreateW, slot(create_domain_wide)}});
}

bool attach_payloads(const nvtx::ModuleInfo& module) {
  if (module.module != nvtx::kPayloadModule || module.segment_count == 0 ||
      Recorder::instance() == nullptr)
    return false;
  const nvtx::Segment& segment = module.segments[0];
  const auto set = [&](std::size_t at, nvtx::Function function) {
    if (at < segment.slots) segment.functions[at] = reinterpret_cast<std::intptr_t>(function);
  };
  set(nvtx::kSchemaRegister, slot(register_schema));
  set(nvtx::kMarkPayload, slot(mark_payload));
  set(nvtx::kPushPayload, slot(push_payload));
  set(nvtx::kPopPayload, slot(pop_payload));
  set(nvtx::kStartPayload, slot(start_payload));
  set(nvtx::kEndPayload, slot(end_payload));
  return true;
}

}  // namespace
}  // namespace nvtx_entries
}  // namespace foregather::profiler

extern "C" {
// NVTX's headers declare the extension's entry hidden; it must be found by its name.
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    foregather::profiler::nvtx::GetExportTable get_table);
__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    foregather::profiler::nvtx::ModuleInfo* module);

/// 1: attached. 0: NVTX turns itself off.
int InitializeInjectionNvtx2(foregather::profiler::nvtx::GetExportTable get_table) {
  return foregather::profiler::nvtx_entries::guarded(
      0, [&] { return foregather::profiler::nvtx_entries::attach_all(get_table) ? 1 : 0; });
}

int InitializeInjectionNvtxExtension(foregather::profiler::nvtx::ModuleInfo* module) {
  return foregather::profiler::nvtx_entries::guarded(0, [&] {
    return module != nullptr && foregather::profiler::nvtx_entries::attach_payloads(*module);
  });
}
}
