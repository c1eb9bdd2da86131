// Every fixture is valid and comes back from its dump.
#include <catch2/catch.hpp>

#include "core/ir/dump.h"
#include "core/ir/op_key.h"
#include "tests/fixtures/fixtures.h"
#include "tests/unit/ir/edit.h"

using namespace foregather;
using namespace foregather::test;

TEST_CASE("fixtures are valid") {
  for (const auto& [name, make] : all_fixtures()) {
    INFO(name);
    const auto problems = validate(make());
    INFO(text_of(problems));
    CHECK(problems.empty());
  }
}

TEST_CASE("fixtures round-trip") {
  for (const auto& [name, make] : all_fixtures()) {
    INFO(name);
    const Graph graph = make();
    const std::string text = dump(graph);
    const Result<Graph> back = read_dump(text, name);
    REQUIRE(back);
    CHECK(dump(*back) == text);
    CHECK(back->strings.size() == graph.strings.size());
    CHECK(back->dims == graph.dims);
    CHECK(back->rank_lists == graph.rank_lists);
    CHECK(back->op_lists == graph.op_lists);
    CHECK(back->accesses == graph.accesses);
    CHECK(back->storages == graph.storages);
    CHECK(back->tensors == graph.tensors);
    CHECK(back->scopes == graph.scopes);
    CHECK(back->units == graph.units);
    CHECK(back->groups == graph.groups);
    CHECK(back->communicators == graph.communicators);
    CHECK(back->costs == graph.costs);
    CHECK(back->ops == graph.ops);
    CHECK(back->programs == graph.programs);
    CHECK(back->classes == graph.classes);
    CHECK(back->world_size == graph.world_size);
    CHECK(back->parameters == graph.parameters);
    CHECK(back->tokens_per_rank_step == graph.tokens_per_rank_step);
    CHECK(back->model_flops_per_rank_step == graph.model_flops_per_rank_step);
  }
}

TEST_CASE("fixtures are built alike each time") {
  for (const auto& [name, make] : all_fixtures()) {
    INFO(name);
    CHECK(dump(make()) == dump(make()));
  }
}

// What a fixture is there to show must be in it.
TEST_CASE("fixtures show what their producers need") {
  const auto count = [](const Graph& graph, ActionKind kind, Section section) {
    std::size_t found = 0;
    for (const Program& program : graph.programs)
      for (const HostThread& thread : program.threads)
        for (const Action& each : thread.actions(section)) found += each.kind == kind;
    return found;
  };
  const Graph thunder = thunder_trace();
  CHECK(count(thunder, ActionKind::release, Section::body) > 8);
  CHECK(count(thunder, ActionKind::free, Section::first) == 0);
  CHECK(count(thunder, ActionKind::free, Section::body) == 1);

  const Graph kineto = kineto_recording();
  CHECK(kineto.programs.size() == 2);
  for (const Program& program : kineto.programs) CHECK(program.threads.size() == 3);
  for (const Cost& cost : kineto.costs) CHECK(cost.is_fixed);
  CHECK(count(kineto, ActionKind::host_wait_action, Section::body) == 6);

  const Graph chakra = chakra_dag();
  CHECK(chakra.classes.size() == 3);
  CHECK(count(chakra, ActionKind::wait, Section::body) == 0);
  CHECK(chakra.classes[2].compute_scale_ppm == 1'200'000);

  const Graph deepcompile = deepcompile_zero3();
  CHECK(deepcompile.origins_of(deepcompile.ops[3]).size() == 2);

  const Graph fsdp1 = fsdp1_rate_limiter();
  CHECK(count(fsdp1, ActionKind::host_wait_event, Section::first) + 3 ==
        count(fsdp1, ActionKind::host_wait_event, Section::body));

  const Graph accumulation = gradient_accumulation();
  std::size_t reductions = 0;
  for (const Op& op : accumulation.ops) {
    if (op.kind != OpKind::reduce_scatter) continue;
    ++reductions;
    CHECK(op.micro_batch == 1);
  }
  CHECK(reductions == 2);

  const Graph expert = expert_group_of_one();
  CHECK(expert.groups[1].ranks.count == 1);
  CHECK(expert.groups[1].instances == 4);

  const Graph recompute = activation_recompute();
  std::size_t recomputed = 0;
  for (const Op& op : recompute.ops)
    if (op.phase == Phase::recompute) {
      ++recomputed;
      REQUIRE(recompute.origins_of(op).size() == 1);
      CHECK(recompute.at(recompute.origins_of(op)[0]).phase == Phase::forward);
    }
  CHECK(recomputed == 3);
}
