// Files of DeepSpeed that stand for the tables of a workload, and what holds for those of any tool.
#include <algorithm>
#include <limits>
#include <catch2/catch.hpp>

#include "core/plan/foreign_config.h"
#include "tests/unit/workload/foreign_files.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

const std::string kDeepSpeed = R"({
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 4,
  "steps_per_print": 10,
  "optimizer": {"type": "Adam", "params": {"lr": 3e-4}},
  "gradient_clipping": 1.0,
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 3,
    "overlap_comm": true,
    "reduce_bucket_size": 5e7,
    "stage3_prefetch_bucket_size": "auto",
    "stage3_max_live_parameters": 1e9,
    "stage3_gather_16bit_weights_on_model_save": true,
    "offload_optimizer": {"device": "cpu", "pin_memory": true},
    "sub_group_size": 1e12
  }
})";

std::string foreign_error(const std::string& text) {
  const auto config = read_deepspeed_config(text, "ds.json");
  REQUIRE_FALSE(config.has_value());
  CHECK(config.error().fault == Fault::input);
  return config.error().text();
}

}  // namespace

TEST_CASE("an unmodified DeepSpeed JSON is a workload") {
  const Workload workload = read(kDeepSpeed, kModelSet);
  CHECK(workload.parallel.strategy == Strategy::zero3);
  CHECK(workload.parallel.world_size == 8);
  CHECK(workload.train.micro_batch == 2);
  CHECK(workload.train.grad_accum == 4);
  CHECK(workload.train.clip_grad_norm);
  CHECK(workload.train.compute == DType::bf16);
  CHECK(workload.train.master == DType::f32);
  CHECK(workload.train.optimizer_impl == OptimizerImpl::fused);
  CHECK(workload.parallel.reduce_dtype == DType::bf16);
  CHECK(workload.parallel.offload == Offload::optimizer);
  CHECK(workload.zero.reduce_bucket_size == 50'000'000);
  CHECK(workload.zero.auto_prefetch);
  CHECK(workload.zero.max_live_parameters == 1'000'000'000);
  CHECK(workload.zero.sub_group_size == 1'000'000'000'000);
  CHECK(ignores(workload, "steps_per_print"));
  CHECK(ignores(workload, "zero_optimization.stage3_gather_16bit_weights_on_model_save"));
  CHECK_FALSE(ignores(workload, "sub_group_size"));
}

TEST_CASE("a DeepSpeed JSON turns DeepCompile on, and autocast where the engine is not bf16") {
  const auto json = [](const std::string& rest) {
    return "{\"compile\": {\"deepcompile\": true, \"double_buffer\": false, \"free_activation\": "
           "true}, " +
           rest + "}";
  };
  const auto autocast = read(
      json(
          R"("torch_autocast": {"enabled": true, "dtype": "bfloat16"}, "zero_optimization": {"stage": 3})"),
      kModelSet);
  CHECK(autocast.parallel.strategy == Strategy::deepcompile);
  CHECK_FALSE(autocast.zero.double_buffer);
  CHECK_FALSE(autocast.zero.symmetric_memory);
  CHECK(autocast.train.compute == DType::bf16);
  CHECK_FALSE(autocast.is_set("parallel.param_dtype"));
  CHECK(ignores(autocast, "compile.free_activation"));
  const auto engine =
      read(json(R"("bf16": {"enabled": true}, "zero_optimization": {"stage": 3})"), kModelSet);
  CHECK(engine.parallel.strategy == Strategy::deepcompile);
  CHECK(engine.is_set("parallel.param_dtype"));
  CHECK(engine.parallel.param_dtype == DType::bf16);
  const auto stage2 =
      read(json(R"("bf16": {"enabled": true}, "zero_optimization": {"stage": 2})"), kModelSet);
  CHECK(stage2.parallel.strategy == Strategy::zero2);
  CHECK(ignores(stage2, "compile.deepcompile"));
}

TEST_CASE("of DeepSpeed's batch sizes and the ranks, the one that is missing follows") {
  const auto config = [](const std::string& more) {
    return R"({"train_batch_size": 64, "zero_optimization": {"stage": 3})" + more + "}";
  };
  const std::string micro = R"(, "train_micro_batch_size_per_gpu": 2)";
  const std::string steps = R"(, "gradient_accumulation_steps": 4)";
  const auto sets = [](std::vector<std::string> more) {
    more.insert(more.end(), kModelSet.begin(), kModelSet.end());
    return more;
  };
  const auto sizes = [&](const std::string& more, std::vector<std::string> own = {}) {
    own.emplace_back("parallel.world_size=8");
    const Workload workload = read(config(more), sets(own));
    return std::pair(workload.train.micro_batch, workload.train.grad_accum);
  };
  CHECK(sizes(micro) == std::pair<std::int64_t, std::int64_t>(2, 4));
  CHECK(sizes(steps) == std::pair<std::int64_t, std::int64_t>(2, 4));
  CHECK(sizes("") == std::pair<std::int64_t, std::int64_t>(8, 1));
  CHECK(sizes("", {"train.micro_batch=4"}) == std::pair<std::int64_t, std::int64_t>(4, 2));
  CHECK(read(config(micro + steps), kModelSet).parallel.world_size == 8);
  // What contradicts itself is refused, what --set changes is said.
  const auto refused = [&](const std::string& more, const std::string& set) {
    const auto workload = parse_workload(config(more), "f", sets({set}));
    REQUIRE_FALSE(workload.has_value());
    return workload.error().text();
  };
  CHECK(refused(micro, "parallel.world_size=24").find("1:2: train_batch_size 64 is no multiple") !=
        std::string::npos);
  CHECK(refused(R"(, "train_micro_batch_size_per_gpu": 3)" + steps, "parallel.world_size=8")
            .find("a multiple of micro-batch 3 × accumulation 4") != std::string::npos);
  CHECK(refused("", "parallel.world_size=24") ==
        "f:1:2: train_batch_size 64 is no multiple of 24 ranks");
  CHECK(refused(steps, "parallel.world_size=24") ==
        "f:1:2: train_batch_size 64 is no multiple of 4 micro-batches on each of 24 ranks");
  const auto huge =
      parse_workload(R"({"train_batch_size": 1099511627776, "zero_optimization": {"stage": 3}})",
                     "f", sets({"parallel.world_size=8"}));
  REQUIRE_FALSE(huge.has_value());
  CHECK(huge.error().text() ==
        "f:1:2: train_batch_size 1099511627776: train.micro_batch: 137438953472 is out of range, "
        "expected an integer from 1 to 1048576");
  const Workload fewer = read(config(micro + steps), sets({"parallel.world_size=4"}));
  CHECK(ignores(fewer, "train_batch_size 64, as 2 × 4 samples on each of 4 ranks are 32"));
}

TEST_CASE("DeepSpeed without ZeRO reduces once a step, and names what is not predicted of it") {
  const auto config = [](const std::string& more) {
    return R"({"gradient_accumulation_steps": 4, "train_micro_batch_size_per_gpu": 1)" + more + "}";
  };
  const Workload bf16 = read(config(R"(, "bf16": {"enabled": true})"), kModelSet);
  CHECK(bf16.parallel.strategy == Strategy::ddp);
  CHECK(bf16.train.no_sync);
  CHECK(bf16.parallel.bucket_bytes == Bytes{1} << 40);
  CHECK(bf16.parallel.first_bucket_bytes == bf16.parallel.bucket_bytes);
  CHECK(ignores(bf16, "reduction in bf16 (predicted in fp32), BF16_Optimizer"));
  // In the dtype of the prediction, said by any of its names.
  const Workload wide =
      read(config(R"(, "bf16": {"enabled": true}, "communication_data_type": "fp32",
                     "data_types": {"grad_accum_dtype": "float32"},
                     "zero_optimization": {"stage": 0})"),
           kModelSet);
  CHECK_FALSE(ignores(wide, "reduction in"));
  CHECK_FALSE(ignores(wide, "grad_accum_dtype"));
  CHECK(wide.parallel.reduce_dtype == DType::f32);
  CHECK(ignores(read(config(R"(, "communication_data_type": "half")"), kModelSet),
                "communication_data_type: reduction in fp16"));
  CHECK(read(config(""), kModelSet).warnings.empty());
  CHECK(bf16.parallel.gradient_as_bucket_view);
  // Another strategy accumulates as it does; the same one said again changes nothing.
  const Workload zero = read(config(""), {"model.config=m.json", "parallel.strategy=zero3"});
  CHECK_FALSE(zero.train.no_sync);
  CHECK(zero.parallel.bucket_bytes != Bytes{1} << 40);
  const Workload again = read(config(""), {"model.config=m.json", "parallel.strategy=ddp"});
  CHECK(again.train.no_sync);
  CHECK(again.parallel.bucket_bytes == Bytes{1} << 40);
}

TEST_CASE("a dtype of a DeepSpeed JSON has all spellings that DeepSpeed takes") {
  const auto accumulated = [](const std::string& dtype) {
    return read(R"({"zero_optimization": {"stage": 3}, "data_types": {"grad_accum_dtype": ")" +
                    dtype + "\"}}",
                kModelSet)
        .zero.grad_accum_dtype;
  };
  for (const char* name : {"bf16", "bfloat16", "torch.bfloat16"})
    CHECK(accumulated(name) == DType::bf16);
  for (const char* name : {"fp32", "float32", "float"}) CHECK(accumulated(name) == DType::f32);
  for (const char* name : {"fp16", "float16", "half"}) CHECK(accumulated(name) == DType::f16);
}

