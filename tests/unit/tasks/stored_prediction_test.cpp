#include <algorithm>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "tasks/simulate.h"
#include "tasks/workload_files.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/support/written_run.h"

using namespace foregather;
using namespace foregather::tasks;

namespace {

std::string sample_file(const std::string& name) {
  return read_file(test::source_dir() + "/traces/samples/" + name, MiB).value();
}

Result<Outcome> again(const std::string& database, std::vector<std::string> sets = {}) {
  SimulateRequest request;
  request.sources.paths = {database};
  request.sets = std::move(sets);
  return simulate(request);
}

std::string refusal_of(const std::string& database, std::vector<std::string> sets = {}) {
  const auto outcome = again(database, std::move(sets));
  return outcome ? "" : outcome.error().text();
}

}  // namespace

TEST_CASE("a stored prediction is simulated with the files it was made with, or refused") {
  const test::Scratch scratch;
  const std::string config = sample_file("configs/tiny_llama.json");
  std::filesystem::create_directory(scratch.path("configs"));
  const std::string path = scratch.write("configs/tiny_llama.json", config);
  const std::string source = scratch.write("tiny.toml", sample_file("tiny_fsdp2.toml"));
  const auto outcome = again(source);
  if (!outcome) FAIL(outcome.error().text());
  const std::string database = test::written(scratch.path("run.db"), outcome->run);
  CHECK(outcome->inputs == std::vector<std::string>{source, path, "h100_sxm", "", ""});
  CHECK(again(database)->run.ops.end == outcome->run.ops.end);

  scratch.write("configs/tiny_llama.json", sample_file("configs/gpt2.json"));
  CHECK(refusal_of(database) ==
        database + ": was predicted with " + path +
            ", and the file here is another one: go to the folder where it was predicted, or name "
            "the file by --set, as --set model.config=PATH");
  std::filesystem::remove(path);
  CHECK(refusal_of(database).find(path + ", which is not here") != std::string::npos);

  const std::string moved = scratch.write("moved.json", config);
  CHECK(again(database, {"model.config=" + moved})->run.ops.end == outcome->run.ops.end);
  scratch.write("configs/tiny_llama.json", sample_file("configs/gpt2.json"));
  CHECK(again(database, {"model.config=" + path})->run.about.parameters !=
        outcome->run.about.parameters);

  run::Run older = outcome->run;
  older.about.inputs.clear();
  CHECK(again(test::written(scratch.path("older.db"), older)).has_value());
}

TEST_CASE("a stored prediction of a recording is replayed with a warning") {
  const test::Scratch scratch;
  const auto outcome = again(test::source_dir() + "/tests/golden/inputs/kineto_small.json");
  if (!outcome) FAIL(outcome.error().text());
  const std::string database = test::written(scratch.path("replayed.db"), outcome->run);
  const auto replayed = again(database);
  if (!replayed) FAIL(replayed.error().text());
  const std::vector<std::string>& warnings = replayed->summary.warnings;
  CHECK(std::ranges::count(
            warnings,
            database +
                ": is a prediction: its ops are replayed as they ran, without memory and with less "
                "of collectives than what it was predicted from says: simulate that") == 1);
}

TEST_CASE("a stored prediction is the whole of what is asked") {
  const test::Scratch scratch;
  const auto outcome = again(test::source_dir() + "/traces/samples/tiny_fsdp2.toml");
  REQUIRE(outcome);
  const std::string database = test::written(scratch.path("run.db"), outcome->run);
  SimulateRequest request;
  request.sources.paths = {database, database};
  const auto two = simulate(request);
  REQUIRE_FALSE(two);
  CHECK(two.error().text() == database + ": is the prediction of a whole job, expected it alone");
  request.sources = {{database}, false, 2};
  const auto step = simulate(request);
  REQUIRE_FALSE(step);
  CHECK(step.error().text() ==
        "--step: chooses a step of a recorded run, and " + database + " is predicted");
}

TEST_CASE("a file of more than 64 MiB is known by its size, its beginning and its end") {
  const test::Scratch scratch;
  const std::string path = scratch.write("big.json", "first");
  constexpr std::uintmax_t kSize = 65 << 20;
  std::filesystem::resize_file(path, kSize);
  const auto digest = [&] { return digests_of({path}, "").front().second; };
  const auto put = [&](std::int64_t at, char byte) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.put(byte);
  };
  const std::string before = digest();
  put(kSize / 2, 'x');  // which no digest of the whole would miss
  CHECK(digest() == before);
  put(3, 'x');
  const std::string begun = digest();
  CHECK(begun != before);
  put(kSize - 1, 'x');
  const std::string ended = digest();
  CHECK(ended != begun);
  std::filesystem::resize_file(path, kSize + 1);
  CHECK(digest() != ended);
}

TEST_CASE("a replay of a prediction has no measured step time") {
  const test::Scratch scratch;
  const auto recorded = again(test::source_dir() + "/tests/golden/inputs/kineto_small.json");
  REQUIRE(recorded);
  const auto json_of = [](const Outcome& outcome) {
    return nlohmann::json::parse(to_json(outcome.summary));
  };
  CHECK(json_of(*recorded)["measured_step_time_ns"] == 189'875);
  const auto replayed = again(test::written(scratch.path("replayed.db"), recorded->run));
  REQUIRE(replayed);
  CHECK(json_of(*replayed)["measured_step_time_ns"].is_null());
}
