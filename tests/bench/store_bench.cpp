// Rows a second into and out of a run's database, beside a statement a row into the same table, and
// beside what SQLite's own .import makes of the same rows as CSV. Times are of the processor: this
// process's, and its children's.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/run/run.h"
#include "core/store/reader.h"
#include "core/store/writer.h"

namespace {

using namespace foregather;

constexpr std::int64_t kOps = 500'000;
constexpr int kColumns = 25;  // of table op

/// A file of the bench that goes away with it.
class Place {
 public:
  explicit Place(const char* name)
      : path_((std::filesystem::temp_directory_path() /
               fmt::format("foregather-bench-{}-{}", ::getpid(), name))
                  .string()) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() { remove(); }
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

run::Run run_of_ops() {
  run::Run run;
  run.about.name = "bench";
  const auto rank = run.add(run::ClassInfo{run.text("all"), {0}});
  const auto stream = run.add(run::StreamInfo{rank, run.text("compute"), 0});
  run::StepInfo step;
  step.rank_class = rank;
  step.kind = run::StepKind::steady;
  step.end = kOps * 10'000;
  run::OpRecord op;
  op.step = run.add(step);
  op.stream = stream;
  op.source = run.text("bench");
  std::vector<StringId> scopes;
  for (int i = 0; i < 80; ++i) scopes.push_back(run.text(fmt::format("layers.{}.attn", i)));
  for (std::int64_t i = 0; i < kOps; ++i) {
    op.scope = scopes[static_cast<std::size_t>(i / 100) % scopes.size()];
    op.ordinal = static_cast<std::uint32_t>(i);
    op.start = op.transfer = i * 10'000 + i % 997;
    op.end = op.start + 2'000 + i * 31 % 7'000;
    op.issued = op.start - 500;
    op.flops = i * 1'000'003;
    run.add(op);
  }
  return run;
}

double processor_seconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    ::getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime})
      seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  }
  return seconds;
}

// One iteration is `prepare`, not timed, then `work`; false: it failed.
void measure(benchmark::State& state, const std::function<void()>& prepare,
             const std::function<bool()>& work) {
  for (auto _ : state) {
    prepare();
    const double begin = processor_seconds();
    if (!work()) return state.SkipWithError("failed");
    state.SetIterationTime(processor_seconds() - begin);
  }
  state.SetItemsProcessed(state.iterations() * kOps);
}

bool write_run(const run::Run& run, const std::string& path) {
  auto writer = store::RunWriter::create(path);
  return writer && writer->write(run) && writer->finish();
}

void store_write(benchmark::State& state) {
  const run::Run run = run_of_ops();
  const Place place("write.db");
  measure(
      state, [&] { place.remove(); }, [&] { return write_run(run, place.path()); });
}
BENCHMARK(store_write)->Unit(benchmark::kMillisecond)->UseManualTime();

void store_read(benchmark::State& state) {
  const Place place("read.db");
  if (!write_run(run_of_ops(), place.path())) return state.SkipWithError("cannot write");
  measure(
      state, [] {},
      [&] {
        const auto run = store::read_run(place.path());
        return run && run->ops.size() == static_cast<std::size_t>(kOps);
      });
}
BENCHMARK(store_read)->Unit(benchmark::kMillisecond)->UseManualTime();

class Sqlite {
 public:
  explicit Sqlite(const std::string& path) { ::sqlite3_open(path.c_str(), &handle_); }
  Sqlite(const Sqlite&) = delete;
  Sqlite& operator=(const Sqlite&) = delete;
  ~Sqlite() { ::sqlite3_close(handle_); }
  bool execute(const std::string& sql) {
    return ::sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  }
  sqlite3_stmt* prepare(const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    ::sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr);
    return statement;
  }

 private:
  sqlite3* handle_ = nullptr;
};

/// What the program wrote: the cells of its table op, and how that table is declared.
struct OpTable {
  std::string create;
  std::vector<std::int64_t> cells;
  std::vector<bool> is_null;
};

