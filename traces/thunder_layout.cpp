#include "traces/thunder_layout.h"

#include <algorithm>

namespace foregather::traces {
namespace {

using Dims = std::vector<std::int64_t>;

// As PyTorch's computeStride: runs of dimensions that lie in one piece can be split and merged.
std::optional<Dims> reshaped_strides(const ThunderLayout& from, const Dims& to) {
  if (elements(to) == 0 || elements(from.dims) == 0) return ThunderLayout::dense(to).strides;
  Dims strides(to.size(), 1);
  std::ptrdiff_t at = static_cast<std::ptrdiff_t>(to.size()) - 1;
  std::int64_t base = from.strides.empty() ? 1 : from.strides.back();
  std::int64_t run = 1, filled = 1;
  for (std::ptrdiff_t i = static_cast<std::ptrdiff_t>(from.dims.size()) - 1; i >= 0; --i) {
    const auto row = static_cast<std::size_t>(i);
    run *= from.dims[row];
    const bool ends = i == 0 || (from.dims[row - 1] != 1 && from.strides[row - 1] != run * base);
    if (!ends) continue;
    while (at >= 0 && (filled < run || to[static_cast<std::size_t>(at)] == 1)) {
      strides[static_cast<std::size_t>(at)] = filled * base;
      filled *= to[static_cast<std::size_t>(at)];
      --at;
    }
    if (filled != run) return std::nullopt;
    if (i > 0) {
      base = from.strides[row - 1];
      run = filled = 1;
    }
  }
  if (at >= 0) return std::nullopt;
  return strides;
}

ThunderLayout opaque(Dims dims) {
  ThunderLayout layout = ThunderLayout::dense(std::move(dims));
  layout.is_opaque = true;
  return layout;
}

ThunderLayout expanded(const ThunderLayout& from, Dims dims) {
  ThunderLayout layout;
  layout.offset = from.offset;
  layout.strides.assign(dims.size(), 0);
  for (std::size_t i = 0; i < from.dims.size(); ++i) {
    const std::size_t at = dims.size() - from.dims.size() + i;
    if (from.dims[i] == dims[at]) layout.strides[at] = from.strides[i];
  }
  layout.dims = std::move(dims);
  return layout;
}

std::optional<ThunderLayout> sliced(const ThunderLayout& from, const ThunderCall& call, Dims dims) {
  const auto first = integers_of(call.at(1)), step = integers_of(call.at(3));
  if (!first || first->size() != dims.size()) return std::nullopt;
  ThunderLayout layout = from;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if ((*first)[i] < 0 || (*first)[i] > from.dims[i]) return std::nullopt;
    layout.offset += (*first)[i] * from.strides[i];
    if (step && i < step->size() && (*step)[i] > 0 && (*step)[i] <= from.dims[i])
      layout.strides[i] *= (*step)[i];
  }
  layout.dims = std::move(dims);
  return layout;
}

}  // namespace

ThunderLayout ThunderLayout::dense(Dims dims) {
  ThunderLayout layout;
  layout.strides.assign(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;)
    layout.strides[i - 1] = layout.strides[i] * std::max<std::int64_t>(dims[i], 1);
  layout.dims = std::move(dims);
  return layout;
}

bool ThunderLayout::is_dense() const {
  if (is_opaque) return false;
  std::int64_t expected = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= std::max<std::int64_t>(dims[i], 1);
  }
  return true;
}

std::optional<ThunderLayout> view_of(const ThunderLayout& from, ThunderShape shape,
                                     const ThunderCall& call, Dims dims, std::int64_t start) {
  if (from.is_opaque) return opaque(std::move(dims));
  const std::size_t rank = from.dims.size();
  switch (shape) {
    case ThunderShape::like:
      if (last_component(call.callee()) == "contiguous" && !from.is_dense()) return std::nullopt;
      return dims == from.dims ? from : opaque(std::move(dims));
    case ThunderShape::reshape:
    case ThunderShape::unsqueeze:
    case ThunderShape::squeeze: {
      if (elements(dims) != elements(from.dims)) return opaque(std::move(dims));
      auto strides = reshaped_strides(from, dims);
      if (!strides) return std::nullopt;
      ThunderLayout layout;
      layout.dims = std::move(dims);
      layout.strides = std::move(*strides);
      layout.offset = from.offset;
      return layout;
    }
    case ThunderShape::permute:
    case ThunderShape::transpose: {
      const auto order = permutation(call, rank);
      if (!order || dims.size() != rank) return opaque(std::move(dims));
      ThunderLayout layout;
      layout.offset = from.offset;
      for (const std::size_t i : *order) layout.strides.push_back(from.strides[i]);
      layout.dims = std::move(dims);
      return layout;
    }
    case ThunderShape::expand:
      if (dims.size() < rank) return opaque(std::move(dims));
      return expanded(from, std::move(dims));
    case ThunderShape::slice: {
      if (dims.size() != rank) return opaque(std::move(dims));
      Dims copy = dims;
      auto layout = sliced(from, call, std::move(dims));
      return layout ? std::move(*layout) : opaque(std::move(copy));
    }
    case ThunderShape::split: {
      const auto at = dimension(integer_of(call.at(2, "dim")).value_or(0), rank);
      if (!at || dims.size() != rank) return opaque(std::move(dims));
      ThunderLayout layout = from;
      layout.offset += start * from.strides[*at];
      layout.dims = std::move(dims);
      return layout;
    }
    default: return opaque(std::move(dims));
  }
}

}  // namespace foregather::traces
