#include <algorithm>
#include <catch2/catch.hpp>

#include "core/ir/builder.h"
#include "sim/engine/engine.h"
#include "sim/passes/registry.h"
#include "tests/fixtures/fixtures.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

const std::vector<std::string> kSmall{"model.layers=2"};

sim::Simulation simulation_of(const tasks::Schedule& schedule) {
  const auto simulation = sim::simulate(schedule.graph, schedule.prices, schedule.engine);
  REQUIRE(simulation.has_value());
  return *simulation;
}

// Fixed delays added by a pass, in the body.
std::vector<const Op*> delays(const Graph& graph) {
  std::vector<const Op*> found;
  for (const OpId op : launches(graph))
    if (graph.at(op).kind == OpKind::sleep) found.push_back(&graph.at(op));
  return found;
}

}  // namespace

TEST_CASE("factors of scale multiply, in the range of one factor") {
  sim::PassTarget target{thunder_trace(), {}};
  const auto apply = [&target](const std::string& text) {
    const auto parsed = sim::parse_pass(text);
    REQUIRE(parsed.has_value());
    return (*parsed)(target);
  };
  for (const char* text : {"scale=links:2", "scale=compute:0.5", "scale=links:3", "scale=gemm:4"})
    REQUIRE(apply(text).has_value());
  CHECK(target.prices.links == 6);
  CHECK(target.prices.compute == 0.5);
  REQUIRE(target.prices.kinds.size() == 1);
  CHECK(target.prices.kinds[0].kind == OpKind::gemm);
  CHECK_FALSE(apply("scale=attention:2")->changed);
  REQUIRE(apply("scale=host:1e-6").has_value());
  CHECK_FALSE(apply("scale=host:1e-6").has_value());
}

TEST_CASE("scale of a scope changes the prices of its ops alone") {
  const auto before = sample_with("tiny_fsdp2", kSmall);
  const auto after = sample_with("tiny_fsdp2", kSmall, {"scale=scope:model.layers.1:2"});
  const auto twice = sample_with("tiny_fsdp2", kSmall,
                                 {"scale=scope:model.layers.1:4", "scale=scope:model.*.1:0.5"});
  REQUIRE(after.graph.ops.size() == before.graph.ops.size());
  for (std::size_t row = 0; row < before.graph.ops.size(); ++row) {
    const Op& old_op = before.graph.ops[row];
    const Ns old_time = before.prices[0].prices[old_op.cost.row()].duration;
    const Ns time = after.prices[0].prices[after.graph.ops[row].cost.row()].duration;
    const std::string_view scope = before.graph.scope_name(old_op.scope);
    if (scope.starts_with("model.layers.1"))
      CHECK(time == (old_time + 1) / 2);
    else
      CHECK(time == old_time);
    // model.*.1 leaves out what lies below model.layers.1: twice four there, twice two on it.
    if (scope == "model.layers.1")
      CHECK(twice.prices[0].prices[twice.graph.ops[row].cost.row()].duration == (old_time + 1) / 2);
  }
}

TEST_CASE("scale of an op changes the price of that op alone, on every rank") {
  const auto before = sample_with("tiny_fsdp2", kSmall);
  const auto after = sample_with("tiny_fsdp2", kSmall, {"scale=op:*/backward/gemm/1:2"});
  std::size_t scaled = 0;
  for (std::size_t row = 0; row < before.graph.ops.size(); ++row) {
    const Op& op = before.graph.ops[row];
    const Ns old_time = before.prices[0].prices[op.cost.row()].duration;
    const Ns time = after.prices[0].prices[after.graph.ops[row].cost.row()].duration;
    const bool is_meant = op.kind == OpKind::gemm && op.phase == Phase::backward && op.ordinal == 1;
    CHECK(time == (is_meant ? (old_time + 1) / 2 : old_time));
    scaled += is_meant ? 1 : 0;
  }
  CHECK(scaled > 1);
  REQUIRE(after.what_if.size() == 1);
  CHECK(after.what_if[0].did == fmt::format("{} ops of */backward/gemm/1 2 times as fast", scaled));
  CHECK_FALSE(sample_with("tiny_fsdp2", kSmall, {"scale=op:nothing:2"}).what_if[0].changed);
}

