// PyTorch execution traces of both generations.
#include "traces/execution_trace.h"

#include <catch2/catch.hpp>

using namespace foregather;
using namespace foregather::traces;

namespace {

ExecutionTrace read_execution(const std::string& text) {
  const auto source = text_of(text);
  auto trace = read_execution_trace(*source, "et.json");
  if (!trace) FAIL(trace.error().text());
  return std::move(*trace);
}

void check_second_node(const ExecutionTrace& trace) {
  REQUIRE(trace.nodes.size() == 2);
  CHECK(trace.strings.text(trace.nodes.name[1]) == "aten::add");
  CHECK(trace.nodes.id[1] == 12);
  CHECK(trace.nodes.parent[1] == 2);
  CHECK(trace.nodes.rf_id[1] == 4);
  CHECK(trace.nodes.forward_parent[1] == 7);
  CHECK(trace.nodes.sequence[1] == 21);
  CHECK(trace.nodes.sequence[0] == -1);
  CHECK(trace.nodes.thread[1] == 2);
  CHECK(trace.nodes.is_operator[1] == 1);
  CHECK(trace.nodes.is_operator[0] == 0);
}

}  // namespace

TEST_CASE("schema 1.0.1 has the fields of a node side by side") {
  const ExecutionTrace trace =
      read_execution(R"json({"schema": "1.0.1", "pid": 8, "time": "now", "nodes": [
    {"name": "thread", "id": 2, "rf_id": 0, "parent": 1, "fw_parent": 0, "seq_id": -1, "tid": 1,
     "op_schema": "", "inputs": [[1, 2], "<None>"], "input_shapes": []},
    {"name": "aten::add", "id": 12, "rf_id": 4, "parent": 2, "fw_parent": 7, "seq_id": 21,
     "tid": 2, "op_schema": "aten::add(Tensor a)"}], "finish_ts": 12
})json");
  check_second_node(trace);
  CHECK(trace.keys == std::vector<std::string>{"schema", "pid", "time", "finish_ts"});
  CHECK(trace.header.front().second == "\"1.0.1\"");
}

TEST_CASE("schema 1.1 has most of them in attributes") {
  const ExecutionTrace trace = read_execution(R"json({"schema": "1.1.0-chakra.0.0.4", "nodes": [
    {"id": 2, "name": "thread", "ctrl_deps": 1, "inputs": {"values": [], "types": []},
     "attrs": [{"name": "seq_id", "type": "int64", "value": -1},
               {"name": "op_schema", "type": "string", "value": ""}]},
    {"id": 12, "name": "aten::add", "ctrl_deps": 2, "attrs": [
      {"name": "rf_id", "type": "uint64", "value": 4},
      {"name": "fw_parent", "type": "uint64", "value": 7},
      {"name": "seq_id", "type": "int64", "value": 21},
      {"name": "tid", "type": "uint64", "value": 2},
      {"name": "op_schema", "type": "string", "value": "aten::add(Tensor a)"}]
}]
})json");
  check_second_node(trace);
}

TEST_CASE("damaged nodes are counted and cost only themselves") {
  const ExecutionTrace trace = read_execution(R"json({"schema": "1.0.1", "nodes": [
    {"id": 1, "name": "a"}, 5, {"id": 2, "name": "b", "attrs": 3}, {"id": 3, "name": "c"}]})json");
  CHECK(trace.elements == 4);
  CHECK(trace.nodes.size() == 2);
  CHECK(trace.nodes.id[1] == 3);
  REQUIRE(trace.dropped.size() == 1);
  CHECK(trace.dropped.front().second == 2);
}

TEST_CASE("nodes that are no list are said, and are no fields of the trace") {
  for (const char* nodes : {"null", "{}", "5"}) {
    CAPTURE(nodes);
    const ExecutionTrace trace =
        read_execution(fmt::format(R"({{"schema": "1.0.1", "nodes": {}}})", nodes));
    CHECK(trace.elements == 0);
    REQUIRE(trace.warnings.size() == 1);
    CHECK(trace.warnings[0].find("'nodes' is a") != std::string::npos);
    REQUIRE(trace.header.size() == 1);
    CHECK(trace.header[0].first == "schema");
  }
}

TEST_CASE("numbers are read whatever type they have, threads whole") {
  const ExecutionTrace trace = read_execution(R"json({"schema": "1.0.1", "nodes": [
    {"id": "5", "name": "a", "parent": 2.0, "tid": 1, "seq_id": "-1"},
    {"id": 6.0, "name": "b", "tid": 4294967297, "rf_id": null},
    {"id": 7.5, "name": "c"}, {"id": "x", "name": "d"}, {"id": 8, "name": "e", "tid": []}]})json");
  CHECK(trace.nodes.id == std::vector<std::uint64_t>{5, 6});
  CHECK(trace.nodes.parent[0] == 2);
  CHECK(trace.nodes.sequence == std::vector<std::int64_t>{-1, -1});
  CHECK(trace.nodes.thread == std::vector<std::uint64_t>{1, 4294967297});
  REQUIRE(trace.dropped.size() == 1);
  CHECK(trace.dropped.front().second == 3);
}

TEST_CASE("execution traces are recognised by their beginning") {
  CHECK(is_execution_trace("{\n \"schema\": \"1.0.1\", \"nodes\": ["));
  CHECK_FALSE(is_execution_trace("{\"schemaVersion\": 1, \"traceEvents\": ["));
  CHECK_FALSE(is_execution_trace("[]"));
  const auto source = text_of(R"json({"schema": "1.0.1", "nodes": [{"id": 1)json");
  CHECK_FALSE(read_execution_trace(*source, "et.json"));
}