TEST_CASE("of a DeepSpeed optimizer's parameters those of no cost are no warning") {
  const auto with = [](const std::string& optimizer) {
    return read(R"({"zero_optimization": {"stage": 3}, "optimizer": )" + optimizer + "}",
                kModelSet);
  };
  const Workload plain =
      with(R"({"type": "SGD", "params": {"lr": 0.1, "weight_decay": 0, "nesterov": false}})");
  CHECK(plain.warnings.empty());
  CHECK(plain.train.optimizer == Optimizer::sgd);
  CHECK(plain.train.momentum == 0);
  CHECK(with(R"({"type": "SGD", "params": {"momentum": 0.8}})").train.momentum == 0.8);
  const Workload adam =
      with(R"({"type": "AdamW", "params": {"lr": "auto", "torch_adam": true, "amsgrad": true}})");
  CHECK(adam.train.optimizer_impl == OptimizerImpl::foreach);
  CHECK(ignores(adam, "ignored: optimizer.params.amsgrad"));
  CHECK(foreign_error(R"({"optimizer": {"type": "SGD",
 "params": {"momentum": "much"}}})") ==
        "ds.json:2:13: optimizer.params.momentum is \"much\", expected a number");
}

TEST_CASE("what the workload says goes over a foreign file") {
  const Workload workload =
      read(kDeepSpeed, {"model.config=m.json", "train.micro_batch=5", "parallel.world_size=16"});
  CHECK(workload.train.micro_batch == 5);
  CHECK(workload.train.grad_accum == 4);
  CHECK(workload.parallel.world_size == 16);
}

