#include "core/store/sqlite.h"

#include <sqlite3.h>

#include <exception>
#include <filesystem>
#include <memory>
#include <utility>

#include "core/base/interrupt.h"
#include "core/base/super_journal.h"

namespace foregather::store {
namespace {

struct Site {
  const char* expression;
  const char* file;
  int line;
};

bool is_our_fault(int code) {
  switch (code & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
    case SQLITE_ERROR:
    case SQLITE_TOOBIG: return false;
    default: return true;
  }
}

// A full disk and a foreign file say all; other errors help only with the call that met them.
tl::unexpected<Error> failure(int code, sqlite3* handle, const std::string& path, Site site) {
  const Fault fault = is_our_fault(code) ? Fault::work : Fault::input;
  if ((code & 0xff) == SQLITE_FULL)
    return tl::unexpected(Error{path, "cannot be written: No space left on device", fault});
  if ((code & 0xff) == SQLITE_NOTADB)
    return tl::unexpected(Error{path, "is not a SQLite database, expected a run", fault});
  if ((code & 0xff) == SQLITE_CORRUPT)
    return fail_at(path, "is damaged, or was cut: expected the whole file as it was written");
  if ((code & 0xff) == SQLITE_BUSY)
    return fail_work(path, "is being written by another process: try again when that has ended");
  if ((code & 0xff) == SQLITE_NOMEM) return fail_work(path, "out of memory");
  if ((code & 0xff) == SQLITE_INTERRUPT)
    return fail_at(path, "is damaged: reading it is more work than its size allows");
  const char* reason = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  const std::string_view file = site.file;
  return tl::unexpected(Error{path,
                              fmt::format("{} ({} at {}:{})", reason, site.expression,
                                          file.substr(file.rfind('/') + 1), site.line),
                              fault});
}

Status check_journal(const std::string& path) {
  if (!has_super_journal(path)) return {};
  return fail_at(path,
                 "has a journal beside it that names other files, which a run's never does: it is "
                 "damaged, or not from foregather");
}

// Returns from the calling function unless the call succeeds.
#define FOREGATHER_SQLITE(call, handle, path)                               \
  do {                                                                      \
    if (const int code_ = (call); code_ != SQLITE_OK)                       \
      return failure(code_, handle, path, Site{#call, __FILE__, __LINE__}); \
  } while (false)

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      path_(std::move(other.path_)),
      bind_error_(other.bind_error_) {}

Statement::~Statement() { sqlite3_finalize(handle_); }

void Statement::bind(int at, std::int64_t value) {
  if (const int code = sqlite3_bind_int64(handle_, at, value); code != SQLITE_OK)
    bind_error_ = code;
}

void Statement::bind(int at, std::optional<std::int64_t> value) {
  if (value) return bind(at, *value);
  if (const int code = sqlite3_bind_null(handle_, at); code != SQLITE_OK) bind_error_ = code;
}

void Statement::bind(int at, std::optional<double> value) {
  const int code =
      value ? sqlite3_bind_double(handle_, at, *value) : sqlite3_bind_null(handle_, at);
  if (code != SQLITE_OK) bind_error_ = code;
}

void Statement::bind(int at, std::optional<std::string_view> value) {
  if (value) return bind(at, *value);
  bind(at, std::optional<std::int64_t>());
}

void Statement::bind(int at, std::string_view value) {
  const int code = sqlite3_bind_text64(handle_, at, value.data() == nullptr ? "" : value.data(),
                                       value.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (code != SQLITE_OK) bind_error_ = code;
}

Status Statement::finish_run() {
  sqlite3* database = sqlite3_db_handle(handle_);
  if (bind_error_ != SQLITE_OK)
    return failure(bind_error_, database, path_, Site{"sqlite3_bind", __FILE__, __LINE__});
  if (const int code = sqlite3_step(handle_); code != SQLITE_DONE)
    return failure(code, database, path_, Site{"sqlite3_step(handle_)", __FILE__, __LINE__});
  FOREGATHER_SQLITE(sqlite3_reset(handle_), database, path_);
  return {};
}

Result<bool> Statement::next() {
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW && is_interrupted()) return interrupted_at(path_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return failure(code, sqlite3_db_handle(handle_), path_,
                 Site{"sqlite3_step(handle_)", __FILE__, __LINE__});
}

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_, column); }

std::optional<std::int64_t> Statement::maybe_integer(int column) const {
  if (sqlite3_column_type(handle_, column) == SQLITE_NULL) return std::nullopt;
  return integer(column);
}

std::optional<double> Statement::maybe_real(int column) const {
  if (sqlite3_column_type(handle_, column) == SQLITE_NULL) return std::nullopt;
  return sqlite3_column_double(handle_, column);
}

std::string_view Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  if (text == nullptr) return {};
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

namespace {

// SQLite takes one name for no file.
std::string name_of_file(const std::string& path) {
  return path == ":memory:" ? "./" + path : path;
}

}  // namespace

Result<Database> Database::open_with(const std::string& path, const std::string& shown, int flags) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(handle, shown);
  if (code != SQLITE_OK)
    return failure(code, handle, shown, Site{"sqlite3_open_v2", __FILE__, __LINE__});
  FOREGATHER_SQLITE(sqlite3_extended_result_codes(handle, 1), handle, shown);
  return database;
}

std::int64_t Cells::integer(int column) const { return sqlite3_value_int64(values_[column]); }

std::optional<std::int64_t> Cells::maybe_integer(int column) const {
  if (sqlite3_value_type(values_[column]) == SQLITE_NULL) return std::nullopt;
  return integer(column);
}

std::string_view Cells::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_value_text(values_[column]));
  if (text == nullptr) return {};
  return {text, static_cast<std::size_t>(sqlite3_value_bytes(values_[column]))};
}

