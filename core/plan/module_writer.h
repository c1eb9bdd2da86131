// Stamps the modules of a model into a schedule.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/lowering.h"
#include "core/plan/module_recipe.h"

namespace foregather::plan {

class StrategySchedule;

/// Makes a recipe for each kind of module and the storages of each module, then appends the actions
/// of one forward or backward at a time to the builder's selected thread. Cost: a few ns an action.
class ModuleWriter {
 public:
  /// Creates scopes and storages; the program must have begun. `lowering` outlives the writer.
  explicit ModuleWriter(Lowering& lowering);

  /// Where a parameter of a module is unsharded to.
  void set_parameter(std::uint32_t module, ParameterIndex index, const Buffer& buffer);
  /// Makes the backward of `module` write the parameter's gradient into another buffer than its
  /// own.
  void set_gradient(std::uint32_t module, ParameterIndex index, const Buffer& buffer);
  /// The buffer that the backward of `module` allocates for the parameter's gradient at present.
  Buffer gradient(std::uint32_t module, ParameterIndex index) const;

  /// Parameters of `module` in the order in which backward() reports their gradients.
  std::vector<ParameterIndex> gradients_in_order(std::uint32_t module) const;
  /// What `module` is checkpointed with.
  SavePolicy policy(std::uint32_t module) const;

  /// The recipe that `module` is stamped from.
  const Recipe& recipe(std::uint32_t module) const { return recipes_[stamps_[module].recipe]; }

  void forward(std::uint32_t module, StrategySchedule& strategy);
  /// Calls strategy.gradient_ready() at the right places.
  void backward(std::uint32_t module, StrategySchedule& strategy);

  /// From now on the module's input and the gradient of that outlive its backward, until
  /// free_kept(), on the thread that is written then.
  void keep_input(std::uint32_t module);
  void free_kept();

  const Buffer& batch() const { return batch_; }  ///< the first module's input
  Buffer loss() const;                            ///< the last module's output
  const Buffer& loss_gradient() const { return loss_gradient_; }
  ScopeId scope(std::uint32_t module) const { return scopes_[stamps_[module].first_scope]; }

  /// Reserves room in the graph and in the two sections for `steps` stampings of the whole model
  /// and for what a strategy and an optimizer add (a generous guess; memory is touched only when
  /// used).
  void reserve(std::size_t steps);

 private:
  /// What the host does for a checkpointed or compiled module beside its ops.
  Ns host_time(std::uint32_t module, bool is_forward) const;
  struct Stamp {
    std::uint32_t recipe = 0;
    std::uint32_t first_place = 0;  ///< in places_
    std::uint32_t first_scope = 0;  ///< in scopes_
    std::uint32_t forward_ops = 0;  ///< in forward_ops_
  };

  void choose_recipes();
  void reserve_storages();
  void add_scopes(std::uint32_t module);
  void add_storages(std::uint32_t module);
  void link_boundaries();
  std::uint32_t recipe_for(const RecipeKey& key, const SavedValues& saved);
  void append_accesses(const Stamp& stamp, const RecipePass& pass);
  void append_pass(std::uint32_t module, const RecipePass& pass, StrategySchedule& strategy);
  bool keeps_input(std::uint32_t module) const;
  void keep_gradient(std::uint32_t module);
  Buffer at(const Stamp& stamp, std::uint32_t place) const;
  void place(const Stamp& stamp, std::uint32_t place, const Buffer& buffer);

  Lowering& lowering_;
  GraphBuilder& builder_;
  std::vector<Recipe> recipes_;
  std::vector<Stamp> stamps_;           ///< by module
  std::vector<ScopeId> scopes_;         ///< of all modules
  std::vector<StorageId> storages_;     ///< of all places
  std::vector<TensorId> tensors_;       ///< of all places
  std::vector<OpId> forward_ops_;       ///< of all modules' latest forwards
  std::vector<Buffer> kept_gradients_;  ///< by module; absent: neither it nor the input is kept
  std::vector<StorageId> kept_;         ///< not freed yet
  Buffer batch_;
  Buffer loss_gradient_;
};

}  // namespace foregather::plan
