#include "core/plan/common_values.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/plan/checkpoint.h"

namespace foregather::plan {

namespace {

class Sharing {
 public:
  Sharing(Tape& tape, const TapePart& part) : tape_(tape), part_(part) {
    updated_.resize(tape.values.size(), false);
    first_.resize(tape.values.size());
    for (ValueIndex value = 0; value < first_.size(); ++value) first_[value] = value;
    for (const auto* ops : {&tape.forward, &tape.backward})
      for (const TapeOp& op : *ops)
        for (const ValueIndex value : op.updates) updated_[root(value)] = true;
  }

  void run() {
    share(tape_.forward);
    share(tape_.backward);
  }

 private:
  ValueIndex root(ValueIndex value) const { return storage_of(tape_, value); }

  std::vector<ValueIndex> roots(const std::vector<ValueIndex>& values) const {
    std::vector<ValueIndex> result;
    for (const ValueIndex value : values) result.push_back(root(value));
    return result;
  }

  bool is_shareable(const TapeOp& op) const {
    const OpKind kind = op.cost.kind;
    if (kind != OpKind::cast && kind != OpKind::copy && kind != OpKind::reduction) return false;
    if (!part_.has(op)) return false;
    if (!op.updates.empty() || op.writes.size() != 1 || op.reads.empty()) return false;
    const ValueIndex made = root(op.writes[0]);
    return tape_.values[made].kind == ValueKind::temporary && !updated_[made] &&
           std::ranges::none_of(roots(op.reads), [&](ValueIndex v) { return updated_[v]; });
  }

  bool is_same(const TapeOp& a, const TapeOp& b) const {
    const Value& of_a = tape_.values[root(a.writes[0])];
    const Value& of_b = tape_.values[root(b.writes[0])];
    return a.cost.kind == b.cost.kind && a.crosses_rows == b.crosses_rows &&
           of_a.bytes == of_b.bytes && of_a.dtype == of_b.dtype && roots(a.reads) == roots(b.reads);
  }

  void share(std::vector<TapeOp>& ops) {
    std::vector<TapeOp> kept;
    std::vector<std::size_t> shareable;
    for (TapeOp& op : ops) {
      for (ValueIndex& read : op.reads)
        if (const ValueIndex at = root(read); first_[at] != at) read = first_[at];
      if (is_shareable(op)) {
        const auto same = std::ranges::find_if(
            shareable, [&](std::size_t other) { return is_same(kept[other], op); });
        if (same != shareable.end()) {
          first_[root(op.writes[0])] = root(kept[*same].writes[0]);
          continue;
        }
        shareable.push_back(kept.size());
      }
      kept.push_back(std::move(op));
    }
    ops = std::move(kept);
  }

  Tape& tape_;
  TapePart part_;
  std::vector<bool> updated_;      // by root
  std::vector<ValueIndex> first_;  // by root: what stands for it, or itself
};

}  // namespace

void share_common_values(Tape& tape, const TapePart& part) { Sharing(tape, part).run(); }

}  // namespace foregather::plan
