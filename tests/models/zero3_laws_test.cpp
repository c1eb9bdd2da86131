// What must hold of ZeRO-3 steps: bytes on the wire, what is gathered how often, memory.
#include <fmt/format.h>
#include <rapidcheck.h>

#include <algorithm>
#include <limits>
#include <map>
#include <catch2/catch.hpp>

#include "tests/models/memory_walk.h"
#include "tests/models/simulated.h"
#include "tests/support/repetitions.h"

namespace foregather::test {

namespace {

using Sets = std::vector<std::string>;

Graph zero3(const std::string& name, Sets sets) {
  sets.insert(sets.begin(), {"parallel.strategy=zero3", "train.optimizer_impl=fused"});
  return sample(name, sets).graph;
}

/// How often each unsharded parameter is allocated in a steady step, by bytes of its storage.
std::map<Bytes, std::vector<int>> gathers(const Graph& graph) {
  std::map<std::uint32_t, int> times;
  for (const HostThread& thread : graph.programs.front().threads)
    for (const Action& action : thread.actions(Section::body))
      if (action.kind == ActionKind::alloc &&
          graph.storages[action.a].cause == Cause::unsharded_parameter)
        ++times[action.a];
  std::map<Bytes, std::vector<int>> by_bytes;
  for (const auto& [storage, count] : times)
    by_bytes[graph.storages[storage].bytes].push_back(count);
  return by_bytes;
}

Bytes collective_bytes(const Graph& graph, OpKind kind) {
  Bytes bytes = 0;
  for (const OpId id : body_ops(graph))
    if (graph.at(id).kind == kind) bytes += graph.at(graph.at(id).cost).message_bytes;
  return bytes;
}

}  // namespace

TEST_CASE("ZeRO-3 gathers persistent parameters once a step") {
  // The norms of the 8B model have 4,096 elements, everything else more than 100,000.
  const Graph graph = zero3("llama3_8b_fsdp2", {"parallel.stage3_max_reuse_distance=0"});
  for (const auto& [bytes, times] : gathers(graph)) {
    INFO(bytes);
    if (bytes <= Bytes{2} * 100'000) {
      CHECK(times.size() == 65);
      CHECK(std::all_of(times.begin(), times.end(), [](int count) { return count == 1; }));
    } else {
      CHECK(std::any_of(times.begin(), times.end(), [](int count) { return count == 2; }));
    }
  }
}

TEST_CASE("ZeRO-3 without reuse gathers twice and reduces once, in bf16") {
  const Graph graph = zero3(
      "llama3_8b_fsdp2",
      {"train.activation_checkpointing=none", "parallel.stage3_max_reuse_distance=0",
       "parallel.stage3_param_persistence_threshold=0", "parallel.stage3_prefetch_bucket_size=0"});
  CHECK(collective_bytes(graph, OpKind::all_gather) == 2 * 2 * graph.parameters);
  CHECK(collective_bytes(graph, OpKind::reduce_scatter) == 2 * graph.parameters);
}

TEST_CASE("a large reuse distance spares the gathers of a model that it covers") {
  const Graph graph = zero3("gpt2_ddp", {"parallel.stage3_param_persistence_threshold=0"});
  for (const auto& [bytes, times] : gathers(graph))
    for (const int count : times) CHECK(count == 1);
}

TEST_CASE("ZeRO-3 states are 16 bytes a parameter, a gradient bucket besides") {
  const Graph graph = zero3("llama3_8b_fsdp2", {"parallel.stage3_param_persistence_threshold=0"});
  const LiveSteps steps = live_steps(graph);
  const Bytes shard = graph.parameters / 8;
  // bf16 parameters and gradients, fp32 master parameters and two states; one step counter.
  const LiveNow& before = steps.steady.before;
  CHECK(before.of(Cause::parameter_shard) == 2 * shard);
  CHECK(before.of(Cause::reduced_gradient) == 2 * shard);
  CHECK(before.of(Cause::optimizer_state) == 12 * shard + 4);
  CHECK(before.of(Cause::communication_buffer) == Bytes{2} * 500'000'000);
  const Bytes workspaces = 2 * 32 * MiB;
  CHECK(before.total == 16 * shard + 4 + Bytes{1'000'000'000} + workspaces);
}

TEST_CASE("halving ZeRO-3's prefetch bucket never raises the bytes that are live") {
  const std::string key = "parallel.stage3_prefetch_bucket_size=";
  const Sets tight{"parallel.stage3_max_reuse_distance=1000000"};
  const std::vector<std::pair<const char*, Sets>> subjects{
      {"gpt2_ddp", {}},
      {"gpt2_ddp", tight},
      {"gpt2_ddp", {"train.activation_checkpointing=full"}},
      {"llama3_8b_fsdp2", {}},
      {"llama3_8b_fsdp2",
       {"parallel.stage3_max_live_parameters=300000000",
        "parallel.stage3_max_reuse_distance=100000000"}},
      {"llama3_8b_fsdp2",
       {"train.activation_checkpointing=full", "train.seq_len=1024",
        "parallel.stage3_max_reuse_distance=100000000"}},
      {"llama2_7b_fsdp1", {"train.seq_len=512"}},
      {"llama2_13b_lora", {"train.trainable=all", "train.seq_len=512"}},
      {"mixtral_8x7b_zero3", {}},
      {"openvla_zero3", {}},
      {"openvla_zero3", {"train.activation_checkpointing=full", "train.grad_accum=2"}},
      {"roberta_1gb_slow_network", {}},
      {"tiny_fsdp2",
       {"parallel.stage3_max_reuse_distance=10000",
        "parallel.stage3_param_persistence_threshold=100"}}};
  for (const auto& [name, sets] : subjects) {
    Bytes last = std::numeric_limits<Bytes>::max();
    for (std::int64_t size = 1'600'000'000; size > 0; size /= kSanitized ? 16 : 2) {
      INFO(name << " " << size);
      Sets all = sets;
      all.push_back(key + std::to_string(size));
      const LiveStep step = live_steps(zero3(name, all)).steady;
      const Bytes peak = std::max(step.peak_of_passes.total, step.peak_of_optimizer.total);
      CHECK(peak <= last);
      last = peak;
    }
  }
}

// Strictly so for published models, above. DeepSpeed's own rule is not monotonic: the bucket
// decides which gathers are one, which parameter overshoots where, and which one the prefetcher
// finds in place and then keeps for its later use. In models this small one parameter is percents
// of the peak.
TEST_CASE("halving the prefetch bucket does not raise the peak of a random ZeRO-3 step") {
  CHECK(rc::check([] {
    const auto one_of = [](std::vector<std::int64_t> values) {
      return *rc::gen::elementOf(std::move(values));
    };
    const std::int64_t heads = one_of({1, 2, 4});
    const Sets model{
        fmt::format("model.num_attention_heads={}", heads),
        fmt::format("model.num_key_value_heads={}", heads),
        fmt::format("model.hidden_size={}", heads * one_of({16, 64})),
        fmt::format("model.intermediate_size={}", one_of({40, 200, 700})),
        fmt::format("model.vocab_size={}", one_of({60, 1000, 20'000})),
        fmt::format("model.num_hidden_layers={}", one_of({1, 2, 3, 7})),
        fmt::format("train.seq_len={}", one_of({16, 128, 300})),
        fmt::format("train.micro_batch={}", one_of({1, 3})),
        fmt::format("train.grad_accum={}", one_of({1, 1, 2})),
        std::string("train.activation_checkpointing=") + (one_of({0, 1}) == 0 ? "none" : "full"),
        fmt::format("parallel.stage3_param_persistence_threshold={}", one_of({0, 100, 20'000})),
        fmt::format("parallel.stage3_max_live_parameters={}", one_of({0, 50'000, 1'000'000'000})),
        fmt::format("parallel.stage3_max_reuse_distance={}", one_of({0, 50'000, 1'000'000'000})),
        fmt::format("parallel.reduce_bucket_size={}", one_of({1, 10'000, 1'000'000}))};
    for (const std::string& set : model) RC_LOG() << "--set " << set << '\n';
    Bytes last = std::numeric_limits<Bytes>::max() / 2;
    for (std::int64_t size = 8'000'000; size > 0; size /= 2) {
      Sets all = model;
      all.insert(all.begin(), {"parallel.strategy=zero3", "train.optimizer_impl=fused"});
      all.push_back(fmt::format("parallel.stage3_prefetch_bucket_size={}", size));
      const LiveStep step = live_steps(sample("tiny_fsdp2", all).graph).steady;
      const Bytes live = std::max(step.peak_of_passes.total, step.peak_of_optimizer.total);
      RC_ASSERT(live <= last + last / 10);
      last = std::min(live, last);
    }
  }));
}

TEST_CASE("what ZeRO-3 offloads is not on the device") {
  const Graph none = zero3("llama3_8b_fsdp2", {});
  const Graph optimizer = zero3("llama3_8b_fsdp2", {"parallel.offload=optimizer"});
  const Graph all = zero3("llama3_8b_fsdp2", {"parallel.offload=all"});
  const LiveNow with_none = live_steps(none).steady.before;
  const LiveNow with_optimizer = live_steps(optimizer).steady.before;
  const LiveNow with_all = live_steps(all).steady.before;
  CHECK(with_none.of(Cause::optimizer_state) > 0);
  CHECK(with_optimizer.of(Cause::optimizer_state) == 0);
  CHECK(with_optimizer.of(Cause::reduced_gradient) == 0);
  CHECK(with_optimizer.of(Cause::parameter_shard) == with_none.of(Cause::parameter_shard));
  CHECK(with_all.of(Cause::parameter_shard) == 0);
  // Every partition of a parameter comes to the device for each gather.
  Bytes loaded = 0;
  for (const OpId id : body_ops(all))
    if (all.at(id).kind == OpKind::host_to_device && all.at(id).role == Role::offload &&
        all.at(id).phase != Phase::optimizer)
      loaded += all.at(all.at(id).cost).bytes_read;
  CHECK(loaded >= 2 * all.parameters / 8);
}

TEST_CASE("hpZ gathers for the backward within its group") {
  const Graph graph = zero3("llama3_8b_fsdp2", {"parallel.zero_hpz_partition_size=4",
                                                "parallel.stage3_max_reuse_distance=0"});
  for (const OpId id : body_ops(graph)) {
    const Op& op = graph.at(id);
    if (op.kind != OpKind::all_gather || op.phase == Phase::optimizer) continue;
    const std::uint32_t ranks = graph.at(graph.at(op.cost).group).ranks.count;
    if (op.phase == Phase::forward) CHECK((ranks == 8 || ranks == 4));
    if (op.phase == Phase::backward) CHECK(ranks == 4);
  }
  CHECK(live_steps(graph).steady.after_forward.of(Cause::parameter_shard) >
        live_steps(graph).steady.before.of(Cause::parameter_shard));
}

}  // namespace foregather::test
