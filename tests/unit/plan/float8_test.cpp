// Linears in float8: what is scaled and cast, once or again, and in which kernels.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>
#include <catch2/catch.hpp>

#include "core/plan/checkpoint.h"
#include "tests/unit/plan/model_live_bytes.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

constexpr std::int64_t kRows = 8192, kHidden = 4096;
constexpr int kLinears = 7, kDistinctInputs = 4;  // q, k and v read one, gate and up another

// Values of the weights of a block's linears, and of their inputs.
constexpr std::int64_t kWeights =
    kHidden * (kHidden + 1024 + 1024 + kHidden + 14'336 + 14'336 + 14'336);
constexpr std::int64_t kInputs = kRows * (kHidden * 6 + 14'336);

Tape block_of(Float8 float8, Compile compile, bool keeps_absolutes = false,
              bool keeps_weights = false) {
  Train train;
  train.keep_float8_weights = keeps_weights;
  train.micro_batch = 1;
  train.seq_len = kRows;
  train.float8 = float8;
  train.float8_all_gather = float8 == Float8::tensorwise && !keeps_absolutes;
  train.keep_absolute_values = keeps_absolutes;
  train.compile = compile;
  const Model model = build_model(sample("llama3_8b"), train);
  Tape tape = model.tapes[std::ranges::find_if(model.modules, &Module::is_block)->tape];
  CHECK(malformed(tape) == "");
  return tape;
}

bool ends(std::string_view name, std::string_view with) { return name.ends_with(with); }
bool begins(std::string_view name, std::string_view with) { return name.starts_with(with); }

bool writes(const Tape& tape, const TapeOp& op, auto&& is_meant) {
  return std::ranges::any_of(op.writes,
                             [&](ValueIndex v) { return is_meant(tape.values[v].name); });
}

/// Values so named that `ops` write.
std::int64_t count(const Tape& tape, const std::vector<TapeOp>& ops, auto&& is_meant) {
  std::int64_t sum = 0;
  for (const TapeOp& op : ops)
    sum += std::ranges::count_if(op.writes,
                                 [&](ValueIndex v) { return is_meant(tape.values[v].name); });
  return sum;
}

const auto is_copy = [](std::string_view name) { return ends(name, " float8"); };
const auto is_turned = [](std::string_view name) { return ends(name, " turned"); };
const auto is_scale = [](std::string_view name) { return begins(name, "scale of "); };
const auto is_unscaled = [](std::string_view name) { return ends(name, ", not scaled"); };

/// Bytes of the values so named that `ops` write.
Bytes written(const Tape& tape, const std::vector<TapeOp>& ops, auto&& is_meant) {
  Bytes sum = 0;
  for (const TapeOp& op : ops)
    for (const ValueIndex v : op.writes)
      if (is_meant(tape.values[v].name)) sum += tape.values[v].bytes;
  return sum;
}

const auto is_product_of_scales = [](std::string_view name) { return begins(name, "scales of "); };
const auto is_absolute = [](std::string_view name) { return begins(name, "absolute values of "); };

}  // namespace

TEST_CASE("every linear casts its input, compiled ones of one input share the copy") {
  const Tape eager = block_of(Float8::tensorwise, Compile::none);
  CHECK(count(eager, eager.forward, is_copy) == kLinears);
  const Tape compiled = block_of(Float8::tensorwise, Compile::per_block);
  CHECK(count(compiled, compiled.forward, is_copy) == kDistinctInputs);
  // Backward: the gradient of each output and each weight, beside the inputs.
  CHECK(count(eager, eager.backward, is_turned) == 3 * kLinears);
  CHECK(count(compiled, compiled.backward, is_turned) == 2 * kLinears + kDistinctInputs);
}

TEST_CASE("compiled tensorwise float8 may keep its weights for the backward, turned") {
  const auto is_turned_weight = [](std::string_view name) {
    return is_turned(name) && name.find("weight") != std::string_view::npos;
  };
  const Tape kept = block_of(Float8::tensorwise, Compile::per_block, false, true);
  const Tape remade = block_of(Float8::tensorwise, Compile::per_block);
  CHECK(written(kept, kept.forward, is_turned_weight) == kWeights);
  CHECK(written(kept, kept.backward, is_turned_weight) == 0);
  CHECK(written(remade, remade.forward, is_turned_weight) == 0);
  CHECK(written(remade, remade.backward, is_turned_weight) == kWeights);
  for (const Float8 other : {Float8::rowwise, Float8::delayed}) {
    const Tape tape = block_of(other, Compile::per_block, false, true);
    const Tape plain = block_of(other, Compile::per_block);
    CHECK(tape.forward.size() == plain.forward.size());
  }
  const Tape eager = block_of(Float8::tensorwise, Compile::none, false, true);
  CHECK(written(eager, eager.forward, is_turned_weight) == 0);
}

TEST_CASE("a scale of all values is there before the cast begins, a row's is made beside it") {
  const Tape all = block_of(Float8::tensorwise, Compile::per_block);
  for (const auto* ops : {&all.forward, &all.backward})
    for (const TapeOp& op : *ops)
      for (const ValueIndex v : op.reads)
        if (is_scale(all.values[v].name)) CHECK_FALSE(writes(all, op, is_scale));
  CHECK(count(all, all.forward, is_scale) == kDistinctInputs);
  const Tape rows = block_of(Float8::rowwise, Compile::per_block);
  CHECK(count(rows, rows.forward, is_scale) == 0);  // within the kernel that casts
  CHECK(count(rows, rows.forward, is_copy) == kDistinctInputs + kLinears);  // and the weights
}

TEST_CASE("gradients of rowwise scaling are multiplied unscaled, and scaled afterwards") {
  const Tape plain = block_of(Float8::tensorwise, Compile::none);
  CHECK(count(plain, plain.backward, is_unscaled) == 0);
  const Tape eager = block_of(Float8::rowwise, Compile::none);
  CHECK(count(eager, eager.backward, is_unscaled) == kLinears);
  // Eager PyTorch writes the product of both scales for every value of a gradient, in fp32.
  CHECK(written(eager, eager.backward, is_product_of_scales) == (kWeights + kInputs) * 4);
  // Compiled, it stays in registers.
  const Tape compiled = block_of(Float8::rowwise, Compile::per_block);
  CHECK(written(compiled, compiled.backward, is_product_of_scales) == 0);
  // There each value has both of its scales made anew, in doubles.
  const auto doubles = [](const Tape& tape) {
    std::int64_t sum = 0;
    for (const auto* ops : {&tape.forward, &tape.backward})
      for (const TapeOp& op : *ops)
        if (op.cost.dtype == DType::f64) sum += op.cost.flops;
    return sum;
  };
  CHECK(doubles(compiled) == (kWeights + kInputs) * 2 * 11);
  CHECK(doubles(eager) == 0);
  CHECK(doubles(block_of(Float8::tensorwise, Compile::per_block)) == 0);
}

TEST_CASE("delayed scaling reads each operand once, writes it both ways and saves what is turned") {
  for (const Compile compile : {Compile::none, Compile::per_block}) {
    const Tape tape = block_of(Float8::delayed, compile);
    CHECK(count(tape, tape.forward, is_copy) == 2 * kLinears);
    CHECK(count(tape, tape.forward, is_turned) == 2 * kLinears);
    CHECK(count(tape, tape.backward, is_copy) == kLinears);
    CHECK(count(tape, tape.backward, is_turned) == kLinears);
    CHECK(count(tape, tape.forward, is_scale) + count(tape, tape.backward, is_scale) == 0);
    Bytes moved = 0;
    for (const TapeOp& op : tape.forward)
      if (writes(tape, op, is_copy)) moved += op.cost.bytes_read + op.cost.bytes_written;
    CHECK(moved == 4 * (kInputs + kWeights));
    // What backward reads of the forward's operands is turned and in float8.
    const auto is_float8_product = [](const TapeOp& op) {
      return op.cost.kind == OpKind::gemm && op.cost.dtype != DType::bf16;
    };
    CHECK(std::ranges::count_if(tape.backward, is_float8_product) == 2 * kLinears);
    for (const TapeOp& op : tape.backward)
      if (is_float8_product(op))
        CHECK(std::ranges::any_of(op.reads,
                                  [&](ValueIndex v) { return is_turned(tape.values[v].name); }));
  }
}

TEST_CASE("an eager conversion is six passes, three of them in fp32") {
  const Tape tape = block_of(Float8::rowwise, Compile::none);
  const auto wide = [](std::string_view end) {
    return [end](std::string_view name) { return ends(name, end); };
  };
  CHECK(written(tape, tape.forward, is_absolute) == (kWeights + kInputs) * 2);
  for (const std::string_view name : {" in fp32", " scaled", " clamped"})
    CHECK(written(tape, tape.forward, wide(name)) == (kWeights + kInputs) * 4);
  CHECK(written(tape, tape.forward, is_copy) == kWeights + kInputs);
}

TEST_CASE("selective checkpointing keeps the largest of all values, once also the absolute ones") {
  const Tape now = block_of(Float8::tensorwise, Compile::none);
  const Tape then = block_of(Float8::tensorwise, Compile::none, true);
  const auto kept = [](const Tape& tape, auto&& is_meant) {
    const SavedValues saved = saved_values(tape, SavePolicy::selective_op);
    Bytes sum = 0;
    for (std::size_t i = 0; i < tape.values.size(); ++i)
      if (saved.saved[i] && is_meant(tape.values[i].name)) sum += tape.values[i].bytes;
    return sum;
  };
  CHECK(kept(now, is_absolute) == 0);
  CHECK(kept(then, is_absolute) == (kWeights + kInputs) * 2);
  CHECK(kept(now, is_scale) == 4 * kLinears);  // of the inputs; weights come in float8
  CHECK(kept(then, is_scale) == 4 * 2 * kLinears);
  CHECK(kept(block_of(Float8::rowwise, Compile::none), is_scale) == 0);
}
