// The pickle interpreter: what it reads, and what it refuses.
#include <string>
#include <string_view>
#include <catch2/catch.hpp>

#include "traces/pickle.h"
#include "traces/pickle_writer.h"

using namespace foregather;
using namespace foregather::traces;
using namespace std::string_literals;
using namespace std::string_view_literals;

namespace {

using Kind = PickleValue::Kind;

/// Leaves all containers as they are.
class NoShapes final : public PickleShapes {
 public:
  Result<std::optional<PickleValue>> dict(std::span<const PickleValue>) override {
    return std::nullopt;
  }
  Result<std::optional<PickleValue>> sequence(std::span<const PickleValue>) override {
    return std::nullopt;
  }
};

/// Text of a value, as Python would print it.
class PickleText {
 public:
  std::string read(std::string_view bytes) {
    ByteStream stream = ByteStream::of(bytes);
    NoShapes shapes;
    const auto value = read_pickle(stream, heap_, shapes);
    return value ? shown(*value) : "error: " + value.error().message;
  }

 private:
  std::string shown(const PickleValue& value) const {
    switch (value.kind) {
      case Kind::none: return "None";
      case Kind::boolean: return value.integer != 0 ? "True" : "False";
      case Kind::integer: return std::to_string(value.integer);
      case Kind::unsigned_integer: return std::to_string(static_cast<std::uint64_t>(value.integer));
      case Kind::big: return "big";
      case Kind::real: return fmt::format("{}", value.real);
      case Kind::text: return fmt::format("'{}'", heap_.strings.text(value.text()));
      case Kind::bytes: return "bytes";
      case Kind::container: return shown(value.container());
      case Kind::record: return "record";
    }
    return "?";
  }
  std::string shown(ContainerId id) const {
    std::string out;
    const bool is_dict = heap_.kind(id) == PickleContainer::dict;
    const auto items = heap_.items(id);
    for (std::size_t i = 0; i < items.size(); ++i)
      out += (i == 0 ? "" : is_dict && i % 2 == 1 ? ": " : ", ") + shown(items[i]);
    if (is_dict) return "{" + out + "}";
    return heap_.kind(id) == PickleContainer::list ? "[" + out + "]" : "(" + out + ")";
  }

  PickleHeap heap_;
};

std::string read_pickle_body(std::string_view body, int protocol = 4) {
  return PickleText().read("\x80"s + static_cast<char>(protocol) + std::string(body));
}

}  // namespace

TEST_CASE("scalars are read") {
  CHECK(read_pickle_body("N.") == "None");
  CHECK(read_pickle_body("\x88.") == "True");
  CHECK(read_pickle_body("\x89.") == "False");
  CHECK(read_pickle_body("K\xff.") == "255");
  CHECK(read_pickle_body("M\x01\x02.") == "513");
  CHECK(read_pickle_body("J\xfe\xff\xff\xff.") == "-2");
  CHECK(read_pickle_body("G\x3f\xf8\0\0\0\0\0\0."s) == "1.5");
  CHECK(read_pickle_body("\x8c\x02hi.") == "'hi'");
  CHECK(read_pickle_body("X\x02\0\0\0hi."s) == "'hi'");
  CHECK(read_pickle_body("\x8d\x02\0\0\0\0\0\0\0hi."s) == "'hi'");
  CHECK(read_pickle_body("C\x02hi.") == "bytes");
}

TEST_CASE("integers of any length are read, those beyond 64 bits without their value") {
  CHECK(read_pickle_body("\x8a\0."s) == "0");
  CHECK(read_pickle_body("\x8a\x01\xff."s) == "-1");
  CHECK(read_pickle_body("\x8a\x06\0\0\0\0\xf0\x7f."s) == "140668768878592");
  CHECK(read_pickle_body("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."s) == "9223372036854775807");
  CHECK(read_pickle_body("\x8a\x08\0\0\0\0\0\0\0\x80."s) == "-9223372036854775808");
  CHECK(read_pickle_body("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0."s) == "18446744073709551615");
  CHECK(read_pickle_body("\x8a\x09\0\0\0\0\0\0\0\0\x01."s) == "big");
  CHECK(read_pickle_body("\x8a\x09\0\0\0\0\0\0\0\0\xff."s) == "big");
  CHECK(read_pickle_body("\x8b\x02\0\0\0\x01\x02."s) == "513");
}

