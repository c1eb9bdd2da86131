// FSDP2 whose reduction has a narrower dtype than the parameters: autograd casts each gradient
// where it is made.
#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "tests/models/memory_walk.h"
#include "tests/models/simulated.h"

namespace foregather::test {

namespace {

using Settings = std::vector<std::string>;

Graph reduced_in(const char* dtype, Settings sets) {
  sets.insert(sets.end(), {"train.precision=fp32", "train.seq_len=8", "train.micro_batch=1",
                           "parallel.world_size=4", "cluster.gpus_per_node=4",
                           std::string("parallel.reduce_dtype=") + dtype});
  return sample("tiny_fsdp2", sets).graph;
}

/// Bytes of the gradients that the copies into reduce-scatters read in a step.
Bytes copied_in(const Graph& graph) {
  Bytes bytes = 0;
  for (const OpId id : body_ops(graph)) {
    const Op& op = graph.at(id);
    if (op.role != Role::copy_in || op.phase != Phase::backward) continue;
    for (const AccessedTensor& access : graph.accesses_of(op)) {
      const Storage& storage = graph.at(graph.at(access.tensor).storage);
      if (access.mode == Access::read && storage.cause == Cause::gradient) bytes += storage.bytes;
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("FSDP2 holds gradients in the dtype of a narrower reduction") {
  const std::vector<Settings> variants{
      {},
      {"model.tie_word_embeddings=true"},
      {"train.grad_accum=2"},
      {"train.grad_accum=2", "train.no_sync=true"},
      {"train.grad_accum=3", "train.no_sync=true", "model.tie_word_embeddings=true"},
      {"parallel.shard_size=2"},
      {"parallel.offload=all", "train.grad_accum=2"},
      {"parallel.wrap=block_embed_head", "train.activation_checkpointing=full"},
  };
  for (const Settings& variant : variants) {
    INFO(variant.size() << " " << (variant.empty() ? "" : variant.front()));
    const Graph wide = reduced_in("fp32", variant);
    for (const char* dtype : {"bf16", "fp16"}) {
      const Graph narrow = reduced_in(dtype, variant);
      for (const Problem& problem : validate(narrow)) FAIL_CHECK(problem.message);
      CHECK(2 * copied_in(narrow) == copied_in(wide));
      const LiveSteps steps = live_steps(narrow);
      CHECK(steps.steady.peak_of_passes.total < live_steps(wide).steady.peak_of_passes.total);
      CHECK(steps.steady.after_backward.of(Cause::gradient) == 0);
    }
  }
}

TEST_CASE("FSDP2 casts gradients to another dtype of the same size") {
  const auto casts = [](const char* dtype) {
    const Graph graph = sample("tiny_fsdp2", {"train.precision=bf16", "parallel.param_dtype=bf16",
                                              std::string("parallel.reduce_dtype=") + dtype})
                            .graph;
    CHECK(validate(graph).empty());
    std::size_t count = 0;
    for (const OpId id : body_ops(graph)) {
      const Op& op = graph.at(id);
      if (op.kind == OpKind::cast && op.phase == Phase::backward && op.role == Role::cast)
        for (const AccessedTensor& access : graph.accesses_of(op))
          count += access.mode == Access::write &&
                   graph.at(graph.at(access.tensor).storage).cause == Cause::gradient;
    }
    return count;
  };
  CHECK(casts("bf16") == 0);
  CHECK(casts("fp32") == 0);
  CHECK(casts("fp16") > 0);
}

TEST_CASE("without communication FSDP2 widens each gradient where it is made") {
  const Graph graph = sample("tiny_fsdp2", {"train.precision=bf16", "parallel.param_dtype=bf16",
                                            "parallel.reduce_dtype=fp32", "train.grad_accum=3",
                                            "train.no_sync=true"})
                          .graph;
  CHECK(validate(graph).empty());
  int narrow = 0, most = 0, made = 0;
  for (const HostThread& thread : graph.programs[0].threads)
    for (const Action& action : thread.actions(Section::body)) {
      if (action.kind != ActionKind::alloc && action.kind != ActionKind::free) continue;
      const Storage& storage = graph.storages[action.a];
      if (storage.cause != Cause::gradient || graph.text(storage.name) == "accumulated gradient")
        continue;
      narrow += action.kind == ActionKind::alloc ? 1 : -1;
      made += action.kind == ActionKind::alloc ? 1 : 0;
      most = std::max(most, narrow);
    }
  CHECK(made > 30);
  CHECK(most <= 2);
}

}  // namespace foregather::test
