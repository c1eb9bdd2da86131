#include "core/plan/checkpoint.h"

namespace foregather::plan {

namespace {

/// Per root: made in the forward (or the input), and read in the backward.
std::vector<bool> needed_values(const Tape& tape) {
  std::vector<bool> made(tape.values.size(), false);
  made[storage_of(tape, tape.input)] = true;
  for (const TapeOp& op : tape.forward)
    for (const ValueIndex value : op.writes) made[storage_of(tape, value)] = true;
  std::vector<bool> needed(tape.values.size(), false);
  for (const TapeOp& op : tape.backward) {
    for (const auto* list : {&op.reads, &op.updates}) {
      for (const ValueIndex value : *list) {
        const ValueIndex root = storage_of(tape, value);
        if (made[root]) needed[root] = true;
      }
    }
  }
  for (const ValueIndex value : tape.held) needed[storage_of(tape, value)] = true;
  return needed;
}

}  // namespace

ValueIndex storage_of(const Tape& tape, ValueIndex value) {
  while (tape.values[value].is_view) value = tape.values[value].base;
  return value;
}

SavedValues saved_values(const Tape& tape, SavePolicy policy) {
  SavedValues result;
  const std::vector<bool> needed = needed_values(tape);
  if (policy == SavePolicy::none || !tape.has_output_grad) {
    result.saved = needed;
  } else {
    result.saved.assign(tape.values.size(), false);
    result.saved[tape.input] = true;
    if (policy == SavePolicy::selective_op) {
      for (const TapeOp& op : tape.forward) {
        if (!op.keep_under_selective) continue;
        for (const ValueIndex value : op.writes) result.saved[storage_of(tape, value)] = true;
      }
    }
    // Early stop: after the last op that makes a needed value which is not saved.
    const bool is_whole = policy == SavePolicy::whole || policy == SavePolicy::reentrant;
    std::size_t end = is_whole ? tape.forward.size() : 0;
    for (std::size_t i = end; i < tape.forward.size(); ++i) {
      for (const auto* list : {&tape.forward[i].writes, &tape.forward[i].updates}) {
        for (const ValueIndex value : *list) {
          const ValueIndex root = storage_of(tape, value);
          if (needed[root] && !result.saved[root]) end = i + 1;
        }
      }
    }
    // The partitioner keeps what the backward or what it recomputes reads, whatever is listed
    // (torch/_functorch/partitioners.py); the eager cache holds all that is listed.
    for (std::size_t i = tape.is_compiled ? end : tape.forward.size(); i < tape.forward.size(); ++i)
      for (const ValueIndex value : tape.forward[i].writes)
        result.saved[storage_of(tape, value)] = needed[storage_of(tape, value)];
    for (std::size_t i = 0; i < end; ++i) {
      const bool kept = policy == SavePolicy::selective_op && tape.forward[i].keep_under_selective;
      if (!kept) result.recompute.push_back(static_cast<std::uint32_t>(i));
    }
  }
  for (std::size_t i = 0; i < tape.values.size(); ++i) {
    if (tape.values[i].is_view) {
      result.saved[i] = result.saved[storage_of(tape, static_cast<ValueIndex>(i))];
    } else if (result.saved[i] && i != tape.input) {
      result.saved_bytes += tape.values[i].bytes;
    }
  }
  return result;
}

}  // namespace foregather::plan
