// What a row's source says of its script, by kind and version.
#include <catch2/catch.hpp>

#include <set>
#include <string>

#include "tasks/validation/row_script.h"
#include "tasks/validation/row_workload.h"
#include "tests/unit/validation/script_rows.h"

using namespace foregather;
using namespace foregather::tasks;
using namespace foregather::test;
using plan::HeldOutputs;
using plan::Logits;

namespace {

const std::string kMptOfRow =
    R"({"family":"mpt","hidden_size":256,"num_hidden_layers":2,"num_attention_heads":4,)"
    R"("num_key_value_heads":4,"intermediate_size":1024,"vocab_size":1000,)"
    R"("max_position_embeddings":512})";

}  // namespace

TEST_CASE("versions are read out of sources and notes") {
  CHECK(pull_request_of("https://github.com/a/b/commit/40f8 (PR #355)") == 355);
  CHECK(pull_request_of("https://github.com/a/b/pull/3592") == 3592);
  CHECK_FALSE(pull_request_of("https://github.com/a/b/commit/40f8"));
  CHECK_FALSE(pull_request_of("PR #x"));
  CHECK(torch_version_of("max_reserved; torch 2.9 nightly") == std::pair(2, 9));
  CHECK(torch_version_of("torch 2024-12-23, torch 2.10.0a0") == std::pair(2, 10));
  CHECK(torch_version_of("FA4, PyTorch 2.11+cu130") == std::pair(2, 11));
  CHECK_FALSE(torch_version_of("torch 2024-12-23"));
  CHECK_FALSE(torch_version_of(""));
  CHECK(month_of("compiled_rmsnorm; 2024-07-11") == std::pair(2024, 7));
  CHECK(month_of("toml of 2025-03, later 2025-04") == std::pair(2025, 3));
  for (const char* none : {"2024", "2024-13-01", "12024-07", "2024-123", "step 20-50", "2024-",
                           "tokenizer of 2023-05-01", "driver of 2025-09", "batch 2048-08"})
    CHECK_FALSE(month_of(none));
}

TEST_CASE("compiled float8 kept its weights with PyTorch of before April 2025") {
  MeasuredRow row = full_row();
  row.source = "https://github.com/Lightning-AI/lightning-thunder/pull/1528";
  row.strategy = "fsdp2_never";
  row.compute = "fp8_tensorwise";
  row.compile = "full";
  row.checkpointing = "none";
  const auto keeps = [&] { return sets(*workload_of(row), "train.keep_float8_weights"); };
  CHECK(keeps());
  row.id = "thunder1528-recompute";
  CHECK_FALSE(keeps());
  row.id = "thunder1528-no-recompute";
  CHECK(keeps());
  row.id = "thunder1528-main";
  row.notes = "this PR: force_recompute_fp8_weight_in_bwd";
  CHECK(keeps());
  row.id = "thunder1528";
  CHECK_FALSE(keeps());
  row.notes = "without force_recompute_fp8_weight_in_bwd";
  CHECK(keeps());
  row.notes = "2025-06";
  CHECK_FALSE(keeps());
  row.notes = "torch 2.8";
  CHECK_FALSE(keeps());
  row.notes = "torch 2.7.0a0";
  CHECK(keeps());
  row.compile = "none";
  CHECK_FALSE(keeps());
  row.compile = "per_block";
  row.notes = "2024-12";
  row.source = "https://github.com/pytorch/torchtitan/pull/808";
  CHECK(keeps());
  row.checkpointing = "selective_op";
  CHECK_FALSE(keeps());
  row.checkpointing = "none";
  row.compute = "fp8_rowwise";
  CHECK_FALSE(keeps());
}

