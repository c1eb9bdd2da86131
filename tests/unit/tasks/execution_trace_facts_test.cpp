// Published execution traces: the figures of an independent reader (facts.json).
#include <fstream>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tasks/import.h"
#include "tests/support/skip.h"

using namespace foregather;
using Json = nlohmann::json;

TEST_CASE("execution traces have the figures of facts.json") {
  const auto path = test::shared_data("facts.json");
  if (!path) FOREGATHER_SKIP("the shared facts are absent");
  const Json facts = Json::parse(std::ifstream(*path));
  int compared = 0;
  for (const auto& [name, expected] : facts.items()) {
    if (!name.starts_with("et/") && !name.ends_with("_et.json.gz")) continue;
    const auto files = tasks::import_files({(path->parent_path() / name).string()});
    INFO(name);
    if (!files) FAIL(files.error().text());
    const Json printed = Json::parse(tasks::to_json(*files));
    for (const auto& [key, value] : expected.items()) {
      INFO(key);
      CHECK(printed[key] == value);
    }
    CHECK(printed["dropped"].empty());
    ++compared;
  }
  CHECK(compared == 11);
}
