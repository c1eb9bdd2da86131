#include "core/plan/compile_tape.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/plan/checkpoint.h"
#include "core/plan/common_values.h"
#include "core/plan/padded_products.h"

namespace foregather::plan {

namespace {

bool is_fusible_kind(OpKind kind) {
  switch (kind) {
    case OpKind::elementwise:
    case OpKind::cast:
    case OpKind::norm:
    case OpKind::softmax:
    case OpKind::reduction:
    case OpKind::cross_entropy:
    case OpKind::copy:
    case OpKind::fill:
    case OpKind::fused: return true;
    default: return false;
  }
}

void add_once(std::vector<ValueIndex>& list, ValueIndex value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

class Compiler {
 public:
  Compiler(Tape& tape, Partition partition, const TapePart& part = {})
      : tape_(tape), partition_(partition), part_(part) {}

  void run() {
    for (auto* ops : {&tape_.forward, &tape_.backward})
      for (TapeOp& op : *ops)
        if (is_inside(op)) op.reads.resize(op.own_reads);
    share_common_values(tape_, part_);
    find_producers();
    if (is_thunder()) remake_log_probabilities();
    choose();
    rewrite_backward();
    if (is_thunder()) {
      hold_logits();
      keep_summands();
    }
    grow();
    for (auto* ops : {&tape_.forward, &tape_.backward}) {
      sink(*ops);
      rise(*ops);
    }
    fuse(tape_.forward, true);
    fuse(tape_.backward, false);
    if (!is_thunder()) pad_products(tape_, part_);
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  bool is_inside(const TapeOp& op) const { return part_.has(op); }
  bool is_thunder() const { return partition_ == Partition::thunder; }
  bool is_fusible(const TapeOp& op) const {
    const OpKind kind = op.cost.kind;
    return is_inside(op) && is_fusible_kind(kind) && !op.is_opaque &&
           !(is_thunder() && kind == OpKind::cross_entropy);
  }
  ValueIndex root(ValueIndex value) const { return storage_of(tape_, value); }
  std::int64_t elements(ValueIndex value) const {
    return tape_.values[value].bytes / size_of(tape_.values[value].dtype);
  }
  bool is_parameter(ValueIndex value) const {
    return tape_.values[value].kind == ValueKind::parameter;
  }
  void grow() {
    producer_.resize(tape_.values.size(), kNone);
    needed_.resize(tape_.values.size(), false);
    again_.resize(tape_.values.size());
    materialized_.resize(tape_.values.size(), false);
  }

  void find_producers() {
    grow();
    for (std::uint32_t i = 0; i < tape_.forward.size(); ++i)
      for (const ValueIndex value : tape_.forward[i].writes) producer_[root(value)] = i;
    const auto need = [this](ValueIndex value) {
      const ValueIndex at = root(value);
      if (producer_[at] != kNone || at == root(tape_.input)) needed_[at] = true;
    };
    for (const TapeOp& op : tape_.backward)
      for (const auto* list : {&op.reads, &op.updates})
        for (const ValueIndex value : *list) {
          need(value);
          if (!is_fusible(op)) materialized_[root(value)] = true;
        }
    for (const ValueIndex value : tape_.held) need(value);
  }

  // --- save or recompute ---

  /// Made from its reads row by row or element by element, not summed up; and no kernel of the
  /// backward needs it in memory.
  bool is_recomputable(ValueIndex value) const {
    if (producer_[value] == kNone || value == root(tape_.output) || materialized_[value])
      return false;
    const TapeOp& op = tape_.forward[producer_[value]];
    if (!is_fusible(op) || op.cost.kind == OpKind::reduction || !op.updates.empty() ||
        op.reads.empty())
      return false;
    std::int64_t widest = 0;
    for (const ValueIndex read : op.reads)
      if (!is_parameter(root(read))) widest = std::max(widest, elements(root(read)));
    return elements(value) >= widest;
  }

  /// Adds what `value` is made from and is neither a parameter nor recomputed; false if the chain
  /// is too long.
  bool sources(ValueIndex value, std::vector<ValueIndex>& leaves, int depth) const {
    constexpr int kLongest = 24;
    if (depth > kLongest) return false;
    for (const ValueIndex read : tape_.forward[producer_[value]].reads) {
      const ValueIndex at = root(read);
      if (is_parameter(at)) continue;
      const bool is_saved = needed_[at] && !again_[at];
      if (is_saved || !is_recomputable(at))
        add_once(leaves, at);
      else if (!sources(at, leaves, depth + 1))
        return false;
    }
    return true;
  }

  void choose() {
    std::vector<ValueIndex> candidates;
    for (ValueIndex v = 0; v < needed_.size(); ++v)
      if (needed_[v] && is_recomputable(v)) candidates.push_back(v);
    std::sort(candidates.begin(), candidates.end(), [this](ValueIndex a, ValueIndex b) {
      return std::pair(producer_[a], a) < std::pair(producer_[b], b);
    });
    for (const ValueIndex value : candidates) {
      if (std::find(tape_.held.begin(), tape_.held.end(), value) != tape_.held.end()) continue;
      std::vector<ValueIndex> leaves;
      if (!sources(value, leaves, 0)) continue;
      Bytes more = 0;
      for (const ValueIndex leaf : leaves)
        if (!needed_[leaf]) more += tape_.values[leaf].bytes;
      if (more >= tape_.values[value].bytes) continue;
      again_[value] = value;  // made anew on first use
      for (const ValueIndex leaf : leaves) needed_[leaf] = true;
    }
  }

  /// The value that stands for `value` in backward; appends what makes it.
  ValueIndex remade(ValueIndex value, std::vector<TapeOp>& ops) {
    if (made_.size() < tape_.values.size()) made_.resize(tape_.values.size());
    if (made_[value]) return *made_[value];
    const TapeOp& from = tape_.forward[producer_[value]];
    TapeOp op;
    op.cost = from.cost;
    if (is_fusible(from)) op.cost.kind = OpKind::elementwise;
    op.scope = from.scope;
    for (const ValueIndex read : from.reads) {
      const ValueIndex at = root(read);
      const bool is_leaf =
          is_parameter(at) || (needed_[at] && !is_again(at)) || !is_recomputable(at);
      op.reads.push_back(is_leaf ? at : remade(at, ops));
    }
    Value copy = tape_.values[value];
    copy.kind = ValueKind::gradient;
    copy.name += ", again";
    tape_.values.push_back(std::move(copy));
    const auto fresh = static_cast<ValueIndex>(tape_.values.size() - 1);
    op.writes = {fresh};
    op.own_reads = static_cast<std::uint32_t>(op.reads.size());
    made_.resize(tape_.values.size());
    made_[value] = fresh;
    ops.push_back(std::move(op));
    return fresh;
  }

  bool is_again(ValueIndex value) const {
    return value < again_.size() && again_[value].has_value();
  }

  void rewrite_backward() {
    std::vector<TapeOp> ops;
    for (TapeOp& op : tape_.backward) {
      for (ValueIndex& read : op.reads)
        if (const ValueIndex at = root(read); is_again(at)) read = remade(at, ops);
      ops.push_back(std::move(op));
    }
    tape_.backward = std::move(ops);
  }

  // --- Thunder's cross entropy ---

  /// Log probabilities that the backward reads: it makes them anew from the logits.
  void remake_log_probabilities() {
    for (const TapeOp& op : tape_.forward) {
      if (!is_inside(op) || op.cost.kind != OpKind::cross_entropy || op.reads.size() != 1 ||
          op.writes.size() != 1)
        continue;
      const ValueIndex logits = root(op.reads[0]);
      const ValueIndex made = root(op.writes[0]);
      if (!needed_[made]) continue;
      again_[made] = made;
      needed_[logits] = materialized_[logits] = true;
      logits_of_.emplace_back(made, logits);
    }
  }

  /// One function makes the log probabilities and reads them: its caller keeps the logits.
  void hold_logits() {
    for (const auto& [made, logits] : logits_of_)
      for (TapeOp& op : tape_.backward)
        if (made_.size() > made && made_[made] && has(op.reads, *made_[made]))
          op.reads.push_back(logits);
  }

  // --- Thunder's residual stream ---

  /// The two values that an op of the forward adds (or multiplies) element by element; empty if it
  /// does something else.
  std::vector<ValueIndex> summands(const TapeOp& op) const {
    if (!is_inside(op) || op.cost.kind != OpKind::elementwise || !op.updates.empty() ||
        op.writes.size() != 1 || op.reads.size() != 2)
      return {};
    const std::vector<ValueIndex> result = roots(op.reads);
    const Bytes bytes = tape_.values[root(op.writes[0])].bytes;
    for (const ValueIndex value : result)
      if (is_parameter(value) || tape_.values[value].bytes != bytes) return {};
    return result;
  }

  void keep_summands() {
    for (const TapeOp& op : tape_.forward) {
      const std::vector<ValueIndex> parts = summands(op);
      if (parts.empty()) continue;
      const ValueIndex sum = root(op.writes[0]);
      if (sum == root(tape_.output)) {
        // The norm that reads it is the next module's: its backward ends where this one begins.
        if (tape_.backward.empty()) continue;
        for (const ValueIndex part : parts) add_once(tape_.backward.front().reads, part);
        continue;
      }
      if (!needed_[sum] || materialized_[sum] || (!needed_[parts[0]] && !needed_[parts[1]]))
        continue;
      for (const ValueIndex part : parts) needed_[part] = true;
      for (TapeOp& reader : tape_.backward) replace(reader, sum, parts);
    }
  }

  void replace(TapeOp& reader, ValueIndex sum, const std::vector<ValueIndex>& parts) const {
    const auto count = std::erase_if(reader.reads, [&](ValueIndex v) { return root(v) == sum; });
    if (count == 0) return;
    for (const ValueIndex part : parts) add_once(reader.reads, part);
    reader.own_reads = static_cast<std::uint32_t>(reader.reads.size());
  }

  // --- fusion ---

  static bool has(const std::vector<ValueIndex>& list, ValueIndex value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  }

  std::vector<ValueIndex> roots(const std::vector<ValueIndex>& values) const {
    std::vector<ValueIndex> result;
    for (const ValueIndex value : values) result.push_back(root(value));
    return result;
  }

  /// Must `later` stay behind `op`?
  bool depends(const TapeOp& later, const TapeOp& op) const {
    const auto reads = roots(op.reads);
    const auto updates = roots(op.updates);
    const auto writes = roots(op.writes);
    for (const ValueIndex value : roots(later.reads))
      if (has(writes, value) || has(updates, value)) return true;
    for (const auto* list : {&later.updates, &later.writes})
      for (const ValueIndex value : roots(*list))
        if (has(reads, value) || has(writes, value) || has(updates, value)) return true;
    return false;
  }

  /// Moves fusible ops down to the first op that depends on them, where that is fusible too.
  void sink(std::vector<TapeOp>& ops) const {
    for (std::size_t i = ops.size(); i-- > 0;) {
      if (!is_fusible(ops[i])) continue;
      std::size_t next = i + 1;
      while (next < ops.size() && !depends(ops[next], ops[i])) ++next;
      if (next == ops.size() || next == i + 1 || !is_fusible(ops[next])) continue;
      std::rotate(ops.begin() + static_cast<std::ptrdiff_t>(i),
                  ops.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                  ops.begin() + static_cast<std::ptrdiff_t>(next));
    }
  }

  /// Moves fusible ops that are not beside their reader up to the last op that they depend on,
  /// where that is fusible too.
  void rise(std::vector<TapeOp>& ops) const {
    for (std::size_t i = 1; i < ops.size(); ++i) {
      if (!is_fusible(ops[i])) continue;
      if (i + 1 < ops.size() && is_fusible(ops[i + 1]) && depends(ops[i + 1], ops[i])) continue;
      std::size_t to = i;
      while (to > 0 && !depends(ops[i], ops[to - 1])) --to;
      if (to == 0 || to == i || !is_fusible(ops[to - 1])) continue;
      std::rotate(ops.begin() + static_cast<std::ptrdiff_t>(to),
                  ops.begin() + static_cast<std::ptrdiff_t>(i),
                  ops.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }

  /// Does anyone outside [first, end) of `ops` read the value?
  bool is_wanted(ValueIndex value, const std::vector<TapeOp>& ops, std::size_t end,
                 bool is_forward) const {
    const ValueKind kind = tape_.values[value].kind;
    if (kind == ValueKind::parameter_grad || value == root(tape_.output)) return true;
    if (!is_forward && tape_.has_input_grad && value == root(tape_.input_grad)) return true;
    const auto touches = [&](const TapeOp& op) {
      for (const auto* list : {&op.reads, &op.updates, &op.writes})
        for (const ValueIndex other : *list)
          if (root(other) == value) return true;
      return false;
    };
    for (std::size_t i = end; i < ops.size(); ++i)
      if (touches(ops[i])) return true;
    if (!is_forward) return false;
    for (const ValueIndex held : tape_.held)
      if (root(held) == value) return true;
    return std::any_of(tape_.backward.begin(), tape_.backward.end(), touches);
  }

  /// The type of the arithmetic of [first, end), and how much of it. Doubles are so much slower
  /// that all else beside them is none.
  static void add_arithmetic(const std::vector<TapeOp>& ops, std::size_t first, std::size_t end,
                             Cost& cost) {
    cost.dtype = ops[first].cost.dtype;
    for (std::size_t i = first; i < end; ++i)
      if (ops[i].cost.dtype == DType::f64) cost.dtype = DType::f64;
    for (std::size_t i = first; i < end; ++i)
      if (cost.dtype != DType::f64 || ops[i].cost.dtype == DType::f64)
        cost.flops += ops[i].cost.flops;
  }

  TapeOp fused(const std::vector<TapeOp>& ops, std::size_t first, std::size_t end,
               bool is_forward) const {
    TapeOp op;
    op.scope = ops[first].scope;
    op.cost.kind = OpKind::fused;
    add_arithmetic(ops, first, end, op.cost);
    std::vector<ValueIndex> made;
    bool sums_rows = false;
    for (std::size_t i = first; i < end; ++i) {
      for (const ValueIndex read : ops[i].reads)
        if (std::find(made.begin(), made.end(), root(read)) == made.end())
          add_once(op.reads, root(read));
      for (const ValueIndex value : ops[i].updates)
        if (std::find(made.begin(), made.end(), root(value)) == made.end())
          add_once(op.updates, root(value));
      for (const ValueIndex value : ops[i].writes) add_once(made, root(value));
    }
    for (const ValueIndex value : made) {
      if (std::find(op.updates.begin(), op.updates.end(), value) != op.updates.end()) continue;
      if (!is_wanted(value, ops, end, is_forward)) continue;
      op.writes.push_back(value);
      sums_rows = sums_rows || tape_.values[value].kind == ValueKind::parameter_grad;
    }
    // Updated values count as read already.
    std::erase_if(op.reads, [&](ValueIndex value) {
      return std::find(op.updates.begin(), op.updates.end(), value) != op.updates.end();
    });
    for (const ValueIndex value : op.reads) op.cost.bytes_read += tape_.values[value].bytes;
    for (const ValueIndex value : op.writes) op.cost.bytes_written += tape_.values[value].bytes;
    for (const ValueIndex value : op.updates) {
      op.cost.bytes_read += tape_.values[value].bytes;
      op.cost.bytes_written += tape_.values[value].bytes;
    }
    op.cost.kernels = sums_rows ? 2 : 1;
    op.host_ops = op.cost.kernels;
    op.own_reads = static_cast<std::uint32_t>(op.reads.size());
    return op;
  }

  /// Does `later` read what an op of [first, end) sums up over rows?
  bool waits(const TapeOp& later, const std::vector<TapeOp>& ops, std::size_t first,
             std::size_t end) const {
    const auto reads = roots(later.reads);
    for (std::size_t i = first; i < end; ++i)
      if (ops[i].crosses_rows && has(reads, root(ops[i].writes[0]))) return true;
    return false;
  }

  void fuse(std::vector<TapeOp>& ops, bool is_forward) {
    std::vector<TapeOp> result;
    for (std::size_t i = 0; i < ops.size();) {
      std::size_t end = i;
      while (end < ops.size() && is_fusible(ops[end]) && !waits(ops[end], ops, i, end)) ++end;
      if (end <= i + 1) {
        result.push_back(ops[i]);
        ++i;
        continue;
      }
      TapeOp op = fused(ops, i, end, is_forward);
      if (!op.writes.empty() || !op.updates.empty()) result.push_back(std::move(op));
      i = end;
    }
    ops = std::move(result);
  }

  Tape& tape_;
  Partition partition_;
  TapePart part_;
  std::vector<std::uint32_t> producer_;           // by root: forward op
  std::vector<bool> needed_;                      // by root: saved, unless again_
  std::vector<bool> materialized_;                // by root: read by a matmul or so of backward
  std::vector<std::optional<ValueIndex>> again_;  // by root: recomputed in backward
  std::vector<std::optional<ValueIndex>> made_;   // by root: what stands for it
  std::vector<std::pair<ValueIndex, ValueIndex>> logits_of_;  // log probabilities, logits
};

}  // namespace

void compile_tape(Tape& tape, Partition partition) {
  Compiler(tape, partition).run();
  tape.is_compiled = true;
}

void compile_scope(Tape& tape, std::string_view scope) {
  const auto found = std::find(tape.scopes.begin(), tape.scopes.end(), scope);
  if (found == tape.scopes.end()) return;
  const TapePart part{static_cast<std::uint32_t>(found - tape.scopes.begin())};
  Compiler(tape, Partition::min_cut, part).run();
}

void compile_rest(Tape& tape, std::string_view scope) {
  const auto found = std::find(tape.scopes.begin(), tape.scopes.end(), scope);
  if (found == tape.scopes.end()) return compile_tape(tape);
  const TapePart part{static_cast<std::uint32_t>(found - tape.scopes.begin()), true};
  Compiler(tape, Partition::min_cut, part).run();
  tape.is_compiled = true;
}

}  // namespace foregather::plan
