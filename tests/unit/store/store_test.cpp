#include <catch2/catch.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/store/location.h"
#include "core/store/reader.h"
#include "core/store/schema.h"
#include "core/store/sqlite.h"
#include "core/store/writer.h"
#include "tests/support/example_run.h"
#include "tests/support/written_run.h"

using namespace foregather;
using namespace foregather::store;

namespace {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("store-" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const char* name) const { return (path / name).string(); }
  std::size_t count() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path),
                                                  std::filesystem::directory_iterator()));
  }
};

void write(const std::string& path, const std::vector<std::string>& names) {
  auto writer = RunWriter::create(path);
  REQUIRE(writer.has_value());
  for (const std::string& name : names) {
    run::Run run = test::example_run();
    run.about.name = name;
    REQUIRE(writer->write(run).has_value());
  }
  REQUIRE(writer->finish().has_value());
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void change(const std::string& path, const char* sql) {
  auto database = Database::create(path, path);
  REQUIRE(database.has_value());
  const Status done = database->execute(sql);
  if (!done) FAIL(done.error().text());
}

std::string error_of(const std::string& location) {
  const auto run = read_run(location);
  REQUIRE_FALSE(run.has_value());
  return run.error().text();
}

}  // namespace

TEST_CASE("what is written is read again, row by row") {
  const Folder folder;
  const std::string path = folder.file("run.db");
  write(path, {"example"});
  const auto read = read_run(path);
  if (!read) FAIL(read.error().text());
  const run::Run run = test::example_run();
  CHECK(read->about == run.about);
  CHECK(read->classes == run.classes);
  CHECK(read->streams == run.streams);
  CHECK(read->communicators == run.communicators);
  CHECK(read->steps == run.steps);
  CHECK(read->threads == run.threads);
  CHECK(read->calls == run.calls);
  CHECK(read->waits == run.waits);
  CHECK(read->collectives == run.collectives);
  CHECK(read->kernel_launches == run.kernel_launches);
  CHECK(read->bindings == run.bindings);
  CHECK(read->segments == run.segments);
  CHECK(read->memory == run.memory);
  CHECK(read->causes == run.causes);
  CHECK(read->failures == run.failures);
  REQUIRE(read->ops.size() == run.ops.size());
  for (std::size_t row = 0; row < run.ops.size(); ++row)
    CHECK(read->ops.at(run::OpRow(row)) == run.ops.at(run::OpRow(row)));
  CHECK(folder.count() == 1);
}

TEST_CASE("what is known of a run is read again, with all of it and alone") {
  const Folder folder;
  const std::string path = folder.file("run.db");
  run::Run run = test::example_run();
  run.about.warnings = {"a.json: was cut", "b.json: has no clock"};
  run.about.dropped = {{"cut", 1}, {"damaged", 2}};
  test::written(path, run);
  CHECK(read_run(path)->about == run.about);
  CHECK(read_about(path).value() == run.about);
  change(path, "UPDATE dropped SET events = -1");
  CHECK(error_of(path).find("row 0 of table dropped") != std::string::npos);
  change(path, "DELETE FROM warning WHERE id = 0");
  CHECK(error_of(path).find("row 0 of table warning") != std::string::npos);
}

TEST_CASE("the same run gives the same bytes") {
  const Folder folder;
  write(folder.file("a.db"), {"example"});
  write(folder.file("b.db"), {"example"});
  CHECK(content(folder.file("a.db")) == content(folder.file("b.db")));
}

TEST_CASE("a name selects one of several runs") {
  const Folder folder;
  const std::string path = folder.file("run.db");
  write(path, {"one", "two"});
  CHECK(read_run(path + ":two")->about.name == "two");
  CHECK(error_of(path).find("holds 2 runs") != std::string::npos);
  CHECK(error_of(path + ":three").find("only one, two") != std::string::npos);
  CHECK(run_names(path).value() == std::vector<std::string>{"one", "two"});
}

TEST_CASE("a writer that is not finished leaves nothing") {
  const Folder folder;
  { auto writer = RunWriter::create(folder.file("run.db")); }
  CHECK(folder.count() == 0);
}

