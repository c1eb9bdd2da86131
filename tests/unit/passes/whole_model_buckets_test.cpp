// bucket= on plans whose one unit is the whole model. Thunder's own bucketing is the oracle.
#include <catch2/catch.hpp>

#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

tasks::Schedule thunder_plan(const std::string& sample, const std::string& bucketing) {
  return sample_with(sample, {"parallel.strategy=thunder_zero3", "train.precision=bf16",
                              "model.layers=4", "parallel.thunder_bucketing=" + bucketing});
}

}  // namespace

TEST_CASE("bucket= of a planned ZeRO-3 of Thunder packs as its bucketing does") {
  for (const std::string sample : {"llama2_7b_fsdp1", "gpt2_ddp"})
    for (const std::string by : {"layer", "block"}) {
      CAPTURE(sample, by);
      const Graph theirs = thunder_plan(sample, by).graph;
      const Graph ours = passed(thunder_plan(sample, "none").graph, {"bucket=" + by});
      CHECK(problems(ours) == "");
      CHECK(count(ours, Role::gather) == count(theirs, Role::gather));
      // Thunder gathers biases again that the backward does not read, where its buckets have them.
      CHECK(gathered_bytes(ours) <= gathered_bytes(theirs));
    }
}

TEST_CASE("a bucket a block of four: embedding, blocks, norm and head, and all but one again") {
  const Graph graph = passed(thunder_plan("llama2_7b_fsdp1", "none").graph, {"bucket=block"});
  CHECK(count(graph, Role::gather) == 7 + 6);
}
