#include "traces/kineto_top.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace foregather::traces {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::optional<std::uint32_t> count(const OrderedJson& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  const auto value = found->get<std::int64_t>();
  if (value < 0 || value > (std::int64_t{1} << 30)) return std::nullopt;
  return static_cast<std::uint32_t>(value);
}

void read_distributed(const OrderedJson& info, run::Recording& recording, KinetoFacts& facts) {
  recording.rank = count(info, "rank");
  recording.world_size = count(info, "world_size");
  if (const auto backend = info.find("backend"); backend != info.end() && backend->is_string())
    recording.backend = backend->get<std::string>();
  for (const char* key : {"backend", "nccl_version", "rank", "world_size"})
    if (const auto value = info.find(key); value != info.end() && value->is_primitive())
      facts.distributed.emplace_back(
          key, value->dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
  if (const auto groups = info.find("pg_config"); groups != info.end() && groups->is_array()) {
    facts.process_groups = static_cast<std::int64_t>(groups->size());
    for (const OrderedJson& group : *groups)
      if (const auto size = group.is_object() ? count(group, "pg_size") : std::nullopt)
        recording.group_sizes.push_back(*size);
  } else if (const auto number = count(info, "pg_count"))
    facts.process_groups = *number;
}

/// What a reader of figures may want to know of how they were made.
bool is_copied(std::string_view key) {
  constexpr std::array<std::string_view, 11> kCopied{
      "schemaVersion",       "displayTimeUnit",    "baseTimeNanoseconds",  "record_shapes",
      "with_stack",          "profile_memory",     "cuda_runtime_version", "cuda_driver_version",
      "hip_runtime_version", "hip_driver_version", "roctracer_version"};
  return std::find(kCopied.begin(), kCopied.end(), key) != kCopied.end();
}

void read_devices(const OrderedJson& devices, run::Recording& recording, KinetoFacts& facts) {
  facts.machine_devices = static_cast<std::int64_t>(devices.size());
  for (const OrderedJson& device : devices) {
    if (!device.is_object()) continue;
    const auto name = device.find("name");
    if (name != device.end() && name->is_string())
      recording.devices.push_back(name->get<std::string>());
  }
}

/// Our own exports say what they hold.
bool is_prediction(const OrderedJson& other) {
  const auto says = [&](const char* key, std::string_view text) {
    const auto found = other.find(key);
    return found != other.end() && found->is_string() &&
           found->get_ref<const std::string&>().starts_with(text);
  };
  return other.is_object() && says("tool", "foregather ") && says("kind", "predicted");
}

}  // namespace

void read_kineto_top(const JsonTop& top, run::Recording& recording, KinetoFacts& facts) {
  for (const std::string& key : top.keys)
    if (key != "traceEvents") facts.top_keys.push_back(key);
  const OrderedJson object = OrderedJson::parse(top.object, nullptr, false);
  if (!object.is_object()) {
    recording.warnings.push_back(recording.source +
                                 ": what lies beside the events is no JSON, and is left out");
    return;
  }
  for (const auto& [key, value] : object.items()) {
    if (key == "otherData" && is_prediction(value)) {
      recording.is_predicted = true;
      recording.warnings.push_back(recording.source +
                                   ": holds a prediction that foregather exported; no time in it "
                                   "was measured");
    }
    if (key == "traceEvents")
      recording.warnings.push_back(
          fmt::format("{}: 'traceEvents' is {} {}, expected a list: it has no events",
                      recording.source, value.is_object() ? "an" : "a", value.type_name()));
    if (key == "distributedInfo" && value.is_object()) {
      read_distributed(value, recording, facts);
    } else if (key == "deviceProperties" && value.is_array()) {
      read_devices(value, recording, facts);
    } else if (is_copied(key) && value.is_primitive()) {
      if (key == "baseTimeNanoseconds" && value.is_number_integer()) {
        const auto base = value.get<std::int64_t>();
        if (base >= 0 && base <= kLatestTime)
          recording.base = base;
        else
          recording.warnings.push_back(
              fmt::format("{}: baseTimeNanoseconds is {}, expected a time: clocks of several files "
                          "are put together without it",
                          recording.source, value.dump()));
      }
      facts.copied.emplace_back(key,
                                value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
    }
  }
}

}  // namespace foregather::traces
