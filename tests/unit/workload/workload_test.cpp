#include <fmt/ranges.h>

#include <fstream>
#include <catch2/catch.hpp>

#include "core/plan/block_ranges.h"
#include "core/plan/workload_keys.h"
#include "core/plan/workload_toml.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/unit/workload/good_workload.h"

using namespace foregather;
using namespace foregather::plan;
using test::error_of;
using test::good;
using test::kModel;
using test::Sets;

TEST_CASE("an almost empty workload has the documented defaults") {
  const Workload workload = good("");
  CHECK(workload.model_config == "dir/m.json");
  CHECK(workload.train.micro_batch == 1);
  CHECK(workload.train.master == DType::f32);
  CHECK(workload.train.compute == DType::bf16);
  CHECK(workload.parallel.strategy == Strategy::fsdp2);
  CHECK(workload.parallel.world_size == 8);
  CHECK(workload.parallel.shard_size == 8);
  CHECK(workload.cluster.nodes == 1);
  CHECK(workload.cluster.gpus_per_node == 8);
}

TEST_CASE("values of the file and of --set") {
  const std::string file =
      "[train]\nmicro_batch = 2\nprecision = \"fp32\"\n"
      "[parallel]\nbucket_bytes = \"10MiB\"\nfirst_bucket_bytes = 4096\n";
  const Workload workload =
      good(file, {"train.micro_batch=3", "parallel.strategy=ddp", "train.micro_batch=4",
                  "allocator.conf=expandable_segments:True", "model.config=other.json"});
  CHECK(workload.train.micro_batch == 4);
  CHECK(workload.train.compute == DType::f32);
  CHECK(workload.parallel.strategy == Strategy::ddp);
  CHECK(workload.parallel.bucket_bytes == 10 * MiB);
  CHECK(workload.parallel.first_bucket_bytes == 4096);
  CHECK(workload.allocator_conf == "expandable_segments:True");
  CHECK(workload.model_config == "other.json");
}

TEST_CASE("dtypes of communication follow the precision") {
  CHECK(good("").parallel.reduce_dtype == DType::f32);
  CHECK(good("").parallel.param_dtype == DType::bf16);
  const Workload pure = good("[train]\nprecision = \"bf16\"\n");
  CHECK(pure.parallel.reduce_dtype == DType::bf16);
  const Workload full = good("[train]\nprecision = \"fp32\"\n");
  CHECK(full.parallel.param_dtype == DType::f32);
  const Workload chosen = good("[parallel]\nreduce_dtype = \"bf16\"\n");
  CHECK(chosen.parallel.reduce_dtype == DType::bf16);
}

TEST_CASE("dtypes have the names of training, and those of the graph") {
  CHECK(good("", {"parallel.reduce_dtype=fp16"}).parallel.reduce_dtype == DType::f16);
  CHECK(good("", {"parallel.reduce_dtype=f16"}).parallel.reduce_dtype == DType::f16);
  CHECK(good("", {"parallel.reduce_dtype=f32"}).parallel.reduce_dtype == DType::f32);
  CHECK(error_of("", {"parallel.reduce_dtype=fp8"}) ==
        "--set parallel.reduce_dtype: 'fp8' is not one of bf16, fp32, fp16; did you mean 'fp32'?");
}

TEST_CASE("reshard_after_forward is a flag or a group size") {
  CHECK_FALSE(good("").parallel.reshard_after_forward.has_value());
  CHECK(good("[parallel]\nreshard_after_forward = false\n").parallel.reshard_after_forward ==
        false);
  const Workload group = good("[parallel]\nreshard_after_forward = 4\n");
  CHECK(group.parallel.reshard_after_forward == true);
  CHECK(group.parallel.reshard_to == 4);
  CHECK(good("", {"parallel.reshard_after_forward=2"}).parallel.reshard_to == 2);
}

