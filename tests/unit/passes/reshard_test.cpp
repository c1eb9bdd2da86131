// Parameters kept, freed, or kept in part between forward and backward. The lowering of the same
// plan is the oracle; Thunder's recorded ZeRO-3 for what turns ZeRO-2 into it.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <catch2/catch.hpp>

#include "core/ir/names.h"
#include "tasks/simulate.h"
#include "tests/support/places.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

using Strings = std::vector<std::string>;
const std::string kSamples = test::source_dir() + "/traces/samples/";

tasks::Summary simulated(const std::string& sample, const Strings& sets, const Strings& passes) {
  tasks::SimulateRequest request;
  request.sources.paths = {kSamples + sample + ".toml"};
  request.sets = sets;
  request.what_if = passes;
  request.record_memory = false;
  auto outcome = tasks::simulate(request);
  REQUIRE(outcome.has_value());
  return std::move(outcome->summary);
}

Strings with(Strings sets, const char* reshard) {
  sets.push_back(std::string("parallel.reshard_after_forward=") + reshard);
  return sets;
}

/// The gathers of a steady step: phase, ranks and bytes, in order.
std::vector<std::string> gathers(const Graph& graph) {
  std::vector<std::string> all;
  for (const OpId id : launches(graph)) {
    const Op& op = graph.at(id);
    if (op.role != Role::gather) continue;
    all.push_back(fmt::format("{} {} over {}: {}", name(op.phase), graph.scope_name(op.scope),
                              graph.at(graph.at(op.communicator).group).ranks.count,
                              graph.at(op.cost).message_bytes));
  }
  return all;
}

Bytes wire_bytes(const tasks::Summary& summary) { return summary.slow().times->busy.wire_bytes; }

void check_agrees(const tasks::Summary& ours, const tasks::Summary& plan, std::int64_t part) {
  CHECK(std::abs(*ours.step_time() - *plan.step_time()) * part <= *plan.step_time());
  CHECK(wire_bytes(ours) == wire_bytes(plan));
  CHECK(std::abs(ours.large().memory.peaks.allocated - plan.large().memory.peaks.allocated) *
            1000 <=
        plan.large().memory.peaks.allocated);
  CHECK(std::abs(ours.large().memory.peaks.reserved - plan.large().memory.peaks.reserved) * 50 <=
        plan.large().memory.peaks.reserved);
}

}  // namespace

TEST_CASE("reshard= does what the plan's reshard_after_forward does on FSDP2") {
  const std::vector<std::pair<std::string, Strings>> cases{
      {"tiny_fsdp2", {"model.layers=3"}},
      {"tiny_fsdp2", {"model.layers=3", "train.grad_accum=2"}},
      {"tiny_fsdp2",
       {"model.layers=2", "train.activation_checkpointing=full", "parallel.world_size=16",
        "parallel.shard_size=4"}},
      {"llama3_8b_fsdp2", {"model.layers=3"}},
  };
  const char* const kPrefetch = "prefetch=backward-pre";  // FSDP2's own
  struct Way {
    const char* from;
    const char* to;
    Strings passes;
  };
  const std::vector<Way> ways{{"false", "true", {"reshard=always", kPrefetch}},
                              {"true", "false", {"reshard=never"}},
                              {"true", "2", {"reshard=2"}},
                              {"false", "2", {"reshard=2", kPrefetch}}};
  for (const auto& [sample, sets] : cases)
    for (const Way& way : ways) {
      CAPTURE(sample, sets, way.from, way.to);
      const Graph graph = sample_with(sample, with(sets, way.from), way.passes).graph;
      CHECK(problems(graph) == "");
      const Graph plan = sample_with(sample, with(sets, way.to)).graph;
      CHECK(gathers(graph) == gathers(plan));
      check_agrees(simulated(sample, with(sets, way.from), way.passes),
                   simulated(sample, with(sets, way.to), {}), 500);
    }
}

// FSDP gathers where a unit's backward begins, whatever that reads.
TEST_CASE("reshard=always gathers an embedding again, whose backward does not read it") {
  const Strings sets{"model.layers=3", "parallel.wrap=block_embed_head"};
  const Strings passes{"reshard=always"};
  const Graph graph = sample_with("llama3_8b_fsdp2", with(sets, "false"), passes).graph;
  CHECK(problems(graph) == "");
  const Graph plan = sample_with("llama3_8b_fsdp2", with(sets, "true")).graph;
  CHECK(launches(graph).size() == launches(plan).size());
  const tasks::Summary ours = simulated("llama3_8b_fsdp2", with(sets, "false"), passes);
  const tasks::Summary lowered = simulated("llama3_8b_fsdp2", with(sets, "true"), {});
  CHECK(wire_bytes(ours) == wire_bytes(lowered));
  CHECK(ours.large().memory.peaks.allocated == lowered.large().memory.peaks.allocated);
  const Graph again =
      sample_with("llama3_8b_fsdp2", with(sets, "false"), {"reshard=always", "reshard=always"})
          .graph;
  CHECK(launches(again).size() == launches(graph).size());
}

