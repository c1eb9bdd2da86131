// What free texts say of adapters and offloading.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "tasks/validation/row_text.h"
#include "tasks/validation/row_workload.h"

using namespace foregather;
using namespace foregather::tasks;
using Catch::Matchers::Contains;
using plan::ModelConfig;

namespace {

const plan::ModelNames& llama_names() { return plan::names_of(ModelConfig::Family::llama); }

std::optional<LoraText> lora_in(const std::string& text) {
  const auto lora = lora_of(text, llama_names(), false);
  if (!lora) FAIL(lora.error().text());
  return *lora;
}

std::optional<std::int64_t> rank_in(const std::string& text) { return lora_in(text)->rank; }

using Targets = std::vector<std::string>;

Targets targets_in(const std::string& text) { return lora_in(text)->targets; }

std::string offload_in(const std::string& text, const std::string& strategy) {
  const auto offload = offload_of(text, strategy);
  return offload ? *offload : offload.error().text();
}

MeasuredRow lora_row(const std::string& model, const std::string& config) {
  MeasuredRow row;
  row.id = "x";
  row.model = model;
  row.gpu = "A100-SXM-40GB";
  row.strategy = "single";
  row.param_dtype = row.compute = row.master = "bf16";
  row.checkpointing = row.compile = row.reduce_dtype = "none";
  row.attention = "sdpa";
  row.optimizer = "adamw";
  row.config = config;
  row.link = "unknown";
  row.fabric = "none";
  row.gpus = row.nodes = row.micro_batch = 1;
  row.seq_len = 512;
  return row;
}

}  // namespace

TEST_CASE("the rank of LoRA is read where it is stated") {
  CHECK(rank_in("Llama-2-7B + LoRA r16 (q,k,v,o)") == 16);
  CHECK(rank_in("LoRA, rank 8") == 8);
  CHECK(rank_in("LoRA rank=32") == 32);
  CHECK(rank_in("LoRA-r64") == 64);
  CHECK(rank_in("LoRA (r=4)") == 4);
  CHECK(rank_in("lora_r: 128") == 128);
  CHECK_FALSE(rank_in("DeepSeek-R1-Distill-8B LoRA"));
  CHECK(rank_in("DeepSeek R1 Distill Llama 8B LoRA r16") == 16);
  CHECK_FALSE(rank_in("DeepSeek R1 Distill LoRA"));
  CHECK(rank_in("Llama-3-8B r8 LoRA") == 8);
  CHECK(rank_in("DeepSeek-V3 (q_lora_rank 1536), LoRA r4") == 4);
  CHECK_FALSE(rank_in("FSDP1 LoRA of 4 ranks"));
  CHECK_FALSE(rank_in("LoRA rank 99999999999999999999"));
}

