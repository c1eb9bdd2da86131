// Protobuf's wire format at its limits.
#include "traces/protobuf.h"

#include <catch2/catch.hpp>

#include "tests/support/chakra_bytes.h"

using namespace foregather;
using namespace foregather::traces;
using test::varint;

TEST_CASE("varints hold 64 bits and no more") {
  for (const std::uint64_t value :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{127}, std::uint64_t{128},
        std::uint64_t{1} << 32U, std::uint64_t{1} << 63U, ~std::uint64_t{0}}) {
    const std::string bytes = varint(value) + "x";
    std::string_view rest = bytes;
    std::uint64_t read = 1;
    REQUIRE(take_varint(rest, read));
    CHECK(read == value);
    CHECK(rest == "x");
  }
  const std::string ten(9, '\xff');
  for (const std::string& bad : {std::string(), std::string("\x80"), ten, ten + "\x02",
                                 ten + "\x80\x01", std::string(20, '\x80')}) {
    std::string_view rest = bad;
    std::uint64_t read = 0;
    CHECK_FALSE(take_varint(rest, read));
    CHECK(rest == bad);
  }
}

TEST_CASE("fields of every wire type, and damaged ones") {
  const std::string good = test::number_field(1, 300) + "\x11" +
                           std::string("\x01\0\0\0\0\0\0\x80", 8) + "\x1d" +
                           std::string("\x02\0\0\x01", 4) + test::bytes_field(4, "text");
  WireFields fields(good);
  REQUIRE(fields.next());
  CHECK(fields.number() == 300);
  REQUIRE(fields.next());
  CHECK(fields.type() == WireType::fixed64);
  CHECK(fields.number() == 0x8000000000000001U);
  REQUIRE(fields.next());
  CHECK(fields.number() == 0x01000002U);
  REQUIRE(fields.next());
  CHECK(fields.field() == 4);
  CHECK(fields.bytes() == "text");
  CHECK_FALSE(fields.next());
  CHECK_FALSE(fields.is_damaged());

  for (const std::string& bad :
       {std::string("\x08"),
        std::string("\x12\x05"
                    "abc"),
        std::string("\x11"
                    "1234567"),
        std::string("\x0b"), std::string("\x0f"), std::string("\x02\x01") + "a",
        "\x12" + varint(~std::uint64_t{0}) + "abc"}) {
    WireFields damaged(bad);
    CHECK_FALSE(damaged.next());
    CHECK(damaged.is_damaged());
  }
}

TEST_CASE("messages behind their lengths") {
  const auto read = [](const std::string& bytes) {
    const auto source = text_of(bytes);
    const std::string name = "m.et";
    WireMessages messages(*source, name);
    std::string all;
    for (;;) {
      const auto message = messages.next();
      if (!message) return message.error().text();
      if (!*message) return all + fmt::format("end of {}", messages.bytes());
      all += fmt::format("{}@{} ", (*message)->size(), messages.offset());
    }
  };
  CHECK(read("") == "end of 0");
  CHECK(read(test::framed("abc") + test::framed("") + test::framed(std::string(200, 'x'))) ==
        "3@0 0@4 200@5 end of 207");
  CHECK(read(test::framed("abc") + "\x05"
                                   "ab") ==
        "m.et: byte 4: ends inside a message of 5 bytes, of which 2 are there");
  CHECK(read("\xff\xff") == "m.et: byte 0: no length of a message, expected a varint");
  // A claim costs no memory.
  CHECK(read(varint(~std::uint64_t{0}) + "x") ==
        "m.et: byte 0: a message of 18446744073709551615 bytes, expected at most 64 MiB");
  CHECK(read(varint(64U << 20U) + "x") ==
        "m.et: byte 0: ends inside a message of 67108864 bytes, of which 1 are there");
  // Messages that lie across the pieces in which the text is read, and one longer than a piece.
  std::string many;
  for (int i = 0; i < 30'000; ++i) many += test::framed(std::string(100, 'y'));
  many += test::framed(std::string(3U << 20U, 'z'));
  CHECK(read(many).ends_with(fmt::format("3145728@3030000 end of {}", many.size())));
}
