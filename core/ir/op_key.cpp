#include "core/ir/op_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <vector>

namespace foregather {
namespace {

// Open-addressing counter of 64-bit keys, sized once.
class KeyCounter {
 public:
  explicit KeyCounter(std::size_t keys)
      : mask_(std::bit_ceil(2 * keys + 1) - 1), slots_(mask_ + 1) {}

  std::uint32_t next(std::uint64_t key) {
    std::size_t at = (key * 0x9E3779B97F4A7C15U) >> 20;
    while (slots_[at & mask_].used && slots_[at & mask_].key != key) ++at;
    Slot& slot = slots_[at & mask_];
    slot.key = key;
    slot.used = true;
    return slot.count++;
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t count = 0;
    bool used = false;
  };
  std::size_t mask_;
  std::vector<Slot> slots_;
};

std::uint64_t packed_key(const Op& op) {
  return (std::uint64_t{op.scope.row()} << 32) | (std::uint64_t{op.micro_batch} << 16) |
         (static_cast<std::uint64_t>(op.phase) << 8) | static_cast<std::uint64_t>(op.kind);
}

// The same for keys that nearly all exist: a counter for each scope, micro-batch and pair of phase
// and kind that occurs.
class DenseCounter {
 public:
  DenseCounter(std::span<const Op> ops, std::size_t scopes) : scopes_(scopes + 1) {
    for (const Op& op : ops) {
      micro_batches_ = std::max<std::size_t>(micro_batches_, op.micro_batch + 1U);
      std::uint32_t& pair = pairs_[pair_of(op)];
      if (pair == 0) pair = ++pair_count_;
    }
  }
  std::size_t keys() const { return scopes_ * micro_batches_ * pair_count_; }
  void count(std::span<Op> ops) const {
    std::vector<std::uint32_t> counts(keys());
    for (Op& op : ops) {
      const std::size_t scope = op.scope ? op.scope.row() + 1 : 0;
      op.ordinal =
          counts[(op.micro_batch * scopes_ + scope) * pair_count_ + pairs_[pair_of(op)] - 1]++;
    }
  }

 private:
  static constexpr std::size_t kPhases = static_cast<std::size_t>(Phase::other) + 1;
  static constexpr std::size_t kKinds = static_cast<std::size_t>(kLastOpKind) + 1;

  static std::size_t pair_of(const Op& op) {
    return static_cast<std::size_t>(op.phase) * kKinds + static_cast<std::size_t>(op.kind);
  }

  std::size_t scopes_;
  std::size_t micro_batches_ = 1;
  std::array<std::uint32_t, kPhases * kKinds> pairs_{};  ///< counted from 1; 0: does not occur
  std::uint32_t pair_count_ = 0;
};

}  // namespace

void assign_ordinals(Graph& graph) {
  for (const Program& program : graph.programs) {
    const auto ops = std::span(graph.ops).subspan(program.ops.first, program.ops.count);
    constexpr std::size_t kMostKeysAnOp = 16;
    const DenseCounter dense(ops, graph.scopes.size());
    if (dense.keys() <= kMostKeysAnOp * ops.size()) {
      dense.count(ops);
    } else {
      KeyCounter counter(ops.size());
      for (Op& op : ops) op.ordinal = counter.next(packed_key(op));
    }
  }
}

std::string op_key(const Graph& graph, OpId id, std::uint32_t rank, std::uint32_t step) {
  const Op& op = graph.at(id);
  const std::string_view scope = graph.scope_name(op.scope);
  std::string key =
      fmt::format("r{}/s{}/m{}/{}/{}/{}/{}", rank, step, op.micro_batch,
                  scope.empty() ? "-" : scope, name(op.phase), name(op.kind), op.ordinal);
  if (op.communicator)
    key += fmt::format("@{}#{}", graph.text(graph.at(op.communicator).name), op.sequence);
  return key;
}

}  // namespace foregather
