// Reads the tables of one run.
#pragma once

#include <fmt/format.h>

#include <string>

#include "core/base/result.h"
#include "core/run/run.h"
#include "core/store/row_reader.h"
#include "core/store/sqlite.h"

namespace foregather::store {

/// What the tables may hold at most: more is damage, not data.
inline constexpr std::size_t kMostRows = 1'000'000'000;
inline constexpr std::int64_t kMostEvents = std::int64_t{1} << 50;

/// Every reference is checked: a damaged database is refused, never followed.
class Loader {
 public:
  /// Run `id` of a database of that version.
  Loader(Database& database, std::int64_t version, std::int64_t id)
      : database_(database), version_(version), id_(id) {}
  Result<run::Run> load();
  Result<run::RunInfo> load_about();

 private:
  // Calls read(row reader, row number) for each row of the run, in the order of `key`.
  template <class Read>
  Status each_row(const char* table, const char* columns, Read&& read, const char* key = "id");
  Status damaged(const char* table, std::size_t row) const {
    return fail_at(database_.path(), "is damaged: row {} of table {}", row, table);
  }

  Status info();
  Status warnings();
  Status inputs();
  Status strings();
  Status classes();
  Status ranks();
  Status streams();
  Status communicators();
  Status steps();
  // loader_ops.cpp
  Status ops();
  Status ops_in_order();
  Status ops_in_parallel(std::size_t count, std::size_t threads);
  run::OpRecord op(CellReader& row, std::size_t number);
  // loader_memory.cpp
  Status bindings();
  Status segments();
  Status memory();
  Status causes();
  Status failures();
  Status inferred_causes();
  // loader_host.cpp
  Status threads();
  Status calls();
  Status launches();
  Status waits();
  Status collectives();
  Status works();
  Status kernel_launches();
  Status state();
  Status check_bounds() const;
  Status check_spans() const;
  StringId string(CellReader& row) { return row.maybe_row<StringId>(run_.strings.size()); }

  Database& database_;
  std::int64_t version_;
  std::int64_t id_;
  run::Run run_;
  bool is_disordered_ = false;  ///< ops are not in the order of their steps
  bool is_recording_ = false;   ///< it was written while it happened: its rows may come in turns
};

template <class Read>
Status Loader::each_row(const char* table, const char* columns, Read&& read, const char* key) {
  std::size_t number = 0;
  bool is_sound = true;
  const Status visited =
      database_.visit(columns, fmt::format("{} WHERE run = {} ORDER BY {}", table, id_, key),
                      [&](const Cells& cells) {
                        CellReader row(cells);
                        is_sound = number < kMostRows;
                        if (is_sound) read(row, number);
                        is_sound = is_sound && row.ok();
                        number += is_sound ? 1 : 0;
                        return is_sound;
                      });
  return is_sound ? visited : damaged(table, number);
}

}  // namespace foregather::store
