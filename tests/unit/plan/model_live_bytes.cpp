#include "tests/unit/plan/model_live_bytes.h"
#include "tests/support/places.h"

#include <algorithm>
#include <vector>
#include <catch2/catch.hpp>

namespace foregather::test {

namespace {

using namespace plan;

std::vector<ValueIndex> named(const Tape& tape, const TapeOp& op) {
  std::vector<ValueIndex> roots;
  for (const auto* list : {&op.reads, &op.writes, &op.updates})
    for (const ValueIndex value : *list) roots.push_back(storage_of(tape, value));
  return roots;
}

class Replay {
 public:
  Replay(const Tape& tape, SavePolicy policy)
      : tape_(tape), saved_(saved_values(tape, policy)), bound_(tape.values.size(), false) {}

  LiveBytes run() {
    LiveBytes result;
    peak_ = 0;
    std::vector<const TapeOp*> forward;
    for (const TapeOp& op : tape_.forward) forward.push_back(&op);
    pass(forward,
         [this](ValueIndex v) { return !saved_.saved[v] && v != storage_of(tape_, tape_.output); });
    result.forward_peak = peak_;
    result.after_forward = live_;
    // Who comes next holds the output, unless it is saved here too.
    const ValueIndex output = storage_of(tape_, tape_.output);
    if (!saved_.saved[output]) drop(output);
    bind(storage_of(tape_, tape_.output_grad));
    peak_ = live_;
    std::vector<const TapeOp*> backward;
    for (const std::uint32_t index : saved_.recompute) backward.push_back(&tape_.forward[index]);
    for (const TapeOp& op : tape_.backward) backward.push_back(&op);
    const ValueIndex handed =
        tape_.has_input_grad ? storage_of(tape_, tape_.input_grad) : tape_.output_grad;
    pass(backward, [&](ValueIndex v) {
      return tape_.values[v].kind != ValueKind::parameter_grad &&
             (!tape_.has_input_grad || v != handed);
    });
    result.backward_peak = peak_;
    // What selective checkpointing kept in vain goes with the graph.
    for (ValueIndex v = 0; v < tape_.values.size(); ++v)
      if (saved_.saved[v]) drop(v);
    result.after_backward = live_;
    return result;
  }

 private:
  bool counts(ValueIndex root) const {
    const ValueKind kind = tape_.values[root].kind;
    return kind != ValueKind::parameter && kind != ValueKind::input;
  }
  void bind(ValueIndex root) {
    if (bound_[root] || !counts(root)) return;
    bound_[root] = true;
    live_ += tape_.values[root].bytes;
  }
  void drop(ValueIndex root) {
    if (!bound_[root]) return;
    bound_[root] = false;
    live_ -= tape_.values[root].bytes;
  }
  template <class MayDie>
  void pass(const std::vector<const TapeOp*>& ops, const MayDie& may_die) {
    std::vector<std::size_t> last(tape_.values.size(), 0);
    for (std::size_t i = 0; i < ops.size(); ++i)
      for (const ValueIndex root : named(tape_, *ops[i])) last[root] = i;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (const ValueIndex value : ops[i]->writes) bind(storage_of(tape_, value));
      peak_ = std::max(peak_, live_);
      for (const ValueIndex root : named(tape_, *ops[i]))
        if (last[root] == i && may_die(root)) drop(root);
    }
  }

  const Tape& tape_;
  SavedValues saved_;
  std::vector<bool> bound_;
  Bytes live_ = 0;
  Bytes peak_ = 0;
};

}  // namespace

LiveBytes live_bytes(const Tape& tape, SavePolicy policy) { return Replay(tape, policy).run(); }

std::string malformed(const Tape& tape) {
  std::vector<bool> made(tape.values.size(), false);
  for (std::size_t v = 0; v < tape.values.size(); ++v) {
    const Value& value = tape.values[v];
    if (value.is_view && (value.base >= v || value.bytes != 0)) return "bad view " + value.name;
    if (!value.is_view && value.bytes <= 0) return "no bytes: " + value.name;
    if (value.kind == ValueKind::parameter) made[v] = true;
  }
  made[tape.input] = made[tape.output_grad] = true;
  for (const auto* ops : {&tape.forward, &tape.backward}) {
    for (const TapeOp& op : *ops) {
      if (op.scope >= tape.scopes.size()) return "bad scope";
      for (const auto* list : {&op.reads, &op.updates})
        for (const ValueIndex value : *list)
          if (!made[storage_of(tape, value)]) return "not made: " + tape.values[value].name;
      for (const ValueIndex value : op.writes) made[storage_of(tape, value)] = true;
    }
  }
  // A compiler makes no more than what is read.
  for (std::size_t v = 0; v < tape.values.size() && !tape.is_compiled; ++v)
    if (!made[storage_of(tape, static_cast<ValueIndex>(v))])
      return "never made: " + tape.values[v].name;
  std::vector<int> gradients(tape.parameters.size(), 0);
  for (const Value& value : tape.values)
    if (value.kind == ValueKind::parameter_grad) ++gradients[value.parameter];
  for (std::size_t p = 0; p < gradients.size(); ++p)
    if (gradients[p] != (tape.parameters[p].trainable ? 1 : 0))
      return "not one gradient: " + tape.parameters[p].name;
  return "";
}

std::string sample_config(const std::string& name) {
  return source_dir() + "/traces/samples/configs/" + name + ".json";
}

Train bf16_train(std::int64_t sequences, std::int64_t positions) {
  Train train;
  train.micro_batch = sequences;
  train.seq_len = positions;
  return train;
}

ModelConfig sample(const std::string& name) {
  Result<ModelConfig> config = read_model_config(sample_config(name));
  if (!config) FAIL(config.error().text());
  return *config;
}

}  // namespace foregather::test
