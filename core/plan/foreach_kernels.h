// How many kernels one multi-tensor ("foreach") framework op launches.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace foregather::plan {

/// Launches as a cost has them, where an op stands for at least one.
inline std::uint16_t kernel_count(std::int64_t launches) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint16_t>::max();
  return static_cast<std::uint16_t>(std::clamp<std::int64_t>(launches, 1, kMost));
}

/// PyTorch's multi_tensor_apply (ATen/native/cuda/MultiTensorApply.cuh) packs into one launch at
/// most kTensors[lists − 1] tensors of each list and 320 chunks of 65,536 elements. Counted as if
/// the elements were spread evenly; at most 65,535.
inline std::uint16_t foreach_kernels(std::size_t lists, std::size_t tensors,
                                     std::int64_t elements) {
  constexpr std::array<std::size_t, 5> kTensors{110, 64, 48, 36, 30};
  constexpr std::int64_t kElements = std::int64_t{320} * 65'536;
  const std::size_t most = kTensors[std::min<std::size_t>(lists, kTensors.size()) - 1];
  const auto by_tensors = static_cast<std::int64_t>((tensors + most - 1) / most);
  const std::int64_t by_elements = (elements + kElements - 1) / kElements;
  return kernel_count(std::max(by_tensors, by_elements));
}

}  // namespace foregather::plan