TEST_CASE("transformers' checkpoints are around the units of accelerate's FSDP1") {
  MeasuredRow row = full_row();
  row.strategy = "fsdp1";
  row.strategy_text = "FSDP1 FULL_SHARD (accelerate)";
  row.checkpointing = "full";
  row.checkpointing_text = "gradient_checkpointing";
  row.compile = "none";
  CHECK(script_of(row).reenters);
  row.notes = "without gradient_checkpointing";
  row.checkpointing_text = "full";
  CHECK_FALSE(script_of(row).reenters);
  row.notes = "gradient_checkpointing=True, SFTTrainer";
  row.strategy_text = "FSDP1";
  CHECK(script_of(row).reenters);
  CHECK(value_of(*workload_of(row), "parallel.reentrant_checkpoints") == "true");
  row.strategy = "fsdp2";
  CHECK_FALSE(script_of(row).reenters);
  row.strategy = "zero3";
  CHECK(value_of(*workload_of(row), "train.early_stop") == "false");
  CHECK_FALSE(sets(*workload_of(row), "parallel.reentrant_checkpoints"));
}

TEST_CASE("llm-foundry's Triton attention and fused loss are not those of others' MPTs") {
  MeasuredRow row = full_row();
  row.config = kMptOfRow;
  row.attention = "flash";
  const auto logits = [&] { return value_of(*workload_of(row), "train.logits"); };
  row.source = "https://github.com/Modalities/modalities/blob/main/README.md";
  CHECK_FALSE(runs_triton(row));
  CHECK(logits().empty());
  CHECK_FALSE(sets(*workload_of(row), "train.attention_speed"));
  row.source = "https://github.com/mosaicml/llm-foundry/issues/1153";
  CHECK_FALSE(runs_triton(row));
  CHECK(logits() == "\"fused\"");
  row.notes = "Triton/flash attention";
  CHECK(runs_triton(row));
  CHECK(sets(*workload_of(row), "train.attention_speed"));
  row.notes.clear();
  for (const char* of : {"llm-foundry/blob/main/scripts/train/benchmarking/README.md",
                         "llm-foundry/blob/beb8dee/scripts/train/benchmarking/torches.md",
                         "examples/blob/3bbda73/examples/llm/throughput/README.md"}) {
    row.source = std::string("https://github.com/mosaicml/") + of;
    CAPTURE(of);
    CHECK(runs_triton(row));
  }
  row.notes = "attn_impl: torch (triton not installed)";
  CHECK_FALSE(runs_triton(row));
  row.notes = "attn_impl: flash (FlashAttention-2)";
  CHECK_FALSE(runs_triton(row));
  row.notes.clear();
  row.attention = "unknown";
  CHECK(value_of(*workload_of(row), "train.attention") == "\"flash\"");
  CHECK(sets(*workload_of(row), "train.attention_speed"));
  CHECK(workload_of(row)->assumptions.front() == "attention is not stated");
  row.attention = "sdpa";
  CHECK_FALSE(runs_triton(row));
  row.source.clear();
  row.group = "Databricks 2023";
  CHECK(logits() == "\"fused\"");
}

TEST_CASE("PyTorch 2.5.0 prefers cuDNN's attention on Hopper, 2.5.1 does not") {
  MeasuredRow row = full_row();
  const auto attention = [&] { return value_of(*workload_of(row), "train.attention"); };
  for (const char* flash : {"", "torch 2.5.1", "torch 2.4.0"}) {
    row.notes = flash;
    CAPTURE(flash);
    CHECK(attention() == "\"flash\"");
  }
  row.notes = "max_reserved; PyTorch 2.5.0";
  CHECK(attention() == "\"cudnn\"");
  row.gpu = "A100-SXM-80GB";
  CHECK(attention() == "\"sdpa\"");
}

