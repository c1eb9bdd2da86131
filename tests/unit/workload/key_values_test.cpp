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

TEST_CASE("a list that does not end is refused, and a file's text keeps its brackets") {
  const auto open = listed("[\"q_proj\"");
  REQUIRE_FALSE(open);
  CHECK(open.error().message == "'[\"q_proj\"' is not a list, expected ']' at its end");
  CHECK(listed("[a]", false) == List{"[a]"});
}
