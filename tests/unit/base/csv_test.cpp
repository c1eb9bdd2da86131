#include <catch2/catch.hpp>

#include <string>
#include <rapidcheck/catch.h>

#include "core/base/csv.h"

using namespace foregather;

namespace {

std::string error_of(std::string_view text) {
  const auto table = parse_csv(text, "t.csv");
  REQUIRE(!table.has_value());
  return table.error().text();
}

}  // namespace

TEST_CASE("cells, quotes and line ends of a table are read") {
  const auto table = parse_csv(
      "\xEF\xBB\xBF"
      "a,b\r\n1,\"x, \"\"y\"\"\nz\"\n\n,",
      "t.csv");
  REQUIRE(table.has_value());
  CHECK(table->rows() == 2);
  CHECK(table->cell(0, 0) == "1");
  CHECK(table->cell(0, 1) == "x, \"y\"\nz");
  CHECK(table->cell(1, 1).empty());
  CHECK(table->place(0, 1) == "t.csv:2:3");
  CHECK(table->place(1, 0) == "t.csv:5:1");
  CHECK(table->column("b") == 1U);
  CHECK(!table->column("c"));
}

TEST_CASE("broken tables are refused where they break") {
  CHECK(error_of("") == "t.csv: is empty, expected a line with the names of columns");
  CHECK(error_of("a,a\n") == "t.csv:1:3: column 'a' twice");
  CHECK(error_of("a,\n") == "t.csv:1:3: a column without a name");
  CHECK(error_of("a,b\n1\n") == "t.csv:2:1: 1 cells, expected 2");
  CHECK(error_of("a,b\n1,\"2\n") == "t.csv:2:3: a quote that does not end");
  CHECK(error_of("a,b\n1,\"2\"3\n").find("t.csv:2:6: text after a closing quote") == 0);
  CHECK(error_of("a\nx\"y\n").find("t.csv:2:2: a quote inside a cell") == 0);
}

TEST_CASE("what csv_cell writes is read back") {
  rc::prop("any text", [](const std::string& a, const std::string& b) {
    // A carriage return alone is no text of ours.
    if (a.find('\r') != std::string::npos || b.find('\r') != std::string::npos) return;
    const auto table = parse_csv("x,y,z\n" + csv_cell(a) + "," + csv_cell(b) + ",\n", "t.csv");
    RC_ASSERT(table.has_value());
    RC_ASSERT(table->rows() == 1);
    RC_ASSERT(table->cell(0, 0) == a);
    RC_ASSERT(table->cell(0, 1) == b);
  });
}

TEST_CASE("any bytes are a table or an error") {
  rc::prop("no crash", [](const std::string& text) {
    const auto table = parse_csv(text, "t.csv");
    if (table)
      for (std::size_t row = 0; row < table->rows(); ++row) (void)table->cell(row, 0);
  });
}
