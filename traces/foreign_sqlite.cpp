#include "traces/foreign_sqlite.h"

#include <sqlite3.h>

#include <algorithm>
#include <utility>

#include "core/base/interrupt.h"
#include "traces/sqlite_header.h"

namespace foregather::traces {
namespace {

constexpr Bytes kLongestCell = 256 * MiB;
// A page may be named by many others: a few kilobytes can hold rows without end. Real rows cost
// about one step of SQLite's machine a byte.
constexpr Bytes kStepsPerByte = 4, kLeastSteps = 4'000'000;
constexpr int kStepsPerCall = 10'000;
constexpr std::size_t kMostTables = 10000;

tl::unexpected<Error> failure(int code, sqlite3* handle, const std::string& path) {
  const int primary = code & 0xff;
  const char* const reason = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  if (primary == SQLITE_NOMEM) return fail_work(path, "cannot be read: {}", reason);
  if (primary == SQLITE_INTERRUPT)
    return fail_at(path, "is damaged: it has more rows than its size allows");
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB)
    return fail_at(path, "is damaged: {} (SQLite)", reason);
  return fail_at(path, "cannot be read: {} (SQLite)", reason);
}

std::string sql_name(std::string_view name) {
  std::string sql_name = "\"";
  for (const char c : name) sql_name += c == '"' ? std::string("\"\"") : std::string(1, c);
  return sql_name + '"';
}

// immutable: SQLite must not look for, roll back or make files beside it.
std::string uri_of(const std::string& path) {
  std::string uri = path.starts_with('/') ? "file://" : "file:";
  for (const char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '/' || c == '.' || c == '_' || c == '-';
    uri += is_plain ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  return uri + "?mode=ro&immutable=1";
}

}  // namespace

bool ForeignTable::has(std::string_view column) const {
  return std::find(columns.begin(), columns.end(), column) != columns.end();
}

ForeignRows::ForeignRows(ForeignRows&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}

ForeignRows::~ForeignRows() { sqlite3_finalize(handle_); }

Result<bool> ForeignRows::next() {
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW && is_interrupted()) return interrupted_at(path_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return failure(code, sqlite3_db_handle(handle_), path_);
}

bool ForeignRows::is_null(int column) const {
  return sqlite3_column_type(handle_, column) == SQLITE_NULL;
}

bool ForeignRows::is_integer(int column) const {
  return sqlite3_column_type(handle_, column) == SQLITE_INTEGER;
}

std::int64_t ForeignRows::integer(int column) const {
  return sqlite3_column_int64(handle_, column);
}

std::string_view ForeignRows::text(int column) const {
  const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  if (text == nullptr) return {};
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

Result<ForeignDatabase> ForeignDatabase::open(const std::string& path) {
  const auto bytes = check_sqlite_file(path);
  if (!bytes) return tl::unexpected(bytes.error());
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(uri_of(path).c_str(), &handle,
                      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  ForeignDatabase database(handle, path);
  if (code != SQLITE_OK) return failure(code, handle, path);
  if (const Status status = database.harden(*bytes); !status) return tl::unexpected(status.error());
  if (const Status status = database.list_tables(); !status) return tl::unexpected(status.error());
  return database;
}

ForeignDatabase::ForeignDatabase(ForeignDatabase&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      path_(std::move(other.path_)),
      steps_left_(std::move(other.steps_left_)),
      tables_(std::move(other.tables_)) {}

ForeignDatabase::~ForeignDatabase() { sqlite3_close_v2(handle_); }

Status ForeignDatabase::harden(Bytes bytes) {
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, static_cast<int>(std::min(kLongestCell, bytes)));
  *steps_left_ = kLeastSteps + kStepsPerByte * bytes;
  const auto count_down = [](void* left) {
    return (*static_cast<std::int64_t*>(left) -= kStepsPerCall) < 0 ? 1 : 0;
  };
  sqlite3_progress_handler(handle_, kStepsPerCall, count_down, steps_left_.get());
  sqlite3_limit(handle_, SQLITE_LIMIT_ATTACHED, 0);
  constexpr std::pair<int, int> kSettings[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                                               {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                               {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                                               {SQLITE_DBCONFIG_ENABLE_VIEW, 0}};
  for (const auto& [setting, value] : kSettings)
    if (const int code = sqlite3_db_config(handle_, setting, value, nullptr); code != SQLITE_OK)
      return failure(code, handle_, path_);
  const int code = sqlite3_exec(
      handle_, "PRAGMA query_only = ON; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;",
      nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return failure(code, handle_, path_);
  return {};
}

// A virtual table has no root page.
Status ForeignDatabase::list_tables() {
  auto names = query(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 "
      "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name");
  if (!names) return tl::unexpected(names.error());
  for (;;) {
    const auto row = names->next();
    if (!row) return tl::unexpected(row.error());
    if (!*row) break;
    if (tables_.size() == kMostTables)
      return fail_at(path_, "has more than {} tables", kMostTables);
    tables_.push_back({std::string(names->text(0)), {}});
  }
  for (ForeignTable& table : tables_) {
    auto columns = query("PRAGMA table_info(" + sql_name(table.name) + ")");
    if (!columns) return tl::unexpected(columns.error());
    for (;;) {
      const auto row = columns->next();
      if (!row) return tl::unexpected(row.error());
      if (!*row) break;
      table.columns.emplace_back(columns->text(1));
    }
  }
  return {};
}

const ForeignTable* ForeignDatabase::table(std::string_view name) const {
  const auto found = std::find_if(tables_.begin(), tables_.end(),
                                  [&](const ForeignTable& table) { return table.name == name; });
  return found == tables_.end() ? nullptr : &*found;
}

Result<ForeignRows> ForeignDatabase::query(const std::string& sql) const {
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v2(handle_, sql.c_str(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) return failure(code, handle_, path_);
  return ForeignRows(statement, path_);
}

// NOT INDEXED: an index could leave rows out.
Result<ForeignRows> ForeignDatabase::rows(const ForeignTable& table,
                                          std::span<const std::string_view> columns) const {
  std::string sql = "SELECT ";
  for (const std::string_view column : columns) {
    if (sql.back() != ' ') sql += ',';
    sql += table.has(column) ? sql_name(column) : "NULL";
  }
  return query(sql + " FROM main." + sql_name(table.name) + " NOT INDEXED");
}

Result<std::int64_t> ForeignDatabase::count(const ForeignTable& table) const {
  auto rows = query("SELECT NULL FROM main." + sql_name(table.name) + " NOT INDEXED");
  if (!rows) return tl::unexpected(rows.error());
  for (std::int64_t count = 0;; ++count) {
    const auto row = rows->next();
    if (!row) return tl::unexpected(row.error());
    if (!*row) return count;
  }
}

}  // namespace foregather::traces
