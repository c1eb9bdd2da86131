#include <catch2/catch.hpp>

#include "core/plan/lower_checks.h"
#include "core/plan/workload_toml.h"

using namespace foregather;
using namespace foregather::plan;

namespace {

// Of a workload with these lines after its model, on four ranks.
std::string refusal_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  const std::string head = "[model]\nconfig = \"m.json\"\n";
  Result<Workload> workload =
      parse_workload(head + text + "[cluster]\ngpus_per_node = 4\n", "w.toml", sets);
  if (!workload) return workload.error().text();
  if (const Status resolved = resolve_cluster(*workload); !resolved) return resolved.error().text();
  Model model;
  model.modules.emplace_back();
  const Status checked = check_plan(model, *workload);
  return checked ? "" : checked.error().text();
}

std::string refusal(const std::vector<std::string>& sets) {
  return refusal_of("[parallel]\nstrategy = \"ddp\"\n", sets);
}

}  // namespace

TEST_CASE("DDP refuses what only FSDP does") {
  CHECK(refusal({}) == "");
  CHECK(refusal({"train.precision=bf16"}) == "");
  CHECK(refusal({"train.precision=fp32"}) == "");
  CHECK(refusal({"parallel.shard_size=2"}) ==
        "--set parallel.shard_size=2: parallel.shard_size is 2, but DDP shards nothing");
  CHECK(refusal({"parallel.reduce_dtype=bf16"}) ==
        "--set parallel.reduce_dtype=bf16: parallel.reduce_dtype is bf16, but DDP reduces "
        "gradients in "
        "the parameters' fp32");
  CHECK(refusal({"parallel.param_dtype=fp32"}) ==
        "--set parallel.param_dtype=fp32: parallel.param_dtype is fp32, but DDP gathers nothing "
        "and computes in bf16: set "
        "train.precision");
}

TEST_CASE("one GPU is one rank") {
  const std::string single = "[parallel]\nstrategy = \"single\"\n";
  const auto refused = [&](const std::vector<std::string>& sets) {
    return refusal_of(single, sets);
  };
  CHECK(refused({}) == "");  // of a node of four
  CHECK(refused({"parallel.world_size=1", "cluster.nodes=1"}) == "");
  CHECK(refused({"parallel.world_size=4"}) ==
        "--set parallel.world_size=4: parallel.strategy single is one GPU, but parallel.world_size "
        "is 4: set it to 1");
  CHECK(
      refused({"cluster.nodes=2"}) ==
      "--set cluster.nodes=2: parallel.strategy single is one GPU, but cluster.nodes is 2: set it "
      "to 1");
  CHECK(refused({"parallel.param_dtype=fp32", "parallel.shard_size=2"}) == "");  // of no effect
}

TEST_CASE("shard groups are of equal size") {
  CHECK(refusal_of("[parallel]\nshard_size = 3\n") ==
        "w.toml:4:1: parallel.shard_size 3 does not divide parallel.world_size 4: shard groups are "
        "of equal size");
  CHECK(refusal_of("[parallel]\nshard_size = 2\n") == "");
  CHECK(
      refusal_of("[parallel]\nreshard_after_forward = 4\n") ==
      "w.toml:4:1: parallel.reshard_after_forward 4 is not a smaller divisor of the shard group of "
      "4 ranks");
  CHECK(refusal_of("[parallel]\nreshard_after_forward = 2\n") == "");
  // Of no effect, of which a warning tells.
  CHECK(refusal_of("[parallel]\nreshard_after_forward = 4\nstrategy = \"fsdp1\"\n") == "");
}

TEST_CASE("a list of blocks names blocks of the model") {
  const std::string list = "[train]\nactivation_checkpointing = \"blocks:0,2-3\"\n";
  CHECK(refusal_of(list) ==
        "w.toml:4:1: train.activation_checkpointing names block 0, but the model has 0 blocks, "
        "counted from 0");
}