TEST_CASE("a full disk is a failure of the work") {
  auto writer = RunWriter::create("/dev/full");
  REQUIRE(writer.has_value());
  REQUIRE(writer->write(test::example_run()).has_value());
  const Status finished = writer->finish();
  REQUIRE_FALSE(finished.has_value());
  CHECK(finished.error().fault == Fault::work);
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("newer and foreign databases are refused by name") {
  const Folder folder;
  const std::string path = folder.file("run.db");
  write(path, {"example"});
  change(path, "PRAGMA user_version = 9");
  CHECK(error_of(path).find("has version 9, this program reads up to 8") != std::string::npos);
  change(path, "PRAGMA user_version = 0");
  CHECK(error_of(path).find("has version 0, expected 1 to 8") != std::string::npos);
  change(path, "PRAGMA user_version = 8; PRAGMA application_id = 5");
  CHECK(error_of(path).find("another program") != std::string::npos);
  change(path, "PRAGMA application_id = 0");
  CHECK(error_of(path).find("another program") != std::string::npos);
  const std::string empty = folder.file("empty.db");
  change(empty, "PRAGMA user_version = 0");
  CHECK(error_of(empty).find("holds nothing") != std::string::npos);
}

TEST_CASE("a database of version 1 reads as one whose newer tables are empty") {
  const Folder folder;
  const std::string path = folder.file("run.db");
  write(path, {"example"});
  change(
      path,
      "DROP TABLE thread; DROP TABLE call; DROP TABLE launch; DROP TABLE stream_wait; DROP TABLE "
      "collective; DROP TABLE inferred_causes; DROP TABLE comparison; DROP TABLE "
      "compared_group; DROP TABLE compared_op; DROP TABLE sweep; DROP TABLE sweep_axis; DROP TABLE "
      "point; DROP TABLE recording; DROP TABLE kernel_work; DROP TABLE warning; DROP TABLE "
      "dropped; DROP TABLE sweep_input; DROP TABLE kernel_launch; DROP TABLE run_input; PRAGMA "
      "user_version = 1");
  const auto read = read_run(path);
  if (!read) FAIL(read.error().text());
  const run::Run run = test::example_run();
  CHECK(read->threads.empty());
  CHECK(read->kernel_launches.empty());
  CHECK(read->about.inputs.empty());
  CHECK(read->bindings == run.bindings);
  REQUIRE(read->ops.size() == run.ops.size());
  CHECK_FALSE(read->ops.launch[0]);
  CHECK(read->ops.end == run.ops.end);
  CHECK_FALSE(read->steps[0].causes_inferred);
  CHECK(read_comparisons(path)->empty());
}

TEST_CASE("comparisons are read as they were written") {
  const Folder folder;
  const std::string path = folder.file("run.db");
  run::Run first = test::example_run(), second = first;
  first.about.name = "predicted";
  second.about.name = "measured";
  run::Comparison comparison;
  comparison.runs = {"predicted", "measured"};
  comparison.steps = {run::StepRow(0), run::StepRow(1)};
  comparison.groups = {
      {run::MatchLevel::scope_kind, OpKind::gemm, Phase::backward, "a/b/gemm", {2, 1}, {40, 15}},
      {std::nullopt, OpKind::all_gather, Phase::forward, "c", {1, 2}, {15, 25}}};
  comparison.group_of = {std::vector<std::uint32_t>{0, 1, 0}, {0, 1, 1}};
  {
    auto writer = RunWriter::create(path);
    REQUIRE(writer);
    REQUIRE(writer->write(first));
    CHECK_FALSE(writer->write(comparison));
    REQUIRE(writer->write(second));
    REQUIRE(writer->write(comparison));
    REQUIRE(writer->finish());
  }
  const auto read = read_comparisons(path);
  if (!read) FAIL(read.error().text());
  REQUIRE(read->size() == 1);
  CHECK(read->front() == comparison);
  for (const char* damage :
       {"UPDATE compared_op SET compared_group = 2 WHERE op = 0",
        "DELETE FROM compared_op WHERE op = 4", "UPDATE compared_group SET level = 4 WHERE id = 0",
        "UPDATE comparison SET second_run = 2", "UPDATE comparison SET first_step = 1"}) {
    CAPTURE(damage);
    const std::string copy = folder.file("copy.db");
    std::filesystem::copy_file(path, copy, std::filesystem::copy_options::overwrite_existing);
    change(copy, damage);
    CHECK_FALSE(read_comparisons(copy));
  }
}

TEST_CASE("damaged content is refused, never followed") {
  const char* const kDamages[] = {
      "UPDATE op SET bound_by = 999999",
      "UPDATE op SET bound_by = -1 WHERE id = 0",
      "UPDATE op SET kind = 200 WHERE id = 0",
      "UPDATE op SET step = 77",
      "UPDATE op SET step = 1 WHERE id = 0",
      "UPDATE op SET scope = 123456789",
      "UPDATE op SET end_ns = start_ns - 1 WHERE id = 0",
      "UPDATE op SET start_ns = -9223372036854775808 WHERE id = 0",
      "UPDATE op SET end_ns = 9223372036854775807 WHERE id = 0",
      "UPDATE op SET issued_ns = 9223372036854775807 WHERE id = 0",
      "UPDATE step SET begin_ns = -9223372036854775808",
      "UPDATE step SET end_ns = begin_ns - 1",
      "UPDATE call SET end_ns = start_ns - 1",
      "UPDATE memory SET time_ns = 9223372036854775807",
      "UPDATE run SET kind = 1; UPDATE step SET end_ns = begin_ns + 2592000000000001",
      "UPDATE run SET kind = 1; UPDATE op SET end_ns = start_ns + 2592000000000001 WHERE id = 0",
      "UPDATE run SET kind = 1; UPDATE op SET transfer_ns = -2592000000000001 WHERE id = 0",
      "UPDATE binding SET block_bytes = -512",
      "DELETE FROM op WHERE id = 2",
      "DELETE FROM class_ranks",
      "UPDATE class_ranks SET last = 4000000000",
      "UPDATE class_ranks SET first = 5, last = 1 WHERE rank_class = 1",
      "UPDATE step SET peak_at = 100",
      "UPDATE string SET text = 'same'",
      "UPDATE run SET kind = 9",
      "UPDATE binding SET before_op = 1000",
      "UPDATE stream SET rank_class = 2",
      "DELETE FROM run",
      "UPDATE thread SET rank_class = 2",
      "UPDATE call SET thread = 1",
      "DELETE FROM call WHERE id = 0",
      "UPDATE launch SET call = 2",
      "UPDATE launch SET op = 6",
      "UPDATE stream_wait SET recorded = 2",
      "UPDATE stream_wait SET stream = -1",
      "UPDATE collective SET op = 6",
      "UPDATE collective SET ranks = 999999",
      "UPDATE inferred_causes SET step = 2",
      "DROP TABLE memory",
      "DROP TABLE memory; CREATE VIEW memory AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT "
      "x + 1 FROM c) SELECT 0 AS run, x AS id, 0 AS step, 0 AS time_ns, 0 AS requested, 0 AS "
      "allocated, 0 AS active, 0 AS reserved FROM c",
      "CREATE TABLE more (x)",
  };
  const Folder folder;
  for (const char* damage : kDamages) {
    CAPTURE(damage);
    const std::string path = folder.file("run.db");
    write(path, {"example"});
    change(path, damage);
    const auto run = read_run(path);
    CHECK_FALSE(run.has_value());
  }
}

TEST_CASE("flipped and missing bytes never crash the reader") {
  const Folder folder;
  const std::string path = folder.file("run.db");
  write(path, {"example"});
  const std::string whole = content(path);
  std::uint64_t state = 1;
  for (int round = 0; round < 300; ++round) {
    std::string bytes = whole;
    for (int flips = 0; flips < 1 + round % 7; ++flips) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      bytes[(state >> 20) % bytes.size()] = static_cast<char>(state >> 56);
    }
    if (round % 5 == 0) bytes.resize((state >> 13) % bytes.size());
    std::ofstream(path, std::ios::binary) << bytes;
    const auto run = read_run(path);
    if (!run) CHECK_FALSE(run.error().message.empty());
  }
}

TEST_CASE("what is no database") {
  const Folder folder;
  CHECK(error_of(folder.file("missing.db")).find("No such file") != std::string::npos);
  CHECK(error_of(folder.path.string()).find("is a directory") != std::string::npos);
  std::ofstream(folder.file("text.db")) << "hello hello hello";
  CHECK(error_of(folder.file("text.db")).find("is not a SQLite database") != std::string::npos);
  CHECK(error_of("/dev/null").find("not a regular file") != std::string::npos);
}

TEST_CASE("locations") {
  CHECK(parse_location("run.db").path == "run.db");
  CHECK_FALSE(parse_location("run.db").name.has_value());
  CHECK(parse_location("a:b.db:c").path == "a:b.db");
  CHECK(parse_location("a:b.db:c").name == "c");
  // A run may have the name of a recording with a time of day.
  const Folder folder;
  const std::string database = folder.file("r.db");
  std::ofstream(database) << "x";
  CHECK(parse_location(database + ":2024-05-01T12:30:00").path == database);
  CHECK(parse_location(database + ":2024-05-01T12:30:00").name == "2024-05-01T12:30:00");
}
