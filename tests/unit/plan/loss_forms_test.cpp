// What the loss of a language model keeps, by the form of its logits and by who compiles it.
#include <algorithm>
#include <string>
#include <catch2/catch.hpp>

#include "tests/unit/plan/model_live_bytes.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

constexpr std::int64_t kSequences = 2, kPositions = 4096, kTokens = kSequences * kPositions;
constexpr Bytes kNarrow = kTokens * 32'000 * 2, kWide = 2 * kNarrow;

Train loss_train() {
  Train train;
  train.micro_batch = kSequences;
  train.seq_len = kPositions;
  return train;
}

Tape head_of(const Train& train) { return build_model(sample("llama2_7b"), train).tapes.back(); }

const Value* find(const Tape& tape, const std::string& name) {
  const auto found = std::find_if(tape.values.begin(), tape.values.end(),
                                  [&](const Value& value) { return value.name == name; });
  return found == tape.values.end() ? nullptr : &*found;
}

bool is_saved(const Tape& tape, const std::string& name) {
  const Value* value = find(tape, name);
  return value != nullptr && saved_values(tape, SavePolicy::none)
                                 .saved[static_cast<std::size_t>(value - tape.values.data())];
}

Bytes saved_logits(const Train& train) {
  Train none = train;
  none.held_outputs = HeldOutputs::none;
  return saved_values(head_of(train), SavePolicy::none).saved_bytes -
         saved_values(head_of(none), SavePolicy::none).saved_bytes;
}

}  // namespace

TEST_CASE("a compiler pads products whose rows do not begin at 16 bytes, Thunder does not") {
  ModelConfig config = sample("llama2_7b");
  config.vocab = 50'257;
  const auto unaligned = [&](Compile compile, DType dtype) {
    Train train = loss_train();
    train.compile = compile;
    train.compute = dtype;
    const Tape head = build_model(config, train).tapes.back();
    std::int64_t count = 0;
    for (const auto* ops : {&head.forward, &head.backward})
      for (const TapeOp& op : *ops)
        count += op.cost.kind == OpKind::gemm && (op.cost.n | op.cost.k) % 8 != 0 ? 1 : 0;
    return count;
  };
  CHECK(unaligned(Compile::none, DType::bf16) == 3);
  CHECK(unaligned(Compile::full, DType::bf16) == 0);
  CHECK(unaligned(Compile::thunder, DType::bf16) == 3);
  CHECK(unaligned(Compile::full, DType::f32) == 3);
}

TEST_CASE("a compiled loss keeps the logits as computed, an eager one the log probabilities") {
  Train train = loss_train();
  const Tape eager = head_of(train);
  CHECK(is_saved(eager, "log probabilities"));
  CHECK_FALSE(is_saved(eager, "logits"));

  train.compile_loss = true;
  const Tape compiled = head_of(train);
  CHECK(is_saved(compiled, "logits"));
  CHECK_FALSE(is_saved(compiled, "log probabilities"));
  // Eager: log probabilities, their gradient and that of the wide logits. Compiled: the logits and
  // their gradient, nothing in fp32.
  const Bytes less = live_bytes(eager, SavePolicy::none).backward_peak -
                     live_bytes(compiled, SavePolicy::none).backward_peak;
  CHECK(less > 3 * kWide - 2 * kNarrow - MiB);
  CHECK(less < 3 * kWide - 2 * kNarrow + MiB);
}

TEST_CASE("compiling the loss leaves the rest of the head as it is, and all of a compiled model") {
  Train train = loss_train();
  const auto outside = [](const Tape& tape) {
    return std::count_if(tape.forward.begin(), tape.forward.end(),
                         [&](const TapeOp& op) { return tape.scopes[op.scope] != "loss"; });
  };
  const Tape eager = head_of(train);
  train.compile_loss = true;
  CHECK(outside(head_of(train)) == outside(eager));
  CHECK_FALSE(head_of(train).is_compiled);
  train.compile = Compile::full;
  const Tape both = head_of(train);
  train.compile_loss = false;
  CHECK(both.forward.size() == head_of(train).forward.size());
  CHECK(both.is_compiled);
}

