// Module trees: counts, work and saved tensors of their modules, by hand and against PyTorch.
#include <fstream>
#include <map>
#include <stdexcept>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/ir/validate.h"
#include "core/plan/checkpoint.h"
#include "core/plan/lower.h"
#include "core/plan/model.h"
#include "core/plan/module_tree.h"
#include "core/plan/workload_toml.h"
#include "tests/support/places.h"

namespace foregather::plan {

namespace {

Workload workload_of(const std::string& model, const std::string& train) {
  const auto workload =
      parse_workload("[model]\n" + model + "\n[train]\n" + train + "\n[parallel]\n" +
                         "strategy = \"fsdp1\"\nworld_size = 2\n",
                     "tree.toml", {});
  if (!workload) throw std::runtime_error(workload.error().text());
  return *workload;
}

ModelConfig tree_config(Workload& workload) {
  const auto config = read_model(workload);
  if (!config) throw std::runtime_error(config.error().text());
  if (!resolve_workload(workload, *config)) throw std::runtime_error("unresolved");
  return *config;
}

Model model_of(const std::string& model, const std::string& train = "") {
  Workload workload = workload_of(model, train);
  const ModelConfig config = tree_config(workload);
  Model built = build_model(config, workload.train);
  CHECK(built.parameters == count_parameters(config));
  return built;
}

const Tape& tape(const Model& model, std::size_t module) {
  return model.tapes[model.modules[module].tape];
}

std::int64_t tree_flops(const std::vector<TapeOp>& ops, OpKind kind) {
  std::int64_t count = 0;
  for (const TapeOp& op : ops)
    if (op.cost.kind == kind) count += op.cost.flops;
  return count;
}

std::string tree_complaint(const std::string& model, const std::string& train = "") {
  const auto workload = parse_workload("[model]\n" + model + "\n[train]\n" + train, "t", {});
  if (!workload) return workload.error().text();
  const auto config = read_model(*workload);
  return config ? "" : config.error().text();
}

}  // namespace

TEST_CASE("trees have as many parameters as torch.nn") {
  CHECK(model_of("tree = [{ linear = [8, 4] }]").parameters == 8 * 4 + 4);
  CHECK(model_of("tree = [{ linear = [8, 4], bias = false }]").parameters == 8 * 4);
  CHECK(model_of("tree = [{ layer_norm = 8 }, { linear = [8, 4] }, { relu = true }]").parameters ==
        16 + 36);
  CHECK(model_of("tree = [{ embedding = [23, 16] }]", "seq_len = 6").parameters == 23 * 16);
  const std::string tied =
      "tree = [{ name = 'e', embedding = [23, 16] }, { linear = [16, 23], tied = 'e' }]";
  CHECK(model_of(tied, "seq_len = 6").parameters == 23 * 16 + 23);
  // A tie may point ahead, and at one that is tied itself.
  const std::string chain =
      "tree = [{ linear = [4, 4], tied = '1' }, { linear = [4, 4], tied = '2' }, "
      "{ linear = [4, 4] }]";
  CHECK(model_of(chain).parameters == 16 + 3 * 4);
  // torch.nn.TransformerEncoderLayer(16, 8, 8), torch.nn.Transformer(16, 8, 2, 2, 8)
  CHECK(model_of("tree = [{ encoder_layer = { d_model = 16, dim_feedforward = 8 } }]").parameters ==
        1432);
  CHECK(model_of("target_len = 4\ntree = [{ transformer = { d_model = 16, num_encoder_layers = 2, "
                 "num_decoder_layers = 2, dim_feedforward = 8 } }]",
                 "seq_len = 6")
            .parameters == 8032);
}

TEST_CASE("a linear of a tree does the work of one") {
  const Model model =
      model_of("tree = [{ linear = [8, 4] }, { linear = [4, 16] }]", "micro_batch = 3");
  REQUIRE(model.modules.size() == 3);  // and the loss
  // The first one's input needs no gradient.
  CHECK(tree_flops(tape(model, 0).forward, OpKind::gemm) == 2 * 3 * 8 * 4);
  CHECK(tree_flops(tape(model, 0).backward, OpKind::gemm) == 2 * 3 * 8 * 4);
  CHECK(tree_flops(tape(model, 1).forward, OpKind::gemm) == 2 * 3 * 4 * 16);
  CHECK(tree_flops(tape(model, 1).backward, OpKind::gemm) == 2 * 2 * 3 * 4 * 16);
  CHECK(tape(model, 1).model_flops == 3 * 2 * 3 * 4 * 16);
}

TEST_CASE(
    "a parameter of another kind of module does the work of a matmul, or passes over each row") {
  const Model model = model_of(
      "tree = [{ linear = [8, 4] }, { name = 'k', children = ["
      "{ name = 'weight', parameter = [6, 4], matmul = true }, { name = 'gain', parameter = 4 }] "
      "}, "
      "{ rms_norm = 4 }, { linear = [4, 16] }]",
      "micro_batch = 3");
  CHECK(model.parameters == 8 * 4 + 4 + 6 * 4 + 4 + 4 + 4 * 16 + 16);
  const Tape& weight = tape(model, 1);
  CHECK(weight.parameters[0].name == "weight");
  CHECK(weight.parameters[0].shape == std::vector<std::int64_t>{6, 4});
  CHECK(model.modules[1].path == "k");
  for (const TapeOp& op : weight.forward) CHECK(weight.scopes[op.scope].empty());  // k itself
  CHECK(tree_flops(weight.forward, OpKind::gemm) == 2 * 3 * 6 * 4);
  CHECK(tree_flops(weight.backward, OpKind::gemm) == 2 * 2 * 3 * 6 * 4);
  CHECK(weight.model_flops == 3 * 2 * 3 * 6 * 4);
  CHECK(tree_flops(tape(model, 2).forward, OpKind::elementwise) == 3 * 4);
  CHECK(tree_flops(tape(model, 2).backward, OpKind::gemm) == 0);
  CHECK(tape(model, 3).parameters[0].name == "2.weight");
  // What comes in goes on: the last linear takes the four features of the first.
  CHECK(tree_flops(tape(model, 4).forward, OpKind::gemm) == 2 * 3 * 4 * 16);
}

TEST_CASE("parameters of other kinds of modules are tied by their own paths") {
  const std::string head =
      "{ name = 'head', children = [{ name = 'weight', parameter = [23, 16], "
      "matmul = true, tied = 'e.weight' }] }]";
  CHECK(
      model_of("tree = [{ name = 'e', embedding = [23, 16] }, " + head, "seq_len = 6").parameters ==
      23 * 16);
  CHECK(tree_complaint("tree = [{ name = 'e', embedding = [24, 16] }, " + head, "seq_len = 6")
            .ends_with("module 'head.weight': a weight of 23 × 16 is tied to e, which is 24 × 16"));
}

TEST_CASE("parameters have one to eight sizes, and only two of them multiply") {
  CHECK(tree_complaint("tree = [{ linear = [8, 4] }, { parameter = [] }]")
            .ends_with("parameter has 0 sizes, expected 1 to 8"));
  CHECK(tree_complaint("tree = [{ linear = [8, 4] }, { parameter = [4], matmul = true }]")
            .ends_with("'matmul' has no meaning here: it belongs to parameters of two sizes"));
  CHECK(tree_complaint("tree = [{ linear = [8, 4] }, { parameter = [4], wrap = true }]")
            .ends_with("'wrap' has no meaning here: it belongs to modules"));
  CHECK(tree_complaint("tree = [{ parameter = [4, 4] }]")
            .ends_with("model.tree has no module that computes"));
  CHECK(tree_complaint("tree = [{ parameter = [4, 4] }, { linear = [8, 4] }]").empty());
}

TEST_CASE("an encoder layer of a tree does the work of one") {
  constexpr std::int64_t b = 4, s = 6, d = 16, f = 24;
  const Model model =
      model_of("tree = [{ encoder_layer = { d_model = 16, nhead = 2, dim_feedforward = 24 } }]",
               "micro_batch = 4\nseq_len = 6");
  const std::int64_t matmuls = 2 * b * s * (3 * d * d + d * d + 2 * d * f);
  const std::int64_t attention = 4 * b * s * s * d;
  CHECK(tree_flops(tape(model, 0).forward, OpKind::gemm) == matmuls);
  CHECK(tree_flops(tape(model, 0).forward, OpKind::attention) == attention);
  CHECK(tree_flops(tape(model, 0).backward, OpKind::attention) == attention * 5 / 2);
  CHECK(tape(model, 0).model_flops == 3 * (matmuls + attention));
}

TEST_CASE("delays are kernels of their length before a module's own work") {
  const Model model = model_of(
      "tree = [{ forward_delay = '2 ms', backward_delay = '3 ms', children = [{ linear = [8, 4] }, "
      "{ linear = [4, 4], backward_delay = '500 us' }] }]");
  const TapeOp& forward = tape(model, 0).forward.front();
  CHECK(forward.cost.is_fixed);
  CHECK(forward.cost.fixed_time == 2 * kMillisecond);
  CHECK_FALSE(tape(model, 1).forward.front().cost.is_fixed);
  const TapeOp& backward = tape(model, 1).backward.front();
  CHECK(backward.cost.is_fixed);
  CHECK(backward.cost.fixed_time == 3 * kMillisecond + 500 * kMicrosecond);
  CHECK_FALSE(tape(model, 0).backward.front().cost.is_fixed);
}

TEST_CASE("a batch norm has its buffers") {
  const Model model = model_of("tree = [{ linear = [8, 4] }, { name = 'bn', batch_norm = 4 }]");
  REQUIRE(model.buffers.size() == 3);
  CHECK(model.buffers[0].name == "running_mean");
  CHECK(model.buffers[0].elements == 4);
  CHECK(model.buffers[2].dtype == DType::i64);
}

// tests/oracles/record_trees.py: inputs, other values, statistics, in fp32 on a CPU, whose
// attention saves what FlashAttention does but for the random state. bf16 values are half as large.
TEST_CASE("modules of trees save what torch.nn saves") {
  const std::map<std::string, std::pair<std::string, int>> modules{
      {"linear", {"{ linear = [16, 24] }", 0}},
      {"relu", {"{ layer_norm = 16 }, { relu = true }", 0}},
      {"layer_norm", {"{ linear = [16, 16] }, { layer_norm = 16 }", 0}},
      {"batch_norm", {"{ linear = [16, 16] }, { batch_norm = 4 }", 0}},
      {"encoder_layer",
       {"{ encoder_layer = { d_model = 16, nhead = 2, dim_feedforward = 24 } }", 1}},
      {"transformer",
       {"{ transformer = { d_model = 16, nhead = 2, num_encoder_layers = 2, num_decoder_layers = "
        "1, dim_feedforward = 24 } }",
        4}}};
  std::ifstream file(test::source_dir() + "/tests/oracles/data/trees.json");
  const auto recorded = nlohmann::json::parse(file).at("saved");
  CHECK(recorded.size() == modules.size());
  for (const auto& [name, module] : modules) {
    INFO(name);
    const std::string target = name == "transformer" ? "target_len = 5\n" : "";
    const Model model =
        model_of(target + "tree = [" + module.first + "]",
                 "micro_batch = 4\nseq_len = 6\ndropout = false\nprecision = \"bf16\"");
    const Tape& last = tape(model, model.modules.size() - 2);
    const SavedValues saved = saved_values(last, SavePolicy::none);
    constexpr Bytes kRandomState = 3 * 8;
    const Bytes values = recorded.at(name).at(1).get<Bytes>() / 2;
    const Bytes statistics = recorded.at(name).at(2).get<Bytes>();
    CHECK(saved.saved_bytes == values + statistics + module.second * kRandomState);
    CHECK(saved.saved[last.input] == (recorded.at(name).at(0).get<Bytes>() > 0));
  }
}

TEST_CASE("trees lower under every strategy") {
  const std::string model =
      "tree = [{ name = 'e', embedding = [32, 16] }, { wrap = true, children = [{ layer_norm = 16 "
      "}, { encoder_layer = { d_model = 16 }, wrap = true }] }, { gelu = true }, { dropout = 0.1 "
      "}, { linear = [16, 32], tied = 'e' }]";
  for (const char* strategy : {"ddp", "fsdp1", "fsdp2", "zero2", "zero3", "deepcompile"}) {
    INFO(strategy);
    auto workload =
        parse_workload("[model]\n" + model + "\n[train]\nseq_len = 8\n[parallel]\nworld_size = 4\n",
                       "t", {std::string("parallel.strategy=") + strategy});
    REQUIRE(workload);
    const ModelConfig config = tree_config(*workload);
    const Model built = build_model(config, workload->train);
    const auto graph = lower(built, *workload);
    REQUIRE(graph);
    CHECK(graph->parameters == built.parameters);
    CHECK(validate(*graph, 1).empty());
  }
}

TEST_CASE("a module that does nothing keeps what the one before saves") {
  for (const char* nothing : {"{ dropout = 0 }", "{ name = 'b', buffer = 4 }",
                              "{ dropout = 0, forward_delay = '1 us', backward_delay = '1 us' }"}) {
    INFO(nothing);
    const std::string model =
        "tree = [" + std::string("{ linear = [8, 4] }, { relu = true }, ") + nothing + "]";
    Workload workload = workload_of(model, "");
    const Model built = build_model(tree_config(workload), workload.train);
    const auto graph = lower(built, workload);
    REQUIRE(graph);
    for (const Problem& problem : validate(*graph)) FAIL_CHECK(problem.message);
  }
}

TEST_CASE("what does not chain is named at its module") {
  CHECK(tree_complaint("tree = [{ relu = true }]").find("does not say how wide") !=
        std::string::npos);
  CHECK(tree_complaint("tree = [{ buffer = 3 }]").find("no module that computes") !=
        std::string::npos);
  CHECK(tree_complaint("tree = [{ linear = [8, 4] }, { embedding = [4, 4] }]")
            .find("takes token ids, but gets 4 features") != std::string::npos);
  CHECK(tree_complaint("tree = [{ linear = [8, 4] }, { buffer = 5, add = true }]")
            .find("added to rows of 4") != std::string::npos);
  CHECK(tree_complaint("target_len = 4\ntree = [{ embedding = [8, 4] }]", "seq_len = 4")
            .find("no transformer joins") != std::string::npos);
  CHECK(tree_complaint("target_len = 4\ntree = [{ embedding = [8, 16], wrap = true }, "
                       "{ transformer = { d_model = 16 } }]",
                       "seq_len = 4")
            .find("wrapped apart") != std::string::npos);
  CHECK(tree_complaint("tree = [{ linear = [8, 4], tied = '0' }]").find("tied to itself") !=
        std::string::npos);
}

TEST_CASE("token ids and batch norms are told where they cannot be") {
  const std::string ids = "tree = [{ name = 'e', embedding = [8, 16], on = 'source' }, ";
  const std::string target = "target_len = 4\n";
  const std::string transformer = "{ transformer = { d_model = 16, nhead = 4 } }]";
  CHECK(tree_complaint("tree = [{ batch_norm = 4 }]", "seq_len = 4") ==
        "t:2:9: the tree begins with a batch_norm of sequences, which does not say how wide they "
        "are, expected it after another module");
  CHECK(tree_complaint(target + ids + "{ linear = [16, 16], on = 'target' }, " + transformer,
                       "seq_len = 4") ==
        "t:3:72: module '1': token ids come in, expected an embedding before it");
  CHECK(tree_complaint(target + ids + transformer, "seq_len = 4") ==
        "t:3:77: module '1': token ids come in, expected an embedding before it");
  CHECK(tree_complaint(target + "tree = [{ transformer = { d_model = 16, nhead = 4, "
                                "num_decoder_layers = 0 } }]",
                       "seq_len = 4") ==
        "t:3:25: module '0': a transformer without decoder layers takes no target, but "
        "model.target_len is set");
}

TEST_CASE("keys that say of blocks what a tree says itself are refused, or of no effect") {
  const std::string tree = "tree = [{ linear = [8, 4] }]";
  const auto said = [&](const std::string& parallel, const std::string& train = "") {
    Workload workload = *parse_workload(
        "[model]\n" + tree + "\n[parallel]\n" + parallel + "\n[train]\n" + train, "t", {});
    const auto config = read_model(workload);
    if (!config) return config.error().text();
    return config->left_out.empty() ? std::string() : config->left_out.front();
  };
  CHECK(said("") == "");
  CHECK(said("wrap = \"model\"") == "");
  CHECK(said("wrap = \"block_embed_head\"") ==
        "t:4:1: parallel.wrap is set, but model.tree says itself what is wrapped: leave it out, or "
        "set model");
  CHECK(said("", "attention = \"eager\"") ==
        "t:6:1: train.attention has no effect: torch.nn.Transformer calls a fused attention");
}

TEST_CASE("trees of too many modules, layers or elements are refused before they are built") {
  std::string many = "tree = [{ linear = [4, 4] }";
  for (int i = 0; i < 4096; ++i) many += ", { relu = true }";
  CHECK_THAT(tree_complaint(many + "]"), Catch::Contains("more than 4096 modules, expected fewer"));
  const std::string layers =
      "{ transformer = { d_model = 16, nhead = 4, num_encoder_layers = 1024, "
      "num_decoder_layers = 0 } }, ";
  CHECK_THAT(
      tree_complaint("tree = [" + layers + layers + layers + layers + layers + "]", "seq_len = 4"),
      Catch::Contains("module '4': more than 4096 layers, expected fewer"));
  CHECK_THAT(tree_complaint("tree = [{ linear = [4, 4] }, { buffer = [65536, 65536] }]"),
             Catch::Contains("buffer: more than 2147483648 elements, expected fewer"));
}

TEST_CASE("what a tree's keys cannot be is said at their places") {
  const auto complaint_of = [](const std::string& tree) {
    return tree_complaint("tree = [" + tree + "]", "seq_len = 4");
  };
  CHECK_THAT(complaint_of("{ linear = [8] }"), Catch::Contains("expected two sizes"));
  CHECK_THAT(complaint_of("{ linear = [8, 8] }, { dropout = 1 }"),
             Catch::Contains("expected a number from 0 to below 1"));
  CHECK_THAT(complaint_of("{ linear = [8, 8], name = 'a.b' }"),
             Catch::Contains("expected a module's name without dots, slashes and blanks"));
  CHECK_THAT(complaint_of("{ linear = [8, 8], on = 'both' }"),
             Catch::EndsWith("on is 'both', expected source or target"));
  CHECK_THAT(complaint_of("{ linear = [8, 8] }, { buffer = 4, dtype = 'int8' }"),
             Catch::EndsWith("dtype is 'int8', expected fp32, bf16, fp16, i64, i32 or bool"));
  CHECK_THAT(complaint_of("{ transformer = 8 }"),
             Catch::Contains("expected a table such as { d_model = 16 }"));
  CHECK_THAT(complaint_of("{ transformer = { d_modl = 8 } }"),
             Catch::Contains("did you mean 'd_model'?"));
  CHECK_THAT(complaint_of("{ linear = [8, 8] }, { embedding = [8, 8] }, { linear = [8, 8] }"),
             Catch::Contains("module '1'"));
}

TEST_CASE("modules of one name are one unit, as fully_shard of a list makes them") {
  const std::string tree =
      "tree = [{ name = 'e', embedding = [32, 16], wrap = 'ends' }, { linear = [16, 16], wrap = "
      "true }, { linear = [16, 16], wrap = true }, { name = 'h', linear = [16, 32], bias = false, "
      "tied = 'e', wrap = 'ends' }]";
  const auto complaint = [&](const std::string& model, const std::string& strategy) {
    const auto workload =
        parse_workload("[model]\n" + model + "\n[train]\nseq_len = 8\n[parallel]\nworld_size = 2\n",
                       "t", {"parallel.strategy=" + strategy});
    if (!workload) return workload.error().text();
    const auto config = read_model(*workload);
    return config ? std::string() : config.error().text();
  };
  auto workload =
      parse_workload("[model]\n" + tree + "\n[train]\nseq_len = 8\n[parallel]\nworld_size = 2\n",
                     "t", {"parallel.strategy=fsdp2"});
  REQUIRE(workload);
  const ModelConfig config = tree_config(*workload);
  const auto graph = lower(build_model(config, workload->train), *workload);
  REQUIRE(graph);
  CHECK(validate(*graph, 1).empty());
  std::map<std::string, std::int64_t> units;
  for (const Unit& unit : graph->units)
    units[std::string(graph->text(graph->at(unit.scope).name))] = unit.parameters;
  CHECK(units == std::map<std::string, std::int64_t>{{"ends", 512}, {"1", 272}, {"2", 272}});

  CHECK(complaint(tree, "ddp").empty());
  CHECK_THAT(complaint(tree, "fsdp1"), Catch::Contains("FSDP1 wraps modules one by one"));
  CHECK_THAT(complaint("tree = [{ linear = [8, 8], wrap = 'a' }, { linear = [8, 8], wrap = 'b' }, "
                       "{ linear = [8, 8], wrap = 'a' }, { linear = [8, 8], wrap = 'b' }]",
                       "fsdp2"),
             Catch::Contains("the unit of 'b' begins within that of 'a' and ends behind it"));
  CHECK_THAT(complaint("tree = [{ linear = [8, 8], wrap = 3 }]", "fsdp2"),
             Catch::Contains("wrap is a number, expected true or false"));
}

}  // namespace foregather::plan
