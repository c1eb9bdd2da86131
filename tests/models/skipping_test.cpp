// The engine skips periods that go on as the one before. With a recorded memory it does not.
#include <catch2/catch.hpp>

#include "sim/engine/engine.h"
#include "sim/engine/host_loop.h"
#include "sim/engine/repeats.h"
#include "sim/engine/shared_device.h"
#include "tasks/schedule.h"
#include "tests/support/places.h"
#include "tests/support/repetitions.h"

using namespace foregather;

namespace {

void check_same(const sim::StepResult& all, const sim::StepResult& skipped) {
  CHECK(all.begin == skipped.begin);
  CHECK(all.end == skipped.end);
  CHECK(all.host_end == skipped.host_end);
  CHECK(all.peaks.reserved == skipped.peaks.reserved);
  REQUIRE(all.ran == skipped.ran);
  std::size_t differ = 0;
  for (std::size_t i = 0; i < all.ops.size(); ++i) {
    if (all.ran[i] == 0) continue;
    const sim::OpTime &a = all.ops[i], &b = skipped.ops[i];
    const bool is_same = a.issued == b.issued && a.start == b.start && a.transfer == b.transfer &&
                         a.end == b.end && a.bound_by == b.bound_by &&
                         a.bound_class == b.bound_class &&
                         a.bound_previous_step == b.bound_previous_step && a.reason == b.reason;
    if (is_same) continue;
    INFO("op " << i);
    if (++differ == 1) CHECK(is_same);
  }
  CHECK(differ == 0);
}

}  // namespace

TEST_CASE("skipping what repeats changes nothing") {
  int compared = 0, tried = 0;
  for (const char* sample :
       {"llama3_70b_fsdp2", "llama3_8b_fsdp2", "llama2_7b_fsdp1", "gpt2_ddp", "mixtral_8x7b_zero3",
        "openvla_zero3", "llama2_13b_lora", "late_prefetch_fsdp1", "gpt2_two_names",
        "openvla_deepcompile", "roberta_1gb_slow_network"})
    for (const std::vector<std::string>& sets :
         {std::vector<std::string>{},
          {"train.seq_len=300"},
          {"train.grad_accum=2"},
          {"train.reads_loss=true"},
          {"cluster.link_bandwidth_scale=0.05"},
          {"train.activation_checkpointing=selective:2"},
          {"cluster.link_bandwidth_scale=0.3", "train.optimizer_impl=fused",
           "train.seq_len=700"}}) {
      if (test::kSanitized && tried++ % 4 != 0) continue;
      const std::string path = test::source_dir() + "/traces/samples/" + sample + ".toml";
      auto schedule = tasks::load_schedule(path, sets, {});
      CAPTURE(sample, sets);
      if (!schedule) continue;  // blocks of a tree cannot be checkpointed
      for (const bool contention : {true, false}) {
        CAPTURE(contention);
        ++compared;
        schedule->engine.contention = contention;
        schedule->engine.record_memory = true;
        const auto all = sim::simulate(schedule->graph, schedule->prices, schedule->engine);
        schedule->engine.record_memory = false;
        const auto skipped = sim::simulate(schedule->graph, schedule->prices, schedule->engine);
        REQUIRE((all.has_value() && skipped.has_value()));
        CHECK(all->steps == skipped->steps);
        CHECK(all->converged == skipped->converged);
        CHECK(all->oom.has_value() == skipped->oom.has_value());
        if (all->oom) continue;
        check_same(all->classes.front().first, skipped->classes.front().first);
        check_same(all->classes.front().steady, skipped->classes.front().steady);
      }
    }
  CHECK(compared >= test::repetitions(120));
}

TEST_CASE("the blocks of a model are found as what repeats") {
  const auto schedule =
      tasks::load_schedule(test::source_dir() + "/traces/samples/llama3_70b_fsdp2.toml", {}, {});
  REQUIRE(schedule.has_value());
  const Program& program = schedule->graph.programs.front();
  const sim::ProgramRepeats repeats = sim::find_repeats(schedule->graph, program);
  REQUIRE(repeats.size() == 2);
  const auto& forward = repeats[0][static_cast<std::size_t>(Section::body)];
  const auto& backward = repeats[1][static_cast<std::size_t>(Section::body)];
  REQUIRE(forward.size() == 1);
  REQUIRE(backward.size() == 1);
  CHECK(forward.front().count == 79);
  CHECK(backward.front().count == 78);
  CHECK(forward.front().rows.count == forward.front().ops * 79);
}

