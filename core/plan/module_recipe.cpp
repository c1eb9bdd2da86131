#include "core/plan/module_recipe.h"

#include <algorithm>
#include <cassert>
#include <optional>

namespace foregather::plan {

namespace {

constexpr std::uint32_t kNone = 0xffffffffU;

Cause cause_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::parameter_grad: return Cause::gradient;
    case ValueKind::temporary:
    case ValueKind::gradient:
    case ValueKind::input_grad:
    case ValueKind::output_grad: return Cause::temporary;
    default: return Cause::activation;
  }
}

/// Fills a Recipe. "Root" is a value that has storage of its own; places are given by root.
class RecipePlanner {
 public:
  RecipePlanner(const Tape& tape, const SavedValues& saved, GraphBuilder& builder, Recipe& recipe)
      : tape_(tape), saved_(saved), builder_(builder), recipe_(recipe) {}

  void plan() {
    const auto values = static_cast<ValueIndex>(tape_.values.size());
    roots_.reserve(values);
    for (ValueIndex v = 0; v < values; ++v) roots_.push_back(storage_of(tape_, v));
    slot_.assign(values, kNone);
    bound_.assign(values, 0);
    last_use_.assign(values, kNone);
    recipe_.parameters = static_cast<std::uint32_t>(tape_.parameters.size());
    add_gradients();
    add_slots(tape_.forward);
    add_slots(tape_.backward);

    output_ = roots_[tape_.output];
    handed_grad_ = tape_.has_input_grad ? roots_[tape_.input_grad] : kNone;
    find_returned();
    add_recomputed_outputs();
    bound_[roots_[tape_.input]] = 1;
    forward();
    recipe_.output = place_of(output_);
    backward();
    recipe_.has_input_grad = tape_.has_input_grad;
    if (tape_.has_input_grad) recipe_.input_grad = place_of(handed_grad_);
  }

 private:
  ValueKind kind_of(ValueIndex root) const { return tape_.values[root].kind; }

  // --- storages ---

  bool owns(ValueIndex root) const {
    const ValueKind kind = kind_of(root);
    return kind != ValueKind::parameter && kind != ValueKind::input &&
           kind != ValueKind::output_grad;
  }

  std::uint32_t add_storage(ValueIndex root, std::uint32_t scope) {
    const Value& value = tape_.values[root];
    Graph& graph = builder_.graph();
    const Range shape{static_cast<std::uint32_t>(graph.dims.size()), 1};
    graph.dims.push_back(value.bytes / size_of(value.dtype));
    recipe_.storages.push_back({value.bytes, graph.strings.intern(value.name), scope,
                                cause_of(value.kind), value.dtype, shape});
    return recipe_.own() - 1;
  }

  void add_gradients() {
    recipe_.first_gradient = 0;
    // Frozen parameters have an empty one.
    RecipeStorage none;
    auto& dims = builder_.graph().dims;
    none.shape = {static_cast<std::uint32_t>(dims.size()), 1};
    dims.push_back(0);
    recipe_.storages.resize(tape_.parameters.size(), none);
    for (ValueIndex v = 0; v < tape_.values.size(); ++v) {
      const Value& value = tape_.values[v];
      if (value.kind != ValueKind::parameter_grad || value.is_view) continue;
      add_storage(v, 0);
      recipe_.storages[value.parameter] = recipe_.storages.back();
      recipe_.storages.pop_back();
      slot_[v] = value.parameter;
    }
  }

  void add_slots(const std::vector<TapeOp>& ops) {
    for (const TapeOp& op : ops)
      for (const ValueIndex value : op.writes) {
        const ValueIndex root = roots_[value];
        if (slot_[root] == kNone && owns(root)) slot_[root] = add_storage(root, op.scope);
      }
  }

  std::uint32_t place_of(ValueIndex root) const {
    switch (kind_of(root)) {
      case ValueKind::parameter: return recipe_.parameter(tape_.values[root].parameter);
      case ValueKind::input: return recipe_.input();
      case ValueKind::output_grad: return recipe_.output_grad();
      default:
        assert(slot_[root] != kNone && "a value is read that no op writes");
        return slot_[root];
    }
  }

  // --- ops ---

