// DeepSpeed PR 7588 on a shortened OpenVLA, and arithmetic on DeepCompile's steps.
#include <algorithm>
#include <catch2/catch.hpp>

#include "sim/passes/registry.h"
#include "tests/models/simulated.h"
#include "tests/support/places.h"

using namespace foregather;
using namespace foregather::test;

namespace {

struct Figures {
  Ns time = 0;
  Bytes peak = 0;  ///< allocated
  std::array<Bytes, kScheduleCauses> by_cause{};
  std::vector<sim::PassNote> notes;
  Graph graph;
};

Figures figures(const std::vector<std::string>& passes, const std::vector<std::string>& sets = {}) {
  std::vector<std::string> all{"parallel.strategy=deepcompile"};
  all.insert(all.end(), sets.begin(), sets.end());
  const auto parsed = sim::parse_passes(passes);
  REQUIRE(parsed.has_value());
  auto schedule =
      tasks::load_schedule(test::source_dir() + "/traces/samples/openvla_zero3.toml", all, *parsed);
  REQUIRE(schedule.has_value());
  const sim::Simulation simulation = simulated(*schedule);
  Figures found;
  found.time = step_time(simulation);
  found.peak = simulation.classes.front().steady.peaks.allocated;
  found.by_cause = simulation.classes.front().steady.peaks.by_cause;
  found.notes = schedule->what_if;
  found.graph = std::move(schedule->graph);
  return found;
}

double change(double before, double after) { return 100 * (after / before - 1); }
double time_change(const Figures& before, const Figures& after) {
  return change(static_cast<double>(before.time), static_cast<double>(after.time));
}
double peak_change(const Figures& before, const Figures& after) {
  return change(static_cast<double>(before.peak), static_cast<double>(after.peak));
}

Bytes bytes(const Graph& graph, Role role) {
  Bytes sum = 0;
  for (const OpId id : body_ops(graph))
    if (graph.at(id).role == role) sum += graph.at(graph.at(id).cost).message_bytes;
  return sum;
}

// DeepSpeed has states for all parameters that ask for gradients. No loss depends on the vision
// towers' last blocks, their final norms and SigLIP's pooling head.
constexpr std::int64_t kTrained = 1'244'191'296;
constexpr std::int64_t kUsed = kTrained - 12'598'272 - 15'239'504 - 15'242'704;

}  // namespace

// Published: -23.1 % time and -10.5 % peak. The number of GPUs (4), the batch (2 × 320) and the
// bucket size (DeepSpeed's default) are assumptions.
TEST_CASE("PR 7588: the fused downcast is worth a fifth of the step and less at the peak") {
  const Figures before = figures({});
  const Figures after = figures({"fuse-downcast"});
  CHECK(time_change(before, after) < -18);
  CHECK(time_change(before, after) > -28);
  // Buckets of 4 GB and the gradients that wait for them hold most of the peak.
  CHECK(peak_change(before, after) < -7);
  CHECK(peak_change(before, after) > -15);
  // Smaller buckets, as the published 9.5 GB ask for beside 6.1 GB of states: the drop shows.
  const std::vector<std::string> smaller{"train.micro_batch=8",
                                         "parallel.reduce_bucket_size=200000000"};
  const double drop = peak_change(figures({}, smaller), figures({"fuse-downcast"}, smaller));
  CHECK(drop < -7);
  CHECK(drop > -15);
}

TEST_CASE("the gain holds for other batches and numbers of GPUs") {
  for (const std::vector<std::string>& sets :
       {std::vector<std::string>{"train.micro_batch=4"},
        {"train.micro_batch=16"},
        {"parallel.world_size=8", "cluster.gpus_per_node=8"}}) {
    CAPTURE(sets);
    const Figures before = figures({}, sets);
    const Figures after = figures({"fuse-downcast"}, sets);
    CHECK(time_change(before, after) < -18);
    CHECK(time_change(before, after) > -29);
    CHECK(peak_change(before, after) < -6.5);
    CHECK(before.peak - after.peak > 900'000'000);  // published: 9.5 GB less 8.5
    CHECK(peak_change(before, after) > -15);
  }
}

TEST_CASE("with prefetching in the shard's dtype the gain shrinks, and the note says why") {
  const Figures alone = figures({});
  const Figures fused = figures({"fuse-downcast"});
  const Figures before = figures({"prefetch=budget"});
  const Figures target = figures({"fuse-downcast", "prefetch=budget"});
  const Figures shard = figures({"fuse-downcast,prefetch_dtype=shard", "prefetch=budget"});
  CHECK(time_change(before, shard) > time_change(alone, fused) + 5);
  CHECK(time_change(before, shard) < 0);
  CHECK(time_change(before, target) < time_change(before, shard) - 10);
  CHECK(shard.notes.back().did.find("passes no dtype") != std::string::npos);
  CHECK(bytes(shard.graph, Role::gather) == bytes(before.graph, Role::gather));
}

TEST_CASE("before the fusion the casts of all parameters are held where the backward begins") {
  const auto cast = static_cast<std::size_t>(Cause::cast_copy);
  // With small buckets the peak is there; with DeepSpeed's, gradients that wait are casts, too.
  const std::vector<std::string> sets{"train.micro_batch=8", "parallel.reduce_bucket_size=auto"};
  const Figures before = figures({}, sets);
  const Figures after = figures({"fuse-downcast"}, sets);
  Bytes copies = 0;  // of what the backward casts
  for (const OpId id : body_ops(before.graph)) {
    const Op& op = before.graph.at(id);
    const auto parts = before.graph.accesses_of(op);
    if (op.role == Role::cast && op.phase == Phase::backward &&
        before.graph.at(before.graph.at(parts[0].tensor).storage).cause ==
            Cause::unsharded_parameter)
      copies += parts[1].bytes;
  }
  CHECK(copies > 2 * kUsed * 85 / 100);
  CHECK(before.by_cause[cast] > copies * 95 / 100);
  CHECK(after.by_cause[cast] < copies / 3);
  CHECK(before.by_cause[cast] - after.by_cause[cast] >= (before.peak - after.peak) * 99 / 100);
}

TEST_CASE("states take 20 bytes a parameter, and every gradient is reduced once") {
  const Figures found = figures({});
  const Graph& graph = found.graph;
  Bytes states = 0;
  for (const char* name :
       {"parameters", "gradient partitions", "master parameters", "exp_avg", "exp_avg_sq"})
    for (const Storage& storage : graph.storages)
      if (graph.text(storage.name) == name) {
        CHECK(storage.bytes == kTrained);  // 4 bytes of a quarter each
        states += storage.bytes;
      }
  CHECK(states == 20 * kTrained / 4);
  CHECK(bytes(graph, Role::reduce) <= 4 * kUsed);
  CHECK(bytes(graph, Role::reduce) >= 4 * kUsed - 4 * 4 * 200);
  // Each parameter that runs is gathered by its forward, and by its backward unless nothing there
  // reads it (embeddings, biases).
  CHECK(bytes(graph, Role::gather) > 2 * 4 * (kUsed - 3 * 32'064 * 4'096 / 2));
}