TEST_CASE("each refusal names the place of its key") {
  const auto at = [](const std::string& text, const std::string& place) {
    CAPTURE(text);
    CHECK(refusal_of(text).starts_with(place));
  };
  at("[parallel]\nstrategy = \"zero3\"\nzero_hpz_partition_size = 3\n", "w.toml:5:1: ");
  at("[parallel]\nstrategy = \"zero2\"\n\ncontiguous_gradients = false\n", "w.toml:6:1: ");
  at("[parallel]\nstrategy = \"zero2\"\n  offload = \"all\"\n", "w.toml:5:3: ");
  at("[train]\nno_sync = true\n[parallel]\nstrategy = \"zero3\"\n", "w.toml:4:1: ");
  at("[parallel]\nstrategy = \"thunder_zero3\"\n[train]\nprecision = \"bf16-mixed\"\n",
     "w.toml:6:1: ");
  at("[train]\nfloat8_all_gather = true\n", "w.toml:4:1: ");
  at("[parallel]\noffload = \"optimizer\"\n", "w.toml:4:1: ");
  at("[parallel]\nstrategy = \"zero3\"\nparam_dtype = \"fp32\"\n",
     "w.toml:5:1: parallel.param_dtype is fp32 but");
}

TEST_CASE("numbers that no key takes are refused all the same") {
  const auto refused = [](const auto& change) {
    Workload workload = *parse_workload("[model]\nconfig = \"m.json\"\n", "w.toml", {});
    REQUIRE(resolve_cluster(workload));
    change(workload);
    Model model;
    model.modules.emplace_back();
    const Status checked = check_plan(model, workload);
    return checked ? "" : checked.error().message;
  };
  CHECK(refused([](Workload&) {}) == "");
  CHECK(refused([](Workload& w) { w.parallel.reduce_buffers = 0; }) ==
        "parallel.reduce_buffers is 0, expected at least 1");
  for (const std::int64_t steps : {0, 65536})
    CHECK(refused([&](Workload& w) { w.train.grad_accum = steps; }) ==
          fmt::format("train.grad_accum is {}, expected 1 to 65535", steps));
  CHECK(refused([](Workload& w) {
          w.train.checkpointing = Checkpointing::selective_layers;
          w.train.checkpoint_every = 0;
        }) == "train.activation_checkpointing: every 0 layers, expected 1 or more");
}

TEST_CASE("float8 is gathered by FSDP2 alone") {
  const std::string float8 = "[train]\nfloat8 = \"tensorwise\"\nfloat8_all_gather = true\n";
  CHECK(refusal_of(float8) == "");
  CHECK(refusal_of(float8 + "[parallel]\nstrategy = \"fsdp1\"\n") ==
        "w.toml:5:1: train.float8_all_gather needs parallel.strategy fsdp2: only its parameters "
        "can be float8");
}

TEST_CASE("ZeRO, DeepCompile and Thunder shard over all ranks, and reduce in each micro-batch") {
  for (const char* strategy : {"zero2", "zero3", "deepcompile", "thunder_zero3"}) {
    CAPTURE(strategy);
    const std::string head = std::string("[parallel]\nstrategy = \"") + strategy + "\"\n";
    const std::vector<std::string> bf16 = {"train.precision=bf16", "parallel.reduce_dtype=bf16"};
    const auto refused = [&](const std::string& set) {
      std::vector<std::string> sets = bf16;
      sets.push_back(set);
      return refusal_of(head, sets);
    };
    CHECK(refusal_of(head, bf16) == "");
    CHECK_THAT(refused("parallel.shard_size=2"),
               Catch::Contains("parallel.shard_size is 2, but") && Catch::Contains("all 4 ranks"));
    CHECK_THAT(refused("train.no_sync=true"),
               Catch::StartsWith("--set train.no_sync=true: train.no_sync is true, "));
  }
}
