// Random workloads: their schedules are valid, and no step beats its bounds.
#include <fmt/format.h>
#include <rapidcheck.h>

#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "sim/engine/bounds.h"
#include "sim/memory/memory_bound.h"
#include "tests/models/simulated.h"

namespace foregather::test {

namespace {

template <class T>
T one_of(std::initializer_list<T> values) {
  return *rc::gen::elementOf(std::vector<T>(values));
}

std::string flag() { return *rc::gen::arbitrary<bool>() ? "true" : "false"; }

std::vector<std::string> random_sets() {
  const bool ddp = *rc::gen::inRange(0, 3) == 0;
  const int gpus = one_of({1, 2, 4, 8});
  const int world = gpus * one_of({1, 1, 2});
  std::vector<std::string> sets{
      fmt::format("parallel.strategy={}", ddp ? "ddp" : "fsdp2"),
      fmt::format("parallel.world_size={}", world),
      fmt::format("cluster.gpus_per_node={}", gpus),
      fmt::format("model.layers={}", *rc::gen::inRange(1, 6)),
      fmt::format("train.micro_batch={}", *rc::gen::inRange(1, 5)),
      fmt::format("train.seq_len={}", one_of({16, 100, 256})),
      fmt::format("train.grad_accum={}", one_of({1, 1, 2, 3})),
      "train.no_sync=" + flag(),
      "train.clip_grad_norm=" + flag(),
      "train.precision=" + one_of<std::string>({"bf16-mixed", "bf16", "fp32"}),
      "train.attention=" + one_of<std::string>({"eager", "sdpa"}),
      "train.optimizer=" + one_of<std::string>({"adamw", "sgd"}),
      "train.optimizer_impl=" + one_of<std::string>({"foreach", "fused"}),
      "train.activation_checkpointing=" +
          one_of<std::string>({"none", "full", "selective", "selective:2"}),
      "cluster.contention=" + flag(),
      "cluster.hardware=" + one_of<std::string>({"h100_sxm", "rtx_4090", "v100_sxm"}),
      "cluster.link_bandwidth_scale=" + one_of<std::string>({"0.01", "1", "100"}),
  };
  if (ddp) {
    sets.push_back("parallel.gradient_as_bucket_view=" + flag());
    sets.push_back(fmt::format("parallel.bucket_bytes={}", one_of({1, 100'000, 1'000'000})));
    return sets;
  }
  sets.push_back("parallel.wrap=" + one_of<std::string>({"block", "model", "block_embed_head"}));
  sets.push_back("parallel.backward_prefetch=" + one_of<std::string>({"none", "pre", "post"}));
  sets.push_back("parallel.forward_prefetch=" + flag());
  sets.push_back(fmt::format("parallel.forward_prefetch_depth={}", *rc::gen::inRange(1, 4)));
  sets.push_back(fmt::format("parallel.backward_prefetch_depth={}", *rc::gen::inRange(1, 4)));
  sets.push_back("parallel.reshard_after_backward=" + flag());
  sets.push_back("parallel.separate_reduce_communicator=" + flag());
  sets.push_back(fmt::format("parallel.reduce_buffers={}", *rc::gen::inRange(1, 4)));
  sets.push_back(fmt::format("parallel.shard_size={}", one_of({1, gpus, world})));
  if (*rc::gen::arbitrary<bool>()) sets.push_back("parallel.reshard_after_forward=" + flag());
  return sets;
}

}  // namespace

TEST_CASE("no step of a random workload beats its bounds") {
  CHECK(rc::check([] {
    const auto sets = random_sets();
    const auto config =
        one_of<std::string>({"configs/tiny_llama.json", "../../tests/oracles/data/tiny_gpt2.json"});
    const std::string path = FOREGATHER_SOURCE_DIR "/traces/samples/" + config;
    std::vector<std::string> all = sets;
    all.push_back("model.config=" + path);
    // The tiny GPT-2 has 32 positions.
    if (config.ends_with("gpt2.json")) all.push_back("train.seq_len=32");
    for (const std::string& set : all) RC_LOG() << "--set " << set << '\n';
    const tasks::Schedule schedule = sample("tiny_fsdp2", all);
    for (const Problem& problem : validate(schedule.graph)) RC_FAIL(problem.message);
    const sim::Simulation result = simulated(schedule);
    RC_ASSERT(!result.oom);
    const sim::StepResult& step = result.classes.front().steady;
    RC_ASSERT(step.peaks.requested >= sim::peak_memory_bound(schedule.graph));
    RC_ASSERT(step.peaks.allocated >= step.peaks.requested);
    RC_ASSERT(step.peaks.reserved >= step.peaks.active);
    if (result.converged)
      RC_ASSERT(step.time() >= sim::step_time_bounds(schedule.graph, schedule.prices).bound());
  }));
}

}  // namespace foregather::test
