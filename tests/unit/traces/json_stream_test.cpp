// The splitter of JSON texts: windows, strings, ends that lack.
#include "traces/json_stream.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace foregather;
using traces::JsonTop;
using traces::JsonWindow;

namespace {

struct Read {
  Result<JsonTop> top = fail("not read");
  std::vector<std::string> elements;
  std::vector<std::string> keys;
  std::size_t windows = 0;
};

Read read_stream(std::string_view text, std::vector<std::string_view> arrays = {"events"}) {
  Read read;
  const auto source = traces::text_of(text);
  read.top = read_json(*source, "t.json",
                       {std::move(arrays), [&](const JsonWindow& window) {
                          ++read.windows;
                          CHECK(window.text.front() == '[');
                          CHECK(window.text.back() == ']');
                          REQUIRE(window.starts.size() >= 2);
                          for (std::size_t i = 0; i + 1 < window.starts.size(); ++i) {
                            const bool is_last = i + 2 == window.starts.size();
                            const std::size_t begin = window.starts[i];
                            const std::size_t end = window.starts[i + 1] - (is_last ? 0 : 1);
                            read.elements.emplace_back(window.text.substr(begin, end - begin));
                            read.keys.emplace_back(window.key);
                          }
                          return Status();
                        }});
  for (std::string& element : read.elements) {
    while (!element.empty() && element.back() <= ' ') element.pop_back();
    element.erase(0, element.find_first_not_of(" \n\r\t"));
  }
  return read;
}

std::string fault(std::string_view text) {
  const Read broken = read_stream(text);
  INFO(text.substr(0, 60));
  REQUIRE_FALSE(broken.top);
  return broken.top.error().text();
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("json stream: an array at the top, and one of an object among other values") {
  const Read bare = read_stream(R"([1, {"a": [2, 3]}, "x"])");
  REQUIRE(bare.top);
  CHECK(bare.top->is_array);
  CHECK(bare.elements == Texts{"1", R"({"a": [2, 3]})", "\"x\""});

  const Read object =
      read_stream(R"({"a": 1, "events": [ {"x":1} , 2 ], "b": {"events": [7]}, "c": [[]]})");
  REQUIRE(object.top);
  CHECK_FALSE(object.top->is_array);
  CHECK(object.elements == Texts{R"({"x":1})", "2"});
  CHECK(object.keys == Texts{"events", "events"});
  CHECK(object.top->object == R"({"a":1,"b":{"events": [7]},"c":[[]]})");
  CHECK(object.top->keys == Texts{"a", "events", "b", "c"});
}

TEST_CASE("json stream: empty ones") {
  for (const char* text : {"[]", " [ ] ", "{}", "{ }", R"({"events": []})", R"({"events":[ ]})"}) {
    INFO(text);
    const Read empty = read_stream(text);
    REQUIRE(empty.top);
    CHECK(empty.elements.empty());
    CHECK_FALSE(empty.top->is_cut);
  }
}

TEST_CASE("json stream: brackets, commas and quotes inside strings") {
  const Read strings = read_stream(R"(["a]b", "}{", "\"],[", "\\", {"k\"]": "\\\"}"}, ","])");
  REQUIRE(strings.top);
  CHECK(strings.elements ==
        Texts{R"("a]b")", R"("}{")", R"("\"],[")", R"("\\")", R"({"k\"]": "\\\"}"})", R"(",")"});
}

TEST_CASE("json stream: a raw line end inside a string is part of it") {
  const Read raw = read_stream("[{\"name\": \"a\n  b\"}, {\"name\": \"c\"}]");
  REQUIRE(raw.top);
  CHECK(raw.elements == Texts{"{\"name\": \"a\n  b\"}", "{\"name\": \"c\"}"});
}

TEST_CASE("json stream: a stray quote or backslash costs its line") {
  const Read quote = read_stream("[\n{\"n\": \"a\"b\",\n\"x\": 1},\n{\"n\": 2}\n]");
  REQUIRE(quote.top);
  CHECK(quote.elements == Texts{"{\"n\": \"a\"b\",\n\"x\": 1}", "{\"n\": 2}"});
  const Read path = read_stream("[\n{\"n\": \"C:\\dir\\\",\n\"x\": 1},\n{\"n\": 2}\n]");
  REQUIRE(path.top);
  CHECK(path.elements == Texts{"{\"n\": \"C:\\dir\\\",\n\"x\": 1}", "{\"n\": 2}"});
}

TEST_CASE("json stream: a byte order mark and white space around") {
  const Read marked = read_stream("\xef\xbb\xbf \n[1,\r\n2]\n \n");
  REQUIRE(marked.top);
  CHECK(marked.elements == Texts{"1", "2"});
}

