#include <algorithm>

#include "core/ir/references.h"
#include "traces/thunder_facts.h"
#include "traces/thunder_lowering.h"

namespace foregather::traces {
void ThunderLowering::call(std::uint32_t row) {
  const ThunderCall call(*file_->call_of(file_->statements[row]));
  const ThunderSymbol symbol = thunder_symbol(call.callee());
  switch (symbol.act) {
    case Act::compute: return compute(row, call, symbol);
    case Act::view: return views(row, call, symbol);
    case Act::same: return same(row, call, symbol);
    case Act::collective: return collective(row, call, symbol);
    case Act::wait: return wait(row, call);
    case Act::pack: return pack(row, call);
    case Act::unpack: return unpack_fsdp(row, call);
    case Act::pack_bucket: return pack_bucket(row, call);
    case Act::unpack_bucket: return unpack_bucket(row, call);
    case Act::clear: return clear(call);
    case Act::none: {
      // A look-up may return a tensor of the module.
      const auto targets = file_->targets_of(file_->statements[row]);
      if (targets.size() == 1 && types_->of(targets.front()) != nullptr && !bound(targets.front()))
        argument(targets.front());
      return;
    }
  }
}

// --- launches ---

void ThunderLowering::access(const Binding& binding, Access mode) {
  if (!binding.storage) return;
  if (binding.pending) await(binding.pending);
  const auto flight = in_flight_.find(binding.storage.row());
  if (flight != in_flight_.end() && (flight->second.writes || mode != Access::read))
    await(flight->second.done);
  for (const AccessedTensor& other : accesses_)
    if (other.tensor == binding.tensor && other.mode == mode) return;
  const Tensor& tensor = b_.graph().at(binding.tensor);
  accesses_.push_back(
      {binding.tensor, mode, 0, foregather::bytes_of(b_.graph(), tensor).value_or(0)});
}

void ThunderLowering::reads(const ThunderCall& call) {
  each_name(call.node(), [&](ThunderName name) {
    if (const Binding* const binding = bound(name)) access(*binding, Access::read);
  });
}

// On the compute stream, with `accesses_`.
void ThunderLowering::launch_cost(Cost cost, Role role, const Binding* about,
                                  std::span<const OpId> parts) {
  constexpr std::uint16_t kMostHostOps = 1000;
  cost.host_ops = static_cast<std::uint16_t>(1 + std::min(pending_host_ops_, kMostHostOps));
  pending_host_ops_ = 0;
  OpSpec spec;
  spec.kind = cost.kind;
  spec.role = role;
  spec.phase = part_->phase;
  spec.stream = compute_;
  if (about != nullptr) {
    spec.scope = about->scope;
    if (role != Role::compute) spec.unit = about->unit;
  }
  spec.cost = b_.cost(cost);
  const OpId op = b_.op(spec, accesses_, {}, parts);
  act(ActionKind::launch, {}, op.row());
}

void ThunderLowering::launch(std::uint32_t row, const ThunderCall& call, Role role,
                             const std::vector<std::optional<Binding>>& made) {
  // An op belongs to the module whose parameter it reads.
  const Binding* about = nullptr;
  each_name(call.node(), [&](ThunderName name) {
    const Binding* const binding = bound(name);
    if (binding != nullptr && binding->scope && about == nullptr) about = binding;
  });
  const std::vector<Cost> costs = thunder_costs(*file_, *types_, row);
  std::vector<OpId> parts;
  if (costs.size() == 1 && costs.front().kind == OpKind::fused) {
    const std::vector<AccessedTensor> accesses = accesses_;
    parts = parts_of(row, made, costs.front().flops);
    accesses_ = accesses;
  }
  for (const Cost& cost : costs) launch_cost(cost, role, about, parts);
}

void ThunderLowering::launch_copy(const Binding* from, const Binding& to, Role role) {
  Cost cost;
  cost.kind = OpKind::copy;
  cost.dtype = to.type.dtype.type;
  cost.bytes_written = bytes_of(to.type).value_or(0);
  cost.bytes_read = cost.bytes_written;
  accesses_.clear();
  if (from != nullptr) access(*from, Access::read);
  access(to, Access::write);
  launch_cost(cost, role, from != nullptr ? from : &to);
}

// --- compute ---

void ThunderLowering::compute(std::uint32_t row, const ThunderCall& call,
                              const ThunderSymbol& symbol) {
  const auto targets = file_->targets_of(file_->statements[row]);
  std::vector<std::optional<Binding>> made;
  bool has_tensor = false;
  for (const ThunderName target : targets) {
    const ThunderTensorType* const type = type_or_unknown(target);
    made.emplace_back();
    if (type == nullptr) continue;
    made.back() = make(file_->text(target), *type, cause_of(target, symbol));
    has_tensor |= is_on_device(*type);
  }
  accesses_.clear();
  reads(call);
  has_tensor |= !accesses_.empty();
  for (const auto& binding : made)
    if (binding) access(*binding, Access::write);
  // Arithmetic of Python numbers launches nothing.
  bool may_be_tensor = has_tensor;
  for (const ThunderName target : targets)
    may_be_tensor |= target && types_->of(target) == nullptr && !file_->is_described[target.row()];
  if (may_be_tensor) {
    if (!symbol.is_known) unknown_symbols_.emplace(call.callee());
    const Role role = symbol.kind == OpKind::cast ? Role::cast : Role::compute;
    launch(row, call, role, made);
  }
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (made[i]) bind(targets[i], std::move(*made[i]));
}

void ThunderLowering::views(std::uint32_t row, const ThunderCall& call,
                            const ThunderSymbol& symbol) {
  const Binding* const bound_source = first_bound(call);
  if (bound_source == nullptr) return compute(row, call, symbol);
  const Binding source = *bound_source;
  std::int64_t start = 0;
  if (pending_host_ops_ < 1000) ++pending_host_ops_;
  // A target may have the source's own name: it is bound when nothing looks at the source any more.
  std::vector<std::pair<ThunderName, Binding>> made;
  for (const ThunderName target : file_->targets_of(file_->statements[row])) {
    const ThunderTensorType* const type = type_or_unknown(target);
    if (type == nullptr) {
      // A view of something, whatever it looks like.
      if (!target) continue;
      ThunderLayout opaque = source.layout;
      opaque.is_opaque = true;
      made.emplace_back(target, view(source, source.type, std::move(opaque)));
      continue;
    }
    auto layout = view_of(source.layout, symbol.shape, call, type->dims, start);
    if (symbol.shape == ThunderShape::split) {
      const auto at = dimension(integer_of(call.at(2, "dim")).value_or(0), type->dims.size());
      if (at) start += type->dims[*at];
    }
    const bool is_same_dtype = type->dtype == source.type.dtype;
    if (layout && is_same_dtype) {
      made.emplace_back(target, view(source, *type, std::move(*layout)));
      continue;
    }
    Binding copy = make(file_->text(target), *type, cause_of(target, symbol));
    if (copy.storage) launch_copy(&source, copy, Role::compute);
    made.emplace_back(target, std::move(copy));
  }
  for (auto& [name, binding] : made) bind(name, std::move(binding));
}

void ThunderLowering::same(std::uint32_t row, const ThunderCall& call,
                           const ThunderSymbol& symbol) {
  const std::string_view name = last_component(call.callee());
  // copy_(from, to) returns what it wrote to.
  const bool copies = name.find("copy_") != std::string_view::npos && !name.starts_with("shallow");
  const Binding* const source = bound(call.name(copies && call.name(1) ? 1 : 0));
  if (source == nullptr) return compute(row, call, symbol);
  const Binding of = *source;
  if (copies) {
    launch_copy(bound(call.name(0)), of, Role::compute);
  } else if (name.find("update_bucket_view") != std::string_view::npos) {
    const Binding* const into = call.at(2) != nullptr ? bucket(call.at(2)->text) : nullptr;
    if (into != nullptr && into->storage) {
      // Into the part of the bucket that is this gradient's.
      Cost cost;
      cost.kind = OpKind::copy;
      cost.dtype = of.type.dtype.type;
      cost.bytes_read = cost.bytes_written = bytes_of(of.type).value_or(0);
      accesses_.clear();
      access(of, Access::read);
      access(*into, Access::accumulate);
      launch_cost(cost, Role::copy_in, &of);
    }
  } else if (name.ends_with('_') && name != "set_") {
    // In place.
    accesses_.clear();
    reads(call);
    access(of, Access::accumulate);
    launch(row, call, Role::compute);
  } else if (name.find("stash_grad") != std::string_view::npos) {
    Cost cost;
    cost.kind = OpKind::elementwise;
    cost.dtype = of.type.dtype.type;
    cost.bytes_written = bytes_of(of.type).value_or(0);
    cost.bytes_read = std::min(2 * cost.bytes_written, kMostBytes);
    accesses_.clear();
    access(of, Access::read);
    launch_cost(cost, Role::accumulate, &of);
  }
  for (const ThunderName target : file_->targets_of(file_->statements[row])) {
    if (!target) continue;
    const ThunderTensorType* const type = types_->of(target);
    bind(target, view(of, type != nullptr ? *type : of.type, of.layout));
    break;
  }
}

}  // namespace foregather::traces
