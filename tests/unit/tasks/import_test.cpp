// What `import` does with paths, whatever their format: sniffing, archives, several files.
#include "tasks/import.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "core/store/reader.h"
#include "core/store/schema.h"
#include "core/store/sqlite.h"
#include "profiler/raw_file.h"
#include "tasks/any_run.h"
#include "tasks/calibrate.h"
#include "tasks/import_run.h"
#include "tasks/memory.h"
#include "tasks/recorded_source.h"
#include "tasks/sniff.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/support/snapshot_pickle.h"

using namespace foregather;

namespace {

std::string input(const std::string& name) {
  return test::source_dir() + "/tests/golden/inputs/" + name;
}

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write_gzip(const std::string& path, const std::string& bytes) {
  const gzFile file = ::gzopen(path.c_str(), "wb");
  REQUIRE(::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
          static_cast<int>(bytes.size()));
  REQUIRE(::gzclose(file) == Z_OK);
}

std::string import_fault(const std::vector<std::string>& paths) {
  const auto files = tasks::import_files(paths);
  return files ? "" : files.error().text();
}

// A tar of one regular file a member.
std::string archive(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string bytes;
  for (const auto& [name, text] : members) {
    std::string block(512, '\0');
    block.replace(0, name.size(), name);
    block.replace(124, 11, fmt::format("{:011o}", text.size()));
    block[156] = '0';
    block.replace(257, 5, "ustar");
    block.replace(148, 8, "        ");
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    block.replace(148, 6, fmt::format("{:06o}", sum));
    bytes += block + text + std::string((512 - text.size() % 512) % 512, '\0');
  }
  return bytes + std::string(1024, '\0');
}

}  // namespace

TEST_CASE("import: several files keep their order and their own keys") {
  const std::vector<std::string> paths{input("nsys_two_processes.sqlite"),
                                       input("pipeline_small.json"), input("kineto_small.json")};
  const auto files = tasks::import_files(paths);
  REQUIRE(files);
  REQUIRE(files->size() == 3);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    CHECK((*files)[i].path == paths[i]);
    CHECK((*files)[i].recording != nullptr);
    CHECK((*files)[i].read->read > 0);
  }
  const auto json = nlohmann::json::parse(tasks::to_json(*files));
  CHECK(json["files"][paths[0]]["format"] == "nsys");
  CHECK(json["files"][paths[1]]["format"] == "timeline");
  CHECK(json["files"][paths[2]]["format"] == "kineto");
}

TEST_CASE("import: the content decides, not the name") {
  const test::Scratch folder;
  const auto files =
      tasks::import_files({folder.write("a.txt", content(input("nsys_two_processes.sqlite"))),
                           folder.write("b.sqlite", content(input("kineto_small.json")))});
  REQUIRE(files);
  CHECK(files->at(0).what == "Nsight Systems export");
  CHECK(files->at(1).what == "torch.profiler trace");
}

TEST_CASE("import: members of an archive, those in no known format are named") {
  const test::Scratch folder;
  const std::string trace = content(input("kineto_small.json"));
  const std::string path = folder.path("job.tar.gz");
  write_gzip(path, archive({{"README", "hello"}, {"rank0.json", trace}, {"rank1.json", trace}}));
  const auto files = tasks::import_files({path});
  REQUIRE(files);
  REQUIRE(files->size() == 2);
  CHECK(files->at(1).path == path + "!rank1.json");
  CHECK(files->at(0).warnings ==
        std::vector<std::string>{path +
                                 ": 1 members are in no format that import reads, and were "
                                 "left: " +
                                 path + "!README"});
  const auto one = tasks::import_files({path + "!rank1.json"});
  REQUIRE(one);
  CHECK(one->size() == 1);
  // simulate and compare take such an archive as well.
  CHECK(tasks::is_recorded(path).value());
  CHECK_FALSE(tasks::is_recorded(path + "!README").value());
}

