// What must hold of the time of a step.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/models/simulated.h"

namespace foregather::test {

namespace {

const std::vector<std::pair<std::string, std::vector<std::string>>>& subjects() {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> all{
      {"tiny_fsdp2", {}},
      {"tiny_fsdp2", {"parallel.world_size=8", "cluster.gpus_per_node=4"}},
      {"gpt2_ddp", {}},
      {"gpt2_ddp", {"parallel.strategy=fsdp2"}},
      {"gpt2_ddp",
       {"parallel.world_size=8", "cluster.gpus_per_node=4",
        "parallel.gradient_as_bucket_view=true"}},
      {"llama2_7b_fsdp1", {}},
      {"llama2_7b_fsdp1", {"parallel.backward_prefetch=post"}},
      {"llama3_8b_fsdp2", {}},
      {"llama3_8b_fsdp2", {"parallel.world_size=32", "parallel.backward_prefetch=none"}},
      {"llama3_8b_fsdp2", {"parallel.world_size=16", "parallel.shard_size=8"}},
  };
  return all;
}

std::vector<std::string> scaled(std::vector<std::string> sets, const std::string& links) {
  sets.push_back("cluster.contention=false");
  sets.push_back("cluster.link_bandwidth_scale=" + links);
  return sets;
}

/// Sum of the durations of all compute of a steady step, alone.
Ns compute_time(const tasks::Schedule& schedule) {
  Ns time = 0;
  for (const OpId id : body_ops(schedule.graph)) {
    const Op& op = schedule.graph.at(id);
    if (!is_collective(op.kind)) time += schedule.prices.front().prices[op.cost.row()].duration;
  }
  return time;
}

}  // namespace

TEST_CASE("with links a thousand times faster a step takes its compute time") {
  for (const char* name : {"llama3_8b_fsdp2", "llama3_70b_fsdp2", "llama2_7b_fsdp1", "gpt2_ddp"}) {
    INFO(name);
    const tasks::Schedule schedule = sample(name, scaled({}, "1000"));
    const sim::Simulation result = simulated(schedule);
    REQUIRE(!result.oom);
    const auto compute = static_cast<double>(compute_time(schedule));
    // What is left is the latency of exposed collectives, and copies beside compute.
    CHECK(static_cast<double>(step_time(result)) == Approx(compute).epsilon(0.02));
  }
}

TEST_CASE("without contention faster links never slow a step") {
  for (const auto& [name, sets] : subjects()) {
    Ns slower = 0;
    for (const char* scale : {"0.125", "0.25", "0.5", "1", "2", "4", "8", "16"}) {
      INFO(name << " × " << scale);
      const sim::Simulation result = simulated(sample(name, scaled(sets, scale)));
      REQUIRE(!result.oom);
      CHECK(result.classes.front().steady.peaks.retries == 0);
      if (slower > 0) CHECK(step_time(result) <= slower);
      slower = step_time(result);
    }
  }
}

TEST_CASE("a loop that reads the loss waits for the device once a step") {
  for (const char* name : {"llama3_8b_fsdp2", "gpt2_ddp"}) {
    INFO(name);
    const tasks::Schedule ahead = sample(name, {});
    const tasks::Schedule reads = sample(name, {"train.reads_loss=true"});
    const auto waits = [](const tasks::Schedule& schedule) {
      std::ptrdiff_t count = 0;
      for (const HostThread& thread : schedule.graph.programs.front().threads)
        for (const std::vector<Action>& actions : thread.sections)
          count += std::count_if(actions.begin(), actions.end(), [](const Action& action) {
            return action.kind == ActionKind::host_wait_stream;
          });
      return count;
    };
    CHECK(waits(reads) == waits(ahead) + 2);  // the first step and the steady one
    // The device idles while the host begins anew.
    CHECK(step_time(simulated(reads)) > step_time(simulated(ahead)));
  }
}

}  // namespace foregather::test
