#include "gui/models/what_if.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/base/file.h"
#include "core/plan/workload_keys.h"
#include "sim/passes/registry.h"
#include "tasks/keys.h"
#include "tasks/simulate.h"
#include "tests/support/places.h"

using namespace foregather;
using namespace foregather::gui;

namespace {

const std::string kTiny = test::source_dir() + "/traces/samples/tiny_fsdp2.toml";

WhatIf tiny(std::vector<std::string> sets = {}) {
  return WhatIf({kTiny, *read_file(kTiny, MiB), kTiny, std::move(sets), {}, {}, {}},
                {{"h100_sxm", "a100_80_sxm"}, {"nvswitch"}, {"ib_ndr"}});
}

const Knob* find(const WhatIf& what_if, const std::string& name) {
  const auto found = std::find_if(what_if.knobs().begin(), what_if.knobs().end(),
                                  [&](const Knob& knob) { return knob.name == name; });
  return found == what_if.knobs().end() ? nullptr : &*found;
}

run::Run simulated(const WhatIf& what_if) {
  tasks::SimulateRequest request;
  request.sources.paths = {what_if.source().location};
  request.sets = what_if.sets();
  request.what_if = what_if.passes();
  auto outcome = tasks::simulate(request);
  if (!outcome) FAIL(outcome.error().text());
  return std::move(outcome->run);
}

}  // namespace

TEST_CASE("what-if: knobs are the keys that have an effect, with what the workload says") {
  const WhatIf what_if = tiny();
  REQUIRE(find(what_if, "train.micro_batch") != nullptr);
  CHECK(find(what_if, "train.micro_batch")->kind == Knob::Kind::number);
  CHECK(find(what_if, "parallel.backward_prefetch")->choices ==
        std::vector<std::string>{"pre", "post", "none"});
  CHECK(find(what_if, "parallel.backward_prefetch")->given == "pre");
  CHECK(find(what_if, "parallel.sharding") == nullptr);  // FSDP1 alone
  CHECK(find(what_if, "model.config") == nullptr);
  CHECK(find(what_if, "cluster.hardware")->choices.size() == 2);
  CHECK_FALSE(find(what_if, "train.seq_len")->given.empty());
  CHECK(find(what_if, "reshard=")->is_pass);
}

TEST_CASE("what-if: a knob that another one takes away comes back as it was turned") {
  WhatIf what_if = tiny();
  CHECK(what_if.turn("parallel.reshard_after_forward", "false"));
  CHECK_FALSE(what_if.turn("parallel.reshard_after_forward", "false"));
  what_if.turn("parallel.strategy", "fsdp1");
  CHECK(find(what_if, "parallel.sharding") != nullptr);
  CHECK(what_if.sets() == std::vector<std::string>{"parallel.strategy=fsdp1"});
  what_if.turn("parallel.strategy", "");
  CHECK(what_if.sets() == std::vector<std::string>{"parallel.reshard_after_forward=false"});
  what_if.reset();
  CHECK_FALSE(what_if.is_turned());
}

TEST_CASE("what-if: the command line says what is turned, as a shell takes it") {
  WhatIf what_if({"a b's.toml", std::nullopt, "", {}, {}, {}, {}}, {});
  CHECK(what_if.command_line() == "foregather simulate 'a b'\\''s.toml'");
  what_if.turn("allocator.conf", "expandable_segments:True,max_split_size_mb:64");
  what_if.turn("scale=links:", "0.5");
  what_if.turn("fuse-downcast", "on");
  what_if.set_further_passes(" delay=scope:a.*:5ms  sort-waits");
  CHECK(what_if.command_line() ==
        "foregather simulate 'a b'\\''s.toml' --set "
        "allocator.conf=expandable_segments:True,max_split_size_mb:64 --what-if scale=links:0.5 "
        "--what-if fuse-downcast --what-if 'delay=scope:a.*:5ms' --what-if sort-waits");
  CHECK(what_if.title() ==
        "conf=expandable_segments:True,max_split_size_mb:64 scale=links:0.5 fuse-downcast "
        "delay=scope:a.*:5ms sort-waits");
}

