// What the importers of recorded runs share.
#pragma once

#include <map>
#include <string>

#include "core/base/json_writer.h"
#include "core/base/units.h"
#include "core/run/recording.h"
#include "tasks/import.h"

namespace foregather::tasks {

double microseconds(Ns time);

/// 100 part / whole to three decimals; null where the whole is empty.
void write_percent(JsonWriter& json, Ns part, Ns whole);

/// An object of counts, from pairs of name and count.
template <class Counts>
void write_counts(JsonWriter& json, std::string_view key, const Counts& counts) {
  json.key(key).begin_object();
  for (const auto& [name, count] : counts) json.field(name, count);
  json.end_object();
}

/// Moves what the reader counted and warned of from the recording to the file, and warns of
/// activities that are in it more than once, see compare::duplicate_activities().
void take_accounts(ImportedFile& file, run::Recording& recording, std::int64_t duplicates);

/// Of one device's allocator.
struct MemoryUse {
  std::int64_t events = 0;
  Bytes peak_allocated = 0, peak_reserved = 0;
};
using MemoryUses = std::map<std::string, MemoryUse>;  ///< by device, as MemoryColumns name it
MemoryUses memory_uses(const run::Recording& recording);
/// For a person, a row a device.
void describe_memory(ImportedFile& file, const MemoryUses& uses);
/// The field `memory`.
void write_memory(JsonWriter& json, const MemoryUses& uses);

/// Of a reader that keeps whole rows or drops them: read = kept + dropped.
run::RecordedRows rows_of(std::size_t kept, const run::EventCounts& dropped);

}  // namespace foregather::tasks
