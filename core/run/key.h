// The op key of a row of a run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/run/run.h"

namespace foregather::run {

/// As foregather::op_key: "r0/s1/m0/layers.3.attn/backward/gemm/2", where the rank is the first of
/// the op's class.
std::string op_key(RunView run, OpRow row);

/// What a key says of its op in its step; the scope is part of the key, and empty for "-".
struct KeyedOp {
  std::uint16_t micro_batch = 0;
  std::string_view scope;
  Phase phase = Phase::other;
  OpKind kind = OpKind::other;
  std::uint32_t ordinal = 0;
};
/// Nothing where the text is no key.
std::optional<KeyedOp> parse_op_key(std::string_view key);

}  // namespace foregather::run