TEST_CASE("what-if: every choice of every knob is one that simulate takes") {
  const WhatIf what_if({kTiny, *read_file(kTiny, MiB), kTiny, {}, {}, {}, {}},
                       {tasks::hardware_names(), tasks::topology_names(), tasks::fabric_names()});
  for (const Knob& knob : what_if.knobs()) {
    std::vector<std::string> values = knob.choices;
    if (values.empty() && knob.kind == Knob::Kind::number) values.emplace_back("2");
    for (const std::string& value : values) {
      INFO(knob.name << " = " << value);
      if (knob.is_pass) CHECK(sim::parse_pass(knob.argument(value)));
      if (knob.is_pass) continue;
      const plan::WorkloadKey* key = plan::find_workload_key(knob.name);
      REQUIRE(key != nullptr);
      plan::Workload workload;
      CHECK(key->set(workload, {value, true}));
    }
  }
}

TEST_CASE("what-if: numbers double and halve, whole ones stay whole") {
  const WhatIf what_if = tiny();
  const Knob& batch = *find(what_if, "train.micro_batch");
  CHECK(turned(batch, "8", true) == "16");
  CHECK(turned(batch, "8", false) == "4");
  CHECK(turned(batch, "1", false).empty());
  CHECK(turned(batch, "many", true).empty());
  CHECK(turned(*find(what_if, "scale=links:"), "1", false) == "0.5");
}

TEST_CASE("what-if: a recording of several steps is a baseline as a whole beside its replay") {
  const auto run_of = [](run::RunKind kind, const std::vector<std::pair<Ns, Ns>>& steps) {
    run::Run run;
    run.about.kind = kind;
    run.classes.push_back({run.strings.intern("rank 0"), {0}});
    run.streams.push_back({run::ClassRow(0), run.strings.intern("compute")});
    for (const auto& [begin, end] : steps) {
      run::StepInfo step;
      step.rank_class = run::ClassRow(0);
      step.kind = run::StepKind::other;
      step.number = static_cast<std::uint32_t>(run.steps.size());
      step.begin = begin;
      step.end = end;
      run::OpRecord op;
      op.step = run::StepRow(run.steps.size());
      op.stream = run::StreamRow(0);
      op.start = op.transfer = begin;
      op.end = end;
      run.steps.push_back(step);
      run.ops.append(op);
    }
    return run;
  };
  const run::Run measured = run_of(run::RunKind::measured, {{0, 100}, {100, 220}, {220, 300}});
  run::Run replay = run_of(run::RunKind::predicted, {{0, 294}});
  replay.about.strategy = "recorded";
  CHECK(what_if_figures(measured, replay).step == 300);
  const auto difference = [&] {
    return difference_text(what_if_figures(replay, measured), what_if_figures(measured, replay));
  };
  CHECK(difference().starts_with("all steps 294 ns (-2.0 %)"));
  replay.about.options = "--step 1";
  CHECK(difference().starts_with("step 294 ns"));
  CHECK(what_if_figures(measured, replay).step == 120);
  CHECK(what_if_figures(measured).step == 80);
  // Turned is the step that is compared, which all ranks must have.
  CHECK(step_to_turn(measured) == 2);
  CHECK_FALSE(step_to_turn(run_of(run::RunKind::measured, {{0, 100}})));
  run::Run uneven = measured;
  uneven.classes.push_back({uneven.strings.intern("rank 1"), {1}});
  run::StepInfo other = uneven.steps[0];
  other.rank_class = run::ClassRow(1);
  other.number = 9;
  uneven.steps.push_back(other);
  CHECK_FALSE(step_to_turn(uneven));
}

TEST_CASE("what-if: figures and how far they are from the baseline") {
  WhatIf what_if = tiny();
  const run::Run before = simulated(what_if);
  what_if.turn("train.micro_batch", "4");
  what_if.turn("scale=links:", "2");
  const run::Run now = simulated(what_if);
  const WhatIfFigures figures = what_if_figures(now);
  tasks::SimulateRequest request;
  request.sources.paths = {kTiny};
  request.sets = {"train.micro_batch=4"};
  request.what_if = {"scale=links:2"};
  const auto outcome = tasks::simulate(request);
  REQUIRE(outcome);
  CHECK(figures.step == outcome->summary.step_time());
  CHECK(figures.exposed == outcome->summary.slow().times->busy.exposed);
  CHECK(figures.peak == outcome->summary.large().memory.peaks.reserved);
  WhatIfFigures baseline = figures;
  baseline.step = *figures.step * 2;
  CHECK(difference_text(figures, baseline).find("(-50.0 %)") != std::string::npos);
  baseline.is_oom = true;
  CHECK(difference_text(baseline, figures).starts_with("out of memory, step"));
  CHECK(what_if_figures(before).peak != figures.peak);
}
