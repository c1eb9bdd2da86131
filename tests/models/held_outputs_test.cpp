// What a loop holds of a transformers model's outputs, against the real models
// (data/held_outputs.json).
#include <algorithm>
#include <fstream>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/models/memory_walk.h"
#include "tests/models/simulated.h"
#include "tests/support/places.h"

namespace foregather::test {

namespace {

nlohmann::json recorded() {
  std::ifstream file(source_dir() + "/tests/oracles/data/held_outputs.json");
  return nlohmann::json::parse(file);
}

Bytes activations_at_peak(const LiveStep& step) {
  return step.peak_of_passes.of(Cause::activation) + step.peak_of_passes.of(Cause::temporary);
}

/// Of storages whose name ends so.
std::size_t count(const Graph& graph, Section section, ActionKind kind,
                  std::string_view suffix = " of the call before") {
  std::size_t number = 0;
  for (const HostThread& thread : graph.programs.front().threads)
    for (const Action& action : thread.actions(section))
      if (action.kind == kind && graph.text(graph.storages[action.a].name).ends_with(suffix))
        ++number;
  return number;
}

}  // namespace

TEST_CASE("the old outputs are alive beside the next call, as those of transformers' models are") {
  const nlohmann::json oracle = recorded();
  for (const char* trained : {"all", "lora"}) {
    CAPTURE(trained);
    const LiveSteps steps = live_steps(
        sample("llama2_7b_fsdp1",
               {"train.micro_batch=4", "train.seq_len=4096", "train.activation_checkpointing=full",
                "train.held_outputs=cache", "train.logits=fp32-shifted",
                "train.fused_rms_norm=false", "parallel.param_dtype=bf16", "parallel.world_size=64",
                std::string("train.trainable=") + trained})
            .graph);
    const Bytes first = oracle[trained][0]["bytes"], second = oracle[trained][1]["bytes"];
    // Left out: the old loss and, with LoRA, the embedding's old output and gradient, which the old
    // graph keeps.
    const Bytes old_graph = std::string_view(trained) == "lora" ? 2 * 4 * 4096 * 4096 * 2 : 0;
    const Bytes old_outputs = second - first - old_graph - 512;
    CHECK(steps.steady.before.of(Cause::activation) == old_outputs);
    CHECK(steps.steady.after.of(Cause::activation) == old_outputs);
    CHECK(steps.first.before.of(Cause::activation) == 0);
    // Left out, too: the square that norms of PyTorch 2.1 keep, the causal mask, a rotary table a
    // layer.
    const auto ours = static_cast<double>(activations_at_peak(steps.steady));
    CHECK(ours < static_cast<double>(second));
    CHECK(ours > 0.97 * static_cast<double>(second));
  }
}

TEST_CASE("logits that a script holds outlive the backward of what made them") {
  for (const std::string strategy : {"single", "ddp", "fsdp2", "zero3"}) {
    CAPTURE(strategy);
    const std::string ranks = strategy == "single" ? "1" : "8";
    const auto graph_with = [&](const char* held) {
      return sample("llama3_8b_fsdp2",
                    {"model.layers=3", "train.seq_len=128", "train.precision=bf16",
                     "train.logits=narrow", std::string("train.held_outputs=") + held,
                     "parallel.strategy=" + strategy, "parallel.world_size=" + ranks,
                     "cluster.gpus_per_node=" + ranks, "train.grad_accum=2"})
          .graph;
    };
    const Graph graph = graph_with("logits");
    for (const Section section : {Section::first, Section::body})
      for (const ActionKind kind : {ActionKind::alloc, ActionKind::free})
        CHECK(count(graph, section, kind, ", held") == 2);
    // Gradients of one GPU grow until the backward ends, where the logits are still there.
    if (strategy != "single") continue;
    const auto peak = [](const Graph& of) { return live_steps(of).steady.peak_of_passes.total; };
    CHECK(peak(graph) - peak(graph_with("none")) == Bytes{2} * 128 * 128'256);
  }
}

TEST_CASE("each call but the first gives the outputs of the one before up") {
  constexpr std::size_t kOutputs = 2 * 3 + 1;  // keys and values of each block, logits
  for (const std::string strategy :
       {"ddp", "fsdp1", "fsdp2", "zero2", "zero3", "thunder_zero2", "thunder_zero3", "deepcompile"})
    for (const std::size_t calls : {1, 3}) {
      CAPTURE(strategy, calls);
      const tasks::Schedule schedule = sample(
          "llama3_8b_fsdp2", {"model.layers=3", "train.seq_len=128", "train.held_outputs=cache",
                              "train.precision=bf16", "parallel.strategy=" + strategy,
                              "train.grad_accum=" + std::to_string(calls)});
      for (const std::string& warning : schedule.warnings)  // of a pass of DeepCompile's
        CHECK(warning.find("left as it is") == std::string::npos);
      const Graph& graph = schedule.graph;
      if (strategy == "deepcompile") {
        CHECK(count(graph, Section::body, ActionKind::alloc) == 0);
        CHECK(std::ranges::any_of(schedule.warnings, [](const std::string& warning) {
          return warning.find("keeps the old outputs") != std::string::npos;
        }));
        continue;
      }
      CHECK(count(graph, Section::first, ActionKind::alloc) == calls * kOutputs);
      CHECK(count(graph, Section::first, ActionKind::free) == (calls - 1) * kOutputs);
      CHECK(count(graph, Section::body, ActionKind::alloc) == calls * kOutputs);
      CHECK(count(graph, Section::body, ActionKind::free) == calls * kOutputs);
    }
}

}  // namespace foregather::test