  /// The distinct roots that an op touches, a root that is read and written as one access.
  const std::vector<std::pair<ValueIndex, Access>>& touched(const TapeOp& op) {
    touched_.clear();
    const auto add = [this](ValueIndex value, Access mode) {
      const ValueIndex root = roots_[value];
      for (auto& [other, known] : touched_) {
        if (other != root) continue;
        if (known != mode) known = Access::accumulate;
        return;
      }
      touched_.emplace_back(root, mode);
    };
    for (const ValueIndex value : op.reads) add(value, Access::read);
    for (const ValueIndex value : op.updates) add(value, Access::accumulate);
    for (const ValueIndex value : op.writes) add(value, Access::write);
    return touched_;
  }

  void note_uses(const TapeOp& op, std::uint32_t index) {
    for (const auto& [root, mode] : touched(op)) last_use_[root] = index;
  }

  void step(RecipePass& pass, RecipeStep::Kind kind, std::uint32_t place) {
    pass.steps.push_back({kind, place});
  }

  void bind(RecipePass& pass, ValueIndex root) {
    if (bound_[root]) return;
    bound_[root] = 1;
    if (owns(root) && tape_.values[root].bytes > 0)
      step(pass, RecipeStep::Kind::alloc, place_of(root));
  }

  void release(RecipePass& pass, ValueIndex root) {
    bound_[root] = 0;
    if (tape_.values[root].bytes > 0) step(pass, RecipeStep::Kind::free, place_of(root));
  }

  void launch(RecipePass& pass, const TapeOp& op, Phase phase, std::uint32_t forward_index) {
    touched(op);
    for (const auto& [root, mode] : touched_)
      if (mode != Access::read) bind(pass, root);
    RecipeOp planned;
    Cost cost = op.cost;
    cost.host_ops = static_cast<std::uint16_t>(op.host_ops + 0.5F);
    planned.cost = builder_.cost(cost);
    planned.scope_index = op.scope;
    planned.forward_index = forward_index;
    planned.kind = op.cost.kind;
    planned.role = Role::compute;
    planned.phase = phase;
    planned.accesses.first = static_cast<std::uint32_t>(pass.accesses.size());
    for (const auto& [root, mode] : touched_)
      if (tape_.values[root].bytes > 0)
        pass.accesses.push_back({place_of(root), mode, tape_.values[root].bytes});
    planned.accesses.count =
        static_cast<std::uint32_t>(pass.accesses.size()) - planned.accesses.first;
    pass.ops.push_back(planned);
    step(pass, RecipeStep::Kind::launch, 0);
  }

  // --- passes ---

  bool dies_in_forward(ValueIndex root) const {
    if (root == output_ || returned_[root] != 0 || saved_.saved[root]) return false;
    switch (kind_of(root)) {
      case ValueKind::input: return recipe_.key.input == Death::in_forward;
      case ValueKind::parameter: return false;
      default: return true;
    }
  }

  void forward() {
    RecipePass& pass = recipe_.forward;
    const auto ops = static_cast<std::uint32_t>(tape_.forward.size());
    for (std::uint32_t i = 0; i < ops; ++i) note_uses(tape_.forward[i], i);
    for (std::uint32_t i = 0; i < ops; ++i) {
      launch(pass, tape_.forward[i], Phase::forward, i);
      for (const auto& [root, mode] : touched_)
        if (last_use_[root] == i && dies_in_forward(root)) release(pass, root);
    }
    const ValueIndex input = roots_[tape_.input];
    if (bound_[input] && dies_in_forward(input)) release(pass, input);
  }

  bool dies_in_backward(ValueIndex root) const {
    if (root == handed_grad_) return false;
    switch (kind_of(root)) {
      case ValueKind::input: return recipe_.key.input == Death::in_backward;
      case ValueKind::parameter:
      case ValueKind::parameter_grad: return false;
      default:
        return root != output_ || recomputes_output_ || recipe_.key.output == Death::in_backward;
    }
  }

  void find_returned() {
    returned_.assign(tape_.values.size(), 0);
    for (const ValueIndex value : tape_.returned) returned_[roots_[value]] = 1;
  }

