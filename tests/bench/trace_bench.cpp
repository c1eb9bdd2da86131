// Reading what other tools recorded: a 100 MB torch.profiler trace beside nlohmann::json on the
// same text, and an Nsight Systems export of two million rows.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <nlohmann/json.hpp>
#include <simdjson.h>

#include "core/compare/recorded_busy.h"
#include "core/store/sqlite.h"
#include "traces/kineto.h"
#include "traces/nsys.h"

namespace foregather {
namespace {

constexpr std::size_t kTextBytes = 100'000'000;
constexpr std::int64_t kRows = 1'000'000;  // of kernels, and of calls

// One op of the host, its launch, its kernel and the arrow between them, as Kineto prints them.
std::string op_events(std::int64_t i) {
  const double begin = 1.7e9 + 12.0 * static_cast<double>(i);
  return fmt::format(
      R"(
  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 28, "tid": 28,
    "ts": {0:.3f}, "dur": 8.5,
    "args": {{
      "External id": {1},"Record function id": 0, "Sequence number": {1}, "Fwd thread id": 0, "Input Dims": "[[4096], [2048, 4096], [4096, 4096], [], []]"
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 28, "tid": 28,
    "ts": {2:.3f}, "dur": 4.25,
    "args": {{
      "External id": {1}, "cbid": 211, "correlation": {1}
    }}
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "{4}", "pid": 0, "tid": {5},
    "ts": {3:.3f}, "dur": 10.125,
    "args": {{
      "External id": {1}, "queued": 0, "device": 0, "context": 1, "stream": {5}, "correlation": {1}, "registers per thread": 128, "shared memory": 49152, "blocks per SM": 4.8, "warps per SM": 38.7, "grid": [32, 16, 1], "block": [256, 1, 1], "est. achieved occupancy %": 25
    }}
  }},
  {{
    "ph": "s", "id": {1}, "pid": 28, "tid": 28, "ts": {2:.3f},
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "f", "id": {1}, "pid": 0, "tid": {5}, "ts": {3:.3f},
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }},)",
      begin, i, begin + 2, begin + 20,
      i % 8 == 0 ? "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
                 : "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas",
      i % 8 == 0 ? 20 : 7);
}

const std::string& trace_text() {
  static const std::string made = [] {
    std::string text = "{\"schemaVersion\": 1, \"traceEvents\": [";
    for (std::int64_t i = 0; text.size() < kTextBytes; ++i) text += op_events(i);
    text.back() = ']';
    return text + "}";
  }();
  return made;
}

void set_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(trace_text().size()));
}

void kineto_read(benchmark::State& state) {
  const std::string& text = trace_text();
  for (auto _ : state) {
    const auto trace = traces::read_kineto(*traces::text_of(text), "bench");
    if (!trace) return state.SkipWithError(trace.error().text().c_str());
    benchmark::DoNotOptimize(trace->recording.activities.size());
  }
  set_bytes(state);
}
BENCHMARK(kineto_read)->Unit(benchmark::kMillisecond);

void kineto_read_and_figures(benchmark::State& state) {
  const std::string& text = trace_text();
  for (auto _ : state) {
    const auto trace = traces::read_kineto(*traces::text_of(text), "bench");
    if (!trace) return state.SkipWithError(trace.error().text().c_str());
    benchmark::DoNotOptimize(compare::recorded_figures(trace->recording).all.comm);
  }
  set_bytes(state);
}
BENCHMARK(kineto_read_and_figures)->Unit(benchmark::kMillisecond);

/// What a reader on the usual library starts from: the document, before a column is made.
void nlohmann_parse(benchmark::State& state) {
  const std::string& text = trace_text();
  for (auto _ : state) {
    const auto document = nlohmann::json::parse(text);
    benchmark::DoNotOptimize(document.size());
  }
  set_bytes(state);
}
BENCHMARK(nlohmann_parse)->Unit(benchmark::kMillisecond);

/// What reading the text alone takes: its structure, by simdjson.
void simdjson_parse(benchmark::State& state) {
  const simdjson::padded_string text(trace_text());
  simdjson::dom::parser parser;
  for (auto _ : state) {
    const auto document = parser.parse(text);
    if (document.error() != simdjson::SUCCESS) return state.SkipWithError("is no JSON");
    benchmark::ClobberMemory();
  }
  set_bytes(state);
}
BENCHMARK(simdjson_parse)->Unit(benchmark::kMillisecond);

/// An export that goes away with the process.
class Export {
 public:
  Export() {
    path_ = (std::filesystem::temp_directory_path() / fmt::format("bench-{}.sqlite", ::getpid()))
                .string();
    auto database = store::Database::create(path_, path_);
    const std::string rows = fmt::format(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {}) ", kRows);
    const std::string pid = "4503599627370496 + (1234 << 24)";
    const std::string statements[] = {
        "BEGIN; CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);",
        rows + "INSERT INTO StringIds SELECT i, 'kernel_' || i FROM n WHERE i <= 1000;",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, "
        "contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, "
        "demangledName INTEGER, shortName INTEGER, registersPerThread INTEGER, gridX INTEGER, "
        "gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER);",
        rows +
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 35255823190 + 1000 * i, 35255823190 + "
            "1000 * i + 900, i % 8, 1, 7 + i % 3, i, " +
            pid + ", i % 1000 + 1, i % 1000 + 1, 128, 32, 16, 1, 256, 1, 1 FROM n;",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, "
        "globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER, "
        "callchainId INTEGER);",
        rows +
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT 35255823190 + 1000 * i - 500, "
            "35255823190 + 1000 * i - 400, 0, " +
            pid + " + 1234, i, i % 1000 + 1, 0, NULL FROM n;",
        "COMMIT"};
    is_made_ = database.has_value();
    for (const std::string& sql : statements)
      is_made_ = is_made_ && database->execute(sql.c_str()).has_value();
    is_made_ = is_made_ && database->finish().has_value();
  }
  Export(const Export&) = delete;
  Export& operator=(const Export&) = delete;
  ~Export() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  bool is_made() const { return is_made_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool is_made_ = false;
};

const Export& export_file() {
  static const Export file;
  return file;
}

void nsys_read(benchmark::State& state) {
  const Export& file = export_file();
  if (!file.is_made()) return state.SkipWithError("the export could not be made");
  for (auto _ : state) {
    const auto trace = traces::read_nsys(file.path());
    if (!trace) return state.SkipWithError(trace.error().text().c_str());
    benchmark::DoNotOptimize(trace->recording.activities.size());
  }
  state.SetItemsProcessed(state.iterations() * 2 * kRows);
}
BENCHMARK(nsys_read)->Unit(benchmark::kMillisecond);

/// Every cell of the same rows, and nothing done with it.
void nsys_plain_select(benchmark::State& state) {
  const Export& file = export_file();
  if (!file.is_made()) return state.SkipWithError("the export could not be made");
  for (auto _ : state) {
    auto database = store::Database::open(file.path());
    std::int64_t rows = 0, sum = 0;
    for (const auto& [sql, columns] : {std::pair("SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL", 16),
                                       std::pair("SELECT * FROM CUPTI_ACTIVITY_KIND_RUNTIME", 8)}) {
      auto statement = database->prepare(sql);
      for (; statement->next().value_or(false); ++rows)
        for (int c = 0; c < columns; ++c) sum += statement->integer(c);
    }
    if (rows != 2 * kRows) return state.SkipWithError("has other rows");
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * 2 * kRows);
}
BENCHMARK(nsys_plain_select)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foregather
