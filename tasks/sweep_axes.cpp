#include "tasks/sweep_axes.h"

#include <algorithm>
#include <map>

#include "core/base/file.h"
#include "core/plan/workload_keys.h"
#include "core/plan/workload_toml.h"
#include "sim/cost/hardware.h"
#include "sim/passes/registry.h"
#include "tasks/chakra_source.h"
#include "tasks/native_allocator.h"
#include "tasks/recorded_source.h"
#include "tasks/sniff.h"

namespace foregather::tasks {
namespace {

constexpr Bytes kLongestSource = 4 * GiB;
constexpr std::string_view kPass = "what-if.";
constexpr std::string_view kHardware = "cluster.hardware";
constexpr std::string_view kAllocator = "allocator.conf";

std::string canonical(const std::string& key) {
  if (key == "hw") return std::string(kHardware);
  const plan::WorkloadKey* known = plan::find_workload_key(key);
  return known == nullptr ? key : std::string(known->name);
}

Status check_pass_axis(const sim::Axis& axis) {
  const std::string name = axis.key().substr(kPass.size());
  for (const std::string& value : axis.examples()) {
    const auto text = pass_text(name, value);
    if (!text) continue;
    if (const auto pass = sim::parse_pass(*text); !pass)
      return fail_at("--vary " + axis.key(), "{}", pass.error().text());
  }
  return {};
}

// Values as the key itself checks them; which of them go together, points will show.
Status check_value(const sim::Axis& axis, const std::string& key, const std::string& value) {
  plan::Workload scratch;
  const plan::KeyValue given{value, true};
  const plan::WorkloadKey* known = plan::find_workload_key(key);
  const std::string place = "--vary " + axis.key();
  if (known == nullptr) {
    if (plan::keep_model_key(scratch, key, given, place)) return {};
    return fail_at(place, "{}", plan::unknown_key_message(key));
  }
  if (const Status set = known->set(scratch, given); !set)
    return value.empty() ? Status{} : fail_at(place, "{}", set.error().message);
  if (key == kAllocator)
    if (const auto config = parse_native_alloc_conf(value); !config)
      return fail_at(place, "{}", config.error().text());
  if (key != kHardware) return {};
  const auto hardware = sim::load_hardware(value);
  if (hardware) return {};
  return fail_at(place, "{}", hardware.error().text());
}

bool takes_empty(const std::string& key) {
  plan::Workload scratch;
  const plan::WorkloadKey* known = plan::find_workload_key(key);
  return known != nullptr && known->set(scratch, {std::string(), true}).has_value();
}

}  // namespace

std::optional<std::string> pass_text(const std::string& name, const std::string& value) {
  if (value.empty() || value == "off") return std::nullopt;
  if (value == "on") return name;
  return name + (value.starts_with(',') ? "" : "=") + value;
}

Result<SweepAxes> SweepAxes::read(const std::vector<std::string>& vary) {
  std::vector<sim::Axis> axes;
  SweepAxes read;
  for (const std::string& text : vary) {
    auto axis = sim::Axis::parse(text);
    if (!axis) return tl::unexpected(axis.error());
    const std::string key = canonical(axis->key());
    if (std::ranges::find(read.keys_, key) != read.keys_.end())
      return fail_at("--vary " + axis->key(), "{} is given twice, expected one list of values",
                     key);
    if (key.starts_with(kPass)) {
      if (const Status checked = check_pass_axis(*axis); !checked)
        return tl::unexpected(checked.error());
    } else {
      for (const std::string& value : axis->examples())
        if (const Status checked = check_value(*axis, key, value); !checked)
          return tl::unexpected(checked.error());
    }
    read.keys_.push_back(key);
    read.takes_empty_.push_back(takes_empty(key) ? 1 : 0);
    axes.push_back(std::move(*axis));
  }
  auto grid = sim::Grid::make(std::move(axes));
  if (!grid) return tl::unexpected(grid.error());
  read.grid_ = std::move(*grid);
  return read;
}

void SweepAxes::apply(const std::vector<std::string>& values, Candidate& candidate) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (keys_[i].starts_with(kPass)) {
      if (auto pass = pass_text(keys_[i].substr(kPass.size()), values[i]))
        candidate.what_if.push_back(std::move(*pass));
    } else if (!values[i].empty() || takes_empty_[i] != 0) {
      candidate.sets.push_back(keys_[i] + "=" + values[i]);
    }
  }
}

