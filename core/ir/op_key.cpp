#include "core/ir/op_key.h"

#include <fmt/format.h>

#include <algorithm>
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

// The same for keys that nearly all exist: one counter for each possible key.
class DenseCounter {
 public:
  static constexpr std::size_t kPhases = static_cast<std::size_t>(Phase::other) + 1;
  static constexpr std::size_t kKinds = static_cast<std::size_t>(OpKind::other) + 1;

  static std::size_t keys(std::size_t scopes, std::size_t micro_batches) {
    return (scopes + 1) * micro_batches * kPhases * kKinds;
  }
  DenseCounter(std::size_t scopes, std::size_t micro_batches)
      : scopes_(scopes + 1), counts_(keys(scopes, micro_batches)) {}

  std::uint32_t next(const Op& op) {
    const std::size_t scope = op.scope ? op.scope.row() + 1 : 0;
    return counts_[((op.micro_batch * scopes_ + scope) * kPhases +
                    static_cast<std::size_t>(op.phase)) *
                       kKinds +
                   static_cast<std::size_t>(op.kind)]++;
  }

 private:
  std::size_t scopes_;
  std::vector<std::uint32_t> counts_;
};

}  // namespace

void assign_ordinals(Graph& graph) {
  for (const Program& program : graph.programs) {
    const auto ops = std::span(graph.ops).subspan(program.ops.first, program.ops.count);
    std::size_t micro_batches = 1;
    for (const Op& op : ops)
      micro_batches = std::max<std::size_t>(micro_batches, op.micro_batch + 1U);
    constexpr std::size_t kMostKeysAnOp = 16;
    if (DenseCounter::keys(graph.scopes.size(), micro_batches) <= kMostKeysAnOp * ops.size()) {
      DenseCounter counter(graph.scopes.size(), micro_batches);
      for (Op& op : ops) op.ordinal = counter.next(op);
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
