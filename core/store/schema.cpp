#include "core/store/schema.h"

#include <string>
#include <vector>

namespace foregather::store {
namespace {

constexpr const char* kListObjects =
    "SELECT type || ' ' || name || ' ' || ifnull(sql, '') FROM sqlite_schema ORDER BY type, name";

Result<std::vector<std::string>> objects(Database& database) {
  auto query = database.prepare(kListObjects);
  if (!query) return tl::unexpected(query.error());
  std::vector<std::string> texts;
  constexpr std::size_t kMostObjects = 1000;
  while (texts.size() < kMostObjects) {
    const auto row = query->next();
    if (!row) return tl::unexpected(row.error());
    if (!*row) break;
    texts.emplace_back(query->text(0));
  }
  return texts;
}

// The tables must be exactly ours: a view or a generated column could run anything.
Status check_objects(Database& database, std::int64_t version) {
  auto reference = Database::create(":memory:", ":memory:");
  if (!reference) return tl::unexpected(reference.error());
  if (const Status created = create_schema(*reference, version); !created) return created;
  const auto expected = objects(*reference);
  if (!expected) return tl::unexpected(expected.error());
  const auto found = objects(database);
  if (!found) return tl::unexpected(found.error());
  if (*expected != *found)
    return fail_at(database.path(), "is damaged: its tables are not those of version {}", version);
  return {};
}

}  // namespace

Status create_schema(Database& database, std::int64_t version) {
  for (std::int64_t v = 0; v < version; ++v)
    if (const Status created = database.execute(kSchemas[static_cast<std::size_t>(v)]); !created)
      return created;
  return database.execute(
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {};", kApplicationId, version)
          .c_str());
}

Result<std::int64_t> check_schema(Database& database) {
  const auto application = database.integer("PRAGMA application_id");
  if (!application) return tl::unexpected(application.error());
  if (*application == 0) {
    const auto is_made =
        database.integer("SELECT count(*) FROM (SELECT 1 FROM sqlite_schema LIMIT 1)");
    if (!is_made) return tl::unexpected(is_made.error());
    if (*is_made == 0)
      return fail_at(database.path(), "holds nothing: what wrote it did not come to its first row");
  }
  if (*application != kApplicationId)
    return fail_at(database.path(),
                   "is a database of another program, expected one that "
                   "foregather wrote");
  const auto version = database.integer("PRAGMA user_version");
  if (!version) return tl::unexpected(version.error());
  if (*version > kUserVersion)
    return fail_at(database.path(),
                   "has version {}, this program reads up to {}: use a newer "
                   "foregather",
                   *version, kUserVersion);
  if (*version < 1)
    return fail_at(database.path(), "has version {}, expected 1 to {}", *version, kUserVersion);
  if (const Status checked = check_objects(database, *version); !checked)
    return tl::unexpected(checked.error());
  return *version;
}

}  // namespace foregather::store
