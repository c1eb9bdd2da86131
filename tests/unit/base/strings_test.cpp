#include "core/base/strings.h"

#include <string>
#include <vector>
#include <catch2/catch.hpp>

#include "core/base/result.h"

using namespace foregather;

TEST_CASE("strings are interned in order of first insertion") {
  StringTable table;
  const StringId a = table.intern("a");
  const StringId b = table.intern("b");
  CHECK(table.intern(std::string("a")) == a);
  CHECK(a.row() == 0);
  CHECK(b.row() == 1);
  CHECK(table.size() == 2);
  CHECK(table.text(b) == "b");
}

TEST_CASE("an absent id has no text, the empty string has an id") {
  StringTable table;
  CHECK(table.text({}).empty());
  const StringId empty = table.intern("");
  CHECK(empty);
  CHECK(table.text(empty).empty());
  CHECK(table.size() == 1);
}

TEST_CASE("views outlive later insertions and moves") {
  StringTable table;
  const std::string_view first = table.text(table.intern("first"));
  for (int i = 0; i < 10'000; ++i) table.intern(std::to_string(i));
  CHECK(first == "first");
  StringTable moved = std::move(table);
  CHECK(first == "first");
  CHECK(moved.intern("first").row() == 0);
  CHECK(moved.size() == 10'001);
  // What was moved from is an empty table.
  CHECK(table.intern("second").row() == 0);
  CHECK(moved.text(StringId(10'000)) == "9999");
}

TEST_CASE("texts of any length are kept") {
  StringTable table;
  std::vector<std::string> texts;
  for (std::size_t length = 0; length < 9000; length = length * 3 / 2 + 1)
    for (const char letter : {'a', 'b'}) texts.emplace_back(length, letter);
  for (const std::string& text : texts) table.intern(text);
  CHECK(table.size() == texts.size() - 1);  // "" twice
  for (const std::string& text : texts) CHECK(table.text(table.intern(text)) == text);
  CHECK(table.size() == texts.size() - 1);
}

TEST_CASE("a copy stands alone") {
  StringTable table;
  table.intern("a");
  StringTable copy = table;
  copy.intern("b");
  CHECK(table.size() == 1);
  CHECK(copy.intern("a").row() == 0);
  table = StringTable();
  CHECK(copy.text(StringId(0)) == "a");
  copy = *&copy;
  CHECK(copy.size() == 2);
}

TEST_CASE("ids") {
  using RowId = Id<struct RowTag>;
  CHECK(!RowId());
  CHECK(RowId(0));
  CHECK(RowId(1) < RowId(2));
  CHECK(RowId(3).row() == 3);
  CHECK(std::hash<RowId>()(RowId(3)) == std::hash<RowId>()(RowId(3)));
}

TEST_CASE("errors read PLACE: MESSAGE") {
  CHECK(Error{"a.toml:1:2", "is wrong"}.text() == "a.toml:1:2: is wrong");
  CHECK(Error{{}, "is wrong"}.text() == "is wrong");
  const Result<int> input = fail("{} of {}", 1, 2);
  CHECK(input.error().message == "1 of 2");
  CHECK(input.error().fault == Fault::input);
  const Status work = fail_work("x", "disk");
  CHECK(work.error().fault == Fault::work);
  const Status placed = fail_at("here:1:2", "there");
  CHECK(placed.error().text() == "here:1:2: there");
}