std::optional<std::size_t> SweepAxes::column(std::string_view key) const {
  const std::string known = canonical(std::string(key));
  const auto found = std::ranges::find(keys_, known);
  if (found == keys_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - keys_.begin());
}

Status SweepAxes::check_beside(const std::vector<std::string>& sets) const {
  for (const std::string& set : sets) {
    const auto at = column(set.substr(0, set.find('=')));
    if (!at) continue;
    const sim::Axis& axis = grid().axes()[*at];
    // Where the axis leaves the key as it is, the set holds.
    if (takes_empty_[*at] == 0 && std::ranges::count(axis.examples(), "") > 0) continue;
    return fail_at("--vary " + axis.key(),
                   "{} is set for all points, too (--set, --hw), and no point would keep that: "
                   "expected one of the two",
                   keys_[*at]);
  }
  return {};
}

Result<std::optional<std::string>> workload_text(const std::string& source) {
  if (is_chakra(source)) return std::nullopt;
  const auto recorded = is_recorded(source);
  if (!recorded) return tl::unexpected(recorded.error());
  if (*recorded) return std::nullopt;
  auto text = read_file(source, kLongestSource);
  if (!text) return tl::unexpected(text.error());
  const auto kind = sniff(*text, source);
  if (!kind) return tl::unexpected(kind.error());
  if (*kind != SourceKind::workload) return std::nullopt;
  return std::optional(std::move(*text));
}

Status check_sets(const std::vector<std::string>& sets) {
  for (const std::string& set : sets) {
    plan::Workload scratch;
    const auto equals = set.find('=');
    if (equals == std::string::npos || equals == 0)
      return fail_at("--set " + set, "expected KEY=VALUE, for example train.micro_batch=2");
    const std::string key = set.substr(0, equals);
    const plan::KeyValue value{set.substr(equals + 1), true};
    const plan::WorkloadKey* known = plan::find_workload_key(key);
    if (known == nullptr && !plan::keep_model_key(scratch, key, value, {}))
      return fail_at("--set " + key, "{}", plan::unknown_key_message(key));
    if (known == nullptr) continue;
    if (const Status done = known->set(scratch, value); !done)
      return fail_at("--set " + key, "{}", done.error().message);
  }
  return {};
}

Result<SweepConditions> SweepConditions::read(const std::vector<std::string>& where,
                                              const SweepAxes& axes,
                                              const std::vector<std::string>& sets,
                                              const std::optional<std::string>& text,
                                              const std::string& source) {
  SweepConditions conditions;
  std::map<std::string, std::string> known;
  if (text) {
    auto keys = plan::written_keys(*text, source);
    if (!keys) return tl::unexpected(keys.error());
    for (const auto& [key, value] : *keys) known[canonical(key)] = value;
  }
  for (const std::string& set : sets)
    known[canonical(set.substr(0, set.find('=')))] = set.substr(set.find('=') + 1);
  const auto column_of = [&](std::string_view key) -> std::optional<std::size_t> {
    if (const auto column = axes.column(key)) return column;
    const auto found = known.find(canonical(std::string(key)));
    if (found == known.end()) return std::nullopt;
    conditions.constants_.push_back(found->second);
    return axes.grid().axes().size() + conditions.constants_.size() - 1;
  };
  for (const std::string& each : where) {
    auto condition = sim::Condition::parse(each, column_of);
    if (!condition) return tl::unexpected(condition.error());
    conditions.conditions_.push_back(std::move(*condition));
  }
  return conditions;
}

Result<bool> SweepConditions::hold(std::vector<std::string> values) const {
  values.insert(values.end(), constants_.begin(), constants_.end());
  for (const sim::Condition& condition : conditions_) {
    const auto holds = condition.holds(values);
    if (!holds || !*holds) return holds;
  }
  return true;
}

}  // namespace foregather::tasks