TEST_CASE("keys of another tool's file warn of nothing: it was not written for this") {
  const Workload workload = read(kDeepSpeed, {"model.config=m.json", "parallel.strategy=fsdp2"});
  REQUIRE(workload.warnings.size() == 1);
  CHECK(workload.warnings.front().find("has no effect") == std::string::npos);
  CHECK(workload.place_of({"parallel.reduce_bucket_size"}) == "dir/f:12:5");
  const Workload own = read(
      kDeepSpeed,
      {"model.config=m.json", "parallel.stage3_max_live_parameters=1", "parallel.strategy=zero2"});
  REQUIRE(own.warnings.size() == 2);
  CHECK(own.warnings.back().find("stage3_max_live_parameters has no effect with zero2") !=
        std::string::npos);
}

TEST_CASE("DeepSpeed's defaults are those of its code") {
  const Workload workload = read(R"({"zero_optimization": {"stage": 2}, // as in Hjson
                                     "train_batch_size": "auto",})",
                                 kModelSet);
  CHECK(workload.parallel.strategy == Strategy::zero2);
  CHECK(workload.train.compute == DType::f32);
  CHECK_FALSE(workload.train.clip_grad_norm);
  CHECK(workload.warnings.empty());
}

TEST_CASE("sizes that are auto follow the hidden size") {
  Workload workload = read(kDeepSpeed, kModelSet);
  ModelConfig model;
  model.hidden = 4096;
  model.max_positions = 2048;
  REQUIRE(resolve_workload(workload, model).has_value());
  CHECK(workload.zero.prefetch_bucket_size == 15'099'494);  // 0.9 · 4096²
  CHECK(workload.zero.reduce_bucket_size == 50'000'000);
}

