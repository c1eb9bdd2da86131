#include <algorithm>
#include <numeric>
#include <utility>

#include "core/plan/fsdp1_schedule.h"
#include "core/plan/host_overhead.h"

namespace foregather::plan {

void Fsdp1Schedule::add_leaf_uses(const ModuleWriter& modules) {
  const ShardLayout& layout = lowering_.layout;
  leaf_uses_.resize(lowering_.modules());
  std::vector<bool> has_leaves(lowering_.modules());
  for (const UnitPlan& plan : layout.units)
    if (plan.is_leaf) has_leaves[plan.first_module] = true;
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m) {
    if (!has_leaves[m]) continue;
    const Recipe& recipe = modules.recipe(m);
    std::vector<LeafUse>& uses = leaf_uses_[m];
    // A place is a parameter, its gradient or neither.
    const auto use = [&](std::uint32_t place, Phase phase, std::uint32_t op) {
      const std::uint32_t first =
          place < recipe.own() ? recipe.first_gradient : recipe.parameter(0);
      if (place < first || place - first >= recipe.parameters) return;
      const std::uint32_t unit = layout.unit_of_parameter[layout.row_of(m, place - first)];
      if (!layout.units[unit].is_leaf) return;
      const auto known = std::ranges::find_if(
          uses, [&](const LeafUse& other) { return other.unit == unit && other.phase == phase; });
      if (known == uses.end())
        uses.push_back({unit, phase, op, op});
      else
        known->last = op;
    };
    for (const RecipePass* pass : {&recipe.forward, &recipe.backward})
      for (std::uint32_t op = 0; op < pass->ops.size(); ++op) {
        const RecipeOp& planned = pass->ops[op];
        for (std::uint32_t a = planned.accesses.first; a < planned.accesses.end(); ++a)
          use(pass->accesses[a].place, planned.phase, op);
      }
    add_leaf_recomputes(recipe, uses);
  }
  order_units();
  add_late_ends(modules);
}

void Fsdp1Schedule::order_units() {
  const auto begins = [&](std::uint32_t u) {
    const UnitPlan& plan = lowering_.layout.units[u];
    std::uint32_t op = 0;
    if (plan.is_leaf)
      for (const LeafUse& use : leaf_uses_[plan.first_module])
        if (use.unit == u && use.phase == Phase::forward) op = use.first + 1;
    return std::pair(plan.first_module, op);
  };
  begin_order_.resize(units_.size());
  std::iota(begin_order_.begin(), begin_order_.end(), 0U);
  std::stable_sort(begin_order_.begin(), begin_order_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return begins(a) < begins(b); });
}

// Views that the unit before made in its pre-forward get their gradients after its backward: after
// the module's whole one where that unit is no leaf. A reentrant checkpoint's recomputation makes
// them anew.
void Fsdp1Schedule::add_late_ends(const ModuleWriter& modules) {
  const UnitPlan* before = nullptr;
  for (const std::uint32_t u : begin_order_) {
    if (!has_work(units_[u])) continue;
    const UnitPlan& plan = lowering_.layout.units[u];
    for (LeafUse& use : leaf_uses_[plan.first_module]) {
      if (use.unit != u) continue;
      use.late_last = use.last;
      if (use.phase != Phase::backward || before == nullptr) continue;
      if (before->first_module != plan.first_module) continue;
      if (modules.policy(plan.first_module) == SavePolicy::reentrant) continue;
      const auto ops = modules.recipe(plan.first_module).backward.ops.size();
      use.late_last = static_cast<std::uint32_t>(ops) - 1;
      if (!before->is_leaf) continue;
      for (const LeafUse& other : leaf_uses_[plan.first_module])
        if (&lowering_.layout.units[other.unit] == before && other.phase == Phase::backward)
          use.late_last = std::max(use.last, other.last);
    }
    before = &plan;
  }
}

// Selective checkpointing calls the whole forward again, and with it the hooks of leaves whose
// products were kept.
void Fsdp1Schedule::add_leaf_recomputes(const Recipe& recipe, std::vector<LeafUse>& uses) {
  const auto& ops = recipe.backward.ops;
  const auto begin = std::ranges::find(ops, Phase::recompute, &RecipeOp::phase);
  if (begin == ops.end()) return;
  const auto first = static_cast<std::uint32_t>(begin - ops.begin());
  const std::vector<LeafUse> known = uses;
  for (const LeafUse& forward : known) {
    const bool is_again = std::ranges::any_of(known, [&](const LeafUse& other) {
      return other.unit == forward.unit && other.phase == Phase::recompute;
    });
    if (forward.phase == Phase::forward && !is_again)
      uses.push_back({forward.unit, Phase::recompute, first, first});
  }
}

void Fsdp1Schedule::begin_leaves(std::uint32_t module, Phase phase, std::uint32_t op) {
  for (const LeafUse& use : leaf_uses_[module]) {
    if (use.phase != phase || use.first != op) continue;
    if (phase == Phase::backward)
      pre_backward(units_[use.unit]);
    else
      pre_forward(units_[use.unit]);
    make_copies(module, use.unit);
  }
}

void Fsdp1Schedule::end_leaves(std::uint32_t module, Phase phase, std::uint32_t op) {
  const bool late = prefetches_forward();
  for (const LeafUse& use : leaf_uses_[module]) {
    if (use.phase != phase || (late ? use.late_last : use.last) != op) continue;
    Fsdp1Unit& unit = units_[use.unit];
    if (phase == Phase::backward)
      post_backward(unit);
    else if (phase == Phase::forward)
      post_forward(unit);
    else
      reshard_after_forward(unit);
  }
}

}  // namespace foregather::plan
