#include "core/ir/kinds.h"

#include <array>

#include "core/ir/find_name.h"

namespace foregather {
namespace {

using namespace std::string_view_literals;

constexpr std::array kDTypes{"f32"sv,    "bf16"sv, "f16"sv, "f64"sv, "f8e4m3"sv,
                             "f8e5m2"sv, "i64"sv,  "i32"sv, "u8"sv,  "bool"sv};
constexpr std::array kOpKinds{
    "gemm"sv,       "attention"sv,      "norm"sv,       "elementwise"sv,    "softmax"sv,
    "embedding"sv,  "cross_entropy"sv,  "reduction"sv,  "optimizer"sv,      "copy"sv,
    "cast"sv,       "fill"sv,           "fused"sv,      "host_to_device"sv, "device_to_host"sv,
    "all_gather"sv, "reduce_scatter"sv, "all_reduce"sv, "broadcast"sv,      "reduce"sv,
    "all_to_all"sv, "send_recv"sv,      "barrier"sv,    "other"sv,          "sleep"sv};
constexpr std::array kRoles{"compute"sv,    "copy_in"sv,   "cast"sv,   "gather"sv,
                            "copy_out"sv,   "pre_scale"sv, "reduce"sv, "post_scale"sv,
                            "accumulate"sv, "optimizer"sv, "clip"sv,   "offload"sv,
                            "other"sv};
constexpr std::array kPhases{"forward"sv, "backward"sv, "recompute"sv, "optimizer"sv, "other"sv};
constexpr std::array kCauseNames{"parameter_shard"sv,
                                 "unsharded_parameter"sv,
                                 "gradient"sv,
                                 "reduced_gradient"sv,
                                 "activation"sv,
                                 "optimizer_state"sv,
                                 "communication_buffer"sv,
                                 "cast_copy"sv,
                                 "temporary"sv,
                                 "cache"sv,
                                 "persistent"sv,
                                 "unknown"sv};
constexpr std::array kAccesses{"read"sv, "write"sv, "accumulate"sv};

}  // namespace

std::string_view name(DType type) { return kDTypes[static_cast<std::size_t>(type)]; }
std::string_view name(OpKind kind) { return kOpKinds[static_cast<std::size_t>(kind)]; }
std::string_view name(Role role) { return kRoles[static_cast<std::size_t>(role)]; }
std::string_view name(Phase phase) { return kPhases[static_cast<std::size_t>(phase)]; }
std::string_view name(Cause cause) { return kCauseNames[static_cast<std::size_t>(cause)]; }
std::string_view name(Access access) { return kAccesses[static_cast<std::size_t>(access)]; }

template <>
std::optional<DType> parse(std::string_view text) {
  return find_name<DType>(kDTypes, text);
}
template <>
std::optional<OpKind> parse(std::string_view text) {
  return find_name<OpKind>(kOpKinds, text);
}
template <>
std::optional<Role> parse(std::string_view text) {
  return find_name<Role>(kRoles, text);
}
template <>
std::optional<Phase> parse(std::string_view text) {
  return find_name<Phase>(kPhases, text);
}
template <>
std::optional<Cause> parse(std::string_view text) {
  return find_name<Cause>(kCauseNames, text);
}
template <>
std::optional<Access> parse(std::string_view text) {
  return find_name<Access>(kAccesses, text);
}

}  // namespace foregather
