// What the backward of a model that is compiled as a whole holds, against what PyTorch 2.11
// and 2.15 held (data/compiled.json).
#include <algorithm>
#include <fstream>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/ir/validate.h"
#include "tests/models/simulated.h"
#include "tests/support/places.h"

namespace foregather::test {

namespace {

nlohmann::json recorded_rows() {
  std::ifstream file(source_dir() + "/tests/oracles/data/compiled.json");
  return nlohmann::json::parse(file);
}

Graph compiled(const std::string& how, std::vector<std::string> sets) {
  sets.insert(sets.end(),
              {"parallel.strategy=single", "parallel.world_size=1", "cluster.gpus_per_node=1",
               "train.grad_accum=2", "train.compile=" + how});
  return sample("tiny_fsdp2", sets).graph;
}

/// Of the steady step: the most gradients of parameters that are there when the first is added to
/// those of the micro-batch before, a parameter's own counted in.
std::int64_t gradients_at_first_sum(const Graph& graph) {
  const Program& program = graph.programs.front();
  std::int64_t live = 0;
  for (const HostThread& thread : program.threads) {
    if (graph.text(thread.name) != "autograd") continue;
    for (const Action& action : thread.actions(Section::body)) {
      const bool is_memory = action.kind == ActionKind::alloc || action.kind == ActionKind::free;
      if (is_memory && graph.storages[action.a].cause == Cause::gradient)
        live += action.kind == ActionKind::alloc ? 1 : -1;
      if (action.kind == ActionKind::launch && graph.ops[action.a].role == Role::accumulate)
        return live;
    }
  }
  return -1;
}

Bytes largest(const Graph& graph, std::string_view name) {
  Bytes most = 0;
  for (const Storage& storage : graph.storages)
    if (graph.text(storage.name) == name) most = std::max(most, storage.bytes);
  return most;
}

}  // namespace

TEST_CASE("gradients of a compiled model are all there before the first is added") {
  for (const nlohmann::json& row : recorded_rows())
    CHECK(row["gradients_at_first_sum"] == row["parameters"]);
  // Four blocks of nine parameters, two embeddings and a norm.
  const Graph whole = compiled("full", {"train.precision=bf16"});
  CHECK(validate(whole).empty());
  const std::int64_t parameters = 4 * 9 + 3;
  CHECK(gradients_at_first_sum(whole) == 2 * parameters);
  CHECK(gradients_at_first_sum(compiled("thunder", {"train.precision=bf16"})) == 2 * parameters);
  CHECK(gradients_at_first_sum(compiled("none", {"train.precision=bf16"})) == parameters + 1);
  CHECK(gradients_at_first_sum(compiled("per-block", {"train.precision=bf16"})) == parameters + 1);
}

TEST_CASE("a compiled model sums its table's gradient in fp32") {
  for (const nlohmann::json& row : recorded_rows()) CHECK(row["sums_table_in_fp32"] == true);
  constexpr Bytes kTable = 1024 * 128;
  constexpr std::string_view kSum = "sum of the rows";
  CHECK(largest(compiled("full", {"train.precision=bf16"}), kSum) == 4 * kTable);
  CHECK(largest(compiled("full", {"train.precision=fp32"}), kSum) == 0);
  CHECK(largest(compiled("none", {"train.precision=bf16"}), kSum) == 0);
}

}  // namespace foregather::test
