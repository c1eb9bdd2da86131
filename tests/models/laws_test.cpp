// What must hold of FSDP and DDP steps whatever the model: bytes on the wire, bytes in memory.
#include <numeric>
#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "tasks/steps/wire_bytes.h"
#include "tests/models/memory_walk.h"
#include "tests/models/simulated.h"
#include "tests/support/places.h"

namespace foregather::test {

namespace {

struct Subject {
  const char* sample;
  std::vector<std::string> sets;
  std::uint32_t world;
};

std::vector<Subject> fsdp_subjects() {
  const std::vector<std::string> gpt2{"parallel.strategy=fsdp2", "cluster.gpus_per_node=4"};
  return {
      {"tiny_fsdp2", {}, 2},      {"tiny_fsdp2", {"train.precision=fp32"}, 4},
      {"tiny_fsdp2", {}, 8},      {"gpt2_ddp", gpt2, 4},
      {"llama3_8b_fsdp2", {}, 8}, {"llama3_8b_fsdp2", {"cluster.gpus_per_node=8"}, 64},
  };
}

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

std::vector<std::string> with_world(const Subject& subject, std::uint32_t world) {
  return with(subject.sets, {"parallel.world_size=" + std::to_string(world)});
}

/// Sent by one rank in a steady step.
Bytes bytes_on_wire(const Graph& graph) {
  Bytes bytes = 0;
  for (const OpId id : body_ops(graph))
    if (is_collective(graph.at(id).kind)) bytes += tasks::wire_bytes(graph, graph.at(id));
  return bytes;
}

std::int64_t count(const Graph& graph, OpKind kind, Phase phase) {
  std::int64_t number = 0;
  for (const OpId id : body_ops(graph))
    if (graph.at(id).kind == kind && graph.at(id).phase == phase) ++number;
  return number;
}

std::int64_t sharing_units(const Graph& graph) { return std::ssize(graph.units); }

}  // namespace

TEST_CASE("bytes on the wire of an FSDP2 step are the ring formulas") {
  for (const Subject& subject : fsdp_subjects()) {
    INFO(subject.sample << " on " << subject.world);
    const Graph graph = sample(subject.sample, with(with_world(subject, subject.world),
                                                    {"train.clip_grad_norm=false"}))
                            .graph;
    const Bytes ranks = subject.world;
    Bytes expected = 0;
    for (const Unit& unit : graph.units) {
      // The root is gathered once, blocks in forward and backward; all are reduced once.
      const Bytes gathers = unit.reshard == Reshard::after_forward ? 2 : 1;
      const Bytes moved =
          unit.padded_elements * (gathers * size_of(unit.gathered) + size_of(unit.reduced));
      expected += moved / ranks * (ranks - 1);
    }
    CHECK(bytes_on_wire(graph) == expected);
  }
}

TEST_CASE("bytes on the wire of a DDP step are twice the gradients over the ring") {
  for (const std::uint32_t world : {2U, 4U, 8U}) {
    const Graph graph = sample("gpt2_ddp", {"parallel.world_size=" + std::to_string(world),
                                            "cluster.gpus_per_node=" + std::to_string(world)})
                            .graph;
    const Bytes expected = 2 * graph.parameters * 4 * (Bytes{world} - 1) / world;
    // Each bucket is rounded down.
    CHECK(bytes_on_wire(graph) <= expected);
    CHECK(bytes_on_wire(graph) >= expected - 100);
  }
}

TEST_CASE("twice the world halves the shard") {
  for (const Subject& subject : fsdp_subjects()) {
    INFO(subject.sample << " on " << subject.world);
    const Graph some = sample(subject.sample, with_world(subject, subject.world)).graph;
    const Graph twice = sample(subject.sample, with_world(subject, 2 * subject.world)).graph;
    for (const Cause cause :
         {Cause::parameter_shard, Cause::reduced_gradient, Cause::optimizer_state}) {
      const auto half = static_cast<double>(bytes_of(some, cause)) / 2;
      // But for padding: GPT-2's vocabulary is odd. Fused AdamW has one number a parameter besides.
      CHECK(static_cast<double>(bytes_of(twice, cause)) == Approx(half).epsilon(1e-4));
    }
  }
}

TEST_CASE("not resharding after forward saves the backward's gathers and holds all parameters") {
  for (const Subject& subject : fsdp_subjects()) {
    INFO(subject.sample << " on " << subject.world);
    const auto sets = with_world(subject, subject.world);
    const Graph reshards = sample(subject.sample, sets).graph;
    const Graph keeps =
        sample(subject.sample, with(sets, {"parallel.reshard_after_forward=false"})).graph;
    CHECK(count(keeps, OpKind::all_gather, Phase::forward) == sharing_units(keeps));
    CHECK(count(keeps, OpKind::all_gather, Phase::backward) == 0);
    CHECK(count(reshards, OpKind::all_gather, Phase::forward) == sharing_units(reshards));
    CHECK(count(reshards, OpKind::all_gather, Phase::backward) == sharing_units(reshards) - 1);

    Bytes blocks = 0, largest = 0;
    for (const Unit& unit : keeps.units) {
      const Bytes bytes = unit.padded_elements * size_of(unit.gathered);
      if (unit.scope != keeps.units.front().scope) blocks += bytes;
      largest = std::max(largest, bytes);
    }
    const LiveSteps with_reshard = live_steps(reshards);
    const LiveSteps without = live_steps(keeps);
    // When the forward has ended, exactly the blocks. At the peak perhaps one less that is there
    // anyway, and one that is being gathered.
    CHECK(without.steady.after_forward.total - with_reshard.steady.after_forward.total == blocks);
    const Bytes raised =
        without.steady.peak_of_passes.total - with_reshard.steady.peak_of_passes.total;
    CHECK(raised <= blocks);
    CHECK(raised >= blocks - 2 * largest);
  }
}

TEST_CASE("outputs that the script holds outlive the forward, whatever is recomputed") {
  constexpr Bytes kTokens = 1024, kLogits = kTokens * 32'000 * 2;
  constexpr Bytes kKeysAndValues = 32 * 2 * kTokens * 4096 * 2;
  const auto after_forward = [&](const char* checkpointing, const char* held) {
    const LiveSteps steps = live_steps(
        sample("llama2_7b_fsdp1", {"train.micro_batch=1", "train.seq_len=1024",
                                   std::string("train.activation_checkpointing=") + checkpointing,
                                   std::string("train.held_outputs=") + held})
            .graph);
    CHECK(steps.steady.after.of(Cause::activation) ==
          (std::string_view(held) == "cache" ? kLogits + kKeysAndValues : 0));
    return steps.steady.after_forward.total;
  };
  CHECK(after_forward("full", "logits") - after_forward("full", "none") == kLogits);
  CHECK(after_forward("full", "cache") - after_forward("full", "none") == kLogits + kKeysAndValues);
  // Attention saves keys and values for its backward: the cache refers to the same.
  CHECK(after_forward("none", "cache") - after_forward("none", "none") == kLogits);
}

TEST_CASE("outputs that the script holds leave the ops as they are, and the schedule valid") {
  int compared = 0;
  for (const char* name : {"llama3_8b_fsdp2", "gpt2_ddp", "mixtral_8x7b_zero3", "llama2_13b_lora"})
    for (const char* strategy : {"ddp", "fsdp1", "fsdp2", "zero2", "zero3", "deepcompile",
                                 "thunder_zero2", "thunder_zero3"})
      for (const char* checkpointing : {"none", "full", "selective"})
        for (const char* compile : {"none", "full"}) {
          CAPTURE(name, strategy, checkpointing, compile);
          const auto graph = [&](const char* held) {
            return tasks::load_schedule(
                source_dir() + "/traces/samples/" + name + ".toml",
                {"model.layers=3", "train.seq_len=128", "train.precision=bf16",
                 std::string("parallel.strategy=") + strategy,
                 std::string("train.activation_checkpointing=") + checkpointing,
                 std::string("train.compile=") + compile,
                 std::string("train.held_outputs=") + held},
                {});
          };
          const auto without = graph("none"), with = graph("cache");
          REQUIRE(without.has_value() == with.has_value());
          if (!with) continue;  // not every strategy takes every setting
          ++compared;
          CHECK(validate(with->graph, 1).empty());
          CHECK(bytes_of(with->graph, Cause::parameter_shard) ==
                bytes_of(without->graph, Cause::parameter_shard));
          if (std::string_view(compile) == "none")
            CHECK(with->graph.ops.size() == without->graph.ops.size());
        }
  CHECK(compared >= 60);
}

TEST_CASE("the first step has no optimizer states at the peak of its passes") {
  for (const char* name : {"tiny_fsdp2", "llama3_8b_fsdp2", "llama2_7b_fsdp1", "gpt2_ddp"}) {
    INFO(name);
    const LiveSteps steps = live_steps(sample(name, {}).graph);
    CHECK(steps.first.peak_of_passes.of(Cause::optimizer_state) == 0);
    CHECK(steps.steady.peak_of_passes.total - steps.first.peak_of_passes.total ==
          steps.steady.peak_of_passes.of(Cause::optimizer_state));
    CHECK(steps.first.after.of(Cause::optimizer_state) ==
          steps.steady.before.of(Cause::optimizer_state));
  }
}

TEST_CASE("states of AdamW are as wide as they are said to be") {
  const auto states = [](const char* type) {
    std::vector<Bytes> bytes;
    const Graph graph = sample("tiny_fsdp2", {std::string("train.optimizer_state=") + type}).graph;
    for (const Storage& storage : graph.storages)
      if (storage.cause == Cause::optimizer_state) bytes.push_back(storage.bytes);
    return bytes;
  };
  const std::vector<Bytes> narrow = states("bf16"), wide = states("fp32");
  REQUIRE(narrow.size() == wide.size());
  Bytes of_blocks = 0;
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    CHECK(wide[i] == 2 * narrow[i]);
    // A byte each and an fp32 scale for 256; small or odd ones stay as the parameters are: fp32.
    const Bytes elements = narrow[i] / 2;
    const bool has_blocks = elements >= 4096 && elements % 256 == 0;
    of_blocks += has_blocks ? elements + 4 * (elements / 256) : 4 * elements;
  }
  const std::vector<Bytes> blocks = states("int8");
  CHECK(std::accumulate(blocks.begin(), blocks.end(), Bytes{0}) == of_blocks);
  for (const char* type : {"bf16", "fp32", "int8"}) {
    const auto schedule = sample("tiny_fsdp2", {std::string("train.optimizer_state=") + type});
    CHECK(step_time(simulated(schedule)) > 0);
  }
}

