#include "core/base/json_writer.h"

#include <cmath>
#include <limits>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>

using namespace foregather;

TEST_CASE("objects and lists nest, fields keep their order") {
  JsonWriter json;
  json.begin_object().field("z", 1).field("a", "text");
  json.key("list").begin_array().value(1.5).value(true).null().end_array();
  json.key("empty").begin_object().end_object();
  json.key("none").begin_array().end_array().end_object();
  CHECK(json.text() ==
        "{\n"
        "  \"z\": 1,\n"
        "  \"a\": \"text\",\n"
        "  \"list\": [\n"
        "    1.5,\n"
        "    true,\n"
        "    null\n"
        "  ],\n"
        "  \"empty\": {},\n"
        "  \"none\": []\n"
        "}");
}

TEST_CASE("one bare value") {
  JsonWriter json;
  json.value(std::int64_t{-5});
  CHECK(json.text() == "-5");
}

TEST_CASE("numbers that JSON has not become null") {
  JsonWriter json;
  json.begin_array().value(std::nan("")).value(HUGE_VAL).value(-HUGE_VAL).end_array();
  CHECK(nlohmann::json::parse(json.text()).dump() == "[null,null,null]");
}

TEST_CASE("numbers are exact") {
  JsonWriter json;
  json.begin_array()
      .value(std::numeric_limits<std::int64_t>::min())
      .value(std::numeric_limits<std::int64_t>::max())
      .value(0.1)
      .value(std::numeric_limits<double>::max())
      .value(std::numeric_limits<double>::denorm_min())
      .end_array();
  const auto read = nlohmann::json::parse(json.text());
  CHECK(read[0] == std::numeric_limits<std::int64_t>::min());
  CHECK(read[1] == std::numeric_limits<std::int64_t>::max());
  CHECK(read[2] == 0.1);
  CHECK(read[3] == std::numeric_limits<double>::max());
  CHECK(read[4] == std::numeric_limits<double>::denorm_min());
}

TEST_CASE("quotes, escapes and broken UTF-8") {
  CHECK(json_quote("a\"b\\c\n\t\x01\x7f") == "\"a\\\"b\\\\c\\n\\t\\u0001\x7f\"");
  CHECK(json_quote("µs €") == "\"µs €\"");
  CHECK(json_quote("\xF0\x9F\x98\x80") == "\"\xF0\x9F\x98\x80\"");
  CHECK(json_quote("a\xFFz") == "\"a\xEF\xBF\xBDz\"");
  CHECK(json_quote("\xC0\x80") == "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");          // overlong
  CHECK(json_quote("\xED\xA0\x80").find('\xED') == std::string::npos);      // surrogate
  CHECK(json_quote("\xF4\x90\x80\x80").find('\xF4') == std::string::npos);  // beyond Unicode
  CHECK(json_quote("\xE2\x82") == "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");          // cut off
  CHECK(json_quote(std::string_view("\0", 1)) == "\"\\u0000\"");
}

TEST_CASE("any bytes give JSON that parses") {
  CHECK(rc::check([](const std::string& text) {
    const auto parsed = nlohmann::json::parse(json_quote(text), nullptr, false);
    RC_ASSERT(parsed.is_string());
  }));
}
