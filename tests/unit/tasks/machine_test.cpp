// What a workload needs of the hardware, refused or warned of.
#include <catch2/catch.hpp>

#include "core/plan/workload_toml.h"
#include "sim/cost/hardware.h"
#include "tasks/machine.h"

using namespace foregather;

namespace {

plan::Workload workload_with(const std::vector<std::string>& sets) {
  const std::string text =
      "[model]\nconfig = \"m.json\"\n[parallel]\nstrategy = \"fsdp2\"\nworld_size = 8\n";
  Result<plan::Workload> workload = plan::parse_workload(text, "w.toml", sets);
  REQUIRE(workload);
  return *workload;
}

}  // namespace

TEST_CASE("doubles that cost nothing are warned of where they are made") {
  sim::Hardware machine = sim::load_hardware("h100_sxm").value();
  const auto warned = [&](const std::string& float8, const std::string& compile) {
    return tasks::machine_warnings(
        workload_with({"train.float8=" + float8, "train.compile=" + compile}), machine);
  };
  CHECK(warned("rowwise", "per-block").empty());
  machine.compute.vector_f64 = 0;
  CHECK(warned("tensorwise", "per-block").empty());
  CHECK(warned("rowwise", "none").empty());
  const auto words = warned("rowwise", "per-block");
  REQUIRE(words.size() == 1);
  CHECK(words[0] ==
        "--set train.float8=rowwise: compiled rowwise float8 makes its scales in doubles, which "
        "cost nothing here: h100_sxm has no compute.vector_f64");
}

TEST_CASE("a node that is assumed to have fewer GPUs than the links join is warned of") {
  const sim::Hardware rack = sim::load_hardware("gb200").value();
  const auto warned = [&](std::vector<std::string> sets) {
    sets.emplace_back("parallel.world_size=72");
    plan::Workload workload = workload_with(sets);
    REQUIRE(plan::resolve_cluster(workload));
    return tasks::machine_warnings(workload, rack);
  };
  CHECK(warned({}) == std::vector<std::string>{
                          "--set parallel.world_size=72: 8 GPUs a node are assumed, but the links "
                          "of gb200 join up to 72: set cluster.gpus_per_node"});
  CHECK(warned({"cluster.gpus_per_node=72"}).empty());
  // A host's share of the rack is no node: its links go on.
  CHECK(warned({"cluster.gpus_per_node=4"}) ==
        std::vector<std::string>{
            "--set cluster.gpus_per_node=4: nodes of 4 GPUs are joined by the network, but the "
            "links of gb200 join up to 72, of several hosts: cluster.gpus_per_node counts these"});
  CHECK(warned({"cluster.nodes=9"}).size() == 1);
}