TEST_CASE("the linears that LoRA adapts are read where they are stated") {
  CHECK(targets_in("LoRA r16 (q,k,v,o)") ==
        Targets{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"});
  CHECK(targets_in("LoRA r8 on q_proj and v_proj | FSDP1 (ZeRO-3)") ==
        Targets{"self_attn.q_proj", "self_attn.v_proj"});
  CHECK(targets_in("LoRA qv") == Targets{"self_attn.q_proj", "self_attn.v_proj"});
  CHECK(targets_in("LoRA (gate, up, down)") ==
        Targets{"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"});
  CHECK(targets_in("LoRA r64 (all linears)") == Targets{"all-linear"});
  CHECK(targets_in("LoRA all-linear") == Targets{"all-linear"});
  CHECK(targets_in("LoRA r8 | FSDP1 (ZeRO-3), scaled up").empty());
}

TEST_CASE("LoRA that is denied is none, other adapters are named") {
  for (const char* text : {"LoRA-free Llama", "no LoRA", "full, not LoRA", "Llama", "no adapters",
                           "Llama-3-8B-LoRA-merged", "full finetune (vs LoRA)",
                           "DeepSeek-V2 (kv_lora_rank=512)", "FSDP2 over 4 network adapters"})
    CHECK_FALSE(lora_in(text));
  for (const char* text : {"Llama QLoRA", "Llama-3-8B, DoRA r16", "Llama + Adapter"}) {
    INFO(text);
    CHECK_FALSE(lora_of(text, llama_names(), false).has_value());
  }
}

TEST_CASE("LoRA adapts the one product of a model that has it") {
  const auto toml = [](MeasuredRow row) {
    const auto workload = workload_of(row);
    if (!workload) FAIL(workload.error().text());
    return toml_of(*workload, "m.json", false);
  };
  MeasuredRow row = lora_row("Llama-2 + LoRA r8 (q,v)", "llama2_7b");
  CHECK_THAT(toml(row), Contains("lora_targets = [\"self_attn.q_proj\", \"self_attn.v_proj\"]"));
  CHECK_THAT(toml(row), Contains("lora_rank = 8"));
  row.source = "https://github.com/Lightning-AI/litgpt/blob/main/tutorials/resource-tables.md";
  CHECK_THAT(toml(row), Contains("lora_targets = [\"self_attn.qkv_proj\"]"));
  row.model = "Llama-2 + LoRA";
  CHECK_THAT(toml(row), Contains("lora_targets = [\"self_attn.qkv_proj\"]"));
  row = lora_row("Pythia + LoRA (q,v,o)",
                 R"({"family":"gpt_neox","hidden_size":256,"num_hidden_layers":2,)"
                 R"("num_attention_heads":4,"intermediate_size":1024,"vocab_size":1000,)"
                 R"("max_position_embeddings":512})");
  CHECK_THAT(toml(row),
             Contains("lora_targets = [\"attention.query_key_value\", \"attention.dense\"]"));
}

TEST_CASE("offloading that a strategy's text names is set, or the reason") {
  CHECK(offload_in("FSDP2 + CPU offload", "fsdp2") == "all");
  CHECK(offload_in("FSDP (offload params)", "fsdp1") == "all");
  CHECK(offload_in("ZeRO-3 offload", "zero3") == "all");
  CHECK(offload_in("ZeRO-3, offload optimizer", "zero3") == "optimizer");
  CHECK(offload_in("ZeRO-3, optimizer and parameter offload", "zero3") == "all");
  CHECK(offload_in("ZeRO-2 + CPU-offloading", "zero2") == "optimizer");
  for (const char* none :
       {"FSDP2, no offload", "FSDP2 without CPU offload", "FSDP2", "no-offload", "offload: none",
        "FSDP2, cpu_offload=False", "CPUOffload(offload_params=False)", "offload=off",
        "CPU offload not used", "offload never", "FSDP2 without parameter offloading",
        "no optimizer offload", "offload_optimizer: none"}) {
    CAPTURE(none);
    CHECK(offload_in(none, "fsdp2").empty());
  }
  CHECK(offload_in("FSDP2 + activation checkpointing + CPU offload", "fsdp2") == "all");
  CHECK(offload_in("FSDP2, no compile, cpu_offload=True", "fsdp2") == "all");
  CHECK_THAT(offload_in("FSDP2, offload optimizer", "fsdp2"), Contains("'fsdp2'"));
  CHECK_THAT(offload_in("DDP + CPU offload", "ddp"), Contains("'ddp'"));
  CHECK_THAT(offload_in("FSDP2 + activation offloading", "fsdp2"), Contains("activations"));
  CHECK_THAT(offload_in("ZeRO-Infinity, NVMe offload", "zero3"), Contains("disks"));
  MeasuredRow row = lora_row("Llama", "llama2_7b");
  row.strategy = "fsdp2";
  row.strategy_text = "FSDP2 + CPU offload";
  row.gpus = 8;
  CHECK_THAT(toml_of(*workload_of(row), "m.json", false), Contains("offload = \"all\""));
}
