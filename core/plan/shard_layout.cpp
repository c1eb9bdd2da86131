#include "core/plan/shard_layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "core/plan/trainable.h"

namespace foregather::plan {

namespace {

constexpr std::uint32_t kNoUnit = 0xffffffffU;

const Tape& tape_of(const Model& model, std::size_t module) {
  return model.tapes[model.modules[module].tape];
}

bool has_tied(const Tape& tape) {
  return std::any_of(tape.parameters.begin(), tape.parameters.end(),
                     [](const Parameter& parameter) { return !parameter.tie.empty(); });
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
    if (has_tied(tape_of(model, m))) unit_of[m] = next++;
  }
}

/// Numbers the units 1, 2, … in order of their first module; the root is 0.
std::uint32_t renumber(std::vector<std::uint32_t>& unit_of) {
  std::vector<std::uint32_t> numbers;  // by what a unit was called before; 0: not met yet
  std::uint32_t units = 1;
  for (std::uint32_t& unit : unit_of) {
    if (unit == kNoUnit) {
      unit = 0;
      continue;
    }
    if (unit >= numbers.size()) numbers.resize(2 * unit + 1);
    if (numbers[unit] == 0) numbers[unit] = units++;
    unit = numbers[unit];
  }
  return units;
}

/// Those of a unit of modules that are no blocks, as PyTorch names such a list ("model.norm,
/// lm_head"); the first module where they are many (vision towers).
std::string path_of_ends(const Model& model, const ShardLayout& layout, std::uint32_t unit) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> names;
  for (std::uint32_t m = 0; m < model.modules.size(); ++m)
    for (const Parameter& parameter : tape_of(model, m).parameters) {
      if (layout.unit_of_module[m] != unit) break;
      const std::string& path = model.modules[m].path;
      std::string name = (path.empty() ? path : path + '.') + module_of(parameter.name);
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
  if (names.empty() || names.size() > kMost)
    return model.modules[layout.units[unit].first_module].path;
  std::string path;
  for (const std::string& name : names) path += (path.empty() ? "" : ", ") + name;
  return path;
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
  for (std::uint32_t m = modules; m-- > 0;) layout.units[layout.unit_of_module[m]].first_module = m;
  layout.units[0].first_module = 0;
  for (std::uint32_t m = 0; m < modules; ++m)
    layout.units[layout.unit_of_module[m]].last_module = m;
  layout.units[0].last_module = modules - 1;
  for (std::uint32_t u = 1; u < layout.units.size(); ++u) {
    const Module& first = model.modules[layout.units[u].first_module];
    layout.units[u].path = first.is_block ? first.path : path_of_ends(model, layout, u);
  }
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
        {false, mark.is_alone, false, mark.path, mark.first_module, mark.last_module, {}});
}

/// Where each module's parameters begin among those of all modules; returns how many there are.
std::uint32_t place_parameters(const Model& model, ShardLayout& layout) {
  std::uint32_t places = 0;
  layout.first_parameter.reserve(model.modules.size());
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    layout.first_parameter.push_back(places);
    places += static_cast<std::uint32_t>(tape_of(model, m).parameters.size());
  }
  return places;
}

/// The unit of each parameter of each module. Of a module that is split the unit has the tied ones
/// and the root the others.
std::vector<std::uint32_t> units_of_parameters(const Model& model, const ShardLayout& layout,
                                               TiedUnits tied, std::uint32_t places) {
  std::vector<std::uint32_t> units(places);
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    const Tape& tape = tape_of(model, m);
    const bool is_split = tied == TiedUnits::two_names && has_tied(tape);
    for (ParameterIndex p = 0; p < tape.parameters.size(); ++p)
      if (!is_split || !tape.parameters[p].tie.empty())
        units[layout.first_parameter[m] + p] = layout.unit_of_module[m];
  }
  return units;
}

/// "self_attn.q_proj.lora_A" of "self_attn.q_proj.lora_A.weight", "" of "weight".
std::string_view leaf_of(const Parameter& parameter) {
  const std::size_t dot = parameter.name.rfind('.');
  return std::string_view(parameter.name).substr(0, dot == std::string::npos ? 0 : dot);
}

void add_leaves_of(const Model& model, std::uint32_t module, bool takes_frozen, ShardLayout& layout,
                   std::span<std::uint32_t> unit_of) {
  const std::vector<Parameter>& parameters = tape_of(model, module).parameters;
  std::map<std::string_view, std::uint32_t> leaves;
  for (const Parameter& parameter : parameters) {
    if (!(requires_gradient(parameter) || takes_frozen) || !parameter.tie.empty()) continue;
    const std::string_view name = leaf_of(parameter);
    if (!leaves.try_emplace(name, static_cast<std::uint32_t>(layout.units.size())).second) continue;
    std::string path = model.modules[module].path;
    if (!path.empty() && !name.empty()) path += '.';
    path += name;
    const bool is_alone = layout.units[layout.unit_of_module[module]].is_alone;
    layout.units.push_back({.is_alone = is_alone,
                            .is_leaf = true,
                            .path = path,
                            .first_module = module,
                            .last_module = module,
                            .parameters = {}});
  }
  for (ParameterIndex p = 0; p < parameters.size(); ++p)
    if (const auto leaf = leaves.find(leaf_of(parameters[p]));
        leaf != leaves.end() && parameters[p].tie.empty())
      unit_of[p] = leaf->second;
}

