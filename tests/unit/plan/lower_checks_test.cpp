#include <catch2/catch.hpp>

#include "core/plan/lower_checks.h"
#include "core/plan/workload_toml.h"

using namespace foregather;
using namespace foregather::plan;

namespace {

std::string refusal(const std::vector<std::string>& sets) {
  std::vector<std::string> all{"parallel.strategy=ddp", "parallel.world_size=4"};
  all.insert(all.end(), sets.begin(), sets.end());
  Result<Workload> workload = parse_workload("[model]\nconfig = \"m.json\"\n", "w.toml", all);
  REQUIRE(workload);
  REQUIRE(resolve_cluster(*workload));
  Model model;
  model.modules.emplace_back();
  const Status checked = check_plan(model, *workload);
  return checked ? "" : checked.error().text();
}

}  // namespace

TEST_CASE("DDP refuses what only FSDP does") {
  CHECK(refusal({}) == "");
  CHECK(refusal({"train.precision=bf16"}) == "");
  CHECK(refusal({"train.precision=fp32"}) == "");
  CHECK(refusal({"parallel.shard_size=2"}) ==
        "w.toml: parallel.shard_size is 2, but DDP shards nothing");
  CHECK(refusal({"parallel.reduce_dtype=bf16"}) ==
        "w.toml: parallel.reduce_dtype is bf16, but DDP reduces gradients in the parameters' f32");
  CHECK(refusal({"parallel.param_dtype=fp32"}) ==
        "w.toml: parallel.param_dtype is f32, but DDP gathers nothing and computes in bf16: set "
        "train.precision");
}