TEST_CASE("errors of a DeepSpeed JSON have their place") {
  CHECK(foreign_error("{\n \"train_batch_size\": 8,\n \"bf16\" 1}") ==
        "ds.json:3:9: not valid JSON, expected a DeepSpeed configuration");
  CHECK(foreign_error("[]") ==
        "ds.json:1:1: a JSON array, expected the object of a DeepSpeed configuration");
  CHECK(foreign_error("{\"zero_optimization\":\n {\"stage\": 1}}") ==
        "ds.json:2:3: zero_optimization.stage is 1, expected 0, 2 or 3: stage 1 is not simulated");
  CHECK(foreign_error("{\"zero_optimization\": {\"stage\": 3,\n\"reduce_bucket_size\": [1]}}") ==
        "ds.json:2:1: zero_optimization.reduce_bucket_size is a JSON array, expected a whole "
        "number or "
        "\"auto\"");
  CHECK(read(R"({"bf16": {"enabled": "auto"}, "fp16": {"enabled": true}, "zero_optimization": {}})",
             kModelSet)
            .train.compute == DType::f16);
  CHECK(foreign_error(R"({"bf16": {"enabled": true},
"fp16": {"enabled": true}})") ==
        "ds.json:2:10: fp16.enabled is true, expected false, as bf16 is enabled, too");
  CHECK(foreign_error("{\"zero_optimization\": 3}") ==
        "ds.json:1:2: zero_optimization is 3, expected an object");
}

TEST_CASE("values of a DeepSpeed JSON that are none of theirs are errors with their places") {
  const auto refuses = [](const std::string& value, const std::string& message) {
    INFO(value);
    CHECK(foreign_error("{\n" + value + "}") == "ds.json:2:" + message);
  };
  refuses(R"("bf16": true)", R"(1: bf16 is true, expected an object with "enabled")");
  refuses(R"("fp16": {"enabled": "yes"})",
          R"(10: fp16.enabled is "yes", expected true, false or "auto")");
  refuses(R"("communication_data_type": "int8")",
          R"(1: communication_data_type is "int8", expected fp32, bf16 or fp16)");
  // Not where the name is a value.
  refuses(R"("communication_data_type": "fp16", "fp16": 1)",
          R"(36: fp16 is 1, expected an object with "enabled")");
  refuses(R"("optimizer": "AdamW")", R"(1: optimizer is "AdamW", expected an object)");
  refuses(R"("zero_optimization": {"offload_param": {"device": "disk"}})",
          "41: zero_optimization.offload_param.device is \"disk\", expected cpu, nvme or none");
  refuses(R"("train_batch_size": -1e30)",
          R"(1: train_batch_size is -1e+30, expected a whole number or "auto")");
  CHECK(foreign_error("{\"train_batch_size\": 1e999}") ==
        "ds.json:1:1: not valid JSON, expected a DeepSpeed configuration");
}

