// Which parameters are sharded together: the units of a wrap policy, and what padding they need.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/plan/tape.h"
#include "core/plan/workload.h"

namespace foregather::plan {

/// One storage of parameters (tied ones once, but for TiedUnits::two_names).
struct ShardedParameter {
  std::uint32_t module = 0;      ///< the first module that has it
  ParameterIndex parameter = 0;  ///< in that module's tape
  std::int64_t elements = 0;
  std::int64_t rows = 1;  ///< dimension 0
  bool trainable = true;
  bool is_unused = false;    ///< as Parameter::is_unused
  bool gathered_f8 = false;  ///< as Parameter::gathered_f8
  /// Row of the parameter whose storage this is another name of.
  std::optional<std::uint32_t> shares = {};
};

/// A wrapped module, or a list of modules wrapped as one. Modules from the first to the last that
/// are not its own belong to units within it.
struct UnitPlan {
  bool is_root = false;
  bool is_alone = false;           ///< its process group is one rank (of a module tree)
  bool is_leaf = false;            ///< a part of one module: FrozenParts::apart, Wrap::leaf
  std::string path;                ///< of the (first) module that is wrapped; "" for the root
  std::uint32_t first_module = 0;  ///< its forward begins before this one
  std::uint32_t last_module = 0;   ///< … and ends after this one
  Range parameters;                ///< rows of ShardLayout::parameters, in registration order
};

/// The units of a model. units[0] is the root: the whole model, with the parameters that no other
/// unit has claimed (perhaps none). The others follow in order of registration, an outer unit
/// before those within it.
struct ShardLayout {
  std::vector<UnitPlan> units;
  std::vector<ShardedParameter> parameters;
  std::vector<std::uint32_t> unit_of_module;  ///< the innermost one
  /// Rows of `parameters`: that of parameter p of module m is at first_parameter[m] + p.
  std::vector<std::uint32_t> parameter_rows;
  std::vector<std::uint32_t> first_parameter;
  std::vector<std::uint32_t> unit_of_parameter;  ///< by row of `parameters`
  /// By module: the units (but the root and leaves) that begin with it, outer ones first, and those
  /// that end with it, inner ones first.
  std::vector<std::vector<std::uint32_t>> begin_with, end_with;

  std::uint32_t row_of(std::uint32_t module, ParameterIndex parameter) const {
    return parameter_rows[first_parameter[module] + parameter];
  }
  std::span<const ShardedParameter> parameters_of(const UnitPlan& unit) const {
    return std::span(parameters).subspan(unit.parameters.first, unit.parameters.count);
  }
};

/// What happens to a parameter that is tied across two units.
enum class TiedUnits : std::uint8_t {
  merged,   ///< they are wrapped as one (FSDP2: fully_shard of a list of modules)
  at_root,  ///< their parameters are left to the root (FSDP1)
  /// Each of its modules is a unit of that parameter alone (FSDP2: wrapped one by one, under two
  /// names); what else the module has is left to the root.
  two_names,
};

/// What happens to a unit of which a part is trained.
enum class FrozenParts : std::uint8_t {
  mixed,  ///< trained and frozen parameters are sharded together
  /// Within the unit each trained module that has no modules in it is a unit of its own, as PEFT's
  /// fsdp_auto_wrap_policy (peft/utils/other.py) wraps adapters. Tied parameters stay.
  apart,
};

/// A module tree has its own wrap marks: `wrap` only says whether they count (not under
/// Wrap::model), and no parameter may be tied across them (check_tied_wraps).
ShardLayout shard_layout(const Model& model, Wrap wrap, TiedUnits tied,
                         FrozenParts frozen = FrozenParts::mixed);

/// The units of which a part is trained.
std::vector<bool> trained_in_part(const Model& model, const ShardLayout& layout);

/// Elements of one rank's shard under FSDP2's per-parameter sharding: dimension 0 is cut into
/// `ranks` chunks of equal size, the last ones padded (reference: PyTorch §C.1). Another dimension
/// is cut only where a script says so (shard_placement_fn).
std::int64_t padded_shard_elements(const ShardedParameter& parameter, std::int64_t ranks);

/// The flat parameter of an FSDP1 unit (PyTorch §B.1), in elements.
struct FlatParameter {
  std::vector<std::int64_t> offsets;  ///< of each parameter
  std::int64_t elements = 0;          ///< of the flat parameter, alignment included
  std::int64_t shard = 0;             ///< of one rank: elements / ranks, rounded up

  std::int64_t padded(std::int64_t ranks) const { return shard * ranks; }
};

/// With `alignment` > 0 (use_orig_params: 16 bytes in elements) each parameter starts at a multiple
/// of it and the total is padded to a multiple of the ranks of the unit's process group, `group`,
/// though it is not sharded (`ranks` 1); otherwise parameters are packed.
FlatParameter flat_parameter(std::span<const ShardedParameter> parameters, std::int64_t ranks,
                             std::int64_t group, std::int64_t alignment);

}  // namespace foregather::plan
