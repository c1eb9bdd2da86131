// The end of a value, found by blocks, against one byte at a time.
#include "traces/json_scan.h"

#include <algorithm>
#include <random>
#include <string>
#include <catch2/catch.hpp>

using namespace foregather::traces;

namespace {

std::size_t end_by_bytes(std::string_view text, std::size_t from) {
  int depth = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text[i] == '"' && (i = string_end(text, i)) >= text.size()) break;
    if (text[i] == '{' || text[i] == '[') ++depth;
    if ((text[i] == '}' || text[i] == ']') && depth-- == 0) return i;
    if (text[i] == ',' && depth == 0) return i;
  }
  return text.size();
}

}  // namespace

TEST_CASE("json scan: blocks find what bytes find") {
  std::mt19937 random(7);
  // Long runs of what is plain, so that blocks with and without marks come in turn.
  const std::string letters = "aaaaaaaaaaaaaaaa    ::::0123\"\"\"\"\"\"{{{[[}}}]],,\\\n";
  for (int round = 0; round < 20'000; ++round) {
    std::string text(1 + random() % 400, ' ');
    const std::size_t few = random() % 2 == 0 ? letters.size() : letters.size() - 2;
    std::generate(text.begin(), text.end(), [&] { return letters[random() % few]; });
    INFO(text);
    const std::size_t from = std::min<std::size_t>(1 + random() % 3, text.size());
    REQUIRE(value_end(text, from) == end_by_bytes(text, from));
  }
}

TEST_CASE("json scan: events of a profiler, strings across blocks") {
  const std::string name(150, 'n');
  const std::string event =
      R"({"ph":"X","name":")" + name + R"(, {[","args":{"a":[1,2],"b":"\""}})";
  for (std::size_t shift = 0; shift < 130; ++shift) {
    const std::string text = "[" + std::string(shift, ' ') + event + "," + event + "]";
    const std::size_t first = value_end(text, 1);
    CHECK(first == 1 + shift + event.size());
    CHECK(value_end(text, first + 1) == text.size() - 1);
    CHECK(value_end(text.substr(0, first - 1), 1) == first - 1);
  }
}

TEST_CASE("json scan: lines are counted in blocks too") {
  std::string text(1000, 'x');
  for (std::size_t i = 0; i < text.size(); i += 7) text[i] = '\n';
  for (std::size_t n = 0; n < 300; ++n)
    CHECK(count_newlines(std::string_view(text).substr(0, n)) == (n + 6) / 7);
}