Result<Database> Database::create(const std::string& path, const std::string& shown_path) {
  auto database = open_with(path, shown_path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!database) return database;
  const Status set = database->execute(
      "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
      "PRAGMA page_size = 8192;");
  if (!set) return tl::unexpected(set.error());
  return database;
}

Result<Database> Database::open_in_place(const std::string& path) {
  if (const Status checked = check_journal(path); !checked) return tl::unexpected(checked.error());
  auto database = open_with(name_of_file(path), path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!database) return database;
  constexpr int kLongestWait = 2000;  // ms: a process that was killed may still be going
  FOREGATHER_SQLITE(sqlite3_busy_timeout(database->handle_, kLongestWait), database->handle_, path);
  if (const Status hardened = database->harden(); !hardened)
    return tl::unexpected(hardened.error());
  const Status set = database->execute(
      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE; PRAGMA synchronous = NORMAL;"
      "BEGIN EXCLUSIVE; COMMIT;");
  if (!set) return tl::unexpected(set.error());
  return database;
}

Result<Database> Database::create_live(const std::string& path) {
  auto database = open_with(path, path, SQLITE_OPEN_READWRITE);
  if (!database) return database;
  constexpr int kPatience = 10'000;  // ms, while another process reads
  FOREGATHER_SQLITE(sqlite3_busy_timeout(database->handle_, kPatience), database->handle_, path);
  const Status set = database->execute(
      "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = OFF; PRAGMA page_size = 8192;");
  if (!set) return tl::unexpected(set.error());
  return database;
}

