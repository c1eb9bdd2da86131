// `import --json` against figures of an independent reader: facts.json of the shared data.
#include <cmath>
#include <fstream>
#include <set>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/compare/exposed.h"
#include "tasks/import.h"
#include "tasks/import_run.h"
#include "tests/support/skip.h"

using namespace foregather;
using Json = nlohmann::json;

namespace {

// Objects whose keys are data: none may be missing, none too many.
bool is_closed(const std::string& key) {
  static const std::set<std::string> keys{
      "streams",           "step_us", "cats",  "ph",    "comm_kinds", "memory",  "per_device",
      "collective_args",   "tables",  "kinds", "names", "lane_kinds", "actions", "block_states",
      "allocator_settings"};
  return keys.contains(key);
}

// Counts exactly, times within a microsecond, percentages within 0.01.
void compare(const Json& expected, const Json& found, const std::string& key,
             const std::string& path) {
  constexpr std::size_t kMostStreams = 40;
  INFO(path);
  if (expected.is_object()) {
    REQUIRE(found.is_object());
    for (const auto& [name, value] : expected.items()) {
      INFO(path << "/" << name);
      REQUIRE(found.contains(name));
      compare(value, found.at(name), name, path + "/" + name);
    }
    if (is_closed(key) && expected.size() < kMostStreams) CHECK(found.size() == expected.size());
  } else if (expected.is_array()) {
    REQUIRE(found.is_array());
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      compare(expected[i], found[i], key, path + "/" + std::to_string(i));
  } else if (expected.is_number_float() || found.is_number_float()) {
    REQUIRE(found.is_number());
    const double tolerance = key.find("pct") != std::string::npos ? 0.01 + 1e-9 : 1.0;
    CHECK(std::abs(found.get<double>() - expected.get<double>()) <= tolerance);
  } else {
    CHECK(found == expected);
  }
}

// What the files of these entries hold, each compared. False: no shared data.
bool compare_folder(const std::string& folder, const std::function<bool(const Json&)>& is_compared,
                    std::size_t at_least) {
  const auto facts_path = test::shared_data("facts.json");
  if (!facts_path) return false;
  const Json facts = Json::parse(std::ifstream(*facts_path));
  std::size_t compared = 0;
  for (const auto& [name, expected] : facts.items()) {
    if (!name.starts_with(folder) || !is_compared(expected)) continue;
    INFO(name);
    const std::string path = (facts_path->parent_path() / name).string();
    const auto files = tasks::import_files({path});
    REQUIRE(files);
    REQUIRE(files->size() == 1);
    const Json found = Json::parse(tasks::to_json(*files));
    compare(expected, found, "", name);
    if (found.contains("rows")) {
      std::int64_t accounted = found["rows"]["kept"].get<std::int64_t>();
      for (const auto& part : {found["rows"]["unused"], found["dropped"]})
        for (const auto& [word, n] : part.items()) accounted += n.get<std::int64_t>();
      CHECK(found["rows"]["read"] == accounted);
    }
    ++compared;
  }
  CHECK(compared >= at_least);
  return true;
}

}  // namespace

TEST_CASE("import facts: torch.profiler traces") {
  if (!compare_folder(
          "kineto/", [](const Json& facts) { return facts.contains("cats"); }, 33))
    FOREGATHER_SKIP("the shared data are absent");
}

TEST_CASE("import facts: pipeline timelines") {
  if (!compare_folder(
          "pipeline/", [](const Json& facts) { return facts.contains("lanes"); }, 2))
    FOREGATHER_SKIP("the shared data are absent");
}

TEST_CASE("import facts: Nsight Systems exports") {
  if (!compare_folder(
          "nsys/", [](const Json&) { return true; }, 5))
    FOREGATHER_SKIP("the shared data are absent");
}

TEST_CASE("import facts: memory snapshots") {
  if (!compare_folder(
          "memsnap/", [](const Json&) { return true; }, 7))
    FOREGATHER_SKIP("the shared data are absent");
}

TEST_CASE("import facts: processes of a Nsight Systems export are ranks") {
  const auto facts_path = test::shared_data("facts.json");
  if (!facts_path) FOREGATHER_SKIP("the shared data are absent");
  int compared = 0;
  const Json all = Json::parse(std::ifstream(*facts_path));
  for (const auto& [name, facts] : all.items()) {
    if (!name.starts_with("nsys/") || facts.at("per_device").size() < 2) continue;
    INFO(name);
    const auto files = tasks::import_files({(facts_path->parent_path() / name).string()});
    REQUIRE(files);
    const auto measured = tasks::recorded_run(*files, std::nullopt);
    REQUIRE(measured);
    const run::Run& run = measured->run;
    REQUIRE(run.classes.size() == facts["per_device"].size());
    CHECK(run.about.world_size == run.classes.size());
    for (std::size_t rank = 0; rank < run.classes.size(); ++rank) {
      const Json& device = facts["per_device"][std::to_string(rank)];
      const auto busy = compare::busy_times(run, run::StepRow(rank));
      CHECK(busy.comm + busy.wait == device["comm_union_ns"].get<std::int64_t>());
      CHECK(busy.compute >= device["compute_union_ns"].get<std::int64_t>());  // with its copies
      CHECK(busy.ops > device["kernels"].get<std::int64_t>());
      ++compared;
    }
  }
  CHECK(compared >= 6);
}