TEST_CASE("json stream: elements across the borders of windows, in order and whole") {
  std::string text = "{\"events\": [";
  Texts expected;
  for (int i = 0; i < 60000; ++i) {
    // Of many lengths, so that borders fall everywhere: inside strings, escapes and between.
    expected.push_back("{\"i\": " + std::to_string(i) + ", \"s\": \"" +
                       std::string(static_cast<std::size_t>(i % 97), 'x') + "\\\"]\"}");
    text += (i == 0 ? "" : i % 3 == 0 ? ",\n" : ",") + expected.back();
  }
  text += "], \"after\": \"" + std::string(3 << 20, 'y') + "\"}";
  const Read long_text = read_stream(text);
  REQUIRE(long_text.top);
  CHECK(long_text.windows > 3);
  CHECK(long_text.elements == expected);
  CHECK(long_text.top->object.size() > std::size_t{3} << 20);
  CHECK(long_text.top->bytes == static_cast<Bytes>(text.size()));
}

TEST_CASE("json stream: an element longer than a window") {
  const std::string giant = "{\"s\": \"" + std::string(5 << 20, ']') + "\"}";
  const Read read_giant = read_stream("[1, " + giant + ", 2]");
  REQUIRE(read_giant.top);
  CHECK(read_giant.elements == Texts{"1", giant, "2"});
}

TEST_CASE("json stream: an element of more than 64 MiB is an error, not memory") {
  CHECK_THAT(fault("[1, \"" + std::string(70 << 20, 'x') + "\"]"),
             Catch::Contains("has a value of more than 64 MiB"));
}

TEST_CASE("json stream: a bare array without its end is read as far as it goes") {
  const Read whole = read_stream("[{\"a\": 1}, {\"b\": 2}");
  REQUIRE(whole.top);
  CHECK(whole.top->is_cut);
  CHECK_FALSE(whole.top->has_cut_element);
  CHECK(whole.elements == Texts{"{\"a\": 1}", "{\"b\": 2}"});

  const Read comma = read_stream("[{\"a\": 1},\n");
  REQUIRE(comma.top);
  CHECK(comma.top->is_cut);
  CHECK(comma.elements == Texts{"{\"a\": 1}"});

  const Read cut = read_stream("[{\"a\": 1}, {\"b\": \"2");
  REQUIRE(cut.top);
  CHECK(cut.top->is_cut);
  CHECK(cut.top->has_cut_element);
  CHECK(cut.top->bytes == 19);
  CHECK(cut.elements == Texts{"{\"a\": 1}"});

  const Read nothing = read_stream("[");
  REQUIRE(nothing.top);
  CHECK(nothing.top->is_cut);
  CHECK(nothing.elements.empty());
}

TEST_CASE("json stream: cut anywhere, a bare array gives what was whole") {
  const std::string text = R"([{"a": "]"}, {"b": [1, 2]}, "c\"", 4])";
  const Texts whole{R"({"a": "]"})", R"({"b": [1, 2]})", R"("c\"")", "4"};
  for (std::size_t n = 1; n < text.size(); ++n) {
    INFO(text.substr(0, n));
    const Read cut = read_stream(std::string_view(text).substr(0, n));
    REQUIRE(cut.top);
    CHECK(cut.top->is_cut);
    REQUIRE(cut.elements.size() <= whole.size());
    CHECK(std::equal(cut.elements.begin(), cut.elements.end(), whole.begin()));
  }
}

TEST_CASE("json stream: a comma before the end") {
  const Read trailing = read_stream("[1, 2, ]");
  REQUIRE(trailing.top);
  CHECK(trailing.elements == Texts{"1", "2"});
  CHECK_FALSE(trailing.top->is_cut);
}

TEST_CASE("json stream: what is wrong has its place") {
  CHECK(fault("") == "t.json:1:1: is no JSON, expected an object or an array");
  CHECK(fault("\n  hello") == "t.json:2:3: is no JSON, expected an object or an array");
  CHECK(fault("[1]\n\nx") == "t.json:3:1: goes on behind its end, expected nothing");
  CHECK(fault("{\"a\": 1} {}") == "t.json:1:10: goes on behind its end, expected nothing");
  CHECK(fault("{\"a\" 1}") == "t.json:1:6: expected : behind the key \"a\"");
  CHECK_THAT(fault("{a: 1}"), Catch::StartsWith("t.json:1:2: expected a key in quotes"));
  CHECK_THAT(fault("{\"a\": }"), Catch::StartsWith("t.json:1:7: expected a value of \"a\""));
  CHECK_THAT(fault("{\"a\": 1"), Catch::Contains("ends inside"));
  CHECK_THAT(fault("{\"events\": [1, 2"), Catch::Contains("ends inside \"events\""));
  CHECK_THAT(fault("[1, 2}"), Catch::Contains("has a } too many"));
  CHECK_THAT(fault("{"), Catch::StartsWith("t.json:1:2: "));
}

TEST_CASE("json stream: places count lines of windows that are gone") {
  std::string text = "[";
  for (int i = 0; i < 300000; ++i) text += "{\"a\": 1},\n";
  text += "{} ] x";
  CHECK(fault(text) == "t.json:300001:6: goes on behind its end, expected nothing");
}

TEST_CASE("json stream: a visitor's error ends the reading") {
  const auto source = traces::text_of("[1, 2]");
  const auto top = read_json(*source, "t.json",
                             {{}, [](const JsonWindow&) -> Status { return fail("enough"); }});
  REQUIRE_FALSE(top);
  CHECK(top.error().message == "enough");
}