TEST_CASE("earlier versions of DeepSpeed offload by true and false") {
  const auto offload = [](const std::string& settings) {
    return read(R"({"zero_optimization": {"stage": 3, )" + settings + "}}", kModelSet)
        .parallel.offload;
  };
  CHECK(offload(R"("cpu_offload": false)") == Offload::none);
  CHECK(offload(R"("cpu_offload": true, "cpu_offload_param": false)") == Offload::optimizer);
  CHECK(offload(R"("cpu_offload_param": true)") == Offload::parameters);
  CHECK(offload(R"("cpu_offload": true, "cpu_offload_param": true)") == Offload::all);
  CHECK(foreign_error(R"({"zero_optimization": {"cpu_offload": 1}})") ==
        "ds.json:1:24: zero_optimization.cpu_offload is 1, expected true or false");
  CHECK(foreign_error(R"({"zero_optimization": {"offload_param": true}})") ==
        "ds.json:1:24: zero_optimization.offload_param is true, expected an object");
}

TEST_CASE("sizes of a DeepSpeed JSON beyond 64 bits are the greatest size") {
  for (const char* size : {"1e30", "9223372036854775808", "9223372036854775807"}) {
    INFO(size);
    const Workload workload =
        read(R"({"zero_optimization": {"stage": 3, "stage3_max_live_parameters": )" +
                 std::string(size) + "}}",
             kModelSet);
    CHECK(workload.zero.max_live_parameters == std::numeric_limits<std::int64_t>::max());
  }
}

TEST_CASE("what a DeepSpeed JSON says and no prediction reads is named") {
  const auto ignored = [](const std::string& value, const std::string& name) {
    INFO(value);
    CHECK(ignores(read(R"({"zero_optimization": {"stage": 3}, )" + value + "}", kModelSet), name));
  };
  ignored(R"("torch_autocast": {"lower_precision_safe_modules": []})",
          "ignored: torch_autocast.lower_precision_safe_modules");
  ignored(R"("data_types": {"checkpoint_dtype": "fp32"})", "ignored: data_types.checkpoint_dtype");
  ignored(R"("optimizer": {"type": "Lion", "params": {"lr": 1}})", "ignored: optimizer.type");
  CHECK(ignores(read(R"({"train_batch_size": "auto",
                         "data_types": {"grad_accum_dtype": "bf16"}})",
                     kModelSet),
                "data_types.grad_accum_dtype (predicted as fp32)"));
}

TEST_CASE("a key that a DeepSpeed JSON has twice is an error") {
  CHECK(
      foreign_error("{\"train_batch_size\": 8, // \"bf16\"\n \"bf16\": {},\n \"bf16\": {},}") ==
      "ds.json:3:2: the key \"bf16\" is given twice in one object, expected once; the first is at "
      "ds.json:2:2");
}

TEST_CASE("deeply nested values of a DeepSpeed JSON are errors as others are") {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  CHECK(foreign_error("{\"zero_optimization\": {\"stage\": " + deep + "}}").find("a JSON array") !=
        std::string::npos);
  CHECK(foreign_error("{\"zero_optimization\": " + deep + "}").find("a JSON array") !=
        std::string::npos);
  const std::string optimizer =
      R"({"zero_optimization": {}, "optimizer": {"type": "SGD", "params": )";
  CHECK(foreign_error(optimizer + "{\"momentum\": " + deep + "}}}").find("a JSON array") !=
        std::string::npos);
  CHECK(read_deepspeed_config(optimizer + deep + "}}", "ds.json").has_value());
}

TEST_CASE("FSDP1's hybrid sharding shards within a node, or as far as the workload says") {
  const auto resolved = [](std::vector<std::string> sets) {
    sets.insert(sets.begin(), {"model.config=m.json", "parallel.strategy=fsdp1",
                               "parallel.sharding=hybrid_shard", "parallel.world_size=32"});
    Workload workload = read("[parallel]\n", sets);
    REQUIRE(resolve_cluster(workload).has_value());
    CHECK(workload.parallel.sharding == Fsdp1Sharding::full_shard);
    return workload.parallel.shard_size;
  };
  CHECK(resolved({}) == 8);
  CHECK(resolved({"cluster.gpus_per_node=4"}) == 4);
  CHECK(resolved({"parallel.shard_size=16"}) == 16);
  CHECK(resolved({"parallel.strategy=fsdp2"}) == 32);
}