TEST_CASE("activation checkpointing") {
  CHECK(good("", {"train.activation_checkpointing=full"}).train.checkpointing ==
        Checkpointing::full);
  const Workload every = good("", {"train.activation_checkpointing=selective:3"});
  CHECK(every.train.checkpointing == Checkpointing::selective_layers);
  CHECK(every.train.checkpoint_every == 3);
  const Workload named = good("[train]\nactivation_checkpointing = \"blocks:0-3,7,5-5\"\n");
  CHECK(named.train.checkpointing == Checkpointing::named_layers);
  std::vector<bool> recomputed;
  for (std::int64_t block = 0; block < 9; ++block)
    recomputed.push_back(is_recomputed(named.train, block));
  CHECK(recomputed == std::vector<bool>{true, true, true, true, false, true, false, true, false});
  CHECK(checkpointing_of(recomputed) == "blocks:0-3,5,7");
  CHECK(checkpointing_of({true, true}) == "full");
  CHECK(checkpointing_of({false, false}) == "none");
  CHECK(error_of("", {"train.activation_checkpointing=blocks:3-1"}) ==
        "--set train.activation_checkpointing: '3-1' runs backwards, expected 1-3: blocks are "
        "numbers and ranges, for example 'blocks:0-3,7'");
  for (const char* bad :
       {"blocks:", "blocks:x", "blocks:1,", "blocks:-1", "blocks:1-", "blocks:LIST"})
    CHECK(error_of("", {std::string("train.activation_checkpointing=") + bad})
              .find("for example 'blocks:0-3,7'") != std::string::npos);
}

TEST_CASE("world size, nodes and GPUs per node follow from each other") {
  struct Case {
    std::string text;
    std::uint32_t world, nodes, gpus;
  };
  const std::vector<Case> cases = {
      {"[parallel]\nworld_size = 64\n", 64, 8, 8},
      {"[parallel]\nworld_size = 2\n", 2, 1, 2},
      {"[cluster]\nnodes = 3\n", 24, 3, 8},
      {"[cluster]\nnodes = 3\ngpus_per_node = 4\n", 12, 3, 4},
      {"[parallel]\nworld_size = 12\n[cluster]\nnodes = 3\n", 12, 3, 4},
      {"[parallel]\nworld_size = 12\n[cluster]\ngpus_per_node = 4\n", 12, 3, 4},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    const Workload workload = good(c.text);
    CHECK(workload.parallel.world_size == c.world);
    CHECK(workload.cluster.nodes == c.nodes);
    CHECK(workload.cluster.gpus_per_node == c.gpus);
  }
}

TEST_CASE("errors have a place, a reason and a remedy") {
  CHECK(error_of("[train]\nmicro_bach = 1\n") ==
        "w.toml:4:1: unknown key 'train.micro_bach', did you mean 'train.micro_batch'?");
  CHECK(error_of("[train]\nworld_size = 1\n") ==
        "w.toml:4:1: unknown key 'train.world_size', did you mean 'parallel.world_size'?");
  CHECK(error_of("[train]\ncheckpointing = \"full\"\n") ==
        "w.toml:4:1: unknown key 'train.checkpointing', did you mean "
        "'train.activation_checkpointing'?");
  CHECK(error_of("[train]\noptim = 1\n") ==
        "w.toml:4:1: unknown key 'train.optim', did you mean 'train.optimizer', "
        "'train.optimizer_impl' or 'train.optimizer_state'?");
  CHECK(error_of("", {"train=1"}).find("expected one of the sections") != std::string::npos);
  CHECK(error_of("[train]\nmicro_batch = \"2\"\n") ==
        "w.toml:4:15: train.micro_batch: '2' is a text, expected an integer from 1 to 1048576");
  CHECK(error_of("[train]\ncompile = 1\n").find("is a text") == std::string::npos);
  CHECK(error_of("[cluster]\ncontention = \"true\"\n").find("'true' is a text, expected true") !=
        std::string::npos);
  CHECK(error_of("", {"train.micro_batch=x"}).find("'x' is not an integer") != std::string::npos);
  CHECK(error_of("[train]\nmicro_batch = [1]\n") ==
        "w.toml:4:15: train.micro_batch is an array, expected a single value");
  CHECK(error_of("[cluster]\nlink_bandwidth_scale = nan\n").find("out of range") !=
        std::string::npos);
  CHECK(error_of("", {"cluster.link_bandwidth_scale=inf"}).find("out of range") !=
        std::string::npos);
  CHECK(error_of("", {"parallel.strategy=fsdp3"}) ==
        "--set parallel.strategy: 'fsdp3' is not one of ddp, fsdp1, fsdp2, zero3, zero2, "
        "thunder_zero2, thunder_zero3, deepcompile, single; did you mean 'fsdp1'?");
  CHECK(error_of("", {"parallel.strategy=FSDP2"}).ends_with("; did you mean 'fsdp2'?"));
  CHECK(error_of("", {"parallel.strategy=fsdp"}).ends_with("; did you mean 'fsdp1' or 'fsdp2'?"));
  CHECK(error_of("", {"train.micro_batch"}).starts_with("--set train.micro_batch: expected"));
  CHECK(
      error_of("", {"nonsense_without_end=1"}).starts_with("--set nonsense_without_end: unknown"));
  CHECK(error_of("[parallel]\nworld_size = 10\n[cluster]\nnodes = 4\n").find("12") !=
        std::string::npos);
  CHECK(error_of("[parallel]\nworld_size = 12\n[cluster]\nnodes = 3\ngpus_per_node = 8\n") ==
        "w.toml:4:1: parallel.world_size 12 is not cluster.nodes 3 × cluster.gpus_per_node 8: "
        "leave one of the three out");
  CHECK(error_of("[train]\nmicro_batch = true\n") ==
        "w.toml:4:15: train.micro_batch: true is not an integer from 1 to 1048576");
  CHECK(error_of("[oops\n").starts_with("w.toml:3:"));
}

