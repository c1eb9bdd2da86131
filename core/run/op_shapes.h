// The arguments of a framework's operator, as its profiler prints them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/ir/kinds.h"

namespace foregather::run {

/// A tensor among the arguments.
struct ShapedArgument {
  std::size_t position = 0;  ///< among the arguments, from 0; tensors of one list share theirs
  std::vector<std::int64_t> sizes;
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  Bytes bytes() const { return elements * size_of(dtype); }
};

/// The tensors of "Input Dims" and "Input type" (torch.profiler with record_shapes): texts of two
/// JSON lists with an entry an argument. Scalars, absent tensors and types that are none of ours
/// are left out, and so is a tensor of more than 2^50 elements. A text that is no such list gives
/// nothing. A list of tensors has no type; its tensors count as f32.
std::vector<ShapedArgument> shaped_arguments(std::string_view shapes, std::string_view types);

/// "c10::BFloat16", "float", as torch.profiler prints types.
std::optional<DType> scalar_dtype(std::string_view type);

}  // namespace foregather::run