TEST_CASE("so does its main of summer 2024, on which Thunder's benchmarks of FSDP2 run") {
  MeasuredRow row = full_row();
  const auto attention = [&] { return value_of(*workload_of(row), "train.attention"); };
  row.notes = "2024-08";
  CHECK(attention() == "\"flash\"");
  row.source = "https://github.com/Lightning-AI/lightning-thunder/pull/940";
  CHECK(attention() == "\"cudnn\"");
  row.strategy = "fsdp1_grad_op";
  CHECK(attention() == "\"flash\"");
  row.strategy = "fsdp2_never";
  CHECK(attention() == "\"cudnn\"");
  for (const char* flash : {"", "2024-06", "2024-10", "2024-12"}) {
    row.notes = flash;
    CAPTURE(flash);
    CHECK(attention() == "\"flash\"");
  }
}

TEST_CASE("recipes of LoRA differ in what FSDP1 shards together") {
  MeasuredRow row = full_row();
  row.strategy = "fsdp1";
  row.model = "Llama-2-7B + LoRA r8 (q,v)";
  row.source = "https://github.com/AnswerDotAI/fsdp_qlora/blob/main/benchmarks_03_2024.md";
  CHECK_FALSE(sets(*workload_of(row), "parallel.use_orig_params"));
  CHECK(value_of(*workload_of(row), "train.held_outputs") == "\"logits\"");
  CHECK(value_of(*workload_of(row), "train.lora_fp32") == "false");
  row.notes = "SFTTrainer, PEFT 0.13";
  CHECK(value_of(*workload_of(row), "train.lora_fp32") == "true");
  for (const char* others : {"DistributedSFTTrainer", "adapters of our own, without PEFT"}) {
    row.notes = others;
    CHECK(value_of(*workload_of(row), "train.lora_fp32") == "false");
  }
  row.notes.clear();
  CHECK(value_of(*workload_of(row), "train.grad_accum") == "1");
  row.source = "https://github.com/Lightning-AI/litgpt/blob/main/tutorials/resource-tables.md";
  row.micro_batch = 4;
  CHECK(value_of(*workload_of(row), "parallel.use_orig_params") == "true");
  CHECK(value_of(*workload_of(row), "train.grad_accum") == "32");
  CHECK(value_of(*workload_of(row), "train.no_sync") == "true");
  row.model = "Llama-2-7B";
  CHECK_FALSE(sets(*workload_of(row), "parallel.use_orig_params"));
  CHECK(value_of(*workload_of(row), "train.grad_accum") == "1");
}

TEST_CASE("a row sets each key once") {
  for (const char* source :
       {"https://github.com/Lightning-AI/lightning-thunder/pull/940",
        "https://github.com/intelligent-machine-learning/dlrover/blob/master/README.md",
        "https://github.com/pytorch/torchtitan/pull/300", "https://github.com/mosaicml/composer"}) {
    MeasuredRow row = full_row();
    row.source = source;
    row.config = kMptOfRow;
    row.attention = "flash";
    std::set<std::string> keys;
    const RowWorkload workload = *workload_of(row);
    for (const Setting& setting : workload.settings) {
      INFO(source << " " << setting.key);
      CHECK(keys.insert(setting.key).second);
    }
  }
}

TEST_CASE("DDP reduces in the last micro-batch alone") {
  MeasuredRow row = full_row();
  row.strategy = "ddp";
  row.grad_accum = 5;
  CHECK(value_of(*workload_of(row), "train.no_sync") == "true");
  row.grad_accum = 1;
  CHECK_FALSE(sets(*workload_of(row), "train.no_sync"));
  row.strategy = "fsdp2";
  row.grad_accum = 5;
  CHECK_FALSE(sets(*workload_of(row), "train.no_sync"));
}

TEST_CASE("Hopper attends by FlashAttention before PyTorch 2.11") {
  MeasuredRow row = full_row();
  const auto attention = [&](const char* notes) {
    row.notes = notes;
    return value_of(*workload_of(row), "train.attention");
  };
  CHECK(attention("") == "\"flash\"");
  CHECK(attention("torch 2.10") == "\"flash\"");
  CHECK(attention("torch 2.11.0") == "\"sdpa\"");
  row.compile = "thunder";
  CHECK(attention("torch 2.11.0") == "\"cudnn\"");
  row.gpu = "A100-SXM-80GB";
  CHECK(attention("torch 2.10") == "\"sdpa\"");
}

