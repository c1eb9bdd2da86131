#include "core/base/json_text.h"

#include <catch2/catch.hpp>

using namespace foregather;

namespace {

std::string twice(std::string_view text) {
  const Status unique = check_unique_keys(text, "f");
  return unique ? "" : unique.error().text();
}

}  // namespace

TEST_CASE("a key that an object has twice is an error at the second") {
  CHECK(twice("{\"a\": 1,\n \"b\": {\"c\": 1},\n \"a\": 2}") ==
        "f:3:2: the key \"a\" is given twice in one object, expected once; the first is at f:1:2");
  CHECK(twice("[1, {\"x\": {\"y\": 1, \"z\": 2, \"y\": 3}}]").starts_with("f:1:28: the key \"y\""));
  CHECK(twice("// \"a\": 1\n{\"a\": 1, /* , */ \"a\" : 2,}").starts_with("f:2:18: "));
}

TEST_CASE("equal keys of different objects, and equal values, are no error") {
  CHECK(twice("{\"a\": {\"a\": [{\"a\": 1}, {\"a\": 1}]}, \"b\": \"a\", \"c\": \"a\"}") == "");
  CHECK(twice("{\"a\\\"\": \"{\\\"a\\\": 1, \\\"a\\\": 2}\", \"a\": \"}\"}") == "");
  CHECK(twice("{\"a\": 1, // \"a\": 2\n \"b\": 2}") == "");
  CHECK(twice("[\"a\", \"a\"]") == "");
  CHECK(twice("3") == "");
  CHECK(twice("") == "");
}

TEST_CASE("the scan ends, whatever the text") {
  for (const std::string_view text : {"{\"a", "{\"a\\", "/*", "//", "}}]", "{\"a\":", "{\"", "\""})
    CHECK(twice(text) == "");
  const std::string deep = std::string(1'000'000, '[');
  CHECK(twice(deep) == "");
}

TEST_CASE("commas before closing brackets become blanks, whatever stands between") {
  CHECK(without_last_commas(R"({"a": [1, 2,], "b": {},})") == R"({"a": [1, 2 ], "b": {} })");
  CHECK(without_last_commas("[1, // \"]\n /* , */ ]") == "[1  // \"]\n /* , */ ]");
  CHECK(without_last_commas(R"(["a,]", "\",]"])") == R"(["a,]", "\",]"])");
  CHECK(without_last_commas("[1,") == "[1,");
}

TEST_CASE("places count lines and bytes from 1") {
  CHECK(place_in_text("f", "ab\ncd", 0) == "f:1:1");
  CHECK(place_in_text("f", "ab\ncd", 2) == "f:1:3");
  CHECK(place_in_text("f", "ab\ncd", 3) == "f:2:1");
  CHECK(place_in_text("f", "ab\ncd", 99) == "f:2:3");
  CHECK(place_in_text("f", "", 0) == "f:1:1");
}
