// How a module's work is stamped into a schedule: computed once for a tape, copied once a layer.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/builder.h"
#include "core/plan/checkpoint.h"
#include "core/plan/tape.h"

namespace foregather::plan {

/// When a value that crosses two modules dies.
enum class Death : std::uint8_t {
  elsewhere,    ///< another module (or the step) frees it
  in_forward,   ///< after its last reader in this module's forward
  in_backward,  ///< after its last reader in this module's backward
};

/// What decides a recipe.
struct RecipeKey {
  std::uint32_t tape = 0;
  SavePolicy policy = SavePolicy::none;
  Death input = Death::elsewhere;
  Death output = Death::elsewhere;
  friend bool operator==(const RecipeKey&, const RecipeKey&) = default;
};

/// One host action of a module. `place` is an index of the module's places (see Recipe).
struct RecipeStep {
  enum class Kind : std::uint8_t {
    alloc,       ///< the storage of a place
    free,        ///< the storage of a place
    launch,      ///< the next op
    grad_ready,  ///< parameter `place` has its gradient
  };
  Kind kind = Kind::launch;
  std::uint32_t place = 0;
};

/// Part of a RecipeOp's accesses.
struct RecipeAccess {
  std::uint32_t place = 0;
  Access mode = Access::read;
  Bytes bytes = 0;
};

/// An op without the things that differ between layers: its accesses are of the pass's list.
struct RecipeOp : Op {
  std::uint32_t scope_index = 0;    ///< of Tape::scopes
  std::uint32_t forward_index = 0;  ///< of a forward op, also where it is recomputed
};

/// A storage that each stamp of the recipe has of its own.
struct RecipeStorage {
  Bytes bytes = 0;
  StringId name;
  std::uint32_t scope = 0;
  Cause cause = Cause::activation;
  DType dtype = DType::u8;
  Range shape;
};

/// The forward or the backward (recomputation included) of a module.
struct RecipePass {
  std::vector<RecipeStep> steps;
  std::vector<RecipeOp> ops;  ///< in order of launch
  std::vector<RecipeAccess> accesses;
};

/// Values live as DESIGN says: allocated right before the op that first writes them, freed right
/// after the last op that touches them in host order; what backward needs waits for it. All
/// micro-batches share a stamp's storages: each backward ends before the next forward begins.
///
/// Places of a module, in this order: its own storages, its parameters, its input, its output
/// gradient. The gradients of parameters are own storages: that of parameter p is at
/// first_gradient + p (bytes 0 if the tape makes none). The strategy frees them.
struct Recipe {
  RecipeKey key;
  std::vector<RecipeStorage> storages;
  std::uint32_t first_gradient = 0;
  std::uint32_t parameters = 0;
  std::uint32_t output = 0;      ///< place of the module's output
  std::uint32_t input_grad = 0;  ///< place of what backward hands on; may be output_grad()
  bool has_input_grad = false;
  RecipePass forward, backward;

  std::uint32_t own() const { return static_cast<std::uint32_t>(storages.size()); }
  std::uint32_t parameter(ParameterIndex index) const { return own() + index; }
  std::uint32_t input() const { return own() + parameters; }
  std::uint32_t output_grad() const { return input() + 1; }
  std::uint32_t places() const { return output_grad() + 1; }
};

/// Does `policy` keep the input (output) of the tape for its backward?
struct KeptBoundary {
  bool input = false;
  bool output = false;
};
KeptBoundary kept_boundary(const Tape& tape, const SavedValues& saved);

/// Plans the tape; costs and names are interned in the builder. Linear in ops and their operands.
/// The tape must be well formed: values are written before they are read, but for the input, the
/// output gradient and parameters.
Recipe make_recipe(const Tape& tape, const RecipeKey& key, const SavedValues& saved,
                   GraphBuilder& builder);

}  // namespace foregather::plan
