#include "gui/models/knobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "core/plan/workload_keys.h"

namespace foregather::gui {
namespace {

using Kind = Knob::Kind;

struct PassKnob {
  std::string_view name;     ///< up to the value
  std::string_view choices;  ///< as of a key; empty: it has no argument
  std::string_view help;
};

// In the order in which they apply: prices, then what gathers there are, then when, then the order
// of everything.
constexpr std::array kPassKnobs{
    PassKnob{"scale=links:", "number", "Makes links so many times as fast"},
    PassKnob{"scale=compute:", "number", "Makes device work so many times as fast"},
    PassKnob{"scale=host:", "number", "Makes the host so many times as fast"},
    PassKnob{"dedup-shared-params", "", "Gathers a storage of two names once"},
    PassKnob{"fuse-downcast", "", "Casts a shard before its gather"},
    PassKnob{"reshard=", "always | never | 2 | 4 | 8",
             "Frees parameters after the forward, keeps them, or an N-th of them"},
    PassKnob{"limit-all-gathers=", "none | 1 | 2 | 4",
             "The host waits for units that were freed before it gathers more"},
    PassKnob{"prefetch=", "none | backward-pre | backward-post",
             "When the backward's all-gathers are issued"},
    PassKnob{"forward-prefetch", "", "Issues the forward's all-gathers one unit ahead"},
    PassKnob{"bucket=", "layer | block", "Packs gathers and reductions into fewer"},
    PassKnob{"recompute=", "none | full", "Makes what blocks save again in the backward"},
    PassKnob{"fusion=", "none | vertical | horizontal | consecutive",
             "Takes fused regions apart, or merges ops"},
    PassKnob{"order=", "program | depth-first | memory | list | fast-free",
             "The order of ops, for the least memory or another end"},
};

constexpr std::string_view kOn = "on";

std::vector<std::string> parts(std::string_view text) {
  constexpr std::string_view kBar = " | ";
  std::vector<std::string> found;
  for (;;) {
    const auto bar = text.find(kBar);
    found.emplace_back(text.substr(0, bar));
    if (bar == text.npos) return found;
    text.remove_prefix(bar + kBar.size());
  }
}

bool is_number(std::string_view values) {
  return values.starts_with("integer") || values.starts_with("number") ||
         values.starts_with("bytes");
}

// "N", "selective:N" or "blocks:LIST" is to be written out.
bool is_pattern(std::string_view choice) {
  return choice == "N" || choice.ends_with(":N") || choice.ends_with(":LIST");
}

// "micro batch" of "train.micro_batch".
std::string label_of(std::string_view name) {
  std::string label(name.substr(name.rfind('.') + 1));
  std::replace(label.begin(), label.end(), '_', ' ');
  return label;
}

const std::vector<std::string>* names_of(std::string_view key, const KnobNames& names) {
  if (key == "cluster.hardware") return &names.hardware;
  if (key == "cluster.topology") return &names.topologies;
  if (key == "cluster.fabric") return &names.fabrics;
  return nullptr;
}

// Paths, lists and modules are written in files.
bool is_knob(const plan::WorkloadKey& key) {
  return key.name != "model.tree" && !key.is_list && key.values != "path";
}

Knob knob_of(const plan::WorkloadKey& key, const KnobNames& names) {
  Knob knob;
  knob.name = key.name;
  knob.group = key.name.substr(0, key.name.find('.'));
  knob.label = label_of(key.name);
  knob.help = key.doc;
  knob.given = key.default_value;
  if (const auto* known = names_of(key.name, names)) {
    knob.choices = *known;
  } else if (is_number(key.values)) {
    knob.kind = Kind::number;
  } else if (key.values.find(" | ") == key.values.npos) {
    knob.kind = Kind::text;
  } else {
    for (std::string& choice : parts(key.values))
      if (is_pattern(choice))
        knob.kind = Kind::number;
      else
        knob.choices.push_back(std::move(choice));
  }
  return knob;
}

void add_passes(std::vector<Knob>& knobs) {
  for (const PassKnob& pass : kPassKnobs) {
    Knob knob;
    knob.name = pass.name;
    knob.group = "passes";
    knob.label = pass.name.substr(0, pass.name.find_last_not_of("=:") + 1);
    std::replace(knob.label.begin(), knob.label.end(), '=', ' ');
    knob.help = pass.help;
    knob.is_pass = true;
    if (pass.choices.empty())
      knob.choices = {std::string(kOn)};
    else if (is_number(pass.choices))
      knob.kind = Kind::number;
    else
      knob.choices = parts(pass.choices);
    knob.given = knob.kind == Kind::number ? "1" : knob.choices.front() == kOn ? "off" : "as it is";
    knobs.push_back(std::move(knob));
  }
}

// What the defaults of these follow from is more than a few words can say.
std::optional<std::int64_t> resolved(const plan::Workload& workload, std::string_view key) {
  const auto known = [](auto number) {
    return number > 0 ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
  };
  if (key == "model.layers") return known(workload.layers);
  if (key == "train.seq_len") return known(workload.train.seq_len);
  if (key == "parallel.world_size") return known(workload.parallel.world_size);
  if (key == "parallel.shard_size") return known(workload.parallel.shard_size);
  if (key == "cluster.nodes") return known(workload.cluster.nodes);
  if (key == "cluster.gpus_per_node") return known(workload.cluster.gpus_per_node);
  return std::nullopt;
}

}  // namespace

std::string Knob::argument(const std::string& value) const {
  if (!is_pass) return name + "=" + value;
  return choices.size() == 1 && choices.front() == kOn ? name : name + value;
}

std::vector<Knob> workload_knobs(const plan::Workload& workload,
                                 const std::vector<std::pair<std::string, std::string>>& written,
                                 const plan::Workload& given, const KnobNames& names) {
  std::vector<Knob> knobs;
  const plan::StrategySet own = plan::set_of(workload.parallel.strategy);
  for (const plan::WorkloadKey& key : plan::workload_keys()) {
    const bool is_layers = key.name == "model.layers";
    if ((!is_knob(key) && !is_layers) || (key.strategies & own) == 0) continue;
    if (key.needs.holds != nullptr && !key.needs.holds(workload)) continue;
    if (is_layers && !workload.towers.empty()) continue;
    Knob knob = knob_of(key, names);
    if (const auto number = resolved(given, key.name)) knob.given = std::to_string(*number);
    for (const auto& [name, value] : written)
      if (name == key.name) knob.given = value;
    knobs.push_back(std::move(knob));
  }
  add_passes(knobs);
  return knobs;
}

std::vector<Knob> schedule_knobs(const KnobNames& names, bool is_recorded) {
  constexpr std::array<std::string_view, 6> kMachine{
      "cluster.hardware",   "cluster.topology", "cluster.link_bandwidth_scale",
      "cluster.contention", "cluster.fabric",   "allocator.conf"};
  std::vector<Knob> knobs;
  for (const plan::WorkloadKey& key : plan::workload_keys())
    if (std::find(kMachine.begin(), kMachine.end(), key.name) != kMachine.end()) {
      knobs.push_back(knob_of(key, names));
      if (is_recorded && key.name == "cluster.hardware") knobs.back().given = "as recorded";
    }
  add_passes(knobs);
  return knobs;
}

std::string turned(const Knob& knob, const std::string& value, bool up) {
  double number = 0;
  const char* const last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, number);
  if (error != std::errc() || end != last || number <= 0) return {};
  const double next = up ? number * 2 : number / 2;
  const bool is_whole = next == std::floor(next);
  const bool takes_fractions = knob.is_pass || knob.name == "cluster.link_bandwidth_scale" ||
                               knob.name == "cluster.fabric_gbps" ||
                               knob.name == "train.attention_speed";
  constexpr double kMost = 1e15;
  if ((!is_whole && !takes_fractions) || next > kMost) return {};
  return is_whole ? fmt::format("{:.0f}", next) : fmt::format("{}", next);
}

}  // namespace foregather::gui
