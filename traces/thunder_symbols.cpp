#include "traces/thunder_symbols.h"

#include <algorithm>
#include <array>
#include <utility>

#include "traces/thunder.h"
#include "traces/thunder_facts.h"

namespace foregather::traces {
namespace {

using Act = ThunderAct;
using Shape = ThunderShape;

struct Row {
  std::string_view name;
  Act act;
  Shape shape;
  OpKind kind;
};

// Sorted by name.
constexpr std::array kSymbols{
    Row{"__get_item__", Act::view, Shape::unknown, OpKind::copy},
    Row{"_softmax", Act::compute, Shape::like, OpKind::softmax},
    Row{"abs", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"acos", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"add", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"addcdiv", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"addcmul", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"addmm", Act::compute, Shape::unknown, OpKind::gemm},
    Row{"alias", Act::view, Shape::like, OpKind::copy},
    Row{"all_gather", Act::collective, Shape::collective, OpKind::all_gather},
    Row{"all_reduce", Act::collective, Shape::collective, OpKind::all_reduce},
    Row{"amax", Act::compute, Shape::reduce, OpKind::reduction},
    Row{"amin", Act::compute, Shape::reduce, OpKind::reduction},
    Row{"any", Act::compute, Shape::unknown, OpKind::reduction},
    Row{"arange", Act::compute, Shape::unknown, OpKind::fill},
    Row{"argmax", Act::compute, Shape::unknown, OpKind::reduction},
    Row{"asin", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"atan", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"atan2", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"baddbmm", Act::compute, Shape::unknown, OpKind::gemm},
    Row{"bitwise_and", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"bitwise_left_shift", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"bitwise_not", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"bitwise_or", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"bitwise_right_shift", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"bitwise_xor", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"bmm", Act::compute, Shape::matmul, OpKind::gemm},
    Row{"broadcast", Act::collective, Shape::collective, OpKind::broadcast},
    Row{"broadcast_in_dim", Act::view, Shape::broadcast_in_dim, OpKind::copy},
    Row{"cat", Act::compute, Shape::cat, OpKind::copy},
    Row{"ceil", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"chunk", Act::view, Shape::split, OpKind::copy},
    Row{"clamp", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"clear_collection", Act::clear, Shape::unknown, OpKind::other},
    Row{"clear_mutable_collection", Act::clear, Shape::unknown, OpKind::other},
    Row{"clone", Act::compute, Shape::like, OpKind::copy},
    Row{"clone_like", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"contiguous", Act::view, Shape::like, OpKind::copy},
    Row{"convert_element_type", Act::compute, Shape::convert, OpKind::cast},
    Row{"convolution", Act::compute, Shape::unknown, OpKind::gemm},
    Row{"copy_", Act::same, Shape::like, OpKind::copy},
    Row{"copy_with_setitem", Act::compute, Shape::like, OpKind::copy},
    Row{"copysign", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"cos", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"cosh", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"cross_entropy", Act::compute, Shape::unknown, OpKind::cross_entropy},
    Row{"cumsum", Act::compute, Shape::like, OpKind::reduction},
    Row{"detach", Act::view, Shape::like, OpKind::copy},
    Row{"digamma", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"dim", Act::none, Shape::unknown, OpKind::other},
    Row{"div", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"dropout", Act::compute, Shape::like, OpKind::elementwise},
    Row{"elu", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"embedding", Act::compute, Shape::embedding, OpKind::embedding},
    Row{"embedding_backward", Act::compute, Shape::unknown, OpKind::embedding},
    Row{"empty", Act::compute, Shape::make, OpKind::fill},
    Row{"eq", Act::compute, Shape::comparison, OpKind::elementwise},
    Row{"erf", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"erfc", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"erfinv", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"exp", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"exp2", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"expand", Act::view, Shape::expand, OpKind::copy},
    Row{"expm1", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"flatten", Act::view, Shape::unknown, OpKind::copy},
    Row{"flip", Act::compute, Shape::like, OpKind::copy},
    Row{"float_pow", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"floor", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"floor_divide", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"fmod", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"full", Act::compute, Shape::make, OpKind::fill},
    Row{"full_like", Act::compute, Shape::like, OpKind::fill},
    Row{"gather", Act::compute, Shape::unknown, OpKind::embedding},
    Row{"ge", Act::compute, Shape::comparison, OpKind::elementwise},
    Row{"gelu", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"get_compute_type", Act::none, Shape::unknown, OpKind::other},
    Row{"getitem", Act::view, Shape::unknown, OpKind::copy},
    Row{"grouped_mm", Act::compute, Shape::unknown, OpKind::gemm},
    Row{"gt", Act::compute, Shape::comparison, OpKind::elementwise},
    Row{"hardswish", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"hardtanh", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"imag", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"index_add", Act::compute, Shape::like, OpKind::embedding},
    Row{"index_put", Act::compute, Shape::like, OpKind::embedding},
    Row{"iota", Act::compute, Shape::unknown, OpKind::fill},
    Row{"isfinite", Act::compute, Shape::comparison, OpKind::elementwise},
    Row{"isinf", Act::compute, Shape::comparison, OpKind::elementwise},
    Row{"isnan", Act::compute, Shape::comparison, OpKind::elementwise},
    Row{"item", Act::none, Shape::unknown, OpKind::other},
    Row{"layer_norm", Act::compute, Shape::like, OpKind::norm},
    Row{"le", Act::compute, Shape::comparison, OpKind::elementwise},
    Row{"leaky_relu", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"lerp", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"lgamma", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"linear", Act::compute, Shape::linear, OpKind::gemm},
    Row{"log", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"log1p", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"log2", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"log_softmax", Act::compute, Shape::like, OpKind::softmax},
    Row{"logical_and", Act::compute, Shape::comparison, OpKind::elementwise},
    Row{"logical_not", Act::compute, Shape::comparison, OpKind::elementwise},
    Row{"logical_or", Act::compute, Shape::comparison, OpKind::elementwise},
    Row{"logical_xor", Act::compute, Shape::comparison, OpKind::elementwise},
    Row{"logsigmoid", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"lt", Act::compute, Shape::comparison, OpKind::elementwise},
    Row{"masked_fill", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"matmul", Act::compute, Shape::matmul, OpKind::gemm},
    Row{"maximum", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"mean", Act::compute, Shape::reduce, OpKind::reduction},
    Row{"minimum", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"mish", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"mm", Act::compute, Shape::matmul, OpKind::gemm},
    Row{"mod", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"mul", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"narrow", Act::view, Shape::unknown, OpKind::copy},
    Row{"ndtri", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"ne", Act::compute, Shape::comparison, OpKind::elementwise},
    Row{"neg", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"nextafter", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"nll_loss", Act::compute, Shape::unknown, OpKind::cross_entropy},
    Row{"nll_loss_backward", Act::compute, Shape::unknown, OpKind::cross_entropy},
    Row{"numel", Act::none, Shape::unknown, OpKind::other},
    Row{"ones", Act::compute, Shape::make, OpKind::fill},
    Row{"ones_like", Act::compute, Shape::like, OpKind::fill},
    Row{"pack", Act::pack_bucket, Shape::collective, OpKind::copy},
    Row{"pack_for_fsdp", Act::pack, Shape::collective, OpKind::copy},
    Row{"pad", Act::compute, Shape::unknown, OpKind::copy},
    Row{"permute", Act::view, Shape::permute, OpKind::copy},
    Row{"polar", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"polygamma", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"pow", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"prims_reshape", Act::view, Shape::reshape, OpKind::copy},
    Row{"print", Act::none, Shape::unknown, OpKind::other},
    Row{"prod", Act::compute, Shape::reduce, OpKind::reduction},
    Row{"rand", Act::compute, Shape::make, OpKind::fill},
    Row{"randn", Act::compute, Shape::make, OpKind::fill},
    Row{"real", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"reciprocal", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"reduce_scatter", Act::collective, Shape::collective, OpKind::reduce_scatter},
    Row{"relu", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"relu6", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"remainder", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"reshape", Act::view, Shape::reshape, OpKind::copy},
    Row{"rms_norm", Act::compute, Shape::like, OpKind::norm},
    Row{"round", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"rsqrt", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"scatter_add", Act::compute, Shape::like, OpKind::embedding},
    Row{"select", Act::view, Shape::unknown, OpKind::copy},
    Row{"selu", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"set_", Act::same, Shape::like, OpKind::copy},
    Row{"setitem", Act::compute, Shape::like, OpKind::copy},
    Row{"shallow_copy", Act::same, Shape::like, OpKind::copy},
    Row{"shape", Act::none, Shape::unknown, OpKind::other},
    Row{"sigmoid", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"sign", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"signbit", Act::compute, Shape::comparison, OpKind::elementwise},
    Row{"silu", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"sin", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"sinh", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"size", Act::none, Shape::unknown, OpKind::other},
    Row{"slice", Act::view, Shape::slice, OpKind::copy},
    Row{"slice_prim", Act::view, Shape::slice, OpKind::copy},
    Row{"softmax", Act::compute, Shape::like, OpKind::softmax},
    Row{"softplus", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"split", Act::view, Shape::split, OpKind::copy},
    Row{"sqrt", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"square", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"squeeze", Act::view, Shape::squeeze, OpKind::copy},
    Row{"stack", Act::compute, Shape::unknown, OpKind::copy},
    Row{"stash_grad_for_fsdp", Act::same, Shape::like, OpKind::elementwise},
    Row{"stride_order", Act::compute, Shape::like, OpKind::copy},
    Row{"sub", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"sum", Act::compute, Shape::reduce, OpKind::reduction},
    Row{"synchronize", Act::collective, Shape::collective, OpKind::all_gather},
    Row{"synchronize_tensor_parallel_input", Act::collective, Shape::collective,
        OpKind::all_reduce},
    Row{"synchronize_tensor_parallel_output", Act::collective, Shape::collective,
        OpKind::all_reduce},
    Row{"t", Act::view, Shape::unknown, OpKind::copy},
    Row{"take", Act::compute, Shape::unknown, OpKind::embedding},
    Row{"take_along_axis", Act::compute, Shape::unknown, OpKind::embedding},
    Row{"take_along_dim", Act::compute, Shape::unknown, OpKind::embedding},
    Row{"tan", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"tanh", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"tanhshrink", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"to", Act::compute, Shape::convert, OpKind::cast},
    Row{"topk", Act::compute, Shape::unknown, OpKind::reduction},
    Row{"transpose", Act::view, Shape::transpose, OpKind::copy},
    Row{"tril", Act::compute, Shape::like, OpKind::elementwise},
    Row{"triu", Act::compute, Shape::like, OpKind::elementwise},
    Row{"true_divide", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"trunc", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"unbind", Act::view, Shape::unknown, OpKind::copy},
    Row{"unflatten", Act::view, Shape::unknown, OpKind::copy},
    Row{"uniform", Act::compute, Shape::make, OpKind::fill},
    Row{"uniform_philox", Act::compute, Shape::make, OpKind::fill},
    Row{"unpack", Act::unpack_bucket, Shape::collective, OpKind::copy},
    Row{"unpack_for_fsdp", Act::unpack, Shape::collective, OpKind::copy},
    Row{"unsqueeze", Act::view, Shape::unsqueeze, OpKind::copy},
    Row{"update_aliases", Act::same, Shape::like, OpKind::other},
    Row{"update_bucket_view", Act::same, Shape::like, OpKind::copy},
    Row{"var", Act::compute, Shape::reduce, OpKind::reduction},
    Row{"var_mean", Act::compute, Shape::var_mean, OpKind::reduction},
    Row{"view", Act::view, Shape::reshape, OpKind::copy},
    Row{"wait", Act::wait, Shape::like, OpKind::other},
    Row{"where", Act::compute, Shape::broadcast, OpKind::elementwise},
    Row{"zeros", Act::compute, Shape::make, OpKind::fill},
    Row{"zeros_like", Act::compute, Shape::like, OpKind::fill},
    Row{"zeta", Act::compute, Shape::broadcast, OpKind::elementwise},
};

// Parts of the names of executors' own operators.
constexpr std::array kParts{
    Row{"scaled_dot_product", Act::compute, Shape::attention, OpKind::attention},
    Row{"flash_attn", Act::compute, Shape::attention, OpKind::attention},
    Row{"sdpa", Act::compute, Shape::attention, OpKind::attention},
    Row{"xentropy", Act::compute, Shape::unknown, OpKind::cross_entropy},
    Row{"cross_entropy", Act::compute, Shape::unknown, OpKind::cross_entropy},
    Row{"layer_norm", Act::compute, Shape::unknown, OpKind::norm},
    Row{"rms_norm", Act::compute, Shape::unknown, OpKind::norm},
    Row{"batch_norm", Act::compute, Shape::unknown, OpKind::norm},
    Row{"group_norm", Act::compute, Shape::unknown, OpKind::norm},
    Row{"softmax", Act::compute, Shape::unknown, OpKind::softmax},
    Row{"embedding", Act::compute, Shape::unknown, OpKind::embedding},
    Row{"convolution", Act::compute, Shape::unknown, OpKind::gemm},
    Row{"conv1d", Act::compute, Shape::unknown, OpKind::gemm},
    Row{"conv2d", Act::compute, Shape::unknown, OpKind::gemm},
    Row{"linear", Act::compute, Shape::unknown, OpKind::gemm},
};

std::string_view stem_of(std::string_view callee) {
  std::string_view stem = last_component(callee);
  if (stem.starts_with("torch_")) stem.remove_prefix(6);
  if (stem.ends_with("_prim_impl"))
    stem.remove_suffix(10);
  else if (stem.ends_with("_impl"))
    stem.remove_suffix(5);
  return stem;
}

ThunderSymbol symbol_of(const Row& row) { return {row.act, row.shape, row.kind, true}; }

}  // namespace

ThunderSymbol thunder_symbol(std::string_view callee) {
  if (is_fusion(callee) || callee.starts_with("CUDAGraph"))
    return {Act::compute, Shape::unknown, OpKind::fused, true};
  const std::string_view stem = stem_of(callee);
  const auto found =
      std::lower_bound(kSymbols.begin(), kSymbols.end(), stem,
                       [](const Row& row, std::string_view name) { return row.name < name; });
  if (found != kSymbols.end() && found->name == stem) return symbol_of(*found);
  // add_, setitem_: into its first tensor.
  if (stem.size() > 1 && stem.ends_with('_') && !stem.ends_with("__")) {
    const ThunderSymbol symbol = thunder_symbol(stem.substr(0, stem.size() - 1));
    if (symbol.is_known && symbol.act == Act::compute)
      return {Act::same, Shape::like, symbol.kind, true};
  }
  for (const std::string_view check : {"check_", "assert_", "unpack_", "pack_", "_get_cache_info",
                                       "get_", "set_", "reset_", "python_"})
    if (stem.starts_with(check)) return {Act::none, Shape::unknown, OpKind::other, true};
  for (const Row& row : kParts) {
    if (stem.find(row.name) == std::string_view::npos) continue;
    ThunderSymbol symbol = symbol_of(row);
    const bool backward = stem.find("backward") != std::string_view::npos ||
                          stem.find("_bwd") != std::string_view::npos;
    if (symbol.shape == Shape::attention && backward) symbol.shape = Shape::attention_backward;
    return symbol;
  }
  return {};
}

}  // namespace foregather::traces
