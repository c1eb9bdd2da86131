#include "profiler/raw_file.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/super_journal.h"

namespace foregather::profiler {

// The virtual table `staged`: its rows are those of RawFile::staged_.
struct Stage {
  sqlite3_vtab base{};
  RawFile* file = nullptr;

  struct Cursor {
    sqlite3_vtab_cursor base{};
    std::size_t row = 0;
  };

  static const RawFile::Rows& rows(sqlite3_vtab_cursor* cursor) {
    return *reinterpret_cast<Stage*>(cursor->pVtab)->file->staged_;
  }
  static int connect(sqlite3* database, void* file, int, const char* const*, sqlite3_vtab** out,
                     char**) {
    std::string columns = "CREATE TABLE staged (c0";
    for (std::size_t i = 1; i < kMostColumns; ++i) columns += ",c" + std::to_string(i);
    if (const int code = sqlite3_declare_vtab(database, (columns + ")").c_str()); code != SQLITE_OK)
      return code;
    auto* const stage = new Stage;
    stage->file = static_cast<RawFile*>(file);
    *out = &stage->base;
    return SQLITE_OK;
  }
  static int disconnect(sqlite3_vtab* table) {
    delete reinterpret_cast<Stage*>(table);
    return SQLITE_OK;
  }
  static int best_index(sqlite3_vtab*, sqlite3_index_info*) { return SQLITE_OK; }
  static int open(sqlite3_vtab*, sqlite3_vtab_cursor** out) {
    *out = &(new Cursor)->base;
    return SQLITE_OK;
  }
  static int close(sqlite3_vtab_cursor* cursor) {
    delete reinterpret_cast<Cursor*>(cursor);
    return SQLITE_OK;
  }
  static int filter(sqlite3_vtab_cursor* cursor, int, const char*, int, sqlite3_value**) {
    reinterpret_cast<Cursor*>(cursor)->row = 0;
    return SQLITE_OK;
  }
  static int next(sqlite3_vtab_cursor* cursor) {
    ++reinterpret_cast<Cursor*>(cursor)->row;
    return SQLITE_OK;
  }
  static int eof(sqlite3_vtab_cursor* cursor) {
    return reinterpret_cast<Cursor*>(cursor)->row >= rows(cursor).nulls.size() ? 1 : 0;
  }
  static int column(sqlite3_vtab_cursor* cursor, sqlite3_context* context, int at) {
    const RawFile::Rows& all = rows(cursor);
    const std::size_t row = reinterpret_cast<Cursor*>(cursor)->row;
    if ((all.nulls[row] >> static_cast<unsigned>(at) & 1U) == 0)
      sqlite3_result_int64(context, all.cells[row * all.width + static_cast<std::size_t>(at)]);
    return SQLITE_OK;
  }
  static int rowid(sqlite3_vtab_cursor* cursor, sqlite3_int64* out) {
    *out = static_cast<sqlite3_int64>(reinterpret_cast<Cursor*>(cursor)->row);
    return SQLITE_OK;
  }
};

namespace {

constexpr std::size_t kMostTextBytes = std::size_t{4} << 20;
// The lock goes with the next read; a plain journal would outlive it.
constexpr const char* kMergeJournal =
    "PRAGMA journal_mode = DELETE; PRAGMA locking_mode = NORMAL; SELECT count(*) FROM "
    "sqlite_master;";
constexpr std::size_t kApplicationIdAt = 68;

const sqlite3_module& stage_module() {
  static const sqlite3_module module = [] {
    sqlite3_module made{};
    made.xCreate = made.xConnect = Stage::connect;
    made.xDisconnect = made.xDestroy = Stage::disconnect;
    made.xBestIndex = Stage::best_index;
    made.xOpen = Stage::open;
    made.xClose = Stage::close;
    made.xFilter = Stage::filter;
    made.xNext = Stage::next;
    made.xEof = Stage::eof;
    made.xColumn = Stage::column;
    made.xRowid = Stage::rowid;
    return made;
  }();
  return module;
}

// Links on the way are the user's: SQLite follows none where it is not to follow the last.
std::string in_real_folder(const std::string& path) {
  const std::filesystem::path given = path;
  std::error_code unknown;
  const auto folder = std::filesystem::canonical(
      given.has_parent_path() ? given.parent_path() : std::filesystem::path("."), unknown);
  return unknown ? path : (folder / given.filename()).string();
}

std::string schema() {
  std::string sql;
  for (std::size_t i = 0; i < kRawTables; ++i) {
    const RawTableSpec& table = spec(static_cast<RawTable>(i));
    sql += "CREATE TABLE " + std::string(table.name) + " (" + std::string(table.columns) + ");";
  }
  return sql + kRawSchema;
}

}  // namespace

std::unique_ptr<RawFile> RawFile::create(const std::string& path, std::int64_t epoch,
                                         std::string& error) {
  const int descriptor =
      ::open(path.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_RDWR, 0600);
  if (descriptor < 0) {
    error = std::strerror(errno);
    return nullptr;
  }
  ::close(descriptor);
  std::unique_ptr<RawFile> file(new RawFile(epoch));
  error = file->open(path);
  if (!error.empty())
    file->fail();
  else if (!file->commit())
    error = file->failure();
  if (error.empty()) return file;
  if (file->failure_ == SQLITE_FULL) error = file->failure();
  file.reset();
  ::unlink(path.c_str());
  return nullptr;
}

// Exclusive: no shared memory beside the file, which networked file systems lack.
std::string RawFile::open(const std::string& path) {
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
  if (sqlite3_open_v2(in_real_folder(path).c_str(), &database_, kFlags, nullptr) != SQLITE_OK)
    return sqlite3_errmsg(database_);
  // The header is to say whose file it is before there is a log.
  const std::string sql =
      "PRAGMA page_size = 16384; PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = OFF;"
      "PRAGMA application_id = " +
      std::to_string(kRawApplicationId) + "; PRAGMA user_version = " + std::to_string(kRawVersion) +
      "; PRAGMA journal_mode = WAL; PRAGMA cache_size = -4096; PRAGMA temp_store = MEMORY;" +
      // The tables come together with when the recording began: no kill leaves one alone.
      "BEGIN;" + schema();
  if (sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK ||
      sqlite3_create_module(database_, "staged_rows", &stage_module(), this) != SQLITE_OK ||
      sqlite3_exec(database_, "CREATE VIRTUAL TABLE temp.staged USING staged_rows", nullptr,
                   nullptr, nullptr) != SQLITE_OK)
    return sqlite3_errmsg(database_);
  in_transaction_ = true;
  for (std::size_t i = 0; i < kRawTables; ++i) {
    const RawTableSpec& table = spec(static_cast<RawTable>(i));
    std::string insert = "INSERT INTO " + std::string(table.name) + " SELECT c0";
    for (std::size_t c = 1; c < table.width; ++c) insert += ",c" + std::to_string(c);
    insert += " FROM temp.staged";
    stages_[i].width = table.width;
    if (sqlite3_prepare_v3(database_, insert.c_str(), -1, SQLITE_PREPARE_PERSISTENT,
                           &stages_[i].insert, nullptr) != SQLITE_OK)
      return sqlite3_errmsg(database_);
  }
  run("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, NULL, NULL)", epoch_);
  run("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.25.0'), "
      "('EXPORT_PRODUCT_VERSION', 'foregather')");
  return {};
}

RawFile::~RawFile() { close(); }

void RawFile::close() {
  for (Rows& rows : stages_) sqlite3_finalize(std::exchange(rows.insert, nullptr));
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  statements_.clear();
  sqlite3_close_v2(std::exchange(database_, nullptr));
  failed_ = true;
}

std::string RawFile::failure() const {
  return failure_ == SQLITE_FULL ? std::strerror(ENOSPC) : sqlite3_errstr(failure_);
}

void RawFile::fail() {
  if (!failed_) failure_ = sqlite3_errcode(database_);
  failed_ = true;
}

void RawFile::add(RawTable table, const Cell* cells, std::size_t count) {
  Rows& rows = stages_[static_cast<std::size_t>(table)];
  std::uint32_t nulls = 0;
  for (std::size_t i = 0; i < rows.width; ++i) {
    const bool is_null = i >= count || !cells[i].has_value();
    nulls |= static_cast<std::uint32_t>(is_null) << i;
    rows.cells.push_back(is_null ? 0 : *cells[i]);
  }
  rows.nulls.push_back(nulls);
  if (rows.nulls.size() >= kStagedRows) write(rows);
}

void RawFile::begin() {
  if (in_transaction_ || failed_) return;
  in_transaction_ = sqlite3_exec(database_, "BEGIN", nullptr, nullptr, nullptr) == SQLITE_OK;
}

void RawFile::write(Rows& rows) {
  if (rows.nulls.empty()) return;
  const auto count = static_cast<std::int64_t>(rows.nulls.size());
  begin();
  staged_ = &rows;
  if (!failed_ && sqlite3_step(rows.insert) != SQLITE_DONE) fail();
  sqlite3_reset(rows.insert);
  (failed_ ? dropped_ : uncommitted_) += count;
  rows.cells.clear();
  rows.nulls.clear();
}

std::int64_t RawFile::text(std::string_view text) {
  const auto known = texts_.find(text);
  if (known != texts_.end()) return known->second;
  if (text_bytes_ > kMostTextBytes) forget_texts();
  text_bytes_ += 2 * text.size() + 64;
  texts_.emplace(text, ++next_text_);
  run("INSERT INTO StringIds VALUES (?, ?)", next_text_, text);
  return next_text_;
}

void RawFile::forget_texts() {
  texts_.clear();
  kernels_.clear();
  text_bytes_ = 0;
}

RawFile::KernelName RawFile::kernel_name(const char* mangled) {
  const std::string_view name = mangled == nullptr ? "" : mangled;
  if (const auto known = kernels_.find(name); known != kernels_.end()) return known->second;
  int status = 0;
  char* const plain = abi::__cxa_demangle(std::string(name).c_str(), nullptr, nullptr, &status);
  const std::string demangled = plain != nullptr && status == 0 ? plain : std::string(name);
  std::free(plain);
  const KernelName ids{text(name), text(demangled), text(brief_name(demangled))};
  text_bytes_ += name.size() + 64;
  kernels_.emplace(name, ids);
  return ids;
}

sqlite3_stmt* RawFile::start(const char* sql) {
  begin();
  return prepared(sql);
}

sqlite3_stmt* RawFile::prepared(const char* sql) {
  if (failed_) return nullptr;
  sqlite3_stmt*& statement = statements_[sql];
  if (statement == nullptr && sqlite3_prepare_v3(database_, sql, -1, SQLITE_PREPARE_PERSISTENT,
                                                 &statement, nullptr) != SQLITE_OK)
    fail();
  return statement;
}

void RawFile::step(sqlite3_stmt* statement) {
  if (sqlite3_step(statement) != SQLITE_DONE) fail();
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
}

void RawFile::bind(sqlite3_stmt* statement, int at, std::int64_t value) {
  sqlite3_bind_int64(statement, at, value);
}
void RawFile::bind(sqlite3_stmt* statement, int at, const Cell& value) {
  if (value) sqlite3_bind_int64(statement, at, *value);
}
void RawFile::bind(sqlite3_stmt* statement, int at, std::string_view value) {
  sqlite3_bind_text64(statement, at, value.data() == nullptr ? "" : value.data(), value.size(),
                      SQLITE_STATIC, SQLITE_UTF8);
}
void RawFile::bind(sqlite3_stmt* statement, int at, Blob value) {
  sqlite3_bind_blob64(statement, at, value.bytes.data(), value.bytes.size(), SQLITE_STATIC);
}

void RawFile::count(std::string_view reason, std::int64_t records) {
  if (records <= 0) return;
  const auto known = counts_.find(reason);
  (known != counts_.end() ? known->second : counts_[std::string(reason)]) += records;
  dropped_ += records;
}

void RawFile::leave_out(std::int64_t records) {
  count("outside_window", records);
  dropped_ -= records;
}

bool RawFile::commit() {
  for (Rows& rows : stages_) write(rows);
  for (const auto& [reason, records] : counts_)
    run("INSERT INTO FOREGATHER_COUNT VALUES (?, ?) "
        "ON CONFLICT (reason) DO UPDATE SET records = excluded.records",
        std::string_view(reason), records);
  if (!in_transaction_) return !failed_;
  in_transaction_ = false;
  if (!failed_ && sqlite3_exec(database_, "COMMIT", nullptr, nullptr, nullptr) != SQLITE_OK) fail();
  if (failed_) sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
  (failed_ ? dropped_ : rows_) += std::exchange(uncommitted_, 0);
  return !failed_;
}

bool RawFile::finish() {
  commit();
  final_bytes_ = bytes();
  if (sqlite3_exec(database_, kMergeJournal, nullptr, nullptr, nullptr) != SQLITE_OK) fail();
  const bool written = !failed_;
  close();
  return written;
}

std::int64_t RawFile::bytes() {
  std::int64_t pages = 0;
  if (database_ == nullptr) return final_bytes_;
  sqlite3_stmt* const statement = prepared("PRAGMA page_count");
  if (statement == nullptr) return 0;
  if (sqlite3_step(statement) == SQLITE_ROW) pages = sqlite3_column_int64(statement, 0);
  sqlite3_reset(statement);
  return pages * 16384;
}

bool is_raw_recording(std::string_view head) {
  constexpr std::string_view kMagic{"SQLite format 3\0", 16};
  if (!head.starts_with(kMagic) || head.size() < kApplicationIdAt + 4) return false;
  std::uint32_t id = 0;
  for (std::size_t i = 0; i < 4; ++i)
    id = id << 8U | static_cast<unsigned char>(head[kApplicationIdAt + i]);
  return id == static_cast<std::uint32_t>(kRawApplicationId);
}

std::string recover(const std::string& path) {
  if (::access((path + "-wal").c_str(), F_OK) != 0) return {};
  if (has_super_journal(path)) return "the journal beside it names other files";
  sqlite3* database = nullptr;
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
  int code = sqlite3_open_v2(in_real_folder(path).c_str(), &database, kFlags, nullptr);
  if (code == SQLITE_OK) code = sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  if (code == SQLITE_OK)
    code = sqlite3_exec(database,
                        "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"
                        "PRAGMA locking_mode = EXCLUSIVE;",
                        nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) code = sqlite3_exec(database, kMergeJournal, nullptr, nullptr, nullptr);
  std::string error = code == SQLITE_OK ? "" : sqlite3_errmsg(database);
  sqlite3_close_v2(database);
  if (error.empty() && ::access((path + "-wal").c_str(), F_OK) == 0)
    error = "its journal could not be merged";
  return error;
}

bool has_begun(const std::string& path) {
  if (!recover(path).empty()) return true;  // what is wrong with it is said by who reads it
  sqlite3* database = nullptr;
  sqlite3_stmt* statement = nullptr;
  const bool is_open =
      sqlite3_open_v2(in_real_folder(path).c_str(), &database,
                      SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
                      nullptr) == SQLITE_OK;
  const bool has = is_open &&
                   sqlite3_prepare_v2(database, "SELECT 1 FROM FOREGATHER_PROCESS", -1, &statement,
                                      nullptr) == SQLITE_OK &&
                   sqlite3_step(statement) == SQLITE_ROW;
  sqlite3_finalize(statement);
  sqlite3_close_v2(database);
  return has;
}

// The name ends where its own template arguments or parameters begin.
std::string_view brief_name(std::string_view demangled) {
  constexpr std::string_view kUnnamed = "(anonymous namespace)";
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < demangled.size(); ++i) {
    const char c = demangled[i];
    if (depth == 0 && demangled.substr(i).starts_with(kUnnamed)) {
      i += kUnnamed.size() - 1;
    } else if (c == '<') {
      ++depth;
    } else if (c == '>') {
      --depth;
    } else if (depth == 0 && (c == ':' || c == ' ')) {
      begin = i + 1;
    } else if (depth == 0 && c == '(') {
      demangled = demangled.substr(0, i);
    }
  }
  demangled.remove_prefix(std::min(begin, demangled.size()));
  const std::string_view brief = demangled.substr(0, demangled.find('<'));
  return brief.empty() ? demangled : brief;
}

}  // namespace foregather::profiler
