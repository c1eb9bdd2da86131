#include "core/plan/gradient_clip.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <vector>

#include "core/plan/foreach_kernels.h"

namespace foregather::plan {

namespace {

class ClipWriter {
 public:
  ClipWriter(Lowering& lowering, std::span<const OptimizedTensor> tensors, bool by_tensor)
      : lowering_(lowering), tensors_(tensors), by_tensor_(by_tensor) {
    for (const OptimizedTensor& tensor : tensors) elements_ += tensor.elements;
  }

  void write(std::span<const CommunicatorId> communicators) {
    assert(!tensors_.empty());  // of FSDP1's ranks the one whose optimizer holds most is lowered
    const auto count = static_cast<std::int64_t>(tensors_.size());
    const Buffer norms = scratch(count, "gradient norms");
    const Buffer total = scratch(1, "gradient norm");
    const Buffer factor = scratch(1, "clipping factor");
    lowering_.alloc(norms, lowering_.compute);
    over_gradients(OpKind::reduction, Access::read, writes(norms));
    // FSDP2's norms are partial DTensors: they are summed before they become one. FSDP1 sums its
    // own.
    if (!by_tensor_)
      for (const CommunicatorId communicator : communicators) all_reduce(norms, communicator);
    lowering_.alloc(total, lowering_.compute);
    small(OpKind::reduction, reads(norms), writes(total));
    if (by_tensor_)
      for (const CommunicatorId communicator : communicators) all_reduce(total, communicator);
    lowering_.alloc(factor, lowering_.compute);
    small(OpKind::elementwise, reads(total), writes(factor));
    over_gradients(OpKind::elementwise, Access::accumulate, reads(factor));
    for (const Buffer& buffer : {norms, total, factor}) lowering_.free(buffer);
  }

 private:
  Buffer scratch(std::int64_t elements, std::string_view name) {
    return lowering_.buffer(elements, DType::f32, name, Cause::temporary, lowering_.root);
  }

  void over_gradients(OpKind kind, Access mode, const AccessedTensor& other) {
    const DType type = trained_type(lowering_.workload.train);
    std::vector<AccessedTensor> accesses;
    for (const OptimizedTensor& tensor : tensors_) {
      const Bytes bytes = tensor.elements * size_of(type);
      // Neighbours in one buffer are one access.
      if (!accesses.empty() && accesses.back().tensor == tensor.gradient.tensor &&
          accesses.back().offset + accesses.back().bytes == tensor.gradient_offset)
        accesses.back().bytes += bytes;
      else
        accesses.push_back({tensor.gradient.tensor, mode, tensor.gradient_offset, bytes});
    }
    accesses.push_back(other);
    Cost cost;
    cost.kind = kind;
    cost.dtype = type;
    cost.flops = 2 * elements_;
    cost.bytes_read = elements_ * size_of(type);
    cost.bytes_written = mode == Access::read ? other.bytes : cost.bytes_read;
    // Lists cost the host more than one op does: measured (host_overhead.h).
    constexpr std::size_t kTensorsAnOp = 2;
    const auto tensors = tensors_.size();
    cost.kernels =
        by_tensor_ ? kernel_count(std::ssize(tensors_)) : foreach_kernels(1, tensors, elements_);
    cost.host_ops =
        by_tensor_ ? static_cast<std::uint16_t>(
                         std::min<std::size_t>(tensors, std::numeric_limits<std::uint16_t>::max()))
                   : static_cast<std::uint16_t>(std::min<std::size_t>(
                         1 + tensors / kTensorsAnOp, std::numeric_limits<std::uint16_t>::max()));
    launch(kind, cost, accesses);
  }

  void small(OpKind kind, const AccessedTensor& from, const AccessedTensor& to) {
    Cost cost;
    cost.kind = kind;
    cost.bytes_read = from.bytes;
    cost.bytes_written = to.bytes;
    launch(kind, cost, std::vector{from, to});
  }

  void all_reduce(const Buffer& sum, CommunicatorId communicator) {
    const GroupId group = lowering_.builder.graph().at(communicator).group;
    const std::vector accesses{updates(sum)};
    lowering_.launch(
        {OpKind::all_reduce, Role::clip, lowering_.compute,
         lowering_.collective_cost(OpKind::all_reduce, DType::f32, sum.bytes, group), communicator},
        lowering_.root, accesses);
  }

  void launch(OpKind kind, const Cost& cost, std::span<const AccessedTensor> accesses) {
    lowering_.launch({kind, Role::clip, lowering_.compute, lowering_.builder.cost(cost), {}},
                     lowering_.root, accesses);
  }

  Lowering& lowering_;
  std::span<const OptimizedTensor> tensors_;
  bool by_tensor_;
  std::int64_t elements_ = 0;
};

}  // namespace

void write_gradient_clip(Lowering& lowering, std::span<const OptimizedTensor> tensors,
                         std::span<const CommunicatorId> communicators, bool by_tensor) {
  ClipWriter(lowering, tensors, by_tensor).write(communicators);
}

}  // namespace foregather::plan
