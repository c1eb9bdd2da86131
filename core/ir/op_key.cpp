#include "core/ir/op_key.h"

#include <fmt/format.h>

#include <bit>
#include <vector>

namespace foregather {
namespace {

// Open-addressing counter of 64-bit keys, sized once.
class KeyCounter {
 public:
  explicit KeyCounter(std::size_t keys)
      : mask_(std::bit_ceil(2 * keys + 1) - 1), slots_(mask_ + 1) {}

  std::uint16_t next(std::uint64_t key) {
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
    std::uint16_t count = 0;
    bool used = false;
  };
  std::size_t mask_;
  std::vector<Slot> slots_;
};

std::uint64_t packed_key(const Op& op) {
  return (std::uint64_t{op.scope.row()} << 32) | (std::uint64_t{op.micro_batch} << 16) |
         (static_cast<std::uint64_t>(op.phase) << 8) | static_cast<std::uint64_t>(op.kind);
}

}  // namespace

void assign_ordinals(Graph& graph) {
  for (const Program& program : graph.programs) {
    KeyCounter counter(program.ops.count);
    for (std::uint32_t row = program.ops.first; row < program.ops.end(); ++row)
      graph.ops[row].ordinal = counter.next(packed_key(graph.ops[row]));
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
