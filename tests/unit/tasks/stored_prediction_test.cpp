#include <algorithm>
#include <filesystem>

#include <catch2/catch.hpp>

#include "core/base/file.h"
#include "tasks/simulate.h"
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