TEST_CASE("reshard=never is FSDP1's SHARD_GRAD_OP") {
  for (const char* limit : {"true", "false"}) {
    const Strings sets = GENERATE(Strings{"model.layers=4"}, Strings{"model.layers=9"},
                                  Strings{"model.layers=5", "train.grad_accum=2"});
    CAPTURE(limit, sets);
    Strings full = sets;
    full.push_back(std::string("parallel.limit_all_gathers=") + limit);
    Strings grad_op = full;
    grad_op.emplace_back("parallel.sharding=shard_grad_op");
    const tasks::Summary ours = simulated("llama2_7b_fsdp1", full, {"reshard=never"});
    const tasks::Summary plan = simulated("llama2_7b_fsdp1", grad_op, {});
    CHECK(*ours.step_time() == *plan.step_time());
    CHECK(wire_bytes(ours) == wire_bytes(plan));
    CHECK(ours.large().memory.peaks.allocated == plan.large().memory.peaks.allocated);
    // Also under the limiter, in which unshards that find their parameters in place take part.
    CHECK(ours.large().memory.peaks.reserved == plan.large().memory.peaks.reserved);
  }
}

TEST_CASE("only FSDP1's unshards take part in a limiter where their parameters are in place") {
  const auto both = [](const std::string& sample, Strings passes) {
    const tasks::Summary summary = simulated(sample, {}, passes);
    return std::pair(*summary.step_time(), summary.large().memory.peaks.active);
  };
  CHECK(both("openvla_deepcompile", {"limit-all-gathers=2", "reshard=never"}) ==
        both("openvla_deepcompile", {"reshard=never", "limit-all-gathers=2"}));
}

TEST_CASE("reshard=N: counts and bytes by hand") {
  // Four units of 8 ranks. The root is not resharded by default: reshard=2 does it as well.
  const Graph graph = sample_with("llama2_7b_fsdp1", {"model.layers=3"}, {"reshard=2"}).graph;
  CHECK(problems(graph) == "");
  Bytes full = 0, kept = 0, copied = 0;
  for (const OpId id : launches(graph)) {
    const Op& op = graph.at(id);
    const bool forward = op.phase == Phase::forward;
    if (op.role == Role::gather && forward) full += graph.at(op.cost).message_bytes;
    if (op.role == Role::gather)
      CHECK(graph.at(graph.at(op.communicator).group).ranks.count == (forward ? 8 : 2));
    if (op.role == Role::copy_out && forward) copied += graph.at(op.cost).bytes_written;
  }
  for (const Storage& storage : graph.storages)
    if (storage.cause == Cause::unsharded_parameter) kept += storage.bytes;
  CHECK(copied * 2 == full);
  CHECK(kept == full + copied);
  const Group& pairs = graph.groups.back();
  CHECK(pairs.instances == 4);
  CHECK(pairs.nodes == 1);
  std::vector<sim::PassNote> notes;
  (void)passed(graph, {"reshard=2"}, &notes);
  CHECK_FALSE(notes.at(0).changed);
}

TEST_CASE("reshard= says what it cannot do") {
  const Graph graph = sample_with("tiny_fsdp2", {}).graph;
  CHECK_THROWS_WITH(passed(graph, {"reshard=3"}),
                    Catch::Contains("--what-if reshard=3: '") &&
                        Catch::Contains("is sharded over 4 ranks, which 3 does not divide"));
  std::vector<sim::PassNote> notes;
  const Graph ddp = sample_with("gpt2_ddp", {"model.layers=2"}).graph;
  for (const char* text :
       {"reshard=always", "reshard=never", "reshard=2", "rematerialize-all-gather"}) {
    CAPTURE(text);
    (void)passed(ddp, {text}, &notes);
    CHECK_FALSE(notes.at(0).changed);
  }
}

TEST_CASE("reshard=always and never undo each other") {
  for (const char* sample : {"tiny_fsdp2", "llama2_7b_fsdp1"}) {
    CAPTURE(sample);
    const Graph never = sample_with(sample, {"model.layers=3"}, {"reshard=never"}).graph;
    const Graph always = passed(never, {"reshard=always"});
    CHECK(count(never, Role::gather) == 4);
    CHECK(count(always, Role::gather) == 8);
    CHECK(count(always, Role::gather, Section::first) == 8);
    CHECK(gathered_bytes(always) == 2 * gathered_bytes(never));
    CHECK(gathers(passed(always, {"reshard=never"})) == gathers(never));
  }
}
