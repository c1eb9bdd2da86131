// Chakra execution traces in both forms, and what is none.
#include "traces/chakra.h"

#include <bit>
#include <catch2/catch.hpp>
#include <fmt/ranges.h>

#include "tests/support/chakra_bytes.h"
#include "tests/support/skip.h"

using namespace foregather;
using namespace foregather::traces;
using test::attribute;
using test::chakra_file;
using test::collective;
using test::framed;

namespace {

ChakraTrace read_nodes(const std::string& bytes) {
  const auto source = text_of(bytes);
  auto trace = read_chakra(*source, "t.et");
  if (!trace) FAIL(trace.error().text());
  return std::move(*trace);
}

std::string chakra_error(const std::string& bytes) {
  const auto source = text_of(bytes);
  const auto trace = read_chakra(*source, "t.et");
  REQUIRE_FALSE(trace);
  return trace.error().text();
}

std::vector<std::uint64_t> order_of(const ChakraTrace& trace) {
  std::vector<std::uint64_t> ids;
  for (const auto row : topological_order(resolve_deps(trace.nodes)).rows)
    ids.push_back(trace.nodes.id[row]);
  return ids;
}

}  // namespace

TEST_CASE("nodes of the protobuf form become columns") {
  const ChakraTrace trace = read_nodes(chakra_file(
      {collective(0, "gather", 2, 1 << 20),
       {7,
        "forward",
        4,
        {0},
        {0},
        1200,
        {attribute("num_ops", 5'000), attribute("tensor_size", 64), attribute("tid", 3)}},
       {8, "host", 4, {}, {7}, 9, {attribute("is_cpu_op", 1)}},
       {9,
        "send",
        5,
        {},
        {7},
        0,
        {attribute("comm_src", 0), attribute("comm_dst", 3), attribute("comm_tag", 11),
         attribute("comm_size", 4096), attribute("pg_name", "pipeline")}}}));
  CHECK(trace.version == "0.0.4");
  CHECK_FALSE(trace.is_json);
  const ChakraNodes& nodes = trace.nodes;
  REQUIRE(nodes.size() == 4);
  CHECK(nodes.name(0) == "gather");
  CHECK(nodes.name(3) == "send");
  CHECK(nodes.type[0] == ChakraType::collective);
  CHECK(nodes.duration[1] == 1'200'000);
  CHECK(nodes.operations[1] == 5'000);
  CHECK(nodes.tensor_bytes[1] == 64);
  CHECK(nodes.on_host[2] == 1);
  CHECK_FALSE(nodes.comm[1]);
  REQUIRE(nodes.comm[0]);
  CHECK(nodes.comms[0].collective == ChakraCollective::all_gather);
  CHECK(nodes.comms[0].bytes == 1 << 20);
  CHECK(nodes.comms[1].destination == 3U);
  CHECK(nodes.comms[1].tag == 11);
  CHECK(trace.groups_used.text(nodes.comms[1].group) == "pipeline");
  CHECK(trace.dropped.empty());
  CHECK(trace.unknown_fields == 0);
}

TEST_CASE("all-reduce has the value 0, and no value is none") {
  const ChakraTrace trace = read_nodes(chakra_file({collective(1, "a", 0, 8), {2, "b", 7}}));
  CHECK(trace.nodes.comms[0].collective == ChakraCollective::all_reduce);
  CHECK_FALSE(trace.nodes.comms[1].collective);
}

TEST_CASE("numbers of any type, unpacked lists and unknown fields are read") {
  const auto attribute_of = [](const std::string& value) {
    return test::bytes_field(10, test::bytes_field(1, "comm_size") + value);
  };
  // sint32 prints 5 as 10; a fixed64; and a dependency by itself.
  const std::string message = test::number_field(3, 7) + test::number_field(5, 4) +
                              test::number_field(5, 6) + test::number_field(19, 1) +
                              test::bytes_field(20, "new");
  const ChakraTrace trace = read_nodes(
      framed("") + framed(message + attribute_of(test::number_field(15, 10))) +
      framed(test::number_field(1, 4) + message +
             attribute_of(test::varint(19U << 3U | 1U) + std::string("\x09\0\0\0\0\0\0\0", 8))));
  CHECK(trace.unknown_fields == 4);
  CHECK(trace.nodes.comms[0].bytes == 5);
  CHECK(trace.nodes.comms[1].bytes == 9);
  CHECK(fmt::format("{}", trace.nodes.ids(trace.nodes.deps[1])) == "[4, 6]");
}

TEST_CASE("attributes are read whatever type they have, and what is no value is damage") {
  const auto of = [](std::string_view name, const std::string& value) {
    return test::bytes_field(10, test::bytes_field(1, name) + value);
  };
  const auto real = [&](std::string_view name, double value) {
    std::string bytes = test::varint(3U << 3U | 1U);
    for (unsigned i = 0; i < 8; ++i)
      bytes.push_back(static_cast<char>(std::bit_cast<std::uint64_t>(value) >> (8 * i) & 0xffU));
    return of(name, bytes);
  };
  const std::string half("\x2d\0\0\0\x3f", 5), five("\x2d\0\0\xa0\x40", 5);  // float_val
  const ChakraTrace trace = read_nodes(chakra_file(
      {{1, "compute", 4, {}, {}, 0, {real("num_ops", 1.5e12), of("tensor_size", five)}},
       {2,
        "reduce",
        7,
        {},
        {},
        0,
        {real("comm_size", 1e6), attribute("comm_type", "ALL_REDUCE"), attribute("pg_name", 3)}},
       {3, "send", 5, {}, {}, 0, {attribute("comm_src", "2"), of("comm_dst", "")}},
       {4, "half", 4, {}, {}, 0, {of("num_ops", half)}},
       {5, "word", 7, {}, {}, 0, {attribute("comm_size", "many")}},
       {6, "list", 7, {}, {}, 0, {of("comm_type", test::bytes_field(10, "x"))}}}));
  const ChakraNodes& nodes = trace.nodes;
  REQUIRE(nodes.size() == 3);
  CHECK(nodes.operations[0] == 1'500'000'000'000);
  CHECK(nodes.tensor_bytes[0] == 5);
  CHECK(nodes.comms[0].bytes == 1'000'000);
  CHECK(nodes.comms[0].collective == ChakraCollective::all_reduce);
  CHECK(trace.groups_used.text(nodes.comms[0].group) == "3");
  CHECK(nodes.comms[1].source == 2U);
  CHECK_FALSE(nodes.comms[1].destination);
  using Dropped = std::vector<std::pair<std::string, std::int64_t>>;
  CHECK(trace.dropped == Dropped{{"damaged_node", 3}});
}

TEST_CASE("attributes of the metadata are printed as what they are") {
  const auto of = [](std::string_view name, const std::string& value) {
    return test::bytes_field(2, test::bytes_field(1, name) + value);
  };
  const ChakraTrace trace =
      read_nodes(framed(of("int64", test::number_field(9, ~std::uint64_t{4})) +
                        of("uint64", test::number_field(13, ~std::uint64_t{0})) +
                        of("sint64", test::number_field(17, 9)) +
                        of("double", std::string("\x19\0\0\0\0\0\0\xf8\x3f", 9)) +
                        of("sfixed32", test::varint(23U << 3U | 5U) + "\xfb\xff\xff\xff") +
                        of("string", test::bytes_field(29, "1.0.1"))) +
                 chakra_file({{1, "a"}}).substr(8));
  using Attributes = std::vector<std::pair<std::string, std::string>>;
  CHECK(trace.attributes == Attributes{{"int64", "-5"},
                                       {"uint64", "18446744073709551615"},
                                       {"sint64", "-5"},
                                       {"double", "1.5"},
                                       {"sfixed32", "-5"},
                                       {"string", "1.0.1"}});
}

TEST_CASE("bad nodes are dropped, counted and placed") {
  const ChakraTrace trace =
      read_nodes(chakra_file({{1, "a"}}) + framed("\x12\x7f") +
                 chakra_file({{1, "again"}, {2, "type", 8}}).substr(8) +
                 test::node({3, "long", 4, {}, {}, ~std::uint64_t{0}}) + test::node({4, "b"}));
  REQUIRE(trace.nodes.size() == 2);
  using Dropped = std::vector<std::pair<std::string, std::int64_t>>;
  CHECK(
      trace.dropped ==
      Dropped{{"damaged_node", 1}, {"duplicate_id", 1}, {"unknown_type", 1}, {"out_of_range", 1}});
  CHECK(trace.warnings.front() == "t.et: byte 16: dropped, damaged_node");
}

TEST_CASE("what is no Chakra trace is an error with a place") {
  CHECK(chakra_error("") == "t.et: is a Chakra trace without a node that can be read");
  CHECK(chakra_error(framed(test::bytes_field(1, "0.0.4"))) ==
        "t.et: is a Chakra trace without a node that can be read");
  CHECK(chakra_error(framed("\x0b")) ==
        "t.et: byte 0: no Chakra metadata, which every trace begins with");
  CHECK(chakra_error(chakra_file({{1, "a"}}) + "\x40"
                                               "cut") ==
        "t.et: byte 16: ends inside a message of 64 bytes, of which 3 are there");
}

TEST_CASE("the forms are recognised by their beginning") {
  const std::string file = chakra_file({collective(1, "gather", 2, 1 << 20), {2, "forward"}});
  CHECK(is_chakra_et(file));
  CHECK(is_chakra_et(file.substr(0, 30)));
  CHECK_FALSE(is_chakra_et(file.substr(0, 8)));
  const std::string node = test::number_field(1, 5) + test::bytes_field(2, "a");
  const std::string head = framed(test::bytes_field(1, "0.0.4"));
  CHECK(is_chakra_et(head + framed(node + test::number_field(40, 7))));
  CHECK_FALSE(is_chakra_et(head + framed(test::number_field(40, 7) + node)));
  for (const char* text :
       {"", "{\"traceEvents\": []}", "[model]\npreset = \"x\"\n", "import torch\n",
        "\n\n\n\n\n\n\n\n\n\n\n\n\n", "foregather-schedule 1\njob world=8\n", "\x80\x04\x95\x12",
        "SQLite format 3"})
    CHECK_FALSE(is_chakra_et(text));
  CHECK(is_chakra_json("\n{ \"workload_graph\": ["));
  CHECK_FALSE(is_chakra_json("{\"nodes\": []}"));
}

TEST_CASE("the JSON form") {
  const ChakraTrace trace = read_nodes(R"({"workload_name": "w", "workload_graph": [
    {"Id": 5, "Name": "a \"b\"", "NodeType": 4, "ctrlDeps": [3], "data_deps": [], "runtime": 318,
     "is_cpu_op": true},
    {"Id": 6, "NodeType": 7, "data_deps": ["x"]},
    7,
    {"Id": 8, "Name": "c", "NodeType": 7, "data_deps": [5], "comm_type": 0, "comm_size": 64}]})");
  CHECK(trace.is_json);
  REQUIRE(trace.nodes.size() == 2);
  CHECK(trace.nodes.name(0) == "a \"b\"");
  CHECK(trace.nodes.duration[0] == 318'000);
  CHECK(trace.nodes.comms[0].collective == ChakraCollective::all_reduce);
  CHECK(trace.dropped.front().second == 2);
}

TEST_CASE("the JSON form's values are read whatever type they have") {
  const ChakraTrace trace = read_nodes(R"({"workload_graph": [
    {"Id": "1", "NodeType": "COMP_NODE", "runtime": 318.0, "num_ops": 1.5e12, "pg_name": null},
    {"Id": 2.0, "NodeType": "comm_coll_node", "runtime": "1000", "data_deps": ["1", 3.0],
     "comm_type": "ALL_GATHER", "comm_size": 1e6, "pg_name": 3, "is_cpu_op": 0},
    {"Id": 4, "NodeType": 4, "runtime": 318.5},
    {"Id": 5, "NodeType": 4, "runtime": "long"},
    {"Id": [6], "NodeType": 4},
    {"Id": 7, "NodeType": "COMPUTE"},
    {"Id": 8, "NodeType": 4, "num_ops": 1e300},
    {"Id": 9, "NodeType": 4, "unknown": {"a": [1]}, "runtime": 1e3}]})");
  const ChakraNodes& nodes = trace.nodes;
  CHECK(nodes.id == std::vector<std::uint64_t>{1, 2, 9});
  CHECK(nodes.duration == std::vector<Ns>{318'000, 1'000'000, 1'000'000});
  CHECK(nodes.type[0] == ChakraType::compute);
  CHECK(nodes.operations[0] == 1'500'000'000'000);
  CHECK(fmt::format("{}", nodes.ids(nodes.deps[1])) == "[1, 3]");
  REQUIRE(nodes.comms.size() == 1);
  CHECK(nodes.comms[0].collective == ChakraCollective::all_gather);
  CHECK(nodes.comms[0].bytes == 1'000'000);
  CHECK(trace.groups_used.text(nodes.comms[0].group) == "3");
  REQUIRE(trace.dropped.size() == 1);
  CHECK(trace.dropped.front().second == 5);
}

TEST_CASE("process groups come out of the metadata nodes") {
  const std::string inputs = test::bytes_field(
      8, test::bytes_field(1, R"(['[{"pg_name": "2", "pg_desc": "dp", "ranks": [0, 4], )"
                              R"("group_size": 2}, {"pg_name": "0", "ranks": []}]'])"));
  const std::string metadata = test::number_field(1, 1) +
                               test::bytes_field(2, "## process_group:init ##") +
                               test::number_field(3, 1) + inputs;
  const ChakraTrace trace = read_nodes(framed("") + framed(metadata));
  REQUIRE(trace.groups.size() == 2);
  CHECK(trace.groups[0] == ChakraGroup{"2", "dp", {0, 4}, 2});
  CHECK(trace.groups[1].ranks.empty());
}

TEST_CASE("process groups in a string of Python, and texts that hold none") {
  const auto groups = [](std::string_view text) {
    const std::string inputs = test::bytes_field(8, test::bytes_field(1, text));
    return read_nodes(framed("") + framed(test::number_field(1, 1) +
                                          test::bytes_field(2, "## process_group:init ##") +
                                          test::number_field(3, 1) + inputs))
        .groups;
  };
  CHECK(groups(R"(["[{\"pg_name\": \"7\", \"ranks\": [1, 3], \"group_size\": 2}]"])") ==
        std::vector{ChakraGroup{"7", "", {1, 3}, 2}});
  for (const char* none : {"", "}] [{", "[{not JSON}]"}) CHECK(groups(none).empty());
}

TEST_CASE("a source that cannot be read on is that error, wherever it is") {
  class Failing final : public TextSource {
   public:
    Failing(std::string_view text, std::size_t at) : text_(text.substr(0, at)) {}
    Result<std::size_t> read(std::span<char> buffer) override {
      if (text_.size() < buffer.size()) return fail("the disk is on fire");
      text_.copy(buffer.data(), buffer.size());
      text_.remove_prefix(buffer.size());
      return buffer.size();
    }

   private:
    std::string_view text_;
  };
  const std::string bytes = test::chakra_file(
      {{1, "a node", 4, {}, {}, 12, {}}, {2, "another node", 4, {}, {1}, 12, {}}});
  for (const std::string& text :
       {bytes, std::string(R"({"schema": "1.1", "nodes": [{"id": 1, "name": "a"}], "x": 1})")})
    for (std::size_t at = 0; at < text.size(); ++at) {
      Failing source(text, at);
      const auto trace = read_chakra(source, "t.et");
      REQUIRE_FALSE(trace);
      CHECK(trace.error().message == "the disk is on fire");
    }
}

TEST_CASE("dependencies become rows, and those that cannot be are counted") {
  const ChakraTrace trace =
      read_nodes(chakra_file({{1, "a"}, {2, "b", 4, {1, 2, 99}, {1}}, {3, "c", 4, {98}, {2, 1}}}));
  const ChakraDeps deps = resolve_deps(trace.nodes);
  CHECK(deps.dangling == 2);
  CHECK(deps.self == 1);
  CHECK(deps.first_dangling == 1U);
  CHECK(deps.rows == std::vector<std::uint32_t>{0, 1, 0});
}

TEST_CASE("the order keeps the file's where it can") {
  CHECK(order_of(read_nodes(chakra_file({{1, "a"}, {2, "b", 4, {}, {1}}, {3, "c"}}))) ==
        std::vector<std::uint64_t>{1, 2, 3});
  CHECK(order_of(read_nodes(chakra_file({{1, "a", 4, {}, {4}},
                                         {2, "b", 4, {}, {1}},
                                         {3, "c"},
                                         {4, "d", 4, {}, {3}},
                                         {5, "e"}}))) == std::vector<std::uint64_t>{3, 4, 1, 2, 5});
}

TEST_CASE("a circle of dependencies is named") {
  const ChakraTrace trace = read_nodes(chakra_file({{1, "a"},
                                                    {2, "b", 4, {}, {1, 4}},
                                                    {3, "c", 4, {}, {2}},
                                                    {4, "d", 4, {3}, {}},
                                                    {5, "e", 4, {}, {4}}}));
  const ChakraOrder order = topological_order(resolve_deps(trace.nodes));
  CHECK(order.rows == std::vector<std::uint32_t>{0});
  CHECK(order.circle.size() == 3);
  for (const auto row : order.circle) CHECK((row >= 1 && row <= 3));
}

TEST_CASE("published Chakra traces") {
  const auto folder = test::shared_data("chakra");
  if (!folder) FOREGATHER_SKIP("the shared Chakra traces are absent");
  std::int64_t nodes = 0, dangling = 0, edges = 0;
  const auto visit = [&](const TextMember& member, TextSource& text) -> Status {
    auto trace = read_chakra(text, member.name);
    if (!trace) return tl::unexpected(trace.error());
    CHECK(trace->dropped.empty());
    const ChakraDeps deps = resolve_deps(trace->nodes);
    nodes += static_cast<std::int64_t>(trace->nodes.size());
    dangling += deps.dangling;
    edges += static_cast<std::int64_t>(trace->nodes.dep_ids.size());
    return {};
  };
  const auto read_file = [&](const char* file) {
    nodes = dangling = edges = 0;
    const Status status = visit_texts((*folder / file).string(), visit);
    if (!status) FAIL(status.error().text());
  };
  // Figures of an independent reader: reference/chakra-astra-sim.md, 3.6.
  read_file("mlcommons/tests__data__feeder_tests_trace.tar.gz");
  CHECK(nodes == 3'664);
  CHECK(dangling == 1'277);
  CHECK(edges == 181'878 + 3'664);
  read_file("fsdp_8x20000/fsdp.7.et.gz");
  CHECK(nodes == 20'000);
  CHECK(dangling == 0);
  read_file("astra_micro/all_gather__8npus_1MB__all_gather.0.et");
  CHECK(nodes == 1);
}
