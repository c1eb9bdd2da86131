// Files of torchtitan that stand for the tables of a workload.
#include <catch2/catch.hpp>

#include "core/plan/model.h"
#include "tests/unit/workload/foreign_files.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

const std::string kTorchtitan = R"(
[job]
description = "Llama 3 8B training"
[model]
name = "llama3"
flavor = "8B"
[optimizer]
name = "AdamW"
lr = 3e-4
[training]
local_batch_size = 2
seq_len = 8192
max_norm = 1.0
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 8
fsdp_reshard_after_forward = "never"
tensor_parallel_degree = 1
context_parallel_degree = 4
[activation_checkpoint]
mode = "selective"
selective_ac_option = "2"
)";

}  // namespace

TEST_CASE("torchtitan's degrees of data parallelism are those of its mesh") {
  const auto titan = [](const std::string& degrees) {
    return "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 64\n" +
           ("[parallelism]\n" + degrees);
  };
  const Workload hybrid = read(titan("data_parallel_replicate_degree = 2\n"
                                     "data_parallel_shard_degree = -1\n"),
                               {"parallel.world_size=16"});
  CHECK(hybrid.parallel.shard_size == 8);
  const Workload replicas = read(titan("data_parallel_replicate_degree = 8\n"
                                       "data_parallel_shard_degree = 1\n"),
                                 {});
  CHECK(replicas.parallel.strategy == Strategy::ddp);
  CHECK(replicas.parallel.world_size == 8);
  CHECK(replicas.parallel.bucket_bytes == 100 * MiB);
  CHECK(read(titan("data_parallel_replicate_degree = 2\n"),
             {"parallel.world_size=8", "parallel.strategy=ddp"})
            .parallel.shard_size == 8);
  for (const char* degrees :
       {"data_parallel_shard_degree = 0\n", "data_parallel_shard_degree = -2\n",
        "data_parallel_replicate_degree = 0\n"})
    CHECK_FALSE(parse_workload(titan(degrees), "f", {}).has_value());
  CHECK_FALSE(
      parse_workload(titan("data_parallel_replicate_degree = 3\n"), "f", {"parallel.world_size=16"})
          .has_value());
  CHECK(ignores(read(titan("tensor_parallel_degree = 2\n"), {}),
                "tensor_parallel_degree = 2 (not predicted"));
}

TEST_CASE("torchtitan's degrees of 2024 are in other tables") {
  const auto titan = [](const std::string& training, int pipelines) {
    return "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 64\n" + training +
           "[experimental]\npipeline_parallel_degree = " + std::to_string(pipelines) + "\n";
  };
  const std::string hybrid = "data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 4\n";
  const Workload of_one = read(titan(hybrid + "tensor_parallel_degree = 1\n", 1), {});
  CHECK(of_one.warnings.empty());
  CHECK(of_one.parallel.world_size == 8);
  CHECK(of_one.parallel.shard_size == 4);
  const Workload of_two = read(titan(hybrid + "tensor_parallel_degree = 8\n", 2), {});
  CHECK(ignores(of_two, "training.tensor_parallel_degree = 8 (not predicted"));
  CHECK(ignores(of_two, "experimental.pipeline_parallel_degree = 2 (not predicted"));
  CHECK(read(titan("data_parallel_degree = 16\n", 1), {}).parallel.shard_size == 16);
}

TEST_CASE("a global batch of a torchtitan TOML makes micro-batches") {
  const auto titan = [](const std::string& size) {
    return "[training]\nlocal_batch_size = 2\nglobal_batch_size = " + size + "\n";
  };
  const auto steps = [&](const std::string& size, std::vector<std::string> sets) {
    for (const std::string& set : kModelSet) sets.push_back(set);
    return read(titan(size), sets).train.grad_accum;
  };
  CHECK(steps("64", {"parallel.world_size=8"}) == 4);
  CHECK(steps("64", {"parallel.world_size=8", "train.micro_batch=1"}) == 8);
  CHECK(steps("-1", {"parallel.world_size=8"}) == 1);
  std::vector<std::string> sets = kModelSet;
  sets.emplace_back("parallel.world_size=24");
  const auto refused = parse_workload(titan("64"), "f", sets);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().text() ==
        "f:3:21: global_batch_size 64 is no multiple of 2 samples on each of 24 ranks");
  CHECK_FALSE(parse_workload(titan("0"), "f", kModelSet));
  const Workload narrow = read("[training]\ndtype = \"bfloat16\"\n", kModelSet);
  CHECK(narrow.train.master == DType::bf16);
  CHECK(narrow.parallel.reduce_dtype == DType::f32);
}

