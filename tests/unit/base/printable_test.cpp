#include "core/base/printable.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>

using namespace foregather;

TEST_CASE("what a terminal obeys or hides is escaped") {
  CHECK(printable("a b/c.toml: 'µs' × 漢 \U0001F600 \\n") ==
        "a b/c.toml: 'µs' × 漢 \U0001F600 \\n");
  CHECK(printable("a\nb\r\tc") == "a\\nb\\r\\tc");
  CHECK(printable("\x1b[31mred\x07\x7f") == "\\x1b[31mred\\x07\\x7f");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\xC2\x9B"
                  "31m") == "\\u{9b}31m");
  CHECK(printable("\u202Egnp.exe\u2066\u2028\uFEFF") ==
        "\\u{202e}gnp.exe\\u{2066}\\u{2028}\\u{feff}");
  CHECK(printable("\xff\xC3(\xE2\x82") == "\\xff\\xc3(\\xe2\\x82");
  CHECK(printable("a\nb\x1b", true) == "a\nb\\x1b");
}

TEST_CASE("a text that is too long keeps its beginning and its end") {
  CHECK(shortened("abc", 3) == "abc");
  CHECK(shortened("abcdef", 3) == "ab…f");
  CHECK(printable(shortened("µµµ", 3)) == "µ…\\xb5");
}

TEST_CASE("any bytes become one printable line") {
  rc::prop("no control character, and again the same", [](const std::string& bytes) {
    const std::string shown = printable(bytes);
    RC_ASSERT(std::none_of(shown.begin(), shown.end(), [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    }));
    RC_ASSERT(printable(shown) == shown);
  });
}