TEST_CASE("LitGPT's script returns the loss alone, Thunder's benchmark keeps narrow logits") {
  MeasuredRow row = row_of("https://github.com/Lightning-AI/litgpt/blob/main/extensions/thunder");
  CHECK(script_of(row).held_outputs == HeldOutputs::none);
  CHECK(script_of(row).logits == Logits::f32);
  CHECK(script_of(row).strategy.empty());
  row.strategy = "thunder_zero3";
  CHECK(script_of(row).strategy == "thunder_zero2");
  CHECK(script_of(row).micro_batches == 1);
  row.strategy = "single";
  CHECK(script_of(row).micro_batches == 16);
  row.strategy = "ddp";
  CHECK(script_of(row).micro_batches == 16);
  row.source = "https://github.com/Lightning-AI/lightning-thunder/pull/940";
  CHECK(script_of(row).micro_batches == 1);
  CHECK(script_of(row).held_outputs == HeldOutputs::logits);
  CHECK(script_of(row).logits == Logits::narrow);
  CHECK(script_of(row).strategy.empty());
}

TEST_CASE("Lightning's scripts compile the model, not the loss") {
  MeasuredRow row = full_row();
  row.compile = "full";
  const auto compiles = [&](const char* source) {
    row.source = source;
    return value_of(*workload_of(row), "train.compile");
  };
  CHECK(compiles("https://github.com/Lightning-AI/lightning-thunder/pull/940") == "\"per-block\"");
  CHECK(compiles("https://github.com/Lightning-AI/litgpt/blob/main/tutorials") == "\"per-block\"");
  CHECK(compiles("https://github.com/Lightning-AI/litgpt/blob/main/extensions/thunder") ==
        "\"full\"");
  CHECK(compiles("https://github.com/someone/else") == "\"full\"");
}

TEST_CASE("the loss is compiled only where the model is") {
  MeasuredRow row = full_row();
  CHECK(sets(*workload_of(row), "train.compile_loss"));
  row.compile = "none";
  CHECK_FALSE(sets(*workload_of(row), "train.compile_loss"));
}

TEST_CASE("YaFSDP and what it compares itself with reduce in fp32") {
  MeasuredRow row = full_row();
  row.reduce_dtype = "bf16";
  const auto reduces_in = [&] { return value_of(*workload_of(row), "parallel.reduce_dtype"); };
  CHECK(reduces_in() == "\"bf16\"");
  row.source = "https://github.com/yandex/YaFSDP";
  CHECK(reduces_in() == "\"fp32\"");
}

TEST_CASE("a checkpointing that the table's author assumed is not stated") {
  MeasuredRow row = full_row();
  CHECK(workload_of(row)->if_too_large.empty());
  row.checkpointing_text = "selective-op (toml default, assumed)";
  CHECK_FALSE(workload_of(row)->if_too_large.empty());
}

TEST_CASE("chunked cross-entropy is told by a row's words, and not of its baseline") {
  const auto row = [](const char* id, const char* precision, const char* notes) {
    MeasuredRow made = row_of("https://github.com/pytorch/torchtitan/pull/996", notes);
    made.id = id;
    made.precision_text = precision;
    return script_of(made).chunks_loss;
  };
  CHECK(row("tt-chunked", "bf16", ""));
  CHECK(row("tt-after", "bf16 + chunked CE", ""));
  CHECK(row("tt-after", "bf16", "Chunked cross-entropy in 8 parts"));
  CHECK_FALSE(row("tt-base", "bf16", "WHAT-IF PAIR: chunked cross-entropy"));
  CHECK_FALSE(row("tt-nochunk", "bf16", ""));
  CHECK_FALSE(row("tt-a", "bf16, loss not chunked", ""));
  CHECK_FALSE(row("tt-a", "bf16, chunked optimizer", ""));
  CHECK_FALSE(row("tt-chunked-prefill", "bf16", ""));
  CHECK_FALSE(row("tt-a", "bf16", "chunked cross-entropy disabled"));
  CHECK(row("tt-a", "bf16", "faster than before; chunked cross-entropy without compile"));
  CHECK(row("tt-a", "bf16", "CEWithChunkedOutputLoss"));
  CHECK_FALSE(row("tt-a", "bf16", "baseline of chunked cross-entropy"));
  CHECK_FALSE(row("tt-a", "bf16", ""));
}