TEST_CASE("contradictions are told at the key that was set last") {
  CHECK(
      error_of("[cluster]\nnodes = 4\n[parallel]\nworld_size = 10\n")
          .starts_with("w.toml:6:1: parallel.world_size 10 is not a multiple of cluster.nodes 4"));
  CHECK(error_of("[cluster]\nnodes = 4\n", {"parallel.world_size=10"})
            .starts_with("--set parallel.world_size=10: parallel.world_size 10 is not"));
  CHECK(error_of("[parallel]\nworld_size = 10\n", {"cluster.nodes=3", "cluster.nodes=4"})
            .starts_with("--set cluster.nodes=4: parallel.world_size 10 is not"));
  CHECK(error_of("[cluster]\nnodes = 1048576\ngpus_per_node = 1024\n").starts_with("w.toml:4:1: "));
}

TEST_CASE("a key that goes by two names is given once in a file") {
  CHECK(error_of("[cluster]\nhw = \"l4\"\nhardware = \"l40s\"\n") ==
        "w.toml:5:1: cluster.hardware: the same key is at w.toml:4:1, expected one of the two");
  CHECK(error_of("[train]\nmicro_batch = 2.0\n").find(": 2.0 is not an integer") !=
        std::string::npos);
}

TEST_CASE("the place of a key is where it was set") {
  const Workload workload =
      good("[train]\n  seq_len = 4\n", {"cluster.hw=a100_80_sxm", "train.grad_accum=2"});
  CHECK(workload.place_of({"train.seq_len"}) == "dir/w.toml:4:3");
  CHECK(workload.place_of({"cluster.hardware"}) == "--set cluster.hw=a100_80_sxm");
  CHECK(workload.place_of({"train.micro_batch"}) == "dir/w.toml");
  CHECK(workload.place_of({"train.seq_len", "train.grad_accum"}) == "--set train.grad_accum=2");
  CHECK(workload.place_of({"model.config", "train.seq_len"}) == "dir/w.toml:2:1");
}

TEST_CASE("a file that cannot be read is named with the key that names it") {
  CHECK(read_model(good("", {"model.config=nothing.json"})).error().text() ==
        "--set model.config: nothing.json: cannot be read: No such file or directory");
  CHECK(error_of("[parallel]\ndeepspeed_config = \"ds.json\"\n")
            .starts_with("w.toml:4:20: parallel.deepspeed_config: ds.json: cannot be read"));
}

TEST_CASE("with LoRA flat parameters are of trained or of frozen parameters by default") {
  const auto uses = [](const std::string& text) { return good(text).parallel.use_orig_params; };
  CHECK(uses("[parallel]\nstrategy = \"fsdp1\"\n"));
  const std::string lora = "[train]\ntrainable = \"lora\"\n[parallel]\nstrategy = \"fsdp1\"\n";
  CHECK_FALSE(uses(lora));
  CHECK(uses(lora + "use_orig_params = true\n"));
  CHECK(uses("[train]\ncompile = \"per-block\"\n" + lora.substr(lora.find('\n') + 1)));
}