TEST_CASE("a steady step is known from its forward pass on") {
  auto schedule =
      tasks::load_schedule(test::source_dir() + "/traces/samples/llama3_70b_fsdp2.toml", {}, {});
  REQUIRE(schedule.has_value());
  const Graph& graph = schedule->graph;
  schedule->engine.memory = false;
  const sim::LaunchTable launches(graph, schedule->prices);
  std::vector<sim::Timeline> timelines{sim::Timeline(graph.programs.front().ops)};
  const sim::Meetings meetings(graph);
  sim::SharedDevice device(graph, launches.by_class(), schedule->prices, timelines, meetings);
  const std::vector<std::shared_ptr<sim::MemoryPlan>> plans(1);
  const sim::ProgramRepeats repeats = sim::find_repeats(graph, graph.programs.front());
  sim::HostLoop<sim::SharedDevice> host(graph, launches.by_class(), schedule->prices,
                                        schedule->engine, plans, &repeats, device);
  REQUIRE(host.issue(2).has_value());
  CHECK(host.settled() == 0);
  REQUIRE(host.issue(3).has_value());
  const Ns later = host.settled();
  CHECK(later > 0);
  CHECK(device.is_coasting());  // the blocks that are still queued are done by copying
  const auto& states = timelines.front().step(3).states;
  const auto issued = std::ranges::count_if(
      states, [](sim::OpState state) { return state != sim::OpState::absent; });
  CHECK(issued < static_cast<std::ptrdiff_t>(states.size()) / 3);
  // Played to its end it is as it was said to be.
  while (host.settled() != 0) REQUIRE(host.issue(3).has_value());
  device.advance(sim::kForever - 1);
  CHECK(timelines.front().step(3).unfinished == 0);
  CHECK(timelines.front().step(3).end == timelines.front().step(2).end + later);
}

namespace {

// Each rank a class of its own: some are slower, some start late.
void set_apart(Graph& graph) {
  const RankClass all = graph.classes.front();
  graph.classes.assign(graph.world_size, all);
  for (std::uint32_t rank = 0; rank < graph.world_size; ++rank) {
    RankClass& own = graph.classes[rank];
    own.ranks = {all.ranks.first + rank, 1};
    if (rank % 3 == 1) own.compute_scale_ppm = 1'000'000 + 70'000 * static_cast<int>(rank);
    if (rank % 4 == 2) own.start_delay = 300'000 * rank;
  }
}

}  // namespace

// With a recorded memory the host looks no further ahead than the next launch.
TEST_CASE("waiting for several places of a full launch queue at once changes nothing") {
  int compared = 0, tried = 0;
  for (const char* sample :
       {"tiny_fsdp2", "llama3_8b_fsdp2", "llama2_7b_fsdp1", "gpt2_ddp", "openvla_zero3"})
    for (const std::vector<std::string>& sets : {std::vector<std::string>{"model.layers=6"},
                                                 {"model.layers=5", "train.grad_accum=2"},
                                                 {"model.layers=6", "train.seq_len=64"},
                                                 {}}) {
      const std::string path = test::source_dir() + "/traces/samples/" + sample + ".toml";
      auto schedule = tasks::load_schedule(path, sets, {});
      CAPTURE(sample, sets);
      if (!schedule || schedule->graph.world_size > 8) continue;
      if (sets.empty() && schedule->graph.ops.size() > 3000) continue;
      set_apart(schedule->graph);
      for (const std::uint32_t places : {3U, 40U, 300U}) {
        if (test::kSanitized && tried++ % 4 != 0) continue;
        CAPTURE(places);
        ++compared;
        for (sim::CostTable& prices : schedule->prices) prices.host.launch_queue = places;
        schedule->engine.record_memory = true;
        const auto all = sim::simulate(schedule->graph, schedule->prices, schedule->engine);
        schedule->engine.record_memory = false;
        const auto ahead = sim::simulate(schedule->graph, schedule->prices, schedule->engine);
        REQUIRE((all.has_value() && ahead.has_value()));
        CHECK(all->steps == ahead->steps);
        CHECK(all->oom.has_value() == ahead->oom.has_value());
        if (all->oom) continue;
        for (std::size_t c = 0; c < all->classes.size(); ++c) {
          CAPTURE(c);
          check_same(all->classes[c].first, ahead->classes[c].first);
          check_same(all->classes[c].steady, ahead->classes[c].steady);
        }
      }
    }
  CHECK(compared >= test::repetitions(40));
}
