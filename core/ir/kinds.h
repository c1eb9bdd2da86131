// The vocabulary of a schedule. Enumerators are persisted by value and by name: append only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/units.h"

namespace foregather {

enum class DType : std::uint8_t { f32, bf16, f16, f64, f8e4m3, f8e5m2, i64, i32, u8, boolean };

/// What an op does, as the kind of an op_key.
enum class OpKind : std::uint8_t {
  gemm,
  attention,
  norm,
  elementwise,
  softmax,
  embedding,
  cross_entropy,
  reduction,
  optimizer,
  copy,
  cast,
  fill,
  fused,
  host_to_device,
  device_to_host,
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  reduce,
  all_to_all,
  send_recv,
  barrier,
  other,
  sleep,  ///< takes time and nothing else: torch.cuda._sleep
};
inline constexpr OpKind kLastOpKind = OpKind::sleep;

constexpr bool is_collective(OpKind kind) {
  return kind >= OpKind::all_gather && kind <= OpKind::barrier;
}

/// The part an op plays for its unit. Passes find structure by unit and role, never by name.
enum class Role : std::uint8_t {
  compute,
  copy_in,     ///< shards into the all-gather input
  cast,        ///< a change of dtype for communication or optimizer
  gather,      ///< the collective that unshards parameters
  copy_out,    ///< all-gather output into the parameters
  pre_scale,   ///< division before the reduction
  reduce,      ///< the collective that reduces gradients
  post_scale,  ///< division after the reduction
  accumulate,  ///< adding into a saved gradient
  optimizer,
  clip,  ///< gradient norm and scaling
  offload,
  other,
};

enum class Phase : std::uint8_t { forward, backward, recompute, optimizer, other };

/// Why bytes are held.
enum class Cause : std::uint8_t {
  parameter_shard,
  unsharded_parameter,
  gradient,
  reduced_gradient,
  activation,
  optimizer_state,
  communication_buffer,
  cast_copy,
  temporary,
  cache,
  persistent,  ///< recorded runs: outlives steps; parameters or optimizer states
  unknown,     ///< recorded runs: nothing tells
};
inline constexpr std::size_t kCauses = 12;
/// Those that a schedule names: all up to `cache`.
inline constexpr std::size_t kScheduleCauses = 10;

enum class Access : std::uint8_t { read, write, accumulate };

constexpr Bytes size_of(DType type) {
  switch (type) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16:
    case DType::f16: return 2;
    default: return 1;
  }
}

std::string_view name(DType);
std::string_view name(OpKind);
std::string_view name(Role);
std::string_view name(Phase);
std::string_view name(Cause);
std::string_view name(Access);

/// The enumerator of that name, nothing if there is none.
template <class Enum>
std::optional<Enum> parse(std::string_view text);
template <>
std::optional<DType> parse(std::string_view);
template <>
std::optional<OpKind> parse(std::string_view);
template <>
std::optional<Role> parse(std::string_view);
template <>
std::optional<Phase> parse(std::string_view);
template <>
std::optional<Cause> parse(std::string_view);
template <>
std::optional<Access> parse(std::string_view);

}  // namespace foregather