TEST_CASE("sections are tables") {
  const auto error = [](const std::string& text) {
    const auto workload = parse_workload(text, "w.toml", {});
    REQUIRE_FALSE(workload.has_value());
    return workload.error().text();
  };
  CHECK(error("[[model]]\nconfig = \"m.json\"\n") ==
        "w.toml:1:3: [[model]] is a list of tables, expected one table: [model]");
  CHECK(error("model = 3\n") == "w.toml:1:1: 'model' is a number, expected a table: [model]");
  CHECK(error("model = \"x\"\n") == "w.toml:1:1: 'model' is a text, expected a table: [model]");
  CHECK(error("[model]\nconfig = \"m.json\"\n[[train]]\n[[train]]\n")
            .starts_with("w.toml:3:3: [[train]] is a list"));
  CHECK(error("train = [1]\n") == "w.toml:1:1: 'train' is an array, expected a table: [train]");
  CHECK(error("allocator = 1979-05-27\n").starts_with("w.toml:1:1: 'allocator' is a date or time"));
  CHECK(error("[[modle]]\n").starts_with("w.toml:1:3: unknown key 'modle', expected one of"));
  CHECK(parse_workload("model = { config = \"m.json\" }\n", "w.toml", {}).has_value());
}

TEST_CASE("of two keys that exclude each other one is expected") {
  CHECK(error_of("towers = [\"v.json\", \"m.json\"]\n") ==
        "w.toml:3:1: model.config and model.towers are both set, expected one");
  CHECK(error_of("", {"model.towers=v.json,m.json"})
            .starts_with("--set model.towers=v.json,m.json: model.config and"));
  CHECK(error_of("[parallel]\ndeepspeed_config = \"d\"\n", {"parallel.torchtitan_config=t"}) ==
        "w.toml:4:20: parallel.deepspeed_config: d: cannot be read: No such file or directory");
  const auto towers = parse_workload(
      "[model]\ntowers = [\"v.json\", \"m.json\"]\nhidden_size = 64\n", "w.toml", {});
  REQUIRE_FALSE(towers.has_value());
  CHECK(towers.error().text().starts_with("w.toml:3:1: model.hidden_size stands for a key of one"));
  const auto tree =
      parse_workload("[model]\ntree = [{ linear = [8, 4] }]\nhidden_size = 64\n", "w.toml", {});
  REQUIRE_FALSE(tree.has_value());
  CHECK(tree.error().text() ==
        "w.toml:3:1: model.hidden_size is a key of a config.json, but model.tree is the whole "
        "model");
  CHECK(error_of("layers = []\n") ==
        "w.toml:3:10: model.layers: the list is empty, expected a number for each tower");
  CHECK(good("", {"model.layers=[2, 3]"}).tower_layers == std::vector<std::int64_t>{2, 3});
  CHECK(error_of("towers = []\n").starts_with("w.toml:3:10: model.towers: the list is empty"));
}

TEST_CASE("vision towers and a language model are joined, in that order") {
  const test::Scratch scratch;
  const std::string vision = scratch.path("vision.json");
  std::ofstream(vision) << R"({"model_type": "siglip_vision_model", "hidden_size": 64,
    "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128, "image_size": 32,
    "patch_size": 16})";
  const std::string language = test::source_dir() + "/traces/samples/configs/tiny_llama.json";
  const auto joined = [&](const std::vector<std::string>& towers, const std::string& layers = "") {
    const auto workload = parse_workload(
        fmt::format("[model]\ntowers = [\"{}\"]\n{}", fmt::join(towers, "\", \""), layers),
        "w.toml", {});
    REQUIRE(workload);
    return read_model(*workload);
  };
  const auto model = joined({vision, language}, "layers = [1, 2]\n");
  REQUIRE(model);
  REQUIRE(model->towers.size() == 1);
  CHECK(model->towers.front().layers == 1);
  CHECK(model->layers == 2);
  // Both towers see the same image.
  const std::string finer = scratch.path("finer.json");
  std::ofstream(finer) << R"({"model_type": "siglip_vision_model", "hidden_size": 64,
    "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128, "image_size": 32,
    "patch_size": 8})";
  const auto uneven = joined({vision, finer, language});
  REQUIRE(uneven);
  Train train;
  train.seq_len = 64;
  const Status size = check_model_size(*uneven, train);
  REQUIRE_FALSE(size);
  CHECK(size.error().text() ==
        "model.towers: the vision towers make 4 and 16 patches, expected as many of each");
  const auto refused = [&](const auto&... towers) {
    const auto refusal = joined({towers...});
    return refusal ? std::string() : refusal.error().message;
  };
  constexpr const char* kOrder = "expects vision towers and then one language model";
  CHECK_THAT(refused(language, vision), Catch::Contains("is llama") && Catch::Contains(kOrder));
  CHECK_THAT(refused(vision, vision), Catch::Contains(kOrder));
  CHECK_THAT(refused(vision, test::source_dir() + "/traces/samples/configs/openvla.json"),
             Catch::Contains("is openvla") && Catch::Contains(kOrder));
  const auto layers = joined({vision, language}, "layers = [1, 2, 3]\n");
  CHECK_THAT(layers.error().text(),
             Catch::Contains("w.toml:3:1: model.layers names 3 towers, expected 2"));
}

