// What the symbols of Thunder traces do.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/ir/kinds.h"

namespace foregather::traces {

/// What a call means for shapes, storages and streams.
enum class ThunderAct : std::uint8_t {
  compute,  ///< new tensors
  view,     ///< its results are views of its first tensor, or copies where none exists
  same,     ///< returns its first tensor
  collective,
  wait,         ///< of a future
  pack,         ///< pack_for_fsdp: tensors into a new buffer
  unpack,       ///< unpack_for_fsdp
  pack_bucket,  ///< pack: tensors into the persistent bucket of that name
  unpack_bucket,
  clear,  ///< clear_collection, clear_mutable_collection
  none,   ///< checks, looks up or configures
};

/// How results get their shapes.
enum class ThunderShape : std::uint8_t {
  unknown,
  broadcast,   ///< elementwise
  comparison,  ///< elementwise, of booleans
  reshape,
  permute,
  transpose,
  expand,
  broadcast_in_dim,
  unsqueeze,
  squeeze,
  slice,
  split,
  cat,
  convert,  ///< elementwise, of another dtype
  reduce,
  matmul,
  linear,
  embedding,
  attention,
  attention_backward,
  var_mean,
  make,  ///< its first argument is the shape
  like,  ///< of its first tensor's shape and dtype
  collective,
};

struct ThunderSymbol {
  ThunderAct act = ThunderAct::compute;
  ThunderShape shape = ThunderShape::unknown;
  OpKind kind = OpKind::elementwise;
  bool is_known = false;  ///< false: a symbol of none of the tables, taken as elementwise
};

/// By the name that is called, with or without modules, executor prefixes and suffixes:
/// "torch.nn.functional.linear", "torch_all_gather_prim_impl", "sdpaex_…".
ThunderSymbol thunder_symbol(std::string_view callee);

}  // namespace foregather::traces
