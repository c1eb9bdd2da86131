// The gradient of a parameter that several places use, as a tied embedding.
#pragma once

#include <optional>
#include <vector>

#include "core/plan/lowering.h"

namespace foregather::plan {

/// Autograd keeps the shares of such a gradient until the last one is there, and only then hands
/// their sum on. It adds in place, unless the first share is what a linear made of its product's
/// transpose (torch/csrc/autograd/input_buffer.cpp, can_accumulate_inplace): then into a new tensor
/// beside both (PyTorch 2.15: aten::add, where an embedding's share, or one that is cast, comes
/// first: aten::add_). A compiler's graph adds in place.
class TiedGradients {
 public:
  explicit TiedGradients(Lowering& lowering);

  /// Is the sum of this parameter's shares a tensor of its own? By row of ShardLayout::parameters.
  bool makes_sum(std::uint32_t row) const { return rows_[row].makes_sum; }
  bool has_shares(std::uint32_t row) const { return rows_[row].shares > 1; }
  /// Has a share of it come, and not yet the last one?
  bool is_waiting(std::uint32_t row) const { return rows_[row].arrived > 0; }

  /// One more share. The gradient, once it is whole; then `sum`, if there is one, in place of a
  /// buffer of ours. A share that was `cast` is added to in place.
  std::optional<Buffer> take(std::uint32_t row, const Buffer& share, const Owner& owner,
                             bool was_cast = false, const Buffer* sum = nullptr);

 private:
  struct Row {
    std::uint32_t shares = 0;  ///< places that give a gradient
    bool makes_sum = false;
    Buffer sum;  ///< made when it is needed
    // State.
    std::uint32_t arrived = 0;
    bool adds_in_place = false;
    Buffer held;  ///< the sum of what arrived
  };

  void add(Row& row, const Buffer& share, const Owner& owner, const Buffer* sum);

  Lowering& lowering_;
  std::vector<Row> rows_;
  std::vector<AccessedTensor> scratch_;
};

}  // namespace foregather::plan