TEST_CASE("states of the parameters' own dtype are those that are made unasked") {
  for (const auto& [precision, type] :
       {std::pair("bf16-mixed", "fp32"), std::pair("bf16", "bf16")}) {
    INFO(precision);
    const std::vector<std::string> sets{std::string("train.precision=") + precision};
    const auto asked =
        sample("tiny_fsdp2", with(sets, {std::string("train.optimizer_state=") + type}));
    const auto unasked = sample("tiny_fsdp2", sets);
    CHECK(step_time(simulated(asked)) == step_time(simulated(unasked)));
    CHECK(asked.graph.storages == unasked.graph.storages);
  }
}

TEST_CASE("gradients as views of DDP's buckets save a copy of all gradients") {
  for (const char* precision : {"fp32", "bf16-mixed", "bf16"}) {
    INFO(precision);
    const std::vector<std::string> sets{std::string("train.precision=") + precision};
    const Graph copies = sample("gpt2_ddp", sets).graph;
    const Graph views =
        sample("gpt2_ddp", with(sets, {"parallel.gradient_as_bucket_view=true"})).graph;
    const Bytes gradients = copies.parameters * (std::string(precision) == "bf16" ? 2 : 4);
    const LiveStep held = live_steps(copies).steady;
    const LiveStep shared = live_steps(views).steady;
    CHECK(held.after_backward.total - shared.after_backward.total == gradients);
    CHECK(held.before.total == shared.before.total);
    CHECK(shared.after_backward.total - shared.before.total == 0);
  }
}