TEST_CASE("a compiled model whose loss the script computes leaves that eager") {
  Train train = loss_train();
  const Tape eager = head_of(train);
  train.compile = Compile::full;
  const Tape whole = head_of(train);
  train.loss_in_call = false;
  const Tape outside = head_of(train);
  const auto ops = [](const Tape& tape, bool of_loss) {
    return std::count_if(tape.forward.begin(), tape.forward.end(), [&](const TapeOp& op) {
      return (tape.scopes[op.scope] == "loss") == of_loss;
    });
  };
  CHECK(outside.is_compiled);
  CHECK(malformed(outside).empty());
  CHECK(ops(outside, true) == ops(eager, true));
  CHECK(ops(outside, false) == ops(whole, false));
  CHECK(is_saved(outside, "log probabilities"));
  train.compile_loss = true;
  CHECK_FALSE(is_saved(head_of(train), "log probabilities"));
}

TEST_CASE("a model that returns fp32 logits makes the script hold twice the bytes") {
  Train train = loss_train();
  train.held_outputs = HeldOutputs::logits;
  CHECK(saved_logits(train) == kNarrow);
  train.logits = Logits::f32;
  CHECK(saved_logits(train) == kWide);
  train.logits = Logits::f32_shifted;
  CHECK(saved_logits(train) == kWide);
}

TEST_CASE("the narrow logits die where the model widens them, the wide ones with its frame") {
  Train train = loss_train();
  const Bytes in_loss = live_bytes(head_of(train), SavePolicy::none).forward_peak;
  train.logits = Logits::f32;
  CHECK(live_bytes(head_of(train), SavePolicy::none).forward_peak == in_loss - kNarrow);
}

TEST_CASE("shifted logits are a copy without each sequence's last, whose gradient is spread") {
  constexpr Bytes kShifted = (kTokens - kSequences) * 32'000 * 4;
  Train train = loss_train();
  train.logits = Logits::f32_shifted;
  const Tape tape = head_of(train);
  CHECK(malformed(tape) == "");
  REQUIRE(find(tape, "logits fp32, shifted") != nullptr);
  CHECK(find(tape, "logits fp32, shifted")->bytes == kShifted);
  CHECK(find(tape, "log probabilities")->bytes == kShifted);
  CHECK(find(tape, "grad logits fp32")->bytes == kWide);
  CHECK_FALSE(is_saved(tape, "logits fp32, shifted"));
}

TEST_CASE("a loss over parts of the logits widens one at a time, and keeps all log probabilities") {
  Train train = loss_train();
  const LiveBytes whole = live_bytes(head_of(train), SavePolicy::none);
  const Bytes saved = saved_values(head_of(train), SavePolicy::none).saved_bytes;
  train.logits_chunks = 8;
  const Tape tape = head_of(train);
  CHECK(malformed(tape) == "");
  CHECK(saved_values(tape, SavePolicy::none).saved_bytes - saved < KiB);
  const LiveBytes parts = live_bytes(tape, SavePolicy::none);
  // Forward: the narrow logits, all log probabilities, one part wide; not all of it.
  const Bytes less = whole.forward_peak - parts.forward_peak;
  CHECK(less >= kWide - kWide / 8);
  CHECK(less < kWide - kWide / 8 + MiB);
  // Backward: the gradients of one part in fp32 instead of all.
  CHECK(whole.backward_peak - parts.backward_peak > kWide);
  CHECK(whole.backward_peak - parts.backward_peak <= 2 * (kWide - kWide / 8) + MiB);
}

TEST_CASE("narrow logits are never widened") {
  Train train = loss_train();
  train.logits = Logits::narrow;
  train.held_outputs = HeldOutputs::logits;
  const Tape tape = head_of(train);
  CHECK(malformed(tape) == "");
  CHECK(find(tape, "logits fp32") == nullptr);
  REQUIRE(find(tape, "log probabilities") != nullptr);
  CHECK(find(tape, "log probabilities")->bytes == kNarrow);
  CHECK(saved_logits(train) == kNarrow);
}