TEST_CASE("import: memory snapshots are runs of their own, packed or not") {
  const test::Scratch folder;
  const std::string pickle = test::snapshot_pickle({{"alloc", 0, 1 * MiB, 10},
                                                    {"alloc", 1 * MiB, 512 * KiB, 25},
                                                    {"free_requested", 0, 1 * MiB, 30},
                                                    {"free_completed", 0, 1 * MiB, 40}},
                                                   {{1 * MiB, false}, {512 * KiB, true}});
  const std::string plain = folder.write("a.pickle", pickle);
  const std::string packed = folder.path("a.pickle.gz");
  write_gzip(packed, pickle);
  const std::string shelf = folder.write("b.tar", archive({{"a.pickle", pickle}}));
  const auto files = tasks::import_files({plain, packed, shelf});
  REQUIRE(files);
  REQUIRE(files->size() == 3);
  for (const tasks::ImportedFile& file : *files) {
    const auto json = nlohmann::json::parse(tasks::to_json({file}));
    CHECK(json["format"] == "memory-snapshot");
    CHECK(json["raw_bytes"] == pickle.size());
    const auto& history = json["per_device"][0];
    CHECK(history["span_us"] == 30);
    CHECK(history["base_active_before_window"] == 0);
    CHECK(history["peak_live_from_trace_only"] == 1536 * KiB);
    CHECK(history["end_active"] == 512 * KiB);
  }
  const auto examine = [](const std::string& path) {
    tasks::MemoryRequest request;
    request.snapshot = path;
    return tasks::examine_snapshot(request);
  };
  const std::string database = folder.path("runs.db");
  REQUIRE(tasks::import_run(*files, {}, database));
  CHECK(store::run_names(database).value() ==
        std::vector<std::string>{"a.pickle", "a.pickle.gz", "b.tar!a.pickle"});
  // What takes a snapshot takes it packed.
  for (const std::string& path : {packed, shelf, shelf + "!a.pickle"}) {
    CHECK(examine(path).value().traces[0].replay.exact());
    CHECK(tasks::load_any_run(path).value().run.bindings.size() == 2);
  }

  const auto twice = tasks::import_files({plain, plain, plain});
  CHECK(tasks::import_run(twice.value(), {}, folder.path("c.db")).error().text() ==
        plain + ": is named twice, expected once");
  CHECK(tasks::import_run(*files, 1, folder.path("c.db")).error().text() ==
        "--step: is of recorded steps: a memory snapshot has none");
  const auto mixed = tasks::import_files({plain, input("kineto_small.json")});
  CHECK(tasks::import_run(mixed.value(), {}, folder.path("c.db"))
            .error()
            .text()
            .starts_with(input("kineto_small.json") + ": is no memory snapshot"));
  CHECK(tasks::recorded_run(mixed.value(), {})
            .error()
            .text()
            .starts_with(plain + ": is a memory snapshot"));
  folder.write("b.tar", archive({{"a.pickle", pickle}, {"b.pickle", pickle}}));
  CHECK(examine(shelf).error().text() ==
        shelf + ": is an archive of several files, expected one: " + shelf + "!b.pickle");
  CHECK_FALSE(std::filesystem::exists(folder.path("c.db")));
}

TEST_CASE("nodes of an execution trace that share an id are warned of") {
  const test::Scratch folder;
  const std::string path = folder.write("et.json", R"({"schema": "1.0.1", "nodes": [
{"id": 1, "name": "a"}, {"id": 1, "name": "a"}, {"id": 2, "name": "b"}]})");
  const auto files = tasks::import_files({path});
  REQUIRE(files);
  CHECK(files->front().warnings ==
        std::vector{path + ": 1 of 3 nodes has the id of another one, and is counted again"});
}

TEST_CASE("a packed execution trace is known for one by commands that cannot read it") {
  const test::Scratch folder;
  const std::string path = folder.path("et.json.gz");
  write_gzip(path, R"({"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": []})");
  const auto kind = tasks::sniff(content(path), path);
  REQUIRE_FALSE(kind);
  CHECK(kind.error().text().starts_with(path + ": is an execution trace"));
  const auto read = tasks::read_recorded({path}, std::nullopt);
  REQUIRE_FALSE(read);
  CHECK(read.error().text().starts_with(path + ": is a program, no recorded run: expected "));
}