TEST_CASE("any table's chunked cross-entropy is, torchtune compiles it and fuses its AdamW") {
  MeasuredRow row = full_row();
  row.source = "https://github.com/someone/else";
  row.precision_text = "bf16, chunked cross-entropy";
  CHECK(value_of(*workload_of(row), "train.logits_chunks") == "8");
  CHECK_FALSE(sets(*workload_of(row), "train.compile_loss"));
  row.source = "https://github.com/meta-pytorch/torchtune/blob/main/README.md";
  row.compile = "per_block";
  row.optimizer = "adamw";
  CHECK(sets(*workload_of(row), "train.compile_loss"));
  CHECK(value_of(*workload_of(row), "train.optimizer_impl") == "\"fused\"");
  row.precision_text = "bf16";
  CHECK_FALSE(sets(*workload_of(row), "train.compile_loss"));
  CHECK_FALSE(sets(*workload_of(row), "train.logits_chunks"));
}

TEST_CASE("Liger's loss makes the logits in parts that are no larger than the hidden states") {
  MeasuredRow row = full_row();
  row.source = "https://github.com/someone/else";
  row.config = "llama3_8b";
  row.micro_batch = 2;
  row.seq_len = 8192;
  const auto parts = [&](const char* notes) {
    row.notes = notes;
    return value_of(*workload_of(row), "train.loss_chunks");
  };
  // 16,384 tokens, 32 times as many words as values: 512 tokens a part.
  CHECK(parts("Liger kernels on") == "32");
  CHECK(parts("cut cross-entropy") == "32");
  for (const char* notes : {"without the Liger kernel", "non-Liger baseline", "Liger off",
                            "use_liger_kernel=False", "faster than Liger", "Liger RMSNorm only"})
    CHECK(parts(notes).empty());
  CHECK(parts("").empty());
}

TEST_CASE("a fused cross-entropy is told by a row's words") {
  MeasuredRow row = full_row();
  row.source = "https://github.com/someone/else";
  const auto logits = [&](const char* notes) {
    row.notes = notes;
    return value_of(*workload_of(row), "train.logits");
  };
  CHECK(logits("fused cross entropy; FlashAttention-2") == "\"fused\"");
  CHECK(logits("flash-attn's fused CE") == "\"fused\"");
  for (const char* notes :
       {"", "without fused cross-entropy", "fused AdamW, chunked CE", "fused linear cross entropy"})
    CHECK(logits(notes).empty());
}

TEST_CASE("Thunder's benchmark wraps blocks where a row says so") {
  MeasuredRow row = full_row();
  row.source = "https://github.com/Lightning-AI/lightning-thunder/pull/1261";
  row.strategy = "fsdp1";
  const auto wrap = [&](const char* notes) {
    row.notes = notes;
    return value_of(*workload_of(row), "parallel.wrap");
  };
  CHECK(wrap("") == "\"leaf\"");
  CHECK(wrap("--bucketing_mode none") == "\"leaf\"");
  for (const char* notes : {"--bucketing_mode=block", "bucketing mode block, zero3"})
    CHECK(wrap(notes).empty());
}