  /// What the module hands out may still be bound when it is computed again: that copy has a
  /// storage of its own. All storages are there before a place is worked out: parameters and ends
  /// come behind.
  void add_recomputed_outputs() {
    for (const std::uint32_t index : saved_.recompute)
      for (const ValueIndex value : tape_.forward[index].writes) {
        const ValueIndex root = roots_[value];
        if (saved_.saved[root] || (root != output_ && returned_[root] == 0)) continue;
        const auto is_it = [root](const Again& again) { return again.root == root; };
        if (std::ranges::any_of(again_, is_it)) continue;
        recomputes_output_ = recomputes_output_ || root == output_;
        again_.push_back({root, add_storage(root, 0), kNone});
      }
  }

  void separate_recomputed_outputs() {
    for (Again& again : again_) {
      again.first = slot_[again.root];
      slot_[again.root] = again.storage;
      bound_[again.root] = 0;
      returned_[again.root] = 0;  // what is bound from here on
    }
  }

  /// The first copies of what was returned beside the output.
  void release_returned(RecipePass& pass) {
    for (const Again& again : again_)
      if (again.root != output_ && tape_.values[again.root].bytes > 0)
        step(pass, RecipeStep::Kind::free, again.first);
  }

  /// The gradients of parameters that are complete after op `index`: those that it wrote, or those
  /// that it only held.
  void report_gradients(RecipePass& pass, std::uint32_t index, bool written) {
    for (const auto& [root, mode] : touched_)
      if (last_use_[root] == index && kind_of(root) == ValueKind::parameter_grad &&
          (mode != Access::read) == written)
        step(pass, RecipeStep::Kind::grad_ready, tape_.values[root].parameter);
  }

  void backward() {
    RecipePass& pass = recipe_.backward;
    separate_recomputed_outputs();
    const auto recomputed = static_cast<std::uint32_t>(saved_.recompute.size());
    const auto ops = recomputed + static_cast<std::uint32_t>(tape_.backward.size());
    const auto op_at = [&](std::uint32_t i) -> const TapeOp& {
      return i < recomputed ? tape_.forward[saved_.recompute[i]] : tape_.backward[i - recomputed];
    };
    std::fill(last_use_.begin(), last_use_.end(), kNone);
    for (std::uint32_t i = 0; i < ops; ++i) note_uses(op_at(i), i);
    if (tape_.has_output_grad) bound_[roots_[tape_.output_grad]] = 1;
    for (std::uint32_t i = 0; i < ops; ++i) {
      const bool again = i < recomputed;
      launch(pass, op_at(i), again ? Phase::recompute : Phase::backward,
             again ? saved_.recompute[i] : 0);
      report_gradients(pass, i, true);
      report_gradients(pass, i, false);
      for (const auto& [root, mode] : touched_)
        if (last_use_[root] == i && bound_[root] && returned_[root] == 0 && dies_in_backward(root))
          release(pass, root);
    }
    // What was saved and never used (the cache of selective checkpointing), or was returned.
    for (ValueIndex v = 0; v < tape_.values.size(); ++v)
      if (roots_[v] == v && bound_[v] && dies_in_backward(v)) release(pass, v);
    release_returned(pass);
  }

  const Tape& tape_;
  const SavedValues& saved_;
  GraphBuilder& builder_;
  Recipe& recipe_;
  std::vector<ValueIndex> roots_;
  std::vector<std::uint32_t> slot_;      // by root: index of Recipe::storages
  std::vector<std::uint8_t> bound_;      // by root
  std::vector<std::uint32_t> last_use_;  // by root: op of the current pass
  std::vector<std::pair<ValueIndex, Access>> touched_;
  ValueIndex output_ = 0;
  ValueIndex handed_grad_ = kNone;
  bool recomputes_output_ = false;
  /// A root that the recomputation makes anew beside its first copy: their storages.
  struct Again {
    ValueIndex root = 0;
    std::uint32_t storage = 0;
    std::uint32_t first = 0;
  };
  std::vector<Again> again_;
  std::vector<std::uint8_t> returned_;  // by root
};

}  // namespace

KeptBoundary kept_boundary(const Tape& tape, const SavedValues& saved) {
  return {saved.saved[storage_of(tape, tape.input)], saved.saved[storage_of(tape, tape.output)]};
}

Recipe make_recipe(const Tape& tape, const RecipeKey& key, const SavedValues& saved,
                   GraphBuilder& builder) {
  Recipe recipe;
  recipe.key = key;
  RecipePlanner(tape, saved, builder, recipe).plan();
  return recipe;
}

}  // namespace foregather::plan
