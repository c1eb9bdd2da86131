// Identity of our databases.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/result.h"
#include "core/store/sqlite.h"

namespace foregather::store {

inline constexpr std::int64_t kApplicationId = 0x466F7265;  // "Fore"
inline constexpr std::int64_t kUserVersion = 8;

/// The tables that each version adds: schema.sql, schema_2.sql and so on.
extern const std::array<const char*, kUserVersion> kSchemas;

/// Makes an empty database ours, of that version.
Status create_schema(Database& database, std::int64_t version = kUserVersion);

/// The version of one of our databases that has exactly our tables. Errors: another program's, a
/// newer version (named), other tables.
Result<std::int64_t> check_schema(Database& database);

}  // namespace foregather::store