TEST_CASE("import: a packed SQLite database must be unpacked first") {
  const test::Scratch folder;
  const std::string path = folder.path("report.sqlite.gz");
  write_gzip(path, content(input("nsys_two_processes.sqlite")));
  CHECK(import_fault({path}) ==
        path +
            ": is a packed SQLite database, which can only be read as a file of "
            "its own: unpack it first");
}

TEST_CASE("import: what a killed process left before it recorded anything") {
  const test::Scratch folder;
  std::string error;
  const std::string begun = folder.path("rank0_host_1.sqlite");
  const std::string tables = folder.path("rank1_host_2.sqlite");
  const std::string empty = folder.write("rank2_host_3.sqlite", "");
  {
    const auto file = profiler::RawFile::create(begun, 1, error);
    REQUIRE(file);
    file->run("INSERT INTO FOREGATHER_PROCESS VALUES (1, 1, 0, 0, 1, 'h', 'c', 0, 1, 0)");
    const std::int64_t text = file->text("step");
    file->add(profiler::RawTable::nvtx, {1, 2, profiler::kNvtxPushPop, {}, {}, {}, 1, {}, text});
    REQUIRE(file->finish());
    REQUIRE(profiler::RawFile::create(tables, 1, error));  // killed: it is not finished
  }
  const auto files = tasks::import_files({begun, tables, empty});
  REQUIRE(files);
  REQUIRE(files->size() == 1);
  const auto& warnings = files->front().warnings;
  REQUIRE(warnings.size() >= 2);
  CHECK(warnings.end()[-2] ==
        tables + ": its process was killed before it recorded anything, and is left out");
  CHECK(warnings.end()[-1] ==
        empty + ": its process was killed before it recorded anything, and is left out");
  CHECK(import_fault({empty}) == empty + ": its process was killed before it recorded anything");
}

TEST_CASE("import: what was warned of and dropped goes with the run") {
  const test::Scratch folder;
  std::string text = content(input("kineto_small.json"));
  text = text.substr(text.find("[\n"));  // the array of events alone …
  text.resize(text.find_last_of(']'));   // … without its end
  const std::string cut = folder.write("cut.json", text), database = folder.path("run.db");
  const auto files = tasks::import_files({cut});
  REQUIRE(files);
  REQUIRE(files->front().warnings.size() == 1);
  REQUIRE(tasks::import_run(*files, std::nullopt, database));
  for (const std::string& location : {cut, database}) {
    const auto loaded = tasks::load_any_run(location);
    REQUIRE(loaded);
    CHECK(loaded->warnings == files->front().warnings);
    const auto replayed = tasks::read_recorded({location}, std::nullopt);
    REQUIRE(replayed);
    CHECK(replayed->warnings.back() ==
          location + ": 1 damaged event was dropped, and is in nothing here: neg_dur 1");
    CHECK(loaded->run.about.dropped == run::EventCounts{{"neg_dur", 1}});
  }
}

TEST_CASE("recordings with a damaged time are refused in the same words by all who read them") {
  const test::Scratch folder;
  const std::string years = folder.write(
      "years.json", R"([{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":5,"dur":9},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":31536000000000,"dur":9}])");
  const auto files = tasks::import_files({years});
  REQUIRE(files);
  const auto listed = tasks::check_spans(*files);
  REQUIRE_FALSE(listed);
  const std::string fault = listed.error().text();
  CHECK(fault.starts_with(years + ": has "));
  CHECK(fault.find("expected at most 30 days: the time of an event is damaged") != fault.npos);
  CHECK(listed.error().fault == Fault::input);
  const auto imported = tasks::import_run(*files, std::nullopt, folder.path("run.db"));
  REQUIRE_FALSE(imported);
  CHECK(imported.error().text() == fault);
  const auto loaded = tasks::load_any_run(years);
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().text() == fault);
  const auto replayed = tasks::load_recorded({years}, std::nullopt);
  REQUIRE_FALSE(replayed);
  CHECK(replayed.error().text() == fault);
  const auto fitted =
      tasks::calibrate_hardware({{years}, "h100_sxm", {}, folder.path("fitted.toml")});
  REQUIRE_FALSE(fitted);
  CHECK(fitted.error().text() == fault);
}