/// Leaves come behind the unit that they are in, in the order in which all begin.
void add_leaves(const Model& model, Wrap wrap, ShardLayout& layout,
                std::vector<std::uint32_t>& unit_of) {
  const bool all = wrap == Wrap::leaf;
  const std::vector<bool> in_part = trained_in_part(model, layout);
  for (std::uint32_t m = 0; m < model.modules.size(); ++m)
    if (all || in_part[layout.unit_of_module[m]])
      add_leaves_of(model, m, all, layout, std::span(unit_of).subspan(layout.first_parameter[m]));
  std::vector<std::uint32_t> order(layout.units.size()), place(layout.units.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin() + 1, order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return layout.units[a].first_module < layout.units[b].first_module;
  });
  std::vector<UnitPlan> sorted;
  for (const std::uint32_t unit : order) {
    place[unit] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(std::move(layout.units[unit]));
  }
  layout.units = std::move(sorted);
  for (std::uint32_t& unit : layout.unit_of_module) unit = place[unit];
  for (std::uint32_t& unit : unit_of) unit = place[unit];
}

}  // namespace

ShardLayout shard_layout(const Model& model, Wrap wrap, TiedUnits tied, FrozenParts frozen) {
  ShardLayout layout;
  const bool splits = tied == TiedUnits::two_names;
  if (model.is_tree)
    add_tree_units(model, wrap, layout);
  else
    add_flat_units(model, wrap, tied, layout);
  layout.units[0].is_root = true;
  const std::uint32_t places = place_parameters(model, layout);
  std::vector<std::uint32_t> unit_of = units_of_parameters(model, layout, tied, places);
  if (frozen == FrozenParts::apart || wrap == Wrap::leaf) add_leaves(model, wrap, layout, unit_of);
  const auto units = static_cast<std::uint32_t>(layout.units.size());
  const auto modules = static_cast<std::uint32_t>(model.modules.size());
  layout.begin_with.resize(modules);
  layout.end_with.resize(modules);
  for (std::uint32_t u = 1; u < units; ++u)
    if (!layout.units[u].is_leaf) layout.begin_with[layout.units[u].first_module].push_back(u);
  for (std::uint32_t u = units; u-- > 1;)
    if (!layout.units[u].is_leaf) layout.end_with[layout.units[u].last_module].push_back(u);

  // Parameters by unit, in order: a unit's are consecutive rows.
  struct Place {
    std::uint32_t module = 0;
    ParameterIndex parameter = 0;
  };
  std::vector<std::uint32_t> ends(units + 1);  // of each unit's places, once they are in
  for (const std::uint32_t unit : unit_of) ++ends[unit + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<Place> members(places);
  for (std::uint32_t m = 0; m < modules; ++m)
    for (ParameterIndex p = 0; p < tape_of(model, m).parameters.size(); ++p)
      members[ends[unit_of[layout.first_parameter[m] + p]]++] = {m, p};
  layout.parameter_rows.resize(places);
  layout.parameters.reserve(places);
  layout.unit_of_parameter.reserve(places);

  std::map<std::string_view, std::uint32_t> ties;
  for (std::uint32_t u = 0, next = 0; u < units; ++u) {
    Range& rows = layout.units[u].parameters;
    rows.first = static_cast<std::uint32_t>(layout.parameters.size());
    for (; next < ends[u]; ++next) {
      const auto [m, p] = members[next];
      const Parameter& parameter = tape_of(model, m).parameters[p];
      const auto row = static_cast<std::uint32_t>(layout.parameters.size());
      std::optional<std::uint32_t> shares;
      std::uint32_t& place = layout.parameter_rows[layout.first_parameter[m] + p];
      place = row;
      if (!parameter.tie.empty()) {
        const auto [found, is_new] = ties.try_emplace(parameter.tie, row);
        if (splits) {
          if (!is_new) shares = found->second;
        } else {
          place = found->second;
        }
        if (!is_new && !splits) {
          layout.parameters[place].trainable |= parameter.trainable;
          continue;
        }
      }
      layout.parameters.push_back(
          {m, p, parameter.elements, parameter.shape.empty() ? 1 : parameter.shape.front(),
           parameter.trainable, parameter.is_unused, parameter.gathered_f8, shares});
      layout.unit_of_parameter.push_back(u);
    }
    rows.count = static_cast<std::uint32_t>(layout.parameters.size()) - rows.first;
  }
  return layout;
}

std::vector<bool> trained_in_part(const Model& model, const ShardLayout& layout) {
  std::vector<bool> trained(layout.units.size()), frozen(layout.units.size());
  for (std::size_t m = 0; m < model.modules.size(); ++m)
    for (const Parameter& parameter : tape_of(model, m).parameters)
      (requires_gradient(parameter) ? trained : frozen)[layout.unit_of_module[m]] = true;
  for (std::size_t u = 0; u < trained.size(); ++u) trained[u] = trained[u] && frozen[u];
  return trained;
}

std::int64_t padded_shard_elements(const ShardedParameter& parameter, std::int64_t ranks) {
  if (parameter.elements == 0) return 0;
  return (parameter.rows + ranks - 1) / ranks * (parameter.elements / parameter.rows);
}

FlatParameter flat_parameter(std::span<const ShardedParameter> parameters, std::int64_t ranks,
                             std::int64_t group, std::int64_t alignment) {
  FlatParameter flat;
  flat.offsets.reserve(parameters.size());
  for (const ShardedParameter& parameter : parameters) {
    if (alignment > 0) flat.elements = (flat.elements + alignment - 1) / alignment * alignment;
    flat.offsets.push_back(flat.elements);
    flat.elements += parameter.elements;
  }
  if (alignment > 0) flat.elements = (flat.elements + group - 1) / group * group;
  flat.shard = (flat.elements + ranks - 1) / ranks;
  return flat;
}

}  // namespace foregather::plan
