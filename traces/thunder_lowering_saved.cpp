// Collections: what a forward saves and a backward unpacks, and whose gradients it returns.
#include "traces/thunder_lowering.h"

namespace foregather::traces {

// Types of what the forward saved, by position, before shape rules guess.
void ThunderLowering::assume_saved() {
  if (function_->parameters.empty()) return;
  std::unordered_map<std::uint32_t, const ThunderValue*> known{
      {function_->parameters.front().name.row(), saved_}};
  for (std::uint32_t row = function_->statements.first; row < function_->statements.end(); ++row) {
    const ThunderStatement& statement = file_->statements[row];
    if (statement.kind != ThunderStatement::Kind::unpack || statement.depth > 0) continue;
    const ThunderValue& from = file_->values_of(statement).front();
    const auto found = from.name ? known.find(from.name.row()) : known.end();
    if (found == known.end()) continue;
    const auto targets = file_->targets_of(statement);
    std::size_t i = 0;
    each_child(*found->second, [&](const ThunderValue& child) {
      const ThunderName target = i < targets.size() ? targets[i] : ThunderName();
      ++i;
      if (!target) return;
      if (child.kind == ThunderValue::Kind::name && child.name &&
          child.name.row() < forward_bindings_.size() && forward_bindings_[child.name.row()])
        types_->assume(target, forward_bindings_[child.name.row()]->type);
      known.emplace(target.row(), &child);
    });
  }
}

UnitId ThunderLowering::unit_of_gradient(ThunderName name) const {
  return name && name.row() < gradient_units_.size() ? gradient_units_[name.row()] : UnitId();
}

// A backward returns gradients in the order of the forward's arguments. From there to what is
// reduced, through waits and buckets.
void ThunderLowering::find_units() {
  gradient_units_.assign(file_->names.size(), UnitId());
  if (!is_backward_ || forward_file_ == nullptr || world_size_ <= 1) return;
  for (std::uint32_t row = function_->statements.end(); row-- > function_->statements.first;) {
    const ThunderStatement& statement = file_->statements[row];
    if (statement.depth > 0) continue;
    if (statement.kind == ThunderStatement::Kind::give_back) {
      const auto values = file_->values_of(statement);
      std::size_t i = 0;
      if (!values.empty())
        each_child(values.front(), [&](const ThunderValue& gradient) {
          const ThunderName of = i < flat_args_.size() ? flat_args_[i] : ThunderName();
          ++i;
          if (!of || gradient.kind != ThunderValue::Kind::name || !gradient.name) return;
          const auto& parameter = forward_bindings_[of.row()];
          if (parameter && parameter->storage && parameter->scope)
            gradient_units_[gradient.name.row()] = unit_of(*parameter, *parameter);
        });
      continue;
    }
    const auto targets = file_->targets_of(statement);
    const ThunderValue* const node = file_->call_of(statement);
    if (node == nullptr || targets.empty() || !targets.front()) continue;
    const ThunderCall call(*node);
    const Act act = thunder_symbol(call.callee()).act;
    const bool passes_on = act == Act::wait || act == Act::unpack || act == Act::unpack_bucket ||
                           act == Act::collective;
    if (!passes_on || !call.name(0)) continue;
    gradient_units_[call.name(0).row()] = gradient_units_[targets.front().row()];
  }
}

// --- collections ---

void ThunderLowering::unpack(const ThunderStatement& statement) {
  const auto values = file_->values_of(statement);
  if (values.empty() || values.front().kind != ThunderValue::Kind::name) return;
  const ThunderName from = values.front().name;
  if (!from) return;
  // Where the forward's saved values are known, in their order.
  std::vector<const ThunderValue*> items;
  if (const ThunderValue* const is = collections_[from.row()].is)
    each_child(*is, [&](const ThunderValue& child) { items.push_back(&child); });
  const auto targets = file_->targets_of(statement);
  if (items.size() != targets.size()) {
    if (!items.empty())
      warnings_.push_back(fmt::format("{}:{}:1: takes {} values where the forward saved {}",
                                      part_->path, statement.line, targets.size(), items.size()));
    items.assign(targets.size(), nullptr);
  }
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (targets[i]) unpack_item(targets[i], from, items[i]);
}

void ThunderLowering::move(const ThunderStatement& statement) {
  const auto values = file_->values_of(statement);
  const auto targets = file_->targets_of(statement);
  if (targets.size() != 1 || !targets.front() || values.empty()) return;
  const ThunderValue& value = values.front();
  if (value.kind == ThunderValue::Kind::name) {
    if (const Binding* const of = bound(value.name)) {
      return bind(targets.front(), view(Binding(*of), of->type, of->layout));
    }
  }
  // kwargs['x'], module attributes: of the caller.
  if (type_or_unknown(targets.front()) != nullptr && !bound(targets.front()))
    argument(targets.front());
}

void ThunderLowering::unpack_item(ThunderName target, ThunderName from, const ThunderValue* is) {
  const bool is_name = is != nullptr && is->kind == ThunderValue::Kind::name && is->name &&
                       is->name.row() < forward_bindings_.size();
  const auto saved = is_name ? saved_references_.find(is->name.row()) : saved_references_.end();
  if (is_name && (saved != saved_references_.end() || forward_bindings_[is->name.row()])) {
    const auto& of = forward_bindings_[is->name.row()];
    if (of && of->storage) {
      if (of->pending) await(of->pending);
      Binding copy = *of;
      copy.pending = {};
      copy.tensor = tensor_row(copy);
      if (saved != saved_references_.end())
        collections_[from.row()].references.push_back(saved->second);
      return bind(target, std::move(copy));
    }
    return;
  }
  if (types_->of(target) == nullptr) {
    // A collection in the collection, or a number.
    const bool is_held = collections_[from.row()].is_caller_held;
    Collection& inner = collections_[target.row()];
    inner.is = is;
    inner.is_caller_held = is_held;
    const bool is_tensor = file_->text(target).starts_with("t");
    if (is_tensor) type_or_unknown(target);
    return;
  }
  if (bound(target) != nullptr) return;
  if (collections_[from.row()].is_caller_held) return argument(target);
  const bool is_cotangent =
      function_->parameters.size() > 1 && from == function_->parameters[1].name;
  incoming(target, is_cotangent ? Cause::gradient : Cause::activation);
  // The collection refers to it as well.
  const Binding* const now = bound(target);
  if (now == nullptr || !now->storage || now->is_held) return;
  collections_[from.row()].references.push_back(tensor_row(*now));
}

// The collection lets go of its tensors.
void ThunderLowering::clear(const ThunderCall& call) {
  if (!call.name(0)) return;
  const auto found = collections_.find(call.name(0).row());
  if (found == collections_.end()) return;
  for (const TensorId tensor : found->second.references) release(tensor);
  found->second.references.clear();
}

// return results, ((saved tensors), (saved others))
void ThunderLowering::save(const ThunderStatement& give_back) {
  const auto values = file_->values_of(give_back);
  if (values.empty() || values.front().size >= values.size()) return;
  saved_ = &values[values.front().size];
  flat_args_.clear();
  for (const ThunderParameter& parameter : function_->parameters)
    flat_args_.push_back(parameter.name);
  const ThunderValue* key = nullptr;
  if (values.front().kind == ThunderValue::Kind::dict)
    each_child(values.front(), [&](const ThunderValue& child) {
      if (key != nullptr && key->text == "'flat_args'" && child.kind == ThunderValue::Kind::list) {
        flat_args_.clear();
        each_child(child, [&](const ThunderValue& argument) {
          const bool is_name = argument.kind == ThunderValue::Kind::name;
          flat_args_.push_back(is_name ? argument.name : ThunderName());
        });
      }
      key = &child;
    });
  saved_references_.clear();
  each_name(*saved_, [&](ThunderName name) {
    const Binding* const binding = bound(name);
    if (binding == nullptr || !binding->storage || binding->is_held) return;
    if (!saved_references_.contains(name.row()))
      saved_references_.emplace(name.row(), tensor_row(*binding));
  });
}

}  // namespace foregather::traces
