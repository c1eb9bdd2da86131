// Which gradients a backward computes, and how it adds those of a tied weight, against what PyTorch
// 2.15 dispatched.
#include <algorithm>
#include <fstream>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/ir/validate.h"
#include "tests/models/simulated.h"
#include "tests/support/places.h"
#include "tests/unit/plan/temporary_file.h"

namespace foregather::test {

namespace {

using Settings = std::vector<std::string>;

nlohmann::json recorded_gradients() {
  std::ifstream file(source_dir() + "/tests/oracles/data/gradients.json");
  return nlohmann::json::parse(file);
}

Settings settings_of(const nlohmann::json& all, const nlohmann::json& row) {
  Settings sets{"train.precision=fp32",
                "train.micro_batch=" + std::to_string(all["batch"].get<int>()),
                "train.seq_len=" + std::to_string(all["seq_len"].get<int>()),
                "parallel.strategy=" + row["strategy"].get<std::string>()};
  const std::string ranks =
      row["strategy"] == "single" ? "1" : std::to_string(all["world"].get<int>());
  sets.push_back("parallel.world_size=" + ranks);
  sets.push_back("cluster.gpus_per_node=" + ranks);
  if (row["strategy"] != "single")
    sets.push_back("parallel.wrap=" + row["wrap"].get<std::string>());
  if (row["trained"].is_string())
    sets.push_back("train.trainable=" + row["trained"].get<std::string>());
  return sets;
}

/// Sums in the backward of tensors of so many bytes.
Settings sums_of(const Graph& graph, Bytes bytes, Role role = Role::accumulate) {
  Settings sums;
  for (const OpId id : body_ops(graph)) {
    const Op& op = graph.at(id);
    if (op.role != role || op.kind != OpKind::elementwise || op.phase != Phase::backward) continue;
    const auto accesses = graph.accesses_of(op);
    if (graph.at(graph.at(accesses[0].tensor).storage).bytes != bytes) continue;
    const bool is_new = std::ranges::any_of(
        accesses, [](const AccessedTensor& access) { return access.mode == Access::write; });
    sums.emplace_back(is_new ? "new" : "in place");
  }
  return sums;
}

}  // namespace

TEST_CASE("a backward computes the gradients that PyTorch computes") {
  const nlohmann::json all = recorded_gradients();
  for (const nlohmann::json& row : all["cases"]) {
    INFO(row.dump());
    const nlohmann::json& config = all["configs"][row["model"].get<std::string>()];
    const TemporaryFile file(config.dump());
    Settings sets = settings_of(all, row);
    sets.push_back("model.config=" + file.path());
    const Graph graph = sample("tiny_fsdp2", sets).graph;
    CHECK(validate(graph).empty());
    std::int64_t products = 0, embeddings = 0;
    for (const OpId id : body_ops(graph)) {
      const Op& op = graph.at(id);
      if (op.phase != Phase::backward) continue;
      products += op.kind == OpKind::gemm;
      embeddings += op.kind == OpKind::embedding;
    }
    CHECK(products == row["products"].get<std::int64_t>());
    CHECK(embeddings == row["embeddings"].get<std::int64_t>());
    const bool is_llama = config.contains("hidden_size");
    const Bytes table = 4 * config["vocab_size"].get<Bytes>() *
                        config[is_llama ? "hidden_size" : "n_embd"].get<Bytes>();
    CHECK(sums_of(graph, table) == row["sums"].get<Settings>());
  }
  CHECK(all["cases"].size() == 18);
}

TEST_CASE("a loss in parts adds its weight's gradients as autograd does") {
  const nlohmann::json loss = recorded_gradients()["loss"];
  const std::string parts = std::to_string(loss["parts"].get<int>());
  const auto sums = [&](const char* compile) {
    const Graph graph = sample("tiny_fsdp2", {"parallel.strategy=single", "parallel.world_size=1",
                                              "cluster.gpus_per_node=1", "train.precision=fp32",
                                              "train.loss_chunks=" + parts,
                                              std::string("train.compile=") + compile})
                            .graph;
    CHECK(validate(graph).empty());
    return sums_of(graph, Bytes{4} * 1024 * 128, Role::compute);
  };
  CHECK(sums("none") == loss["weight"].get<Settings>());
  CHECK(sums("per-block") == loss["weight"].get<Settings>());
  CHECK(loss["bias"] == loss["weight"]);
}

TEST_CASE("the shares of a tied weight's gradient wait for each other, accumulating or not") {
  for (const char* strategy : {"fsdp1", "fsdp2", "ddp", "zero2", "zero3"})
    for (const char* reduced : {"fp32", "bf16"})
      for (const char* how : {"train.no_sync=true", "train.no_sync=false"}) {
        const bool casts = std::string_view(reduced) == "bf16";
        const bool is_zero = std::string_view(strategy).starts_with("zero");
        if (casts && (is_zero || std::string_view(strategy) == "ddp")) continue;
        if (is_zero && std::string_view(how).ends_with("true")) continue;
        INFO(strategy << ' ' << reduced << ' ' << how);
        const Graph graph = sample("tiny_fsdp2", {std::string("parallel.strategy=") + strategy,
                                                  "train.precision=fp32", how, "train.grad_accum=3",
                                                  "model.tie_word_embeddings=true",
                                                  std::string("parallel.reduce_dtype=") + reduced})
                                .graph;
        CHECK(validate(graph).empty());
        const Bytes table = 4 * 1024 * 128;
        const Settings sums = sums_of(graph, table);
        // FSDP2 casts each share where it is made.
        const bool is_cast = casts && std::string_view(strategy) == "fsdp2";
        CHECK(std::ranges::count(sums, "new") == (is_cast ? 0 : 3));
      }
}

}  // namespace foregather::test
