#include "core/plan/shard_layout.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace foregather::plan {

namespace {

constexpr std::uint32_t kNoUnit = 0xffffffffU;

const Tape& tape_of(const Model& model, std::size_t module) {
  return model.tapes[model.modules[module].tape];
}

/// For each module the unit that wraps it, in order of modules; kNoUnit: the root's.
std::vector<std::uint32_t> wrapped_by(const Model& model, Wrap wrap) {
  std::vector<std::uint32_t> unit_of(model.modules.size(), kNoUnit);
  std::uint32_t units = 1;
  std::uint32_t run = kNoUnit;  // the unit of a run of modules that are no blocks
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    if (wrap == Wrap::model) continue;
    if (model.modules[m].is_block) {
      run = kNoUnit;
      unit_of[m] = units++;
    } else if (wrap == Wrap::block_embed_head) {
      if (run == kNoUnit) run = units++;
      unit_of[m] = run;
    }
  }
  return unit_of;
}

std::int64_t rows_of(const std::vector<std::int64_t>& shape) {
  constexpr std::size_t kStacked = 3;
  if (shape.empty()) return 1;
  return shape.size() == kStacked ? shape[0] * shape[1] : shape[0];
}

/// Resolves ties across units in `unit_of`.
void join_tied(const Model& model, TiedUnits rule, std::vector<std::uint32_t>& unit_of) {
  std::map<std::string_view, std::uint32_t> owner;  // tie -> unit
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    for (const Parameter& parameter : tape_of(model, m).parameters) {
      if (parameter.tie.empty()) continue;
      const auto [found, is_new] = owner.try_emplace(parameter.tie, unit_of[m]);
      if (is_new || found->second == unit_of[m]) continue;
      const std::uint32_t from = unit_of[m];
      const std::uint32_t kept = found->second;
      const std::uint32_t joined = rule == TiedUnits::at_root ? kNoUnit : kept;
      for (std::uint32_t& unit : unit_of)
        if (unit == from || unit == kept) unit = joined;
      found->second = joined;
    }
  }
}

/// Modules that have a tied parameter, each in a unit of its own.
void split_tied(const Model& model, std::vector<std::uint32_t>& unit_of) {
  auto next = static_cast<std::uint32_t>(2 * model.modules.size());  // beyond those of wrapped_by
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    const std::vector<Parameter>& parameters = tape_of(model, m).parameters;
    if (std::any_of(parameters.begin(), parameters.end(),
                    [](const Parameter& parameter) { return !parameter.tie.empty(); }))
      unit_of[m] = next++;
  }
}

/// Numbers the units 1, 2, … in order of their first module; the root is 0.
std::uint32_t renumber(std::vector<std::uint32_t>& unit_of) {
  std::map<std::uint32_t, std::uint32_t> numbers;
  for (std::uint32_t& unit : unit_of) {
    if (unit == kNoUnit) {
      unit = 0;
      continue;
    }
    unit = numbers.try_emplace(unit, static_cast<std::uint32_t>(numbers.size() + 1)).first->second;
  }
  return static_cast<std::uint32_t>(numbers.size() + 1);
}

/// Units of repeated blocks and the ends.
void add_flat_units(const Model& model, Wrap wrap, TiedUnits tied, ShardLayout& layout) {
  layout.unit_of_module = wrapped_by(model, wrap);
  if (tied == TiedUnits::two_names)
    split_tied(model, layout.unit_of_module);
  else
    join_tied(model, tied, layout.unit_of_module);
  const auto modules = static_cast<std::uint32_t>(model.modules.size());
  layout.units.resize(renumber(layout.unit_of_module));
  layout.units[0].last_module = modules - 1;
  for (std::uint32_t m = modules; m-- > 0;) {
    if (layout.unit_of_module[m] == 0) continue;
    layout.units[layout.unit_of_module[m]].first_module = m;
    layout.units[layout.unit_of_module[m]].path = model.modules[m].path;
  }
  for (std::uint32_t m = 0; m < modules; ++m)
    if (layout.unit_of_module[m] != 0) layout.units[layout.unit_of_module[m]].last_module = m;
}

/// The loss, a tree's last module, is outside of the root.
void add_tree_units(const Model& model, Wrap wrap, ShardLayout& layout) {
  const bool whole = wrap == Wrap::model;
  for (const Module& module : model.modules)
    layout.unit_of_module.push_back(whole ? 0 : module.wrap);
  layout.units.emplace_back().last_module = static_cast<std::uint32_t>(model.modules.size() - 2);
  if (whole) return;
  for (const WrapMark& mark : model.wraps)
    layout.units.push_back(
        {false, mark.is_alone, mark.path, mark.first_module, mark.last_module, {}});
}

}  // namespace

