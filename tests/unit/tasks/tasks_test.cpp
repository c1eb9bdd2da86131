#include <catch2/catch.hpp>

#include "core/ir/builder.h"
#include "tasks/sniff.h"
#include "tasks/wire_bytes.h"

using namespace foregather;
using namespace foregather::tasks;

namespace {

Bytes sent(OpKind kind, Bytes message, std::uint32_t ranks) {
  GraphBuilder builder;
  std::vector<std::uint32_t> all;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) all.push_back(rank);
  Cost cost;
  cost.kind = kind;
  cost.message_bytes = message;
  cost.group = builder.group("all", all, 1);
  const CommunicatorId communicator = builder.communicator("all", cost.group);
  builder.begin_program("rank");
  OpSpec spec;
  spec.kind = kind;
  spec.stream = builder.stream("comm");
  spec.communicator = communicator;
  spec.cost = builder.cost(cost);
  builder.op(spec);
  builder.end_program();
  const Graph graph = builder.finish();
  return wire_bytes(graph, graph.ops.front());
}

}  // namespace

TEST_CASE("bytes on the wire by the ring formulas") {
  CHECK(sent(OpKind::all_gather, 800, 8) == 700);
  CHECK(sent(OpKind::reduce_scatter, 800, 8) == 700);
  CHECK(sent(OpKind::all_reduce, 800, 8) == 1400);
  CHECK(sent(OpKind::send_recv, 800, 2) == 800);
  CHECK(sent(OpKind::all_gather, 800, 1) == 0);
  CHECK(sent(OpKind::all_gather, 10, 3) == 6);  // rounded down
  CHECK(sent(OpKind::all_gather, Bytes{1} << 61, 4) == (Bytes{1} << 59) * 3);
}

TEST_CASE("sniffing goes by content") {
  CHECK(sniff("foregather-schedule 1\n", "x.toml") == SourceKind::schedule);
  CHECK(sniff("[model]\nconfig = 1\n", "x") == SourceKind::workload);
  CHECK(sniff("# a workload\n\nmodel.config = 1\n", "x") == SourceKind::workload);
  CHECK(sniff("oops", "x.toml") == SourceKind::workload);  // the reader says what is wrong
  for (const char* content : {"", "{\"a\": 1}", "hello\nworld", "SQLite format 3"})
    CHECK_FALSE(sniff(content, "x").has_value());
  CHECK_FALSE(sniff(std::string_view("\x7f"
                                     "ELF\0\0",
                                     6),
                    "x.toml")
                  .has_value());
}
