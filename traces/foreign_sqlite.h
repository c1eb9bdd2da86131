// SQLite databases of other tools: read, never trusted, never written to.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"

struct sqlite3;
struct sqlite3_stmt;

namespace foregather::traces {

/// Is this the beginning of a SQLite database?
bool is_sqlite(std::string_view head);

struct ForeignTable {
  std::string name;
  std::vector<std::string> columns;  ///< stored ones; generated columns are left out
  bool has(std::string_view column) const;
};

/// The rows of a query, front to back. Must not outlive its database.
class ForeignRows {
 public:
  ForeignRows(ForeignRows&& other) noexcept;
  ForeignRows& operator=(ForeignRows&&) = delete;
  ~ForeignRows();

  /// True: there is a row. False: there are no more. Errors: a damaged file.
  Result<bool> next();
  bool is_null(int column) const;
  /// Stored as an integer; a number kept as a text or a float is none.
  bool is_integer(int column) const;
  std::int64_t integer(int column) const;
  /// Borrowed until the next call of next().
  std::string_view text(int column) const;

 private:
  friend class ForeignDatabase;
  ForeignRows(sqlite3_stmt* handle, const std::string& path) : handle_(handle), path_(path) {}

  sqlite3_stmt* handle_;
  std::string path_;
};

/// One connection, used by one thread.
class ForeignDatabase {
 public:
  /// Opens a file as it lies on the disk and never writes: no journal is rolled back, no lock is
  /// taken, nothing appears beside it. Errors: no SQLite database, one that is cut, that another
  /// process is writing, or that has unfinished changes beside it (-wal, -journal); a damaged
  /// schema. The work over its life is bounded by the size of the file: what takes more is damaged.
  static Result<ForeignDatabase> open(const std::string& path);
  ForeignDatabase(ForeignDatabase&& other) noexcept;
  ForeignDatabase& operator=(ForeignDatabase&&) = delete;
  ~ForeignDatabase();

  /// Real tables by name, none of SQLite's own. Views and virtual tables, which could run anything,
  /// are not among them.
  const std::vector<ForeignTable>& tables() const { return tables_; }
  /// nullptr: there is none of this name.
  const ForeignTable* table(std::string_view name) const;

  /// All rows in the file's order with these columns, in this order; NULL where the table lacks
  /// one.
  Result<ForeignRows> rows(const ForeignTable& table,
                           std::span<const std::string_view> columns) const;
  /// Steps through the rows: SQLite's count(*) cannot be stopped.
  Result<std::int64_t> count(const ForeignTable& table) const;

  const std::string& path() const { return path_; }

 private:
  ForeignDatabase(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  Status harden(Bytes bytes);
  Status list_tables();
  Result<ForeignRows> query(const std::string& sql) const;

  sqlite3* handle_;
  std::string path_;
  std::unique_ptr<std::int64_t> steps_left_ = std::make_unique<std::int64_t>(0);
  std::vector<ForeignTable> tables_;
};

}  // namespace foregather::traces
