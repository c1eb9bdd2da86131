// Conversions of one written value to the type of a key. Errors have no place; they name what was
// expected.
#pragma once

#include <span>
#include <string_view>

#include "core/plan/workload_keys.h"

namespace foregather::plan {

/// An integer in [least, most].
Result<std::int64_t> to_integer(const KeyValue& value, std::int64_t least, std::int64_t most);
/// Bytes in [least, most]: an integer, or a text such as "25MiB" (KiB MiB GiB TiB, KB MB GB TB, B).
Result<Bytes> to_bytes(const KeyValue& value, Bytes least, Bytes most);
/// A time in [least, most]: a text such as "5 ms" (ns, us, ms, s).
Result<Ns> to_time(const KeyValue& value, Ns least, Ns most);
/// A finite number in [least, most].
Result<double> to_number(const KeyValue& value, double least, double most);
Result<bool> to_bool(const KeyValue& value);
Result<std::string> to_text(const KeyValue& value);
/// The entries of a list, or of a text, separated by commas; on a command line also of a text that
/// is written as a list in a file.
Result<std::vector<std::string>> to_list(const KeyValue& value);
/// The value as JSON: a text of a command line may be a number, true or false.
std::string to_json(const KeyValue& value);
/// The position of a text in `names`; the error lists them and suggests the nearest.
Result<std::size_t> to_choice(const KeyValue& value, std::span<const std::string_view> names);
/// A dtype as keys call it: "fp32", where the graph says f32.
std::string_view key_name(DType type);
/// The value as it was written, quoted if it is a text, for messages.
std::string written(const KeyValue& value);

}  // namespace foregather::plan