TEST_CASE("dtypes that a strategy has not are those that it has, and said to be assumed") {
  MeasuredRow row = full_row();
  row.nodes = 1;
  row.param_dtype = "fp32";
  row.strategy = "zero3";
  auto workload = workload_of(row).value();
  CHECK_FALSE(sets(workload, "parallel.param_dtype"));
  CHECK(workload.assumptions ==
        std::vector<std::string>{"param_dtype is fp32: ZeRO gathers what it computes in"});
  row.compute = "fp32";
  CHECK(value_of(*workload_of(row), "parallel.param_dtype") == "\"fp32\"");

  row = full_row();
  row.nodes = 1;
  row.strategy = "thunder_zero3";
  row.compile = "thunder";
  row.master = "bf16";
  workload = workload_of(row).value();
  CHECK_FALSE(sets(workload, "parallel.reduce_dtype"));
  CHECK(workload.assumptions ==
        std::vector<std::string>{"reduce_dtype is fp32: Thunder reduces what it stores"});
}

TEST_CASE("an allocator's configuration that is not PyTorch's own one is left out") {
  MeasuredRow row = full_row();
  row.nodes = 1;
  const auto conf = [&](const char* text) {
    row.allocator_conf = text;
    return value_of(*workload_of(row), "allocator.conf");
  };
  CHECK(conf("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True") == "\"expandable_segments:True\"");
  CHECK(conf("backend:cudaMallocAsync").empty());
  CHECK(workload_of(row)->assumptions ==
        std::vector<std::string>{
            "alloc_conf is backend:cudaMallocAsync: PyTorch's own allocator instead"});
}

TEST_CASE("a GPU that is not stated attends as the one that it is taken for") {
  MeasuredRow row = full_row();
  for (const char* gpu : {"", "unknown", "n/a", "not stated (H-something)", "H100-SXM-80GB"}) {
    CAPTURE(gpu);
    row.gpu = gpu;
    CHECK(value_of(*workload_of(row), "train.attention") == "\"flash\"");
    CHECK(value_of(*workload_of(row), "cluster.hardware") == "\"h100_sxm\"");
  }
}

TEST_CASE("FSDP accumulates without reducing where a row says so") {
  MeasuredRow row = full_row();
  row.strategy = "fsdp2";
  row.grad_accum = 4;
  const auto is_late = [&](const char* notes) {
    row.notes = notes;
    return sets(*workload_of(row), "train.no_sync");
  };
  CHECK_FALSE(is_late(""));
  CHECK(is_late("params stored bf16; maybe_no_sync"));
  CHECK(is_late("3 of 4 run under no_sync"));
  for (const char* notes : {"accumulates without no_sync", "did not use no_sync", "no_sync=False",
                            "no_sync off", "reduces each (no_sync is not available)"})
    CHECK_FALSE(is_late(notes));
  CHECK(is_late("set_requires_gradient_sync(False) but for the last"));
  row.grad_accum = 1;
  CHECK_FALSE(is_late("no_sync"));
}

TEST_CASE("FlashAttention-2 is what sdpa was before PyTorch 2.11, and 3 and 4 are cuDNN's equals") {
  MeasuredRow row = full_row();
  const auto kernels = [&](const char* gpu, const char* attention, const char* notes) {
    row.gpu = gpu;
    row.attention = attention;
    row.notes = notes;
    return value_of(*workload_of(row), "train.attention");
  };
  CHECK(kernels("B200", "sdpa", "") == "\"flash\"");
  CHECK(kernels("B200", "sdpa", "torch 2.11") == "\"sdpa\"");
  CHECK(kernels("GB200", "sdpa", "torch 2.10") == "\"flash\"");
  CHECK(kernels("B300", "flash", "FA4, PyTorch 2.11") == "\"cudnn\"");
  CHECK(kernels("H100-SXM-80GB", "flash", "with FA3") == "\"cudnn\"");
  CHECK(kernels("H100-SXM-80GB", "flash", "without FA3") == "\"flash\"");
  CHECK(kernels("A100-SXM-80GB", "flash", "with FA3") == "\"flash\"");
}
