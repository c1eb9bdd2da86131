// What a fusion region was made of: ops that are not launched, origins of the region's op.
#include <algorithm>

#include "core/ir/references.h"
#include "traces/thunder_lowering.h"

namespace foregather::traces {
namespace {

// The sub-symbols of a statement that have none themselves.
std::vector<std::uint32_t> leaves(const ThunderFile& file, std::uint32_t row) {
  std::vector<std::uint32_t> rows;
  for (std::uint32_t inner = row + 1; inner < file.statements[row].end; ++inner)
    if (file.statements[inner].end == inner + 1 && file.call_of(file.statements[inner]) != nullptr)
      rows.push_back(inner);
  return rows;
}

bool can_be_part(const ThunderSymbol& symbol) {
  const bool is_apart = symbol.kind == OpKind::gemm || symbol.kind == OpKind::attention ||
                        symbol.kind == OpKind::fused || is_collective(symbol.kind);
  return !is_apart && (symbol.act == ThunderAct::compute || symbol.act == ThunderAct::view ||
                       symbol.act == ThunderAct::same || symbol.act == ThunderAct::none);
}

}  // namespace

std::vector<OpId> ThunderLowering::parts_of(std::uint32_t row,
                                            const std::vector<std::optional<Binding>>& made,
                                            std::int64_t flops) {
  const std::vector<std::uint32_t> rows = leaves(*file_, row);
  const auto outputs = file_->targets_of(file_->statements[row]);
  if (made.size() < outputs.size()) return {};  // in place: nothing was made
  std::map<std::uint32_t, int> uses;            // by name, of sub-symbols
  for (const std::uint32_t inner : rows) {
    const ThunderCall call(*file_->call_of(file_->statements[inner]));
    if (!can_be_part(thunder_symbol(call.callee()))) return {};
    std::set<std::uint32_t> names;
    each_name(call.node(), [&](ThunderName name) { names.insert(name.row()); });
    for (const std::uint32_t name : names) ++uses[name];
  }
  std::map<std::uint32_t, Binding> values;                     // by name, of the region
  std::map<std::uint32_t, std::vector<AccessedTensor>> masks;  // by name: what makes it
  std::set<std::uint32_t> left;                                // outputs that nothing makes yet
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i] && made[i] && made[i]->storage) left.insert(outputs[i].row());

  struct Part {
    OpSpec spec;
    Cost cost;
    std::vector<AccessedTensor> accesses;
  };
  std::vector<Part> parts;
  std::int64_t pending = 0;  // FLOPs that no part has
  for (const std::uint32_t inner : rows) {
    const ThunderStatement& statement = file_->statements[inner];
    const ThunderCall call(*file_->call_of(statement));
    const ThunderSymbol symbol = thunder_symbol(call.callee());
    const auto targets = file_->targets_of(statement);
    if (symbol.act == Act::none || targets.empty()) continue;
    accesses_.clear();
    const Binding* source = nullptr;
    each_name(call.node(), [&](ThunderName name) {
      if (const auto mask = masks.find(name.row()); mask != masks.end())
        return accesses_.insert(accesses_.end(), mask->second.begin(), mask->second.end()), void();
      const auto value = values.find(name.row());
      const Binding* const binding = value != values.end() ? &value->second : bound(name);
      if (binding == nullptr) return;
      if (source == nullptr) source = binding;
      access(*binding, Access::read);
    });
    const auto is_output = [&](ThunderName name) {
      return std::ranges::find(outputs, name) != outputs.end();
    };
    if (symbol.act == Act::view && source != nullptr && std::ranges::none_of(targets, is_output)) {
      for (const ThunderName target : targets)
        if (target) values.insert_or_assign(target.row(), *source);
      continue;
    }
    for (const ThunderName target : targets)
      if (const auto* type = types_->of(target))
        pending = std::min(kMostWork, pending + elements(type->dims).value_or(0));
    // A mask that one sub-symbol reads: both are one operator's, such as relu's.
    const ThunderTensorType* const type = types_->of(targets.front());
    if (targets.size() == 1 && type != nullptr && type->dtype.type == DType::boolean &&
        !is_output(targets.front()) && uses[targets.front().row()] == 1) {
      masks.insert_or_assign(targets.front().row(), accesses_);
      continue;
    }
    Part part;
    bool writes = false;
    for (const ThunderName target : targets) {
      if (types_->of(target) == nullptr) continue;
      const auto output = std::ranges::find(outputs, target);
      const auto at = static_cast<std::size_t>(output - outputs.begin());
      if (output != outputs.end() && made[at])
        values.insert_or_assign(target.row(), *made[at]);
      else
        values.insert_or_assign(
            target.row(), unbound(file_->text(target), *types_->of(target), Cause::temporary));
      left.erase(target.row());
      access(values.at(target.row()), Access::write);
      writes |= static_cast<bool>(values.at(target.row()).storage);
    }
    if (!writes) continue;
    part.cost = thunder_costs(*file_, *types_, inner).front();
    part.cost.kind = symbol.kind == OpKind::other ? OpKind::elementwise : symbol.kind;
    part.cost.bytes_read = part.cost.bytes_written = 0;
    for (const AccessedTensor& access : accesses_)
      (access.mode == Access::read ? part.cost.bytes_read : part.cost.bytes_written) +=
          access.bytes;
    part.cost.bytes_read = std::min(part.cost.bytes_read, kMostBytes);
    part.cost.bytes_written = std::min(part.cost.bytes_written, kMostBytes);
    part.cost.flops = std::min(pending, flops);
    flops -= part.cost.flops;
    pending = 0;
    part.accesses = accesses_;
    parts.push_back(std::move(part));
  }
  if (parts.empty() || !left.empty()) return {};
  parts.back().cost.flops += flops;
  std::vector<OpId> ops;
  for (Part& part : parts) {
    part.spec.kind = part.cost.kind;
    part.spec.role = Role::compute;
    part.spec.phase = part_->phase;
    part.spec.stream = compute_;
    part.spec.cost = b_.cost(part.cost);
    ops.push_back(b_.op(part.spec, part.accesses));
  }
  return ops;
}

}  // namespace foregather::traces