const OpTable& op_table() {
  static const OpTable table = [] {
    OpTable made;
    const Place place("source.db");
    if (!write_run(run_of_ops(), place.path())) return made;
    Sqlite database(place.path());
    sqlite3_stmt* const schema =
        database.prepare("SELECT sql FROM sqlite_schema WHERE name = 'op'");
    if (::sqlite3_step(schema) == SQLITE_ROW)
      made.create = reinterpret_cast<const char*>(::sqlite3_column_text(schema, 0));
    ::sqlite3_finalize(schema);
    sqlite3_stmt* const rows = database.prepare("SELECT * FROM op");
    if (::sqlite3_column_count(rows) != kColumns) std::abort();
    while (::sqlite3_step(rows) == SQLITE_ROW)
      for (int c = 0; c < kColumns; ++c) {
        made.cells.push_back(::sqlite3_column_int64(rows, c));
        made.is_null.push_back(::sqlite3_column_type(rows, c) == SQLITE_NULL);
      }
    ::sqlite3_finalize(rows);
    return made;
  }();
  return table;
}

bool insert_rows(const std::string& path) {
  const OpTable& table = op_table();
  Sqlite database(path);
  std::string marks = "?";
  for (int c = 1; c < kColumns; ++c) marks += ",?";
  if (!database.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + table.create) ||
      !database.execute("BEGIN"))
    return false;
  sqlite3_stmt* const insert = database.prepare("INSERT INTO op VALUES (" + marks + ")");
  for (std::size_t i = 0; i < table.cells.size();) {
    for (int c = 1; c <= kColumns; ++c, ++i)
      if (table.is_null[i])
        ::sqlite3_bind_null(insert, c);
      else
        ::sqlite3_bind_int64(insert, c, table.cells[i]);
    ::sqlite3_step(insert);
    ::sqlite3_reset(insert);
  }
  ::sqlite3_finalize(insert);
  return database.execute("COMMIT");
}

void store_plain_inserts(benchmark::State& state) {
  const Place place("inserts.db");
  if (op_table().cells.size() != std::size_t{kColumns} * kOps)
    return state.SkipWithError("the program wrote other rows");
  measure(
      state, [&] { place.remove(); }, [&] { return insert_rows(place.path()); });
}
BENCHMARK(store_plain_inserts)->Unit(benchmark::kMillisecond)->UseManualTime();

void store_plain_select(benchmark::State& state) {
  const Place place("select.db");
  if (!insert_rows(place.path())) return state.SkipWithError("cannot write");
  measure(
      state, [] {},
      [&] {
        Sqlite database(place.path());
        sqlite3_stmt* const rows = database.prepare("SELECT * FROM op");
        std::int64_t count = 0, sum = 0;
        for (; ::sqlite3_step(rows) == SQLITE_ROW; ++count)
          for (int c = 0; c < kColumns; ++c) sum += ::sqlite3_column_int64(rows, c);
        ::sqlite3_finalize(rows);
        benchmark::DoNotOptimize(sum);
        return count == kOps;
      });
}
BENCHMARK(store_plain_select)->Unit(benchmark::kMillisecond)->UseManualTime();

// A table without types takes the texts as they are: STRICT would refuse the empty ones.
void store_sqlite_import(benchmark::State& state) {
  if (std::system("command -v sqlite3 >/dev/null") != 0)
    return state.SkipWithError("sqlite3 is not installed");
  const Place csv("rows.csv"), place("import.db");
  {
    std::ofstream file(csv.path());
    const OpTable& table = op_table();
    for (std::size_t i = 0; i < table.cells.size(); ++i) {
      if (!table.is_null[i]) file << table.cells[i];
      file << ((i + 1) % kColumns == 0 ? '\n' : ',');
    }
  }
  std::string columns = "c0";
  for (int c = 1; c < kColumns; ++c) columns += fmt::format(",c{}", c);
  const std::string command = fmt::format(
      "sqlite3 {} 'PRAGMA journal_mode = OFF' 'PRAGMA synchronous = OFF' 'CREATE TABLE op({})' "
      "'.mode csv' '.import {} op' >/dev/null",
      place.path(), columns, csv.path());
  measure(
      state, [&] { place.remove(); }, [&] { return std::system(command.c_str()) == 0; });
}
BENCHMARK(store_sqlite_import)->Unit(benchmark::kMillisecond)->UseManualTime();

}  // namespace