TEST_CASE("what a torchtitan TOML does not say is torchtitan's default") {
  const Workload bare = read("[job]\n", kModelSet);
  CHECK(bare.train.micro_batch == 8);
  CHECK(bare.train.seq_len == 2048);
  CHECK(bare.train.checkpointing == Checkpointing::selective_layers);
  CHECK(bare.train.checkpoint_every == 2);
  const auto checkpointing = [](const std::string& line) {
    return read("[activation_checkpoint]\n" + line, kModelSet).train.checkpointing;
  };
  CHECK(checkpointing("") == Checkpointing::selective_layers);
  CHECK(checkpointing("mode = \"selective\"\n") == Checkpointing::selective_layers);
  CHECK(checkpointing("selective_ac_option = \"op\"\n") == Checkpointing::selective_op);
  CHECK(checkpointing("mode = \"none\"\n") == Checkpointing::none);
  CHECK(read("[optimizer]\nfused = false\n[training]\n", kModelSet).train.optimizer_impl ==
        OptimizerImpl::foreach);
}

TEST_CASE("what a torchtitan TOML says of training and optimizer is applied") {
  const Workload workload = read(R"([training]
gradient_accumulation_steps = 4
mixed_precision_param = "float32"
mixed_precision_reduce = "bfloat16"
enable_cpu_offload = true
[optimizer]
implementation = "foreach"
[parallelism]
data_parallel_shard_degree = 8
)",
                                 kModelSet);
  CHECK(workload.train.grad_accum == 4);
  CHECK(workload.train.compute == DType::f32);
  CHECK(workload.parallel.reduce_dtype == DType::bf16);
  CHECK(workload.parallel.offload == Offload::all);
  CHECK(workload.train.optimizer_impl == OptimizerImpl::foreach);
  // Replicas shard nothing, and what belongs to shards is named.
  const Workload whole = read(
      "[training]\nenable_cpu_offload = true\n[parallelism]\ndata_parallel_replicate_degree = "
      "8\ndata_parallel_shard_degree = 1\n",
      kModelSet);
  CHECK(ignores(whole, "parallel.offload"));
  CHECK(whole.parallel.offload == Offload::none);
  CHECK(
      read("[job]\n[optimizer]\nimplementation = \"for-loop\"\n", kModelSet).train.optimizer_impl ==
      OptimizerImpl::for_loop);
  CHECK(ignores(read("[job]\n[optimizer]\nimplementation = \"fused_opt_states_bf16\"\n", kModelSet),
                "optimizer.implementation"));
  CHECK(ignores(read("[job]\n[activation_checkpoint]\nmode = \"memory_budget\"\n", kModelSet),
                "activation_checkpoint.mode: memory_budget"));
  CHECK_FALSE(
      parse_workload("[job]\n[compile]\nenable = true\ncomponents = \"model\"\n", "f", kModelSet)
          .has_value());
}

TEST_CASE("an unmodified torchtitan TOML is a workload") {
  const Workload workload = read(kTorchtitan, {});
  CHECK(workload.parallel.strategy == Strategy::fsdp2);
  CHECK(workload.parallel.world_size == 16);
  CHECK(workload.parallel.shard_size == 8);
  CHECK(workload.parallel.reshard_after_forward == false);
  CHECK(workload.train.micro_batch == 2);
  CHECK(workload.train.seq_len == 8192);
  CHECK(workload.train.checkpointing == Checkpointing::selective_layers);
  CHECK(workload.train.checkpoint_every == 2);
  CHECK(workload.parallel.reduce_dtype == DType::f32);
  CHECK_FALSE(workload.model_keys.empty());
  CHECK(ignores(workload, "context_parallel_degree"));
  CHECK(ignores(workload, "job"));
  CHECK_FALSE(ignores(workload, "tensor_parallel_degree"));
  // Its model gives way to one that the workload names.
  const Workload other = read(kTorchtitan, kModelSet);
  CHECK(other.model_keys.empty());
  CHECK(other.model_config == "m.json");
}