ShardLayout shard_layout(const Model& model, Wrap wrap, TiedUnits tied) {
  ShardLayout layout;
  const bool splits = tied == TiedUnits::two_names;
  if (model.is_tree)
    add_tree_units(model, wrap, layout);
  else
    add_flat_units(model, wrap, tied, layout);
  layout.units[0].is_root = true;
  const auto units = static_cast<std::uint32_t>(layout.units.size());
  const auto modules = static_cast<std::uint32_t>(model.modules.size());
  layout.begin_with.resize(modules);
  layout.end_with.resize(modules);
  for (std::uint32_t u = 1; u < units; ++u)
    layout.begin_with[layout.units[u].first_module].push_back(u);
  for (std::uint32_t u = units; u-- > 1;) layout.end_with[layout.units[u].last_module].push_back(u);

  std::uint32_t places = 0;
  layout.first_parameter.reserve(modules);
  for (std::uint32_t m = 0; m < modules; ++m) {
    layout.first_parameter.push_back(places);
    places += static_cast<std::uint32_t>(tape_of(model, m).parameters.size());
  }
  layout.parameter_rows.resize(places);
  layout.parameters.reserve(places);
  layout.unit_of_parameter.reserve(places);

  // Modules by unit, in order: a unit's parameters are consecutive rows.
  const auto has_tied = [&](std::uint32_t m) {
    const std::vector<Parameter>& parameters = tape_of(model, m).parameters;
    return std::any_of(parameters.begin(), parameters.end(),
                       [](const Parameter& parameter) { return !parameter.tie.empty(); });
  };
  std::vector<std::vector<std::uint32_t>> members(units);
  for (std::uint32_t m = 0; m < modules; ++m) {
    const std::uint32_t unit = layout.unit_of_module[m];
    members[unit].push_back(m);
    if (splits && unit != 0 && has_tied(m)) members[0].push_back(m);
  }
  std::map<std::string_view, std::uint32_t> ties;
  for (std::uint32_t u = 0; u < units; ++u) {
    Range& rows = layout.units[u].parameters;
    rows.first = static_cast<std::uint32_t>(layout.parameters.size());
    for (const std::uint32_t m : members[u]) {
      const std::vector<Parameter>& parameters = tape_of(model, m).parameters;
      for (ParameterIndex p = 0; p < parameters.size(); ++p) {
        // Of a module that is split, a unit has the tied ones and the root the others.
        const bool is_split = splits && has_tied(m);
        if (is_split && parameters[p].tie.empty() != (u == 0)) continue;
        const auto row = static_cast<std::uint32_t>(layout.parameters.size());
        std::optional<std::uint32_t> shares;
        std::uint32_t& place = layout.parameter_rows[layout.first_parameter[m] + p];
        place = row;
        if (!parameters[p].tie.empty()) {
          const auto [found, is_new] = ties.try_emplace(parameters[p].tie, row);
          if (splits) {
            if (!is_new) shares = found->second;
          } else {
            place = found->second;
          }
          if (!is_new && !splits) {
            layout.parameters[place].trainable |= parameters[p].trainable;
            continue;
          }
        }
        layout.parameters.push_back({m, p, parameters[p].elements, rows_of(parameters[p].shape),
                                     parameters[p].trainable, parameters[p].gathered_f8, shares});
        layout.unit_of_parameter.push_back(u);
      }
    }
    rows.count = static_cast<std::uint32_t>(layout.parameters.size()) - rows.first;
  }
  return layout;
}

std::int64_t padded_shard_elements(const ShardedParameter& parameter, std::int64_t ranks) {
  if (parameter.elements == 0) return 0;
  return (parameter.rows + ranks - 1) / ranks * (parameter.elements / parameter.rows);
}

FlatParameter flat_parameter(std::span<const ShardedParameter> parameters, std::int64_t ranks,
                             std::int64_t alignment) {
  FlatParameter flat;
  flat.offsets.reserve(parameters.size());
  for (const ShardedParameter& parameter : parameters) {
    if (alignment > 0) flat.elements = (flat.elements + alignment - 1) / alignment * alignment;
    flat.offsets.push_back(flat.elements);
    flat.elements += parameter.elements;
  }
  flat.shard = (flat.elements + ranks - 1) / ranks;
  if (alignment > 0) flat.elements = flat.padded(ranks);
  return flat;
}

}  // namespace foregather::plan
