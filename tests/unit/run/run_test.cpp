#include <catch2/catch.hpp>

#include "core/run/key.h"
#include "core/run/run.h"
#include "tests/support/example_run.h"

using namespace foregather;
using namespace foregather::run;

TEST_CASE("columns give back the rows that went in") {
  const Run run = test::example_run();
  Run copy;
  for (std::size_t row = 0; row < run.ops.size(); ++row) copy.add(run.ops.at(OpRow(row)));
  REQUIRE(copy.ops.size() == run.ops.size());
  for (std::size_t row = 0; row < run.ops.size(); ++row)
    CHECK(copy.ops.at(OpRow(row)) == run.ops.at(OpRow(row)));
}

TEST_CASE("ops of a step are one span") {
  const Run run = test::example_run();
  CHECK(ops_of(run, StepRow(0)).first == 0);
  CHECK(ops_of(run, StepRow(0)).last == 3);
  CHECK(ops_of(run, StepRow(1)).first == 3);
  CHECK(ops_of(run, StepRow(1)).last == 6);
  CHECK(steps_of(run, StepKind::steady).size() == 2);
  CHECK(steps_of(run, StepKind::first).empty());
}

TEST_CASE("op keys") {
  const Run run = test::example_run();
  CHECK(op_key(run, OpRow(0)) == "r0/s1/m0/layers.0.attn/forward/gemm/0");
  CHECK(op_key(run, OpRow(1)) == "r0/s1/m0/layers.0/forward/all_gather/0@fsdp#7");
  CHECK(op_key(run, OpRow(5)) == "r2/s1/m0/-/forward/norm/0");
}

TEST_CASE("op keys are read back") {
  const Run run = test::example_run();
  for (std::size_t row = 0; row < run.ops.size(); ++row) {
    const OpRecord op = run.ops.at(OpRow(row));
    const std::string key = op_key(run, OpRow(row));
    const auto read = parse_op_key(key);
    REQUIRE(read);
    CHECK(read->micro_batch == op.micro_batch);
    CHECK(read->scope == run.text_of(op.scope));
    CHECK(read->phase == op.phase);
    CHECK(read->kind == op.kind);
    CHECK(read->ordinal == op.ordinal);
  }
  const auto odd = parse_op_key("r0/s1/m7/a@b/c/backward/all_gather/12@forward/gemm/3#x@y#4");
  REQUIRE(odd);
  CHECK(odd->micro_batch == 7);
  CHECK(odd->scope == "a@b/c");
  CHECK(odd->kind == OpKind::all_gather);
  CHECK(odd->ordinal == 12);
}

TEST_CASE("what is no op key") {
  for (const char* text :
       {"", "/", "r0", "r0/s1/m0", "r0/s1/m0/-/forward/gemm", "r0/s1/m0/forward/gemm/0",
        "0/s1/m0/-/forward/gemm/0", "r/s1/m0/-/forward/gemm/0", "r0/s1/m70000/-/forward/gemm/0",
        "r0/s1/m0/-/sideways/gemm/0", "r0/s1/m0/-/forward/knit/0", "r0/s1/m0/-/forward/gemm/x",
        "r0/s1/m0/-/forward/gemm/0@fsdp", "r0/s1/m0/-/forward/gemm/99999999999"})
    CHECK_FALSE(parse_op_key(text));
}