TEST_CASE("torchtitan's compiler and float8 switches are applied in both spellings") {
  const std::string head = "[training]\nseq_len = 64\n";
  const Workload old = read(head + R"(compile = true
[model]
name = "llama3"
flavor = "8B"
converters = ["float8"]
[float8]
enable_fsdp_float8_all_gather = true
precompute_float8_dynamic_scale_for_fsdp = true
force_recompute_float8_weight_in_bwd = true
)",
                            {});
  CHECK(old.train.compile == Compile::per_block);
  CHECK(old.parallel.wrap == Wrap::block);
  CHECK(old.train.float8 == Float8::tensorwise);
  CHECK(old.train.float8_all_gather);
  CHECK(ignores(old, "float8.precompute_float8_dynamic_scale_for_fsdp"));
  CHECK_FALSE(ignores(old, "float8.force_recompute_float8_weight_in_bwd"));

  const Workload newer = read(head + R"([model]
name = "llama3"
flavor = "8B"
converters = ["quantize.linear.float8", "quantize.grouped_mm.float8"]
[compile]
enable = true
components = ["model", "loss"]
[quantize.linear.float8]
enable_fsdp_float8_all_gather = false
recipe_name = "rowwise"
filter_fqns = ["output"]
[quantize.grouped_mm.float8]
fqns = ["experts"]
)",
                              {});
  CHECK(newer.train.compile == Compile::per_block);
  CHECK(newer.train.compile_loss);
  CHECK(newer.parallel.wrap == Wrap::block_embed_head);
  CHECK(newer.train.float8 == Float8::rowwise);
  CHECK_FALSE(newer.train.float8_all_gather);
  for (const char* key :
       {"quantize.linear.float8.filter_fqns", "quantize.grouped_mm", "model.converters"})
    CHECK(ignores(newer, key));
  // Only the loss is compiled; nobody converts to float8.
  const Workload none = read(head +
                                 "[compile]\nenable = true\ncomponents = [\"loss\"]\n"
                                 "[float8]\nenable_fsdp_float8_all_gather = true\n",
                             kModelSet);
  CHECK(none.train.compile == Compile::none);
  CHECK(none.train.compile_loss);
  CHECK(none.train.float8 == Float8::none);
  CHECK_FALSE(none.train.float8_all_gather);
}

TEST_CASE("torchtitan's float8 of 2024 is a switch, and DDP gathers none") {
  const std::string head =
      "[training]\nseq_len = 64\n[model]\nname = \"llama3\"\nflavor = \"8B\"\n";
  const std::string float8 = "[float8]\nenable_fsdp_float8_all_gather = true\n";
  const Workload on = read(head + float8 + "enable_float8_linear = true\n", {});
  CHECK(on.train.float8 == Float8::tensorwise);
  CHECK(on.train.float8_all_gather);
  const Workload off = read(head + float8 + "enable_float8_linear = false\n", {});
  CHECK(off.train.float8 == Float8::none);
  CHECK_FALSE(off.train.float8_all_gather);
  const Workload ddp = read(head + float8 +
                                "enable_float8_linear = true\n[parallelism]\n"
                                "data_parallel_replicate_degree = 8\n"
                                "data_parallel_shard_degree = 1\n",
                            {});
  CHECK(ddp.parallel.strategy == Strategy::ddp);
  CHECK(ddp.train.float8 == Float8::tensorwise);
  CHECK_FALSE(ddp.train.float8_all_gather);
  CHECK(ignores(ddp, "enable_fsdp_float8_all_gather (nothing is sharded)"));
}

TEST_CASE("what a torchtitan TOML says of compiler and checkpoints, and is not read, is named") {
  const Workload workload = read(
      "[training]\nseq_len = 64\n[compile]\nenable = true\nbackend = \"eager\"\n"
      "[activation_checkpoint]\nmode = \"full\"\nvisualize_memory_budget_pareto = true\n",
      kModelSet);
  CHECK(ignores(workload, "compile.backend"));
  CHECK(ignores(workload, "activation_checkpoint.visualize_memory_budget_pareto"));
}

TEST_CASE("torchtitan's checkpoints stop early until 0.2, or where the file says so") {
  const auto stops = [](const std::string& more) {
    return read("[activation_checkpoint]\nmode = \"full\"\n" + more, kModelSet).train.early_stop;
  };
  CHECK(stops(""));
  CHECK_FALSE(stops("[compile]\nenable = false\n"));
  CHECK(stops("early_stop = true\n[compile]\nenable = false\n"));
  CHECK_FALSE(stops("early_stop = false\n"));
}
