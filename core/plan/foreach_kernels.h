// How many kernels one multi-tensor ("foreach") framework op launches.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace foregather::plan {

/// PyTorch's multi_tensor_apply (ATen/native/cuda/MultiTensorApply.cuh) packs into one launch at
/// most kTensors[lists − 1] tensors of each list and 320 chunks of 65,536 elements. Counted as if
/// the elements were spread evenly; at most 255.
inline std::uint8_t foreach_kernels(std::size_t lists, std::size_t tensors, std::int64_t elements) {
  constexpr std::array<std::size_t, 5> kTensors{110, 64, 48, 36, 30};
  constexpr std::int64_t kElements = std::int64_t{320} * 65'536;
  const std::size_t most = kTensors[std::min<std::size_t>(lists, kTensors.size()) - 1];
  const auto by_tensors = static_cast<std::int64_t>((tensors + most - 1) / most);
  const std::int64_t by_elements = (elements + kElements - 1) / kElements;
  return static_cast<std::uint8_t>(
      std::clamp<std::int64_t>(std::max(by_tensors, by_elements), 1, 255));
}

}  // namespace foregather::plan
