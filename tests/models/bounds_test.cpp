// Random workloads: their schedules are valid, and no step beats its bounds.
#include <fmt/format.h>
#include <rapidcheck.h>

#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "sim/engine/bounds.h"
#include "sim/memory/memory_bound.h"
#include "tests/models/simulated.h"
#include "tests/support/places.h"

namespace foregather::test {

namespace {

template <class T>
T one_of(std::initializer_list<T> values) {
  return *rc::gen::elementOf(std::vector<T>(values));
}

std::string flag() { return *rc::gen::arbitrary<bool>() ? "true" : "false"; }

std::vector<std::string> random_sets() {
  const auto strategy = one_of<std::string>(
      {"ddp", "fsdp1", "fsdp2", "zero3", "zero2", "thunder_zero2", "thunder_zero3"});
  const bool is_zero = strategy.find("zero") != std::string::npos;
  const bool is_thunder = strategy.starts_with("thunder");
  const int gpus = one_of({1, 2, 4, 8});
  const int world = gpus * one_of({1, 1, 2});
  std::vector<std::string> sets{
      "parallel.strategy=" + strategy,
      fmt::format("parallel.world_size={}", world),
      fmt::format("cluster.gpus_per_node={}", gpus),
      fmt::format("model.layers={}", *rc::gen::inRange(1, 6)),
      fmt::format("train.micro_batch={}", *rc::gen::inRange(1, 5)),
      fmt::format("train.seq_len={}", one_of({16, 100, 256})),
      fmt::format("train.grad_accum={}", one_of({1, 1, 2, 3})),
      "train.no_sync=" + (is_zero ? "false" : flag()),
      "train.clip_grad_norm=" + flag(),
      "train.precision=" + (is_thunder ? one_of<std::string>({"bf16", "fp32"})
                                       : one_of<std::string>({"bf16-mixed", "bf16", "fp32"})),
      "train.attention=" + one_of<std::string>({"eager", "sdpa"}),
      "train.optimizer=" + one_of<std::string>({"adamw", "sgd"}),
      "train.optimizer_impl=" + one_of<std::string>({"foreach", "fused", "for-loop"}),
      "train.activation_checkpointing=" +
          one_of<std::string>({"none", "full", "selective", "selective:2"}),
      "cluster.contention=" + flag(),
      "cluster.hardware=" + one_of<std::string>({"h100_sxm", "rtx_4090", "v100_sxm"}),
      "cluster.link_bandwidth_scale=" + one_of<std::string>({"0.01", "1", "100"}),
  };
  const bool is_mixed =
      std::find(sets.begin(), sets.end(), "train.precision=bf16-mixed") != sets.end();
  if (strategy.starts_with("fsdp") && is_mixed && one_of({false, true}))
    sets.emplace_back("parallel.param_dtype=fp32");  // autocast
  if (strategy == "ddp") {
    sets.push_back("parallel.gradient_as_bucket_view=" + flag());
    sets.push_back("parallel.find_unused_parameters=" + flag());
    sets.push_back(fmt::format("parallel.bucket_bytes={}", one_of({1, 100'000, 1'000'000})));
    return sets;
  }
  if (is_thunder) {
    sets.push_back("parallel.thunder_bucketing=" + one_of<std::string>({"none", "layer", "block"}));
    return sets;
  }
  if (is_zero) {
    sets.push_back("parallel.overlap_comm=" + flag());
    sets.push_back("parallel.reduce_scatter=" + flag());
    sets.push_back("parallel.offload=" + one_of<std::string>({"none", "none", "optimizer"}));
    sets.push_back(fmt::format("parallel.reduce_bucket_size={}", one_of({1, 10'000, 500'000})));
    if (strategy == "zero2") return sets;
    for (const char* key : {"prefetch_bucket_size", "param_persistence_threshold",
                            "max_live_parameters", "max_reuse_distance"})
      sets.push_back(
          fmt::format("parallel.stage3_{}={}", key, one_of({0, 1'000, 30'000, 500'000})));
    sets.push_back(
        fmt::format("parallel.zero_hpz_partition_size={}", world % 2 == 0 ? one_of({1, 2}) : 1));
    return sets;
  }
  if (strategy == "fsdp1") {
    const auto sharding = one_of<std::string>({"full_shard", "shard_grad_op", "no_shard"});
    sets.push_back("parallel.sharding=" + sharding);
    sets.push_back("parallel.limit_all_gathers=" + flag());
    sets.push_back("parallel.use_orig_params=" + flag());
    sets.push_back("parallel.wrap=" + one_of<std::string>({"block", "model"}));
    sets.push_back("parallel.backward_prefetch=" + one_of<std::string>({"none", "pre", "post"}));
    sets.push_back("parallel.forward_prefetch=" + flag());
    if (sharding != "no_shard")
      sets.push_back(fmt::format("parallel.shard_size={}", one_of({1, gpus, world})));
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
  const int shard = one_of({1, gpus, world});
  sets.push_back(fmt::format("parallel.shard_size={}", shard));
  const int reshard = *rc::gen::inRange(0, 4);
  if (reshard == 1) sets.push_back("parallel.reshard_after_forward=true");
  if (reshard == 2) sets.push_back("parallel.reshard_after_forward=false");
  if (reshard == 3 && shard >= 4) sets.push_back("parallel.reshard_after_forward=2");
  return sets;
}

/// A random workload of a tiny model; what was chosen is logged.
std::vector<std::string> random_workload() {
  std::vector<std::string> sets = random_sets();
  const auto config =
      one_of<std::string>({"configs/tiny_llama.json", "../../tests/oracles/data/tiny_gpt2.json"});
  sets.push_back("model.config=" + source_dir() + "/traces/samples/" + config);
  // The tiny GPT-2 has 32 positions.
  if (config.ends_with("gpt2.json")) sets.push_back("train.seq_len=32");
  for (const std::string& set : sets) RC_LOG() << "--set " << set << '\n';
  return sets;
}

}  // namespace

TEST_CASE("no step of a random workload beats its bounds") {
  CHECK(rc::check([] {
    const tasks::Schedule schedule = sample("tiny_fsdp2", random_workload());
    for (const Problem& problem : validate(schedule.graph)) RC_FAIL(problem.message);
    const sim::Simulation result = simulated(schedule);
    RC_ASSERT(!result.oom);
    const sim::StepResult& step = result.classes.front().steady;
    RC_ASSERT(step.peaks.requested >= sim::peak_memory_bound(schedule.graph));
    // Memory that waits for an event after its free is requested and active, not allocated.
    RC_ASSERT(step.peaks.active >= step.peaks.requested);
    RC_ASSERT(step.peaks.active >= step.peaks.allocated);
    RC_ASSERT(step.peaks.reserved >= step.peaks.active);
    if (result.converged)
      RC_ASSERT(step.time() >= sim::step_time_bounds(schedule.graph, schedule.prices).bound());
  }));
}

TEST_CASE("without contention faster links never slow the step of a random workload") {
  CHECK(rc::check([] {
    std::vector<std::string> sets = random_workload();
    sets.push_back("cluster.contention=false");
    const int scale = one_of({1, 10, 100, 1000});  // hundredths
    const auto scaled = [&](int factor) {
      std::vector<std::string> all = sets;
      all.push_back(fmt::format("cluster.link_bandwidth_scale={}", scale * factor / 100.0));
      return step_time("tiny_fsdp2", all);
    };
    RC_ASSERT(scaled(2) <= scaled(1));
  }));
}

// The device holds the first step up, and the ones behind it until the host is no longer ahead.
TEST_CASE("a host that takes longer than the device is the bound in the end") {
  const auto time = [](const char* links) {
    return step_time(
        "tiny_fsdp2",
        {"parallel.strategy=thunder_zero3", "parallel.world_size=2", "cluster.gpus_per_node=1",
         "train.clip_grad_norm=false", "train.precision=bf16", "train.attention=eager",
         "train.optimizer=sgd", "train.optimizer_impl=for-loop", "train.seq_len=32",
         "train.activation_checkpointing=selective:2", "cluster.contention=false",
         "cluster.hardware=rtx_4090", "parallel.thunder_bucketing=none",
         "model.config=" + source_dir() + "/tests/oracles/data/tiny_gpt2.json", "model.layers=2",
         std::string("cluster.link_bandwidth_scale=") + links});
  };
  CHECK(time("10") == time("20"));
}

}  // namespace foregather::test
