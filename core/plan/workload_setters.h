// What stores the value of a key in a workload: checked, or an error without a place. Of the table
// in workload_keys.cpp alone.
#pragma once

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "core/plan/key_values.h"
#include "core/plan/workload_keys.h"

namespace foregather::plan {

inline constexpr std::int64_t kMostBlocks = 1'000'000;
inline constexpr Bytes kLargestBucket = Bytes{1} << 40;
inline constexpr std::int64_t kMostElements = std::numeric_limits<std::int64_t>::max();

// Names of dtypes that training uses, and what they are. "f32" and "f16", as the graph says, too.
inline constexpr std::array<std::string_view, 3> kDTypeNames{"bf16", "fp32", "fp16"};
inline constexpr std::array kDTypeValues{DType::bf16, DType::f32, DType::f16};

/// A file name written in the workload is relative to the workload, one written on the command line
/// to the working directory.
std::string resolved_path(const Workload& workload, const KeyValue& value, const std::string& path);

// Setters of one field of one section.
template <auto Section, auto Field, std::int64_t Least, std::int64_t Most>
Status set_integer(Workload& workload, const KeyValue& value) {
  return to_integer(value, Least, Most).map([&](std::int64_t number) {
    auto& field = workload.*Section.*Field;
    field = static_cast<std::remove_reference_t<decltype(field)>>(number);
  });
}

template <auto Section, auto Field, Bytes Least, Bytes Most>
Status set_bytes(Workload& workload, const KeyValue& value) {
  return to_bytes(value, Least, Most).map([&](Bytes size) { workload.*Section.*Field = size; });
}

template <auto Section, auto Field>
Status set_bool(Workload& workload, const KeyValue& value) {
  return to_bool(value).map([&](bool flag) { workload.*Section.*Field = flag; });
}

template <auto Section, auto Field, const auto& Names>
Status set_choice(Workload& workload, const KeyValue& value) {
  return to_choice(value, Names).map([&](std::size_t choice) {
    auto& field = workload.*Section.*Field;
    field = static_cast<std::remove_reference_t<decltype(field)>>(choice);
  });
}

template <auto Section, auto Field>
Status set_dtype(Workload& workload, const KeyValue& value) {
  const auto* text = std::get_if<std::string>(&value.content);
  for (const DType type : kDTypeValues)
    if (text != nullptr && *text == name(type)) {
      workload.*Section.*Field = type;
      return {};
    }
  return to_choice(value, kDTypeNames).map([&](std::size_t choice) {
    workload.*Section.*Field = kDTypeValues[choice];
  });
}

// The name of something built in, or the path of a file.
template <auto Field>
Status set_name_or_path(Workload& workload, const KeyValue& value) {
  return to_text(value).and_then([&](const std::string& name) -> Status {
    if (name.empty()) return fail("the name is empty");
    const bool is_path = name.find('/') != std::string::npos || name.ends_with(".toml");
    workload.cluster.*Field = is_path ? resolved_path(workload, value, name) : name;
    return {};
  });
}

// A size of ZeRO's, or what Hugging Face's Trainer makes of it.
template <auto Field, auto Auto, std::int64_t Least>
Status set_size(Workload& workload, const KeyValue& value) {
  const auto* text = std::get_if<std::string>(&value.content);
  workload.zero.*Auto = text != nullptr && *text == "auto";
  if (workload.zero.*Auto) return {};
  return set_integer<&Workload::zero, Field, Least, kMostElements>(workload, value);
}

template <auto Field>
Status set_foreign_config(Workload& workload, const KeyValue& value) {
  return to_text(value).and_then([&](const std::string& path) -> Status {
    if (path.empty()) return fail("the path of the file is empty");
    workload.*Field = resolved_path(workload, value, path);
    return {};
  });
}

Status set_precision(Workload& workload, const KeyValue& value);
Status set_checkpointing(Workload& workload, const KeyValue& value);
Status set_tree(Workload& workload, const KeyValue& value);
Status set_tree_loss(Workload& workload, const KeyValue& value);
Status set_target_len(Workload& workload, const KeyValue& value);
Status set_trainable(Workload& workload, const KeyValue& value);
Status set_lora_targets(Workload& workload, const KeyValue& value);
Status set_lora_rank(Workload& workload, const KeyValue& value);
Status set_lora_dropout(Workload& workload, const KeyValue& value);
Status set_lora_fp32(Workload& workload, const KeyValue& value);
Status set_lora_autocast(Workload& workload, const KeyValue& value);
Status set_reshard(Workload& workload, const KeyValue& value);
Status set_scale(Workload& workload, const KeyValue& value);
Status set_attention_speed(Workload& workload, const KeyValue& value);
Status set_momentum(Workload& workload, const KeyValue& value);
Status set_config(Workload& workload, const KeyValue& value);
Status set_layers(Workload& workload, const KeyValue& value);
Status set_towers(Workload& workload, const KeyValue& value);
Status set_fabric_gbps(Workload& workload, const KeyValue& value);
Status set_allocator_conf(Workload& workload, const KeyValue& value);
Status set_overlap_comm(Workload& workload, const KeyValue& value);

}  // namespace foregather::plan