TEST_CASE("DDP that finds unused parameters reduces the same bytes, and a number for each") {
  for (const char* views : {"false", "true"}) {
    const std::vector<std::string> sets{std::string("parallel.gradient_as_bucket_view=") + views};
    const auto reduced = [&](const std::string& finds) {
      const Graph graph =
          sample("gpt2_ddp", with(sets, {"parallel.find_unused_parameters=" + finds})).graph;
      CHECK(validate(graph).empty());
      std::vector<Bytes> sizes;
      for (const OpId id : body_ops(graph))
        if (const Op& op = graph.at(id); op.kind == OpKind::all_reduce)
          sizes.push_back(graph.at(op.cost).message_bytes);
      return sizes;
    };
    const std::vector<Bytes> usual = reduced("false");
    const std::vector<Bytes> found = reduced("true");
    constexpr Bytes kTensors = 148;  // of GPT-2 with 12 layers
    CHECK(found.back() == 4 * kTensors);
    CHECK(std::accumulate(found.begin(), found.end() - 1, Bytes{0}) ==
          std::accumulate(usual.begin(), usual.end(), Bytes{0}));
  }
}

TEST_CASE("one GPU does what DDP's only rank does, without buckets") {
  for (const char* precision : {"fp32", "bf16-mixed", "bf16"})
    for (const char* accumulated : {"1", "3"}) {
      INFO(precision << ", " << accumulated);
      const std::vector<std::string> sets{std::string("train.precision=") + precision,
                                          std::string("train.grad_accum=") + accumulated,
                                          "parallel.world_size=1", "cluster.gpus_per_node=1"};
      const Graph ddp = sample("gpt2_ddp", sets).graph;
      const Graph alone = sample("gpt2_ddp", with(sets, {"parallel.strategy=single"})).graph;
      CHECK(validate(alone).empty());
      CHECK(alone.communicators.empty());
      for (const OpKind kind : {OpKind::gemm, OpKind::attention, OpKind::optimizer, OpKind::cast})
        CHECK(count(alone, kind, Phase::backward) == count(ddp, kind, Phase::backward));
      const Bytes gradients = alone.parameters * (std::string(precision) == "bf16" ? 2 : 4);
      const LiveStep held = live_steps(ddp).steady;
      const LiveStep bare = live_steps(alone).steady;
      CHECK(held.before.total - bare.before.total == gradients);
      CHECK(bare.after_backward.total - bare.before.total == gradients);
    }
}