TEST_CASE("a fused loss keeps the logits as computed and a sum a token, and makes one gradient") {
  Train train = loss_train();
  train.logits = Logits::narrow;
  const LiveBytes narrow = live_bytes(head_of(train), SavePolicy::none);
  train.logits = Logits::fused;
  const Tape tape = head_of(train);
  CHECK(malformed(tape) == "");
  CHECK(find(tape, "log probabilities") == nullptr);
  CHECK(is_saved(tape, "logits"));
  CHECK(is_saved(tape, "log of the exponentials' sums"));
  CHECK_FALSE(is_saved(tape, "losses of tokens"));
  const LiveBytes fused = live_bytes(tape, SavePolicy::none);
  // Not the log probabilities beside the logits; in the backward not their gradient.
  CHECK(narrow.forward_peak - fused.forward_peak > kNarrow - MiB);
  CHECK(narrow.forward_peak - fused.forward_peak <= kNarrow);
  CHECK(narrow.backward_peak - fused.backward_peak > kNarrow - MiB);
  CHECK(narrow.backward_peak - fused.backward_peak <= kNarrow);
  train.logits_chunks = 8;
  const Tape parts = head_of(train);
  CHECK(malformed(parts) == "");
  CHECK(find(parts, "part of logits, fp32") == nullptr);
  CHECK(find(parts, "log probabilities") == nullptr);
}

TEST_CASE("a loss over parts of the logits reads them in the form that the model returns") {
  Train train = loss_train();
  train.logits_chunks = 8;
  const LiveBytes as_computed = live_bytes(head_of(train), SavePolicy::none);

  train.logits = Logits::narrow;
  const Tape narrow = head_of(train);
  CHECK(malformed(narrow) == "");
  CHECK(find(narrow, "part of logits, fp32") == nullptr);
  CHECK(find(narrow, "log probabilities")->bytes == kNarrow / 8);
  CHECK(as_computed.forward_peak - live_bytes(narrow, SavePolicy::none).forward_peak >= kNarrow);

  train.logits = Logits::f32;
  const Tape wide = head_of(train);
  CHECK(malformed(wide) == "");
  CHECK(find(wide, "logits fp32")->bytes == kWide);
  CHECK(find(wide, "part of logits, fp32") == nullptr);

  train.logits = Logits::f32_shifted;
  const Tape shifted = head_of(train);
  CHECK(malformed(shifted) == "");
  CHECK(find(shifted, "logits fp32, shifted") != nullptr);
}

TEST_CASE("parts that are projected one by one stay narrow where the loss does not widen") {
  Train train = loss_train();
  train.loss_chunks = 8;
  CHECK(find(head_of(train), "log probabilities of a part")->bytes == kWide / 8);
  train.logits = Logits::narrow;
  const Tape tape = head_of(train);
  CHECK(malformed(tape) == "");
  CHECK(find(tape, "logits of a part, fp32") == nullptr);
  CHECK(find(tape, "log probabilities of a part")->bytes == kNarrow / 8);
}

TEST_CASE("Thunder's backward makes the log probabilities anew beside the logits it keeps") {
  Train train = loss_train();
  train.logits = Logits::f32;
  train.compile = Compile::full;
  const Tape fused = head_of(train);
  train.compile = Compile::thunder;
  const Tape tape = head_of(train);
  CHECK(malformed(tape) == "");
  CHECK(is_saved(tape, "logits fp32"));
  CHECK_FALSE(is_saved(tape, "log probabilities"));
  // Logits, log probabilities, their gradient and that of the logits; fused: logits and their
  // gradient as computed.
  const Bytes more = live_bytes(tape, SavePolicy::none).backward_peak -
                     live_bytes(fused, SavePolicy::none).backward_peak;
  CHECK(more > 4 * kWide - 2 * kNarrow - MiB);
  CHECK(more < 4 * kWide - 2 * kNarrow + MiB);
}
