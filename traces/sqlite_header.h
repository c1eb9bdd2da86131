// What a SQLite file says of itself before SQLite opens it.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/base/units.h"

namespace foregather::traces {

/// The size of a whole database that nobody is writing. Errors: none at all, fewer bytes than its
/// header says, a lock of another process, unfinished changes beside it. Source:
/// sqlite.org/fileformat2.html, the locking bytes os.h of SQLite.
Result<Bytes> check_sqlite_file(const std::string& path);

}  // namespace foregather::traces
