// The PyTorch submodules inside a module of the model, and where their hooks fire.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/module_recipe.h"

namespace foregather::plan {

/// A submodule of a tape, the tape's module itself included ("").
struct Submodule {
  std::string path;                        ///< relative to the tape's module
  std::vector<ParameterIndex> parameters;  ///< its own, not its children's
};

/// A submodule begins before op `first` and ends after op `last` of a pass.
struct SubmoduleSpan {
  std::uint32_t submodule = 0;  ///< index of submodules_of()
  Phase phase = Phase::forward;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  /// Its end is never seen. A recomputation stops as soon as it has what it needs: what runs then
  /// does not end. The end of a backward is seen by the gradients of inputs, which an embedding's
  /// inputs have not.
  bool is_cut_off = false;
};

/// Those that own parameters (by the parameters' names) and those that ops belong to (by scopes),
/// with all that contain them; outer ones first. Left out: "loss", which is a function, and the
/// tape's module itself where it owns nothing and `is_root`.
std::vector<Submodule> submodules_of(const Tape& tape, bool is_root);

/// When the submodules run in the recipe's forward, then in its backward (the recomputed forward
/// apart). A submodule runs from the first op that belongs to it or touches a parameter or a
/// parameter's gradient of its subtree to the last; those without such ops are left out. Ordered by
/// pass, then as `submodules`.
std::vector<SubmoduleSpan> spans_of(const Tape& tape, const std::vector<Submodule>& submodules,
                                    const Recipe& recipe);

}  // namespace foregather::plan
