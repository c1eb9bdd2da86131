// The SQLite file that a recorded process writes, and how a killed one is finished.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profiler/raw_tables.h"

struct sqlite3;
struct sqlite3_stmt;

namespace foregather::profiler {

using Cell = std::optional<std::int64_t>;  ///< empty: NULL

/// Rows are staged by table and go in by one statement for thousands (a virtual table reads the
/// stage), twice as fast as a statement a row. Nothing is synced to the disk, but all that was
/// committed survives a kill of the process: the journal is a write-ahead log that the next who
/// opens the file replays. Used by one thread. After a failed write (disk full) rows are
/// refused and counted; nothing else fails.
class RawFile {
 public:
  /// Makes a file that does not exist, for its owner alone. Null: it could not be made, `error`
  /// says why. `epoch` is time 0, in nanoseconds of CLOCK_REALTIME.
  static std::unique_ptr<RawFile> create(const std::string& path, std::int64_t epoch,
                                         std::string& error);
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  /// Closes without finish(): as a kill would leave it.
  ~RawFile();

  /// Appends a row: one cell a column.
  void add(RawTable table, std::initializer_list<Cell> cells) {
    add(table, cells.begin(), cells.size());
  }
  void add(RawTable table, const Cell* cells, std::size_t count);
  /// The id of a text. Few distinct texts are remembered (4 MiB), so that one text may get
  /// several ids.
  std::int64_t text(std::string_view text);
  /// Ids of a kernel's mangled name as it is, demangled, and short.
  struct KernelName {
    std::int64_t mangled = 0, demangled = 0, brief = 0;
  };
  KernelName kernel_name(const char* mangled);

  struct Blob {
    std::string_view bytes;
  };
  /// Runs a statement, for the rows of the other tables. Values: integers, Cells, texts, Blobs.
  template <class... Values>
  void run(const char* sql, const Values&... values) {
    if (sqlite3_stmt* const statement = start(sql); statement != nullptr) {
      int at = 0;
      (bind(statement, ++at, values), ...);
      step(statement);
    }
  }
  /// What was lost, by reason; written by the next commit.
  void count(std::string_view reason, std::int64_t records = 1);
  /// What lies outside the time that was asked for: no loss.
  void leave_out(std::int64_t records = 1);

  /// All rows so far, in one transaction. False: the disk refuses.
  bool commit();
  /// Commits, leaves one plain file, and closes it. Nothing may be added afterwards.
  bool finish();
  /// Why the first write failed, where one did.
  std::string failure() const;

  /// Committed.
  std::int64_t rows() const { return rows_; }
  /// Lost, for whatever reason.
  std::int64_t dropped() const { return dropped_; }
  /// Of the database, committed or not.
  std::int64_t bytes();
  std::int64_t epoch() const { return epoch_; }

 private:
  explicit RawFile(std::int64_t epoch) : epoch_(epoch) {}
  friend struct Stage;
  struct Rows {
    std::vector<std::int64_t> cells;   ///< row by row
    std::vector<std::uint32_t> nulls;  ///< by row, a bit a column
    std::size_t width = 0;
    sqlite3_stmt* insert = nullptr;
  };
  static constexpr std::size_t kStagedRows = 2048;

  std::string open(const std::string& path);  // what failed; empty: nothing
  void write(Rows& rows);
  sqlite3_stmt* start(const char* sql);  // within a transaction
  sqlite3_stmt* prepared(const char* sql);
  void step(sqlite3_stmt* statement);
  void bind(sqlite3_stmt* statement, int at, std::int64_t value);
  void bind(sqlite3_stmt* statement, int at, const Cell& value);
  void bind(sqlite3_stmt* statement, int at, std::string_view value);
  void bind(sqlite3_stmt* statement, int at, Blob value);
  void begin();
  void close();
  void fail();  // with the error at hand
  void forget_texts();

  sqlite3* database_ = nullptr;
  std::int64_t epoch_;
  std::array<Rows, kRawTables> stages_;
  const Rows* staged_ = nullptr;  // what the virtual table reads
  std::map<std::string_view, sqlite3_stmt*> statements_;
  bool in_transaction_ = false, failed_ = false;
  int failure_ = 0;  // SQLite's code of the first write that failed
  std::int64_t rows_ = 0, dropped_ = 0, uncommitted_ = 0;
  std::map<std::string, std::int64_t, std::less<>> counts_;
  std::size_t text_bytes_ = 0;
  std::int64_t final_bytes_ = 0;
  std::int64_t next_text_ = 0;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> texts_;
  std::unordered_map<std::string, KernelName, Hash, std::equal_to<>> kernels_;
};

/// Is this the beginning of a raw recording?
bool is_raw_recording(std::string_view head);

/// Makes one plain file of a recording whose writer was killed (what the journal beside it holds
/// goes in); one that is finished is left as it is. What went wrong; empty: nothing.
std::string recover(const std::string& path);

/// Does a recording say whose it is? One whose writer was killed in its first moments does not, and
/// holds nothing. Recovers it first.
bool has_begun(const std::string& path);

/// "add_kernel" of "void at::native::add_kernel<float>(int)".
std::string_view brief_name(std::string_view demangled);

}  // namespace foregather::profiler