TEST_CASE("an ideal step takes usual times, without leads") {
  Graph graph = thunder_trace();
  const auto pass = sim::parse_pass("ideal");
  REQUIRE(pass.has_value());
  sim::PassTarget nothing{graph};
  CHECK_FALSE((*pass)(nothing)->changed);
  Cost& cost = graph.costs[graph.ops[0].cost.row()];
  cost.is_fixed = true;
  cost.fixed_time = 700;
  cost.launch_lead = cost.lead = 30;
  cost.usual_time = 500;
  sim::PassTarget target{graph};
  CHECK((*pass)(target)->changed);
  const Cost& ideal = target.graph.costs[graph.ops[0].cost.row()];
  CHECK(ideal.fixed_time == 500);
  CHECK(ideal.launch_lead + ideal.lead == 0);
  CHECK_FALSE(sim::parse_pass("ideal=2").has_value());
}

TEST_CASE("scale of the host divides its times and its delays") {
  const auto before = sample_with("tiny_fsdp2", kSmall);
  const auto after = sample_with("tiny_fsdp2", kSmall, {"scale=host:10"});
  CHECK(after.prices[0].host.alloc == (before.prices[0].host.alloc + 5) / 10);
  CHECK(after.prices[0].host.device_malloc == before.prices[0].host.device_malloc);
  CHECK(simulation_of(after).classes[0].steady.time() <
        simulation_of(before).classes[0].steady.time());
  for (std::size_t row = 0; row < before.prices[0].prices.size(); ++row)
    CHECK(after.prices[0].prices[row].duration == before.prices[0].prices[row].duration);
}

