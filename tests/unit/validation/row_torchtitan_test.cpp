// What a row says of torchtitan's script, by date, pull request and version.
#include <catch2/catch.hpp>

#include "tasks/validation/row_script.h"
#include "tests/unit/validation/script_rows.h"

using namespace foregather;
using namespace foregather::tasks;
using namespace foregather::test;
using plan::HeldOutputs;
using plan::Logits;

TEST_CASE("torchtitan's script changed with its pull requests") {
  const std::string titan = "https://github.com/pytorch/torchtitan/commit/0 (PR #";
  const RowScript old = script_of(row_of(titan + "390)"));
  CHECK(old.held_outputs == HeldOutputs::logits);
  CHECK(old.logits == Logits::f32);
  CHECK_FALSE(old.compiles_loss);
  const RowScript later = script_of(row_of(titan + "391)"));
  CHECK(later.held_outputs == HeldOutputs::none);
  CHECK(later.logits == Logits::compute);
  CHECK_FALSE(script_of(row_of(titan + "1032)")).compiles_loss);
  CHECK(script_of(row_of(titan + "1033)")).compiles_loss);
  const std::string ao = "https://github.com/pytorch/ao/blob/main/docs/training.md";
  CHECK_FALSE(script_of(row_of(ao, "torch 2.7.0a0")).compiles_loss);
  CHECK(script_of(row_of(ao, "torch 2.9 nightly")).compiles_loss);
  CHECK_FALSE(script_of(row_of("https://example.org", "torch 2.9")).compiles_loss);
}

TEST_CASE("a stated date goes before the number of torchtitan's pull request") {
  const auto deletes = [](const char* notes) {
    return script_of(row_of("https://github.com/pytorch/torchtitan/pull/382", notes)).logits ==
           Logits::compute;
  };
  CHECK_FALSE(deletes(""));
  CHECK_FALSE(deletes("2024-06-02"));
  CHECK(deletes("compiled_rmsnorm; 2024-07-11"));
  const std::string issue = "https://github.com/pytorch/torchtitan/issues/929";
  CHECK_FALSE(script_of(row_of(issue, "2025-03")).compiles_loss);
  CHECK(script_of(row_of(issue, "2025-05")).compiles_loss);
}

TEST_CASE("torchtitan's newer scripts fuse their norms and group their keys") {
  MeasuredRow row = full_row();
  row.compile = "none";
  const auto value = [&](const char* key) { return value_of(*workload_of(row), key); };
  CHECK(value("train.fused_rms_norm") == "false");
  CHECK(value("train.repeat_kv") == "true");
  row.notes = "PyTorch 2.9; 2025-12-01";
  CHECK(value("train.fused_rms_norm") == "true");
  CHECK(value("train.repeat_kv") == "true");
  row.notes = "torch 2.13.0a0; 2026-05-19";
  CHECK(value("train.repeat_kv") == "false");
  row.notes.clear();
  row.source = "https://github.com/pytorch/torchtitan/pull/2300";
  CHECK(value("train.repeat_kv") == "false");
  row.source = "https://github.com/pytorch/torchtitan/pull/1500";
  row.gpu = "GB200";
  CHECK(value("train.fused_rms_norm") == "true");
  row.source = "https://github.com/someone/else";
  row.notes = "torch 2.13.0a0; 2026-05-19";
  CHECK(value("train.fused_rms_norm") == "false");
  for (const char* fused : {"Liger kernels", "Liger RMSNorm and rotary", "fused kernels (foak)"}) {
    row.notes = fused;
    CHECK(value("train.fused_rms_norm") == "true");
  }
  for (const char* plain : {"without Liger kernels", "Liger's cross-entropy"}) {
    row.notes = plain;
    CHECK(value("train.fused_rms_norm") == "false");
  }
}

TEST_CASE("torchtitan wraps the embedding and the head since August 2025") {
  MeasuredRow row = full_row();
  row.strategy = "fsdp2";
  const auto wraps = [&](const char* source, const char* notes) {
    row.source = source;
    row.notes = notes;
    return sets(*workload_of(row), "parallel.wrap");
  };
  constexpr const char* kSource = "https://github.com/pytorch/torchtitan/pull/";
  CHECK(wraps((kSource + std::string("1741")).c_str(), ""));
  CHECK_FALSE(wraps((kSource + std::string("1300")).c_str(), ""));
  CHECK(wraps((kSource + std::string("1300")).c_str(), "2025-09-02"));
  CHECK_FALSE(wraps("https://github.com/pytorch/torchtitan", "2025-06-18"));
  CHECK_FALSE(wraps("https://github.com/pytorch/torchtitan", "torch 2.9 nightly"));
  CHECK(wraps("https://github.com/pytorch/torchtitan", "torch 2.11"));
  CHECK_FALSE(wraps("https://github.com/someone/else", "torch 2.11"));
  row.strategy = "ddp";
  CHECK_FALSE(wraps("https://github.com/pytorch/torchtitan", "torch 2.11"));
}

TEST_CASE("torchtitan's Llamas turn by complex numbers, its Qwen3 and others' Llamas do not") {
  MeasuredRow row = full_row();
  CHECK(sets(*workload_of(row), "train.complex_rotary"));
  row.source = "https://arxiv.org/abs/2410.06511";
  CHECK(sets(*workload_of(row), "train.complex_rotary"));
  row.config = "qwen3_32b";
  CHECK_FALSE(sets(*workload_of(row), "train.complex_rotary"));
  CHECK(value_of(*workload_of(row), "train.loss_in_call") == "false");
  row.config = "deepseek_v3_16b";
  CHECK(sets(*workload_of(row), "train.complex_rotary"));
  row.config = "llama3_8b";
  row.source = "https://github.com/someone/else";
  CHECK_FALSE(sets(*workload_of(row), "train.complex_rotary"));
}

TEST_CASE("torchtitan's page of 2024 has Triton's norms") {
  MeasuredRow row = full_row();
  row.compile = "none";
  const auto is_fused = [&] {
    return value_of(*workload_of(row), "train.fused_rms_norm") != "false";
  };
  row.source = "https://github.com/pytorch/torchtitan/pull/355";
  CHECK_FALSE(is_fused());
  row.source = "https://github.com/pytorch/torchtitan/blob/main/docs/performance.md";
  CHECK(is_fused());
}

TEST_CASE("torchtitan kept the absolute values of eager float8 from pull request 701 to 819") {
  MeasuredRow row = full_row();
  row.compute = "fp8_tensorwise";
  row.compile = "none";
  row.checkpointing = "selective_op";
  const auto keeps = [&](int request) {
    row.source = fmt::format("https://github.com/pytorch/torchtitan/pull/{}", request);
    return sets(*workload_of(row), "train.keep_absolute_values");
  };
  CHECK(keeps(701));
  CHECK(keeps(819));
  CHECK_FALSE(keeps(700));
  CHECK_FALSE(keeps(820));
  row.compile = "per_block";
  CHECK_FALSE(keeps(812));
  row.compile = "none";
  row.checkpointing = "full";
  CHECK_FALSE(keeps(812));
}
