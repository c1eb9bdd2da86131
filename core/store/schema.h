// Identity of our databases.
#pragma once

#include <cstdint>

#include "core/base/result.h"
#include "core/store/sqlite.h"

namespace foregather::store {

/// schema.sql.
extern const char* const kSchema;

inline constexpr std::int64_t kApplicationId = 0x466F7265;  // "Fore"
inline constexpr std::int64_t kUserVersion = 1;

/// Makes an empty database ours.
Status create_schema(Database& database);

/// Is this one of our databases, of a version that we read, with exactly our tables? A newer one is
/// refused by name.
Status check_schema(Database& database);

}  // namespace foregather::store