TEST_CASE("delays that scale makes longer than an action holds become several") {
  const auto scaled = [](const std::string& what) -> Result<Graph> {
    GraphBuilder b;
    b.begin_program("rank");
    const std::uint32_t main = b.thread("main"), other = b.thread("other");
    b.select(main, Section::body);
    b.host_delay(1'000);
    b.host_delay(3'000'000'000);
    b.host_delay(4'000'000'000);
    b.select(other, Section::body);
    b.host_wait_action(main, 1);
    b.host_delay(7);
    b.end_program();
    b.rank_class({b.graph().strings.intern("all"), ProgramId(0), {}, 0, 1'000'000, 0},
                 std::vector<std::uint32_t>{0});
    sim::PassTarget target{b.finish()};
    const auto pass = sim::parse_pass(what);
    REQUIRE(pass.has_value());
    if (auto note = (*pass)(target); !note) return tl::unexpected(note.error());
    CHECK(problems(target.graph).empty());
    return std::move(target.graph);
  };
  const Result<Graph> graph = scaled("scale=host:0.5");
  REQUIRE(graph.has_value());
  const auto actions = graph->programs[0].threads[0].actions(Section::body);
  const auto waiting = graph->programs[0].threads[1].actions(Section::body);
  const auto time_until = [&](std::size_t end) {
    Ns time = 0;
    for (const Action& action : actions.first(end)) time += action.a;
    return time;
  };
  CHECK(time_until(actions.size()) == 14'000'002'000);
  // The other thread waits for all of the delay that it waited for.
  CHECK(time_until(waiting[0].b + 1) == 6'000'002'000);
  CHECK(waiting[1].a == 14);
  CHECK(scaled("scale=host:2")->programs[0].threads[0].actions(Section::body).size() == 3);

  const Result<Graph> endless = scaled("scale=host:1e-6");
  REQUIRE_FALSE(endless.has_value());
  CHECK(endless.error().text() ==
        "--what-if scale=host:1e-6: the host would work for more than 52 days, expected a greater "
        "factor");
}

TEST_CASE("delays stand where PyTorch's tests sleep") {
  const Graph plain = sample_with("tiny_fsdp2", kSmall).graph;
  const auto micro_batches = std::vector<std::string>{"model.layers=2", "train.grad_accum=3"};
  SECTION("after the loss of each micro-batch") {
    const Graph graph = sample_with("tiny_fsdp2", micro_batches, {"delay=after-loss:5ms"}).graph;
    const auto found = delays(graph);
    REQUIRE(found.size() == 3);
    CHECK(problems(graph).empty());
    for (const Op* op : found) {
      CHECK(op->phase == Phase::forward);
      CHECK(graph.at(op->cost).fixed_time == 5 * kMillisecond);
    }
  }
  SECTION("before each unit's reduction: the root and two layers") {
    const Graph graph = passed(plain, {"delay=before-reduction:1ms"});
    const auto found = delays(graph);
    REQUIRE(found.size() == 3);
    CHECK(problems(graph).empty());
    const auto order = launches(graph);
    for (std::size_t i = 0; i < order.size(); ++i)
      if (graph.at(order[i]).role == Role::reduce)
        CHECK(graph.at(order[i - 1]).kind == OpKind::sleep);
  }
  SECTION("before each free of unsharded parameters: two layers forward, all backward") {
    const Graph graph = passed(plain, {"delay=before-free:1ms"});
    CHECK(delays(graph).size() == 5);
    CHECK(problems(graph).empty());
  }
  SECTION("before each visit of a module: forward and backward") {
    const Graph graph = passed(plain, {"delay=scope:model.layers.1:1ms"});
    CHECK(delays(graph).size() == 2);
    CHECK(problems(graph).empty());
  }
  SECTION("freed by release") {
    const Graph graph = passed(thunder_trace(), {"delay=before-free:1ms"});
    CHECK(delays(graph).size() == 2);
    CHECK(problems(graph).empty());
  }
  SECTION("nowhere") {
    std::vector<sim::PassNote> notes;
    const Graph graph = passed(activation_recompute(), {"delay=before-reduction:1ms"}, &notes);
    CHECK(keys(graph) == keys(activation_recompute()));
    REQUIRE(notes.size() == 1);
    CHECK_FALSE(notes[0].changed);
  }
}

TEST_CASE("a rank that starts late is a class of its own") {
  const Graph graph = sample_with("tiny_fsdp2", kSmall, {"delay=rank:2:7ms"}).graph;
  REQUIRE(graph.classes.size() == 2);
  CHECK(graph.classes[1].start_delay == 7 * kMillisecond);
  CHECK(graph.ranks_of(graph.classes[0].ranks).size() == 3);
  CHECK(graph.ranks_of(graph.classes[1].ranks)[0] == 2);
  CHECK(problems(graph).empty());
  const Graph later = passed(graph, {"delay=rank:2:1ms"});
  REQUIRE(later.classes.size() == 2);
  CHECK(later.classes[1].start_delay == 8 * kMillisecond);
  CHECK_THROWS(passed(graph, {"delay=rank:4:1ms"}));
}

TEST_CASE("a delay takes its time at any speed of compute, and nothing of what runs beside it") {
  const auto delayed =
      sample_with("tiny_fsdp2", kSmall, {"scale=compute:2", "delay=before-reduction:5ms"});
  const auto found = delays(delayed.graph);
  REQUIRE_FALSE(found.empty());
  const sim::Price& price = delayed.prices[0].prices[found[0]->cost.row()];
  CHECK(price.duration == 5 * kMillisecond);
  CHECK(std::ranges::all_of(price.demand, [](std::uint16_t share) { return share == 0; }));
}

TEST_CASE("a delay that nothing overlaps adds its time to the step") {
  const auto before = sample_with("tiny_fsdp2", {"model.layers=2"}, {"scale=host:1000"});
  const auto after =
      sample_with("tiny_fsdp2", {"model.layers=2"}, {"scale=host:1000", "delay=after-loss:50ms"});
  const Ns added = simulation_of(after).classes[0].steady.time() -
                   simulation_of(before).classes[0].steady.time();
  CHECK(added >= 49 * kMillisecond);
  CHECK(added <= 50 * kMillisecond);
}