TEST_CASE("containers are read in every notation") {
  CHECK(read_pickle_body("].") == "[]");
  CHECK(read_pickle_body("]K\x01\x61.") == "[1]");
  CHECK(read_pickle_body("](K\x01K\x02\x65.") == "[1, 2]");
  CHECK(read_pickle_body("(K\x01K\x02l.") == "[1, 2]");
  CHECK(read_pickle_body("}.") == "{}");
  CHECK(read_pickle_body("}\x8c\x01\x61K\x01s.") == "{'a': 1}");
  CHECK(read_pickle_body("}(\x8c\x01\x61K\x01\x8c\x01\x62Nu.") == "{'a': 1, 'b': None}");
  CHECK(read_pickle_body("(\x8c\x01\x61K\x01\x64.") == "{'a': 1}");
  CHECK(read_pickle_body(").") == "()");
  CHECK(read_pickle_body("K\x01\x85.") == "(1)");
  CHECK(read_pickle_body("K\x01K\x02\x86.") == "(1, 2)");
  CHECK(read_pickle_body("K\x01K\x02K\x03\x87.") == "(1, 2, 3)");
  CHECK(read_pickle_body("(K\x01K\x02t.") == "(1, 2)");
  CHECK(read_pickle_body("K\x01K\x02\x30.") == "1");
  CHECK(read_pickle_body("K\x01(K\x02K\x03\x31.") == "1");
  CHECK(read_pickle_body("K\x01\x32\x86.") == "(1, 1)");
}

TEST_CASE("objects are shared by both kinds of memo") {
  CHECK(read_pickle_body("](]\x94h\x00"
                         "e."s) == "[[], []]");
  CHECK(read_pickle_body("](]q\x05h\x05"
                         "e."s) == "[[], []]");
  CHECK(read_pickle_body("](]r\x07\0\0\0j\x07\0\0\0"
                         "e."s) == "[[], []]");
  CHECK(read_pickle_body("\x95\x01\0\0\0\0\0\0\0]."s) == "[]");
}

TEST_CASE("protocols 2 to 5 are read, up to three NUL bytes may follow") {
  for (const int protocol : {2, 3, 4, 5}) CHECK(read_pickle_body("N.", protocol) == "None");
  for (const int protocol : {0, 1, 6, 255})
    CHECK(read_pickle_body("N.", protocol) ==
          fmt::format("error: byte 0: is a pickle of protocol {}, expected 2 to 5", protocol));
  CHECK(read_pickle_body("N.\0\0\0"s) == "None");
  CHECK(read_pickle_body("N.\0\0\0\0"s) ==
        "error: byte 4: 4 bytes follow the end of the pickle, expected none");
  CHECK(read_pickle_body("N.x") ==
        "error: byte 4: 1 bytes follow the end of the pickle, expected none");
}

TEST_CASE("what names code, calls it or reads elsewhere is refused by name") {
  const auto refused = [](std::string_view body) {
    const std::string text = read_pickle_body(body);
    const auto begin = text.find("opcode ");
    REQUIRE(begin != std::string::npos);
    return text.substr(begin + 7, text.find(' ', begin + 7) - begin - 7);
  };
  CHECK(refused("cos\nsystem\n.") == "GLOBAL");
  CHECK(refused("\x8c\x02os\x8c\x06system\x93.") == "STACK_GLOBAL");
  CHECK(refused("(ios\nsystem\n.") == "INST");
  CHECK(refused("(o.") == "OBJ");
  CHECK(refused("))\x81.") == "NEWOBJ");
  CHECK(refused("\x92.") == "NEWOBJ_EX");
  CHECK(refused("))R.") == "REDUCE");
  CHECK(refused("}}b.") == "BUILD");
  CHECK(refused("\x82\x01.") == "EXT1");
  CHECK(refused("\x83\x01\x02.") == "EXT2");
  CHECK(refused("\x84\x01\x02\x03\x04.") == "EXT4");
  CHECK(refused("Pid\n.") == "PERSID");
  CHECK(refused("Q.") == "BINPERSID");
  CHECK(refused("\x97.") == "NEXT_BUFFER");
  CHECK(refused("\x98.") == "READONLY_BUFFER");
  CHECK(read_pickle_body("I1\n.") ==
        "error: byte 2: unknown opcode 0x49, expected a pickle of protocol 2 to 5");
}

TEST_CASE("a stack that does not fit an opcode is refused") {
  for (const std::string_view body :
       {"."sv,      "e."sv,       "u."sv,           "a."sv,    "s."sv,
        "0."sv,     "1."sv,       "2."sv,           "\x94."sv, "h\x00."sv,
        "h\x05."sv, "(e."sv,      "(u."sv,          "N(Ne."sv, "N(\x8c\x01\x61Nu."sv,
        "}(Nu."sv,  "}(NNu."sv,   "](K\x01\x61."sv, "\x85."sv, "NN."sv,
        "(."sv,     "]N\x85(a."sv})
    CHECK(read_pickle_body(body).starts_with("error: byte "));
}