TEST_CASE("device work that is recorded twice is warned of by all who add it up") {
  const test::Scratch folder;
  const std::string kernel =
      R"({"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":5,"dur":9})";
  const std::string twice = folder.write("twice.json", fmt::format("[{0},{0}]", kernel));
  const std::string database = folder.path("run.db");
  const std::string warning =
      twice +
      ": 1 of 2 activities is recorded again (same name, lane, start and end), and counted "
      "again: numbers of ops and sums of their times are too high by that";
  const auto files = tasks::import_files({twice});
  REQUIRE(files);
  CHECK(files->front().warnings == std::vector{warning});
  const auto json = nlohmann::json::parse(tasks::to_json(*files));
  CHECK(json["warnings"] == nlohmann::json::array({warning}));
  CHECK(json["duplicate_gpu_events"] == 1);
  REQUIRE(tasks::import_run(*files, std::nullopt, database));
  for (const std::string& location : {twice, database}) {
    const auto loaded = tasks::load_any_run(location);
    REQUIRE(loaded);
    CHECK(loaded->warnings == std::vector{warning});
    const auto read = tasks::read_recorded({location}, std::nullopt);
    REQUIRE(read);
    CHECK(read->warnings == std::vector{warning});
  }
}

TEST_CASE("import: busy times of several devices are said to be added up") {
  const test::Scratch folder;
  std::string events;
  for (const int device : {0, 1})
    events +=
        fmt::format(R"({}{{"ph":"X","cat":"kernel","name":"gemm","pid":{},"tid":7,"ts":0,"dur":9,)"
                    R"("args":{{"device":{},"stream":7}}}})",
                    device == 0 ? "" : ",", device, device);
  const auto files = tasks::import_files({folder.write("two.json", "[" + events + "]")});
  REQUIRE(files);
  const auto span =
      std::ranges::find(files->front().rows, "device span", [](const auto& row) { return row[0]; });
  REQUIRE(span != files->front().rows.end());
  CHECK((*span)[1] == "9.00 µs");
  CHECK((*span)[2] == "busy 18.0 µs, 2 devices added up");
}

TEST_CASE("import: our own database is no export") {
  const test::Scratch folder;
  const std::string path = folder.path("run.db");
  auto database = store::Database::create(path, path);
  REQUIRE(database);
  REQUIRE(store::create_schema(*database));
  REQUIRE(database->finish());
  CHECK_THAT(import_fault({path}), Catch::StartsWith(path + ": is a run that foregather wrote"));
}

TEST_CASE("import: an export that another process is writing") {
  const test::Scratch folder;
  const std::string path = folder.write("x", content(input("nsys_two_processes.sqlite")));
  int ready[2], done[2];
  REQUIRE(::pipe(ready) == 0);
  REQUIRE(::pipe(done) == 0);
  const pid_t writer = ::fork();
  if (writer == 0) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = 0x40000002;  // SQLite's shared bytes: an exclusive lock
    lock.l_len = 510;
    const int file = ::open(path.c_str(), O_RDWR);
    char byte = ::fcntl(file, F_SETLK, &lock) == 0 ? 'y' : 'n';
    (void)!::write(ready[1], &byte, 1);
    (void)!::read(done[0], &byte, 1);
    ::_exit(0);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  REQUIRE(byte == 'y');
  CHECK(import_fault({path}) ==
        fmt::format("{}: is being written by process {}: let it end", path, writer));
  REQUIRE(::write(done[1], &byte, 1) == 1);
  ::waitpid(writer, nullptr, 0);
  CHECK(import_fault({path}).empty());
  for (const int end : {ready[0], ready[1], done[0], done[1]}) ::close(end);
}