TEST_CASE("each key takes or refuses any value, at its place") {
  const std::vector<std::string> odd = {"nan",
                                        "inf",
                                        "-inf",
                                        "-1",
                                        "1e308",
                                        "9223372036854775807",
                                        "[]",
                                        "[[]]",
                                        "{}",
                                        "\"\"",
                                        "\"x\"",
                                        "true",
                                        "1979-05-27",
                                        "\"\\u0000\"",
                                        "\"\\u001b[31m\"",
                                        "\"漢字\"",
                                        "[1,\"a\",true]",
                                        "\"" + std::string(100'000, 'y') + "\"",
                                        "0x7fffffffffffffff",
                                        "-0.0",
                                        "5e-324"};
  for (const WorkloadKey& key : workload_keys())
    for (const std::string& value : odd) {
      CAPTURE(key.name, value.substr(0, 40));
      const auto workload = parse_workload(
          std::string(key.name) + " = " + value + "\nmodel.hidden_size = 64\n", "w.toml", {});
      if (workload) continue;
      CHECK(workload.error().fault == Fault::input);
      const std::string text = workload.error().text();
      const bool names_a_file = key.name.ends_with("_config");  // which is read at once
      CHECK((text.starts_with("w.toml:") || names_a_file));
      CHECK((text.size() < 400 || names_a_file));
    }
}

TEST_CASE("a workload without model says so") {
  const auto workload = parse_workload("", "w.toml", {});
  REQUIRE_FALSE(workload.has_value());
  CHECK(workload.error().text() ==
        "w.toml: model.config is missing: it names the model's config.json");
}

TEST_CASE("every key accepts what its help promises") {
  for (const WorkloadKey& key : workload_keys()) {
    CAPTURE(key.name);
    CHECK(find_workload_key(key.name) == &key);
    CHECK_FALSE(key.doc.empty());
    std::string_view values = key.values;
    if (values.find(" | ") == std::string_view::npos) continue;
    while (!values.empty()) {
      const std::string_view value = values.substr(0, values.find(" | "));
      values.remove_prefix(std::min(values.size(), value.size() + 3));
      Workload workload;
      std::string text(value);
      if (text == "selective:N") text = "selective:2";
      if (text == "first:N") text = "first:2";
      if (text == "blocks:LIST") text = "blocks:0-1";
      if (text == "N") text = "2";
      CAPTURE(text);
      CHECK(key.set(workload, {text, true}).has_value());
    }
    if (key.values.find("names") != std::string_view::npos) continue;  // any text may be one
    Workload workload;
    CHECK_FALSE(key.set(workload, {std::string("no such value"), true}).has_value());
  }
}

TEST_CASE("a ready schedule leaves only the machine open") {
  CHECK(machine_of_sets({"cluster.hw=a100_80_sxm", "cluster.contention=false"}).has_value());
  CHECK_FALSE(machine_of_sets({"train.micro_batch=2"}).has_value());
  CHECK(machine_of_sets({"train.attention=flash", "train.attention_speed=2"}).has_value());
  CHECK_FALSE(machine_of_sets({"train.attention=eager"}).has_value());
  const auto unknown = machine_of_sets({"cluster.hw=a100_80_sxm", "cluster.harware=h100_sxm"});
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().text() ==
        "--set cluster.harware: unknown key 'cluster.harware', did you mean 'cluster.hardware'?");
}