TEST_CASE("lengths beyond the end are refused before anything is allocated") {
  CHECK(
      read_pickle_body("\x8d\0\0\0\0\0\0\0\x10hi."s) ==
      "error: byte 2: a length of 1152921504606846976 bytes, expected at most the 3 that are left");
  CHECK(read_pickle_body("\x95\xff\xff\xff\xff\xff\xff\xff\xff."s)
            .starts_with("error: byte 2: a length of"));
  CHECK(read_pickle_body("X\xff\xff\xff\xff."s).starts_with("error: byte 2: a length of"));
  CHECK(read_pickle_body("B\xff\xff\xff\xff."s).starts_with("error: byte 2: a length of"));
  CHECK(read_pickle_body("\x8b\xff\xff\xff\xff."s).starts_with("error: byte 2: a length of"));
  CHECK(read_pickle_body("\x8c\xff."s).starts_with("error: byte 2: a length of"));
  CHECK(read_pickle_body("]r\xff\xff\xff\xff."s) ==
        "error: byte 3: memo entry 4294967295, expected a smaller number");
}

TEST_CASE("bombs are refused at their limits") {
  const auto times = [](std::size_t count, std::string_view part) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i) out += part;
    return out;
  };
  CHECK(read_pickle_body(times(1000, "(")) ==
        "error: byte 66: more than 64 containers inside each other, expected fewer");
  CHECK(read_pickle_body(times(1000, "]") + times(999, "a") + ".").find("nested deeper than 64") !=
        std::string::npos);
  CHECK(read_pickle_body(times(100'000, "]")).find("more than 65536 empty containers wait") !=
        std::string::npos);
  CHECK(read_pickle_body(times(100'000, ")\x85")).find("error: ") == 0);
  // A list of lists of lists, each twice: the tree has 2^50 leaves, the graph 51 nodes.
  std::string shared = "]\x94";
  for (int level = 0; level < 50; ++level)
    shared += "](h"s + static_cast<char>(level) + "h" + static_cast<char>(level) + "e\x94";
  NoShapes shapes;
  const std::string laughs = "\x80\x04](" + shared + "e.";
  ByteStream laughing = ByteStream::of(laughs);
  PickleHeap laughed;
  CHECK(read_pickle(laughing, laughed, shapes));
  CHECK(laughed.held() == 151);
  // A list that holds itself.
  ByteStream stream = ByteStream::of("\x80\x04]\x94h\0a."sv);
  PickleHeap heap;
  CHECK(read_pickle(stream, heap, shapes));
}

TEST_CASE("a pickle cut anywhere is refused") {
  PickleWriter writer;
  writer.begin_dict().field("a", 1).field("long", std::int64_t{1} << 40).field("x", 2.5);
  writer.key("list").begin_list().value("text").value(std::string(300, 'y')).value(true);
  writer.pair(70000, -3).end_list().end_dict().finish();
  const std::string whole = writer.take();
  REQUIRE(
      PickleText().read(whole).starts_with("{'a': 1, 'long': 1099511627776, 'x': 2.5, 'list': ["));
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK(PickleText().read(whole.substr(0, size)).starts_with("error: byte "));
}

TEST_CASE("the writer's batches and references are read back") {
  PickleWriter writer;
  writer.begin_list();
  std::string expected = "[";
  for (int i = 0; i < 2500; ++i) {
    writer.value(i % 2 == 0 ? "even" : "odd");
    expected += (i == 0 ? "'" : ", '") + std::string(i % 2 == 0 ? "even" : "odd") + "'";
  }
  writer.end_list().finish();
  CHECK(PickleText().read(writer.take()) == expected + "]");
}

TEST_CASE("values, and bytes of an integer, are refused at their limits") {
  const auto refused = [](std::string_view body, PickleLimits limits) {
    const std::string bytes = "\x80\x04" + std::string(body);
    ByteStream stream = ByteStream::of(bytes);
    PickleHeap heap;
    NoShapes shapes;
    const auto value = read_pickle(stream, heap, shapes, limits);
    return value ? "" : value.error().message;
  };
  PickleLimits stack, values, text;
  stack.stack = 2;
  values.values = 3;
  text.text = 2;
  CHECK(refused("(NNt."sv, stack) == "");
  CHECK(refused("(NNNt."sv, stack) ==
        "byte 5: more than 2 values wait for a container, expected fewer");
  CHECK(refused("(NNNt."sv, values) == "");
  CHECK(refused("(NNNNt."sv, values) == "byte 7: more than 3 values in containers, expected fewer");
  CHECK(refused("]N\x61N\x61(NNe."sv, values) ==
        "byte 10: more than 3 values in containers, expected fewer");
  CHECK(refused("\x8a\x02\x01\x01."sv, text) == "");
  CHECK(refused("\x8a\x03\x01\x01\x01."sv, text) ==
        "byte 2: an integer of 3 bytes, expected at most 2");
}

TEST_CASE("limits are options") {
  PickleLimits limits;
  limits.text = 3;
  ByteStream stream = ByteStream::of("\x80\x04\x8c\x04long."sv);
  PickleHeap heap;
  NoShapes shapes;
  const auto value = read_pickle(stream, heap, shapes, limits);
  REQUIRE_FALSE(value);
  CHECK(value.error().message == "byte 2: a text of 4 bytes, expected at most 3");
}