TEST_CASE("import: every row of a program is kept, or dropped by reason") {
  const test::Scratch folder;
  const auto read = [](const std::string& path) {
    const auto files = tasks::import_files({path});
    if (!files) FAIL(files.error().text());
    REQUIRE(files->front().read);
    std::int64_t dropped = 0;
    for (const auto& [reason, n] : files->front().dropped) dropped += n;
    CHECK(files->front().read->read == files->front().read->kept + dropped);
    return *files->front().read;
  };
  const run::RecordedRows chakra = read(folder.write(
      "chakra.0.json",
      R"({"workload_graph": [{"id": 1, "name": "a", "type": 4}, {"id": 1, "type": 4}, 7]})"));
  CHECK(chakra.kept == 1);
  CHECK(chakra.read == 3);
  const run::RecordedRows operators = read(folder.write(
      "et.json",
      R"({"schema": "1.0.1", "pid": 1, "nodes": [{"name": "x", "id": 1, "parent": 0}, 3]})"));
  CHECK(operators.kept == 1);
  CHECK(operators.read == 2);
  const run::RecordedRows thunder =
      read(folder.write("trace.txt",
                        "import thunder\n"
                        "def computation(x):\n"
                        "  # x: \"cuda:0 f32[2]\"\n"
                        "  y = torch.relu(x)  # y: \"cuda:0 f32[2]\"\n"
                        "  ) what (\n"
                        "  return y\n"));
  CHECK(thunder.kept == 2);
  CHECK(thunder.read == 3);
}

TEST_CASE("import: an archive without anything to read is refused") {
  const test::Scratch folder;
  const std::string path = folder.path("job.tar.gz");
  write_gzip(path, archive({{"README", "hello"}}));
  CHECK_THAT(import_fault({path}),
             Catch::StartsWith(path + ": has no member in a format that import reads, expected "));
}

TEST_CASE("import: a collective outside of steps has none") {
  const test::Scratch folder;
  auto trace = nlohmann::json::parse(content(input("kineto_three_steps.json")));
  for (const int time : {500, 1430})  // before the steps, in the second
    trace["traceEvents"].push_back(nlohmann::json::parse(
        fmt::format(R"({{"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1,
          "tid": 1, "ts": {}, "dur": 2, "args": {{"Collective name": "_allgather_base",
          "dtype": "Float", "In msg nelems": 1024, "Out msg nelems": 2048, "Group size": 2}}}})",
                    time)));
  const auto files = tasks::import_files({folder.write("a.json", trace.dump())});
  REQUIRE(files);
  const auto keys = nlohmann::json::parse(tasks::to_json(*files))["collective_keys"];
  REQUIRE(keys.size() == 2);
  CHECK(keys[0]["step"].is_null());
  CHECK(keys[0]["kind"] == "all_gather");
  CHECK(keys[0]["bytes"] == 8192);
  CHECK(keys[1]["step"] == 4);
}

TEST_CASE(
    "import: lines of a Thunder trace that are not understood are counted by what they lack") {
  const test::Scratch folder;
  const auto files = tasks::import_files({folder.write(
      "a.txt", "def f(a):\n  # a: \"cuda:0 f32[2]\"\n  t0 = = a\n  t1 = = a\n  return a\n")});
  REQUIRE(files);
  std::int64_t dropped = 0;
  for (const auto& [what, count] : files->front().dropped) dropped += count;
  CHECK(files->front().dropped.size() == 1);
  CHECK(dropped == 2);
}

TEST_CASE("import: a Thunder trace without a signature is of no function") {
  const test::Scratch folder;
  const auto files = tasks::import_files(
      {folder.write("a.txt",
                    "# Constructed by Delete Last Used\n# No signature available\n"
                    "  t0 = torch.add(a, 1)  # t0: \"cuda:0 f32[2]\"\n  return t0\n")});
  REQUIRE(files);
  CHECK(files->front().what == "Thunder trace of no function");
  const auto json = nlohmann::json::parse(tasks::to_json(*files));
  CHECK(json["fn"].is_null());
  CHECK(json["n_stmts"] == 2);  // with its return
}
