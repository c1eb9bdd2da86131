#include <catch2/catch.hpp>

#include <fstream>
#include <sstream>

#include "tasks/validation/reproduce.h"
#include "tests/support/places.h"

using namespace foregather;

TEST_CASE("published effects are reproduced, and docs/reproduce.md says so") {
  const std::string root = test::source_dir();
  const auto rows = tasks::reproduce(root + "/traces/samples");
  REQUIRE(rows);
  CHECK(rows->size() == 20);
  for (const tasks::Reproduced& row : *rows) {
    INFO(row.source << ": " << row.what << " " << row.predicted);
    CHECK(row.holds());
  }
  std::stringstream written;
  written << std::ifstream(root + "/docs/reproduce.md").rdbuf();
  CHECK(written.str() == tasks::reproduced_markdown(*rows));
}

TEST_CASE("a sample that is missing is named") {
  const auto rows = tasks::reproduce("/nowhere");
  REQUIRE(!rows);
  CHECK(rows.error().place == "/nowhere/thunder_tied_linear.txt");
}
