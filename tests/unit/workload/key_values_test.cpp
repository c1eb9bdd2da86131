// Values of keys as files and command lines write them.
#include <catch2/catch.hpp>

#include "core/plan/key_values.h"

using namespace foregather;
using namespace foregather::plan;

namespace {

using List = std::vector<std::string>;

Result<List> listed(std::string text, bool is_command_line = true) {
  return to_list(KeyValue{std::move(text), is_command_line});
}

}  // namespace

TEST_CASE("a list on a command line is a text with commas, or written as in a file") {
  const List both = {"q_proj", "v_proj"};
  for (const char* text : {"q_proj,v_proj", " q_proj , v_proj", "[\"q_proj\",\"v_proj\"]",
                           "[ \"q_proj\", 'v_proj' ]", "[q_proj, v_proj]"}) {
    CAPTURE(text);
    CHECK(listed(text) == both);
  }
  CHECK(listed("[]") == List{});
  CHECK(listed("") == List{});
  CHECK(listed("[\"q_proj\"]") == List{"q_proj"});
}

TEST_CASE("values become JSON: lists, texts, and what a command line leaves open") {
  CHECK(to_json(KeyValue{List{"q", "v \"p\"", "2"}}) == R"(["q","v \"p\"",2])");
  CHECK(to_json(KeyValue{List{}}) == "[]");
  CHECK(to_json(KeyValue{std::string("2"), false}) == "\"2\"");
  CHECK(to_json(KeyValue{std::string("2"), true}) == "2");
  CHECK(to_json(KeyValue{std::string("null"), true}) == "null");
  CHECK(to_json(KeyValue{std::string("a\nb"), true}) == "\"a?b\"");
}

TEST_CASE("a time has its limits") {
  const auto time = [](const char* text) {
    const auto read = to_time(KeyValue{std::string(text), true}, 5, 2 * kSecond);
    return read ? std::to_string(*read) : read.error().message;
  };
  CHECK(time("1.5 us") == "1500");
  CHECK(time("2 s") == "2000000000");
  CHECK(time("4 ns") == "'4 ns' is out of range, expected a time from 5 ns to 2 s");
  CHECK(time("2.5s") == "'2.5s' is out of range, expected a time from 5 ns to 2 s");
}

TEST_CASE("a list that does not end is refused, and a file's text keeps its brackets") {
  const auto open = listed("[\"q_proj\"");
  REQUIRE_FALSE(open);
  CHECK(open.error().message == "'[\"q_proj\"' is not a list, expected ']' at its end");
  CHECK(listed("[a]", false) == List{"[a]"});
}
