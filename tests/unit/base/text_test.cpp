#include "core/base/text.h"

#include <limits>
#include <catch2/catch.hpp>

using namespace foregather;

TEST_CASE("blanks go from both ends alone") {
  CHECK(trimmed(" a  b\t\r\n") == "a  b");
  CHECK(trimmed("a") == "a");
  CHECK(trimmed(" \t\n").empty());
  CHECK(trimmed("").empty());
}

TEST_CASE("times read well") {
  CHECK(format_time(0) == "0 ns");
  CHECK(format_time(812) == "812 ns");
  CHECK(format_time(999) == "999 ns");
  CHECK(format_time(1000) == "1.00 µs");
  CHECK(format_time(3412) == "3.41 µs");
  CHECK(format_time(27'500'000) == "27.5 ms");
  CHECK(format_time(812'345'678) == "812.3 ms");
  CHECK(format_time(1'204'400'000) == "1.204 s");
  CHECK(format_time(-27'500'000) == "-27.5 ms");
}

TEST_CASE("times round into the next unit") {
  CHECK(format_time(9'994) == "9.99 µs");
  CHECK(format_time(9'996) == "10.0 µs");
  CHECK(format_time(999'949) == "999.9 µs");
  CHECK(format_time(999'950) == "1.00 ms");
  CHECK(format_time(999'999'999) == "1.000 s");
  CHECK(format_time(3600 * kSecond) == "3600.000 s");
}

TEST_CASE("sizes read well") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(512) == "512 B");
  CHECK(format_bytes(12 * KiB) == "12.0 KiB");
  CHECK(format_bytes(MiB - 1) == "1.0 MiB");
  CHECK(format_bytes(GiB - 1) == "1.00 GiB");
  CHECK(format_bytes(79 * GiB + 154 * MiB) == "79.15 GiB");
  CHECK(format_bytes(-MiB) == "-1.0 MiB");
}

TEST_CASE("counts have commas") {
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1000) == "1,000");
  CHECK(format_count(-999) == "-999");
  CHECK(format_count(-1000) == "-1,000");
  CHECK(format_count(8'030'261'248) == "8,030,261,248");
  CHECK(format_count(std::numeric_limits<std::int64_t>::min()) == "-9,223,372,036,854,775,808");
}

TEST_CASE("columns line up") {
  TextTable table;
  table.row({"step", "27.5 ms"});
  table.row({"exposed communication", "3.41 µs", "x"});
  table.row({"a"});
  CHECK(table.text(2) ==
        "  step                   27.5 ms\n"
        "  exposed communication  3.41 µs  x\n"
        "  a\n");
  CHECK(TextTable().text().empty());
}
