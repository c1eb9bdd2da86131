// The only wrapper around the SQLite C API. Each failure names the call, file and line.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

struct sqlite3;
struct sqlite3_stmt;
struct sqlite3_value;

namespace foregather::store {

class Database;

/// A prepared statement. Must not outlive its database.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  /// Runs the statement with these parameters, for statements without rows. Parameters: integers,
  /// numbers, texts (borrowed until the call returns), std::nullopt for NULL.
  template <class... Values>
  Status run(const Values&... values) {
    int at = 0;
    (bind(++at, values), ...);
    return finish_run();
  }
  /// Starts a query with one integer parameter.
  void start(std::int64_t parameter) { bind(1, parameter); }
  /// True: there is a row. False: there are no more.
  Result<bool> next();

  std::int64_t integer(int column) const;
  std::optional<std::int64_t> maybe_integer(int column) const;
  std::optional<double> maybe_real(int column) const;
  /// Borrowed until the next call of next().
  std::string_view text(int column) const;

 private:
  friend class Database;
  Statement(sqlite3_stmt* handle, const std::string& path) : handle_(handle), path_(path) {}
  void bind(int at, std::int64_t value);
  void bind(int at, std::optional<std::int64_t> value);
  void bind(int at, std::optional<double> value);
  void bind(int at, std::string_view value);
  void bind(int at, std::optional<std::string_view> value);
  Status finish_run();

  sqlite3_stmt* handle_;
  std::string path_;
  int bind_error_ = 0;
};

/// The columns of a row that Database::visit() is at.
class Cells {
 public:
  explicit Cells(sqlite3_value* const* values) : values_(values) {}
  std::int64_t integer(int column) const;
  std::optional<std::int64_t> maybe_integer(int column) const;
  std::string_view text(int column) const;

 private:
  sqlite3_value* const* values_;
};

/// One connection, used by one thread.
class Database {
 public:
  /// An empty database for writing: no journal, no synchronisation. The file must exist or be
  /// creatable; ":memory:" keeps it in memory. `shown_path` is the path of error messages.
  static Result<Database> create(const std::string& path, const std::string& shown_path);
  /// A database for writing that keeps what was committed when its process is killed. The file is
  /// created if there is none, and hardened as by open(). Another process that writes it is a work
  /// error after two seconds.
  static Result<Database> open_in_place(const std::string& path);
  /// An empty file for writing, which others may read meanwhile: each transaction is whole or not
  /// there, whenever the process is killed (not the machine).
  static Result<Database> create_live(const std::string& path);
  /// An existing database for reading, hardened against hostile content: no triggers, views,
  /// extensions, attached files, functions in a schema; values of at most 256 MiB; work over its
  /// life bounded by the size of the file, beyond which it is damaged. A transaction that was cut
  /// short is rolled back first, unless its journal names other files.
  static Result<Database> open(const std::string& path);
  Database(Database&& other) noexcept;
  Database& operator=(Database&&) = delete;
  ~Database();

  Status execute(const char* sql);
  Result<Statement> prepare(const char* sql);
  /// Calls visit(cells) for each row of "SELECT columns FROM rows", until it returns false. Faster
  /// than a Statement that steps there (gui_bench --open). Calls do not nest.
  Status visit(const std::string& columns, const std::string& rows,
               const std::function<bool(const Cells&)>& visit);
  /// The result of a query that yields one integer.
  Result<std::int64_t> integer(const char* sql);
  /// The whole database as the bytes of its file.
  Result<std::string> serialize();
  /// Closes; errors that the destructor would have to swallow. All statements must be gone.
  Status finish();

  const std::string& path() const { return path_; }

 private:
  Database(sqlite3* handle, const std::string& path) : handle_(handle), path_(path) {}
  static Status recover(const std::string& path);
  Status harden();
  void bound_work();
  static Result<Database> open_with(const std::string& path, const std::string& shown, int flags);

  sqlite3* handle_;
  std::string path_;
  std::unique_ptr<std::int64_t> steps_left_;  // of SQLite's machine
};

}  // namespace foregather::store