Status Database::harden() {
  constexpr int kLongestValue = 256 << 20;
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, kLongestValue);
  sqlite3_limit(handle_, SQLITE_LIMIT_ATTACHED, 0);
  for (const auto& [setting, value] : {std::pair{SQLITE_DBCONFIG_DEFENSIVE, 1},
                                       {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                       {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                                       {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                                       {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0}})
    FOREGATHER_SQLITE(sqlite3_db_config(handle_, setting, value, nullptr), handle_, path_);
  return execute("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;");
}

// A page may be named by many others: a few kilobytes can hold rows without end. Real rows cost
// about a step a byte, and are read a few times.
void Database::bound_work() {
  constexpr std::int64_t kStepsPerByte = 32, kLeastSteps = 50'000'000;
  constexpr int kStepsPerCall = 10'000;
  std::error_code ignored;
  const auto bytes = std::filesystem::file_size(path_, ignored);
  steps_left_ = std::make_unique<std::int64_t>(
      kLeastSteps + (ignored ? 0 : kStepsPerByte * static_cast<std::int64_t>(bytes)));
  const auto count_down = [](void* left) {
    return (*static_cast<std::int64_t*>(left) -= kStepsPerCall) < 0 ? 1 : 0;
  };
  sqlite3_progress_handler(handle_, kStepsPerCall, count_down, steps_left_.get());
}

// A connection that only reads cannot roll back what a killed writer left in its journal.
Status Database::recover(const std::string& path) {
  std::error_code ignored;
  if (const auto left = std::filesystem::file_size(path + "-journal", ignored);
      ignored || left == 0)
    return {};
  if (const Status checked = check_journal(path); !checked) return checked;
  auto database = open_with(path, path, SQLITE_OPEN_READWRITE);
  if (!database) return tl::unexpected(database.error());
  constexpr int kPatience = 1000;  // ms
  FOREGATHER_SQLITE(sqlite3_busy_timeout(database->handle_, kPatience), database->handle_, path);
  if (const Status hardened = database->harden(); !hardened) return hardened;
  const auto read = database->integer("SELECT count(*) FROM (SELECT 1 FROM sqlite_schema LIMIT 1)");
  return read ? Status{} : tl::unexpected(read.error());
}

Result<Database> Database::open(const std::string& path) {
  if (const Status recovered = recover(path); !recovered) return tl::unexpected(recovered.error());
  // A percent-encoded name would be a URI; plain names never are without SQLITE_OPEN_URI.
  auto database = open_with(name_of_file(path), path, SQLITE_OPEN_READONLY);
  if (!database) return database;
  if (const Status hardened = database->harden(); !hardened)
    return tl::unexpected(hardened.error());
  database->bound_work();
  return database;
}

Database::Database(Database&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      path_(std::move(other.path_)),
      steps_left_(std::move(other.steps_left_)) {}

Database::~Database() { sqlite3_close_v2(handle_); }

Status Database::execute(const char* sql) {
  FOREGATHER_SQLITE(sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr), handle_, path_);
  return {};
}

Result<Statement> Database::prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  FOREGATHER_SQLITE(sqlite3_prepare_v2(handle_, sql, -1, &statement, nullptr), handle_, path_);
  return Statement(statement, path_);
}

// Rows go to an aggregate function: it is handed all columns at once, where a statement that steps
// is asked for each.
Status Database::visit(const std::string& columns, const std::string& rows,
                       const std::function<bool(const Cells&)>& visit) {
  struct Visit {
    const std::function<bool(const Cells&)>& each;
    std::exception_ptr thrown = nullptr;
    bool is_interrupted = false, has_ended = false;
  };
  const auto step = [](sqlite3_context* context, int, sqlite3_value** values) {
    Visit& at = *static_cast<Visit*>(sqlite3_user_data(context));
    try {
      at.is_interrupted = is_interrupted();
      if (!at.is_interrupted && at.each(Cells(values))) return;
      at.has_ended = true;
    } catch (...) {
      at.thrown = std::current_exception();
    }
    sqlite3_result_error_code(context, SQLITE_ABORT);
  };
  const auto end = [](sqlite3_context*) {};
  Visit here{visit};
  FOREGATHER_SQLITE(
      sqlite3_create_function_v2(handle_, "visit", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, &here,
                                 nullptr, step, end, nullptr),
      handle_, path_);
  auto statement = prepare(fmt::format("SELECT visit({}) FROM {}", columns, rows).c_str());
  if (!statement) return tl::unexpected(statement.error());
  const auto done = statement->next();
  if (here.thrown) std::rethrow_exception(here.thrown);
  if (here.is_interrupted) return interrupted_at(path_);
  if (here.has_ended || done) return {};
  return tl::unexpected(done.error());
}

Result<std::int64_t> Database::integer(const char* sql) {
  auto statement = prepare(sql);
  if (!statement) return tl::unexpected(statement.error());
  const auto row = statement->next();
  if (!row) return tl::unexpected(row.error());
  if (!*row) return fail_at(path_, "'{}' has no result", sql);
  return statement->integer(0);
}

Result<std::string> Database::serialize() {
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, decltype(&sqlite3_free)> bytes(
      sqlite3_serialize(handle_, "main", &size, 0), &sqlite3_free);
  if (!bytes) return fail_work(path_, "cannot be written: out of memory");
  return std::string(reinterpret_cast<const char*>(bytes.get()), static_cast<std::size_t>(size));
}

Status Database::finish() {
  sqlite3* handle = std::exchange(handle_, nullptr);
  if (const int code = sqlite3_close(handle); code != SQLITE_OK) {
    auto error = failure(code, handle, path_, Site{"sqlite3_close(handle)", __FILE__, __LINE__});
    sqlite3_close_v2(handle);
    return error;
  }
  return {};
}

}  // namespace foregather::store