TEST_CASE("copies of frozen weights end within the step") {
  const std::vector<std::string> alone{"parallel.strategy=single", "parallel.world_size=1"};
  const std::vector<std::string> whole{"parallel.strategy=fsdp1", "parallel.sharding=no_shard"};
  for (const auto& sets : {std::vector<std::string>{}, alone, whole})
    for (const char* checkpointing : {"none", "full"})
      for (const char* trained : {"ln_f", "lora"}) {
        INFO((sets.empty() ? "ddp" : sets[0]) << ", " << checkpointing << ", " << trained);
        const Graph graph =
            sample("gpt2_ddp",
                   with(sets, {std::string("train.trainable=") + trained,
                               "train.lora_targets=c_attn", "train.precision=bf16-mixed",
                               std::string("train.activation_checkpointing=") + checkpointing}))
                .graph;
        const LiveSteps steps = live_steps(graph);
        CHECK(steps.steady.after.of(Cause::cast_copy) == 0);
        CHECK(steps.steady.after.total == steps.first.after.total);
      }
}

TEST_CASE("without communication between micro-batches gradients are reduced once a step") {
  for (const std::string accumulated : {"2", "5"}) {
    for (const char* name : {"tiny_fsdp2", "gpt2_ddp"}) {
      INFO(name << " × " << accumulated);
      const Graph once = sample(name, {}).graph;
      const Graph silent =
          sample(name, {"train.grad_accum=" + accumulated, "train.no_sync=true"}).graph;
      const Graph loud = sample(name, {"train.grad_accum=" + accumulated}).graph;
      for (const OpKind kind : {OpKind::reduce_scatter, OpKind::all_reduce}) {
        const std::int64_t reductions = count(once, kind, Phase::backward);
        CHECK(count(silent, kind, Phase::backward) == reductions);
        CHECK(count(loud, kind, Phase::backward) == reductions * std::stoi(accumulated));
      }
    }
  }
}

}  // namespace foregather::test
