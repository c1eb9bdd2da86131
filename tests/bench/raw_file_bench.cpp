// Ingest of the recorder: synthetic rows into a raw recording, beside a statement a row. Time is of
// the process, on one core.
#include <benchmark/benchmark.h>
#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>

#include "profiler/raw_file.h"

namespace {

using foregather::profiler::Cell;
using foregather::profiler::RawFile;
using foregather::profiler::RawTable;

constexpr std::int64_t kLaunches = 200'000;

std::string place() {
  const char* const folder = std::getenv("TMPDIR");
  return std::string(folder == nullptr ? "/tmp" : folder) + "/foregather_bench_raw.sqlite";
}

void remove(const std::string& path) {
  for (const char* ending : {"", "-wal", "-journal"}) std::filesystem::remove(path + ending);
}

/// A kernel and the call that launched it.
void RawLaunches(benchmark::State& state) {
  const std::string path = place(), mangled = "_ZN2at6native10add_kernelIfEEvPT_i";
  std::int64_t rows = 0;
  for (auto _ : state) {
    state.PauseTiming();
    remove(path);
    std::string error;
    const auto file = RawFile::create(path, 0, error);
    state.ResumeTiming();
    if (file == nullptr) return state.SkipWithError(error.c_str());
    const std::int64_t name = file->text("cudaLaunchKernel_v7000");
    for (std::int64_t i = 0; i < kLaunches; ++i) {
      const std::int64_t at = i * 5000;
      file->add(RawTable::runtime, {at, at + 2000, 0, 42 << 24 | 42, i, name, 0});
      const RawFile::KernelName kernel = file->kernel_name(mangled.c_str());
      file->add(RawTable::kernel, {at + 3000,
                                   at + 7000,
                                   0,
                                   1,
                                   7,
                                   i,
                                   42 << 24,
                                   kernel.demangled,
                                   kernel.brief,
                                   kernel.mangled,
                                   1,
                                   32,
                                   128,
                                   1,
                                   1,
                                   256,
                                   1,
                                   1,
                                   0,
                                   49152,
                                   0,
                                   0,
                                   i,
                                   Cell(),
                                   Cell(),
                                   0,
                                   0,
                                   0});
      if (i % 100'000 == 99'999) file->commit();
    }
    file->finish();
    rows += 2 * kLaunches;
  }
  state.counters["records/s"] =
      benchmark::Counter(static_cast<double>(rows), benchmark::Counter::kIsRate);
  remove(path);
}
BENCHMARK(RawLaunches)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();

/// The same rows, one INSERT each, in transactions of as many.
void PlainInserts(benchmark::State& state) {
  const std::string path = place();
  std::int64_t rows = 0;
  for (auto _ : state) {
    state.PauseTiming();
    remove(path);
    sqlite3* database = nullptr;
    sqlite3_open(path.c_str(), &database);
    std::string columns = "c0", marks = "?";
    for (int i = 1; i < 28; ++i) columns += ",c" + std::to_string(i), marks += ",?";
    sqlite3_exec(database,
                 ("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;"
                  "CREATE TABLE calls (a, b, c, d, e, f, g); CREATE TABLE kernels (" +
                  columns + ")")
                     .c_str(),
                 nullptr, nullptr, nullptr);
    sqlite3_stmt *call = nullptr, *kernel = nullptr;
    sqlite3_prepare_v2(database, "INSERT INTO calls VALUES (?,?,?,?,?,?,?)", -1, &call, nullptr);
    sqlite3_prepare_v2(database, ("INSERT INTO kernels VALUES (" + marks + ")").c_str(), -1,
                       &kernel, nullptr);
    state.ResumeTiming();
    const auto insert = [](sqlite3_stmt* statement, std::int64_t at, int width) {
      for (int c = 1; c <= width; ++c) sqlite3_bind_int64(statement, c, c < 3 ? at + c : c * 7);
      sqlite3_step(statement);
      sqlite3_reset(statement);
    };
    for (std::int64_t i = 0; i < kLaunches; ++i) {
      if (i % 100'000 == 0) sqlite3_exec(database, "BEGIN", nullptr, nullptr, nullptr);
      insert(call, i * 5000, 7);
      insert(kernel, i * 5000 + 3000, 28);
      if (i % 100'000 == 99'999) sqlite3_exec(database, "COMMIT", nullptr, nullptr, nullptr);
    }
    sqlite3_finalize(call);
    sqlite3_finalize(kernel);
    sqlite3_close(database);
    rows += 2 * kLaunches;
  }
  state.counters["records/s"] =
      benchmark::Counter(static_cast<double>(rows), benchmark::Counter::kIsRate);
  remove(path);
}
BENCHMARK(PlainInserts)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();

}  // namespace
