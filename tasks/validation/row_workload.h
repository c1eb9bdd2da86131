// A published result as a workload.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "tasks/validation/measured.h"

namespace foregather::tasks {

struct Setting {
  std::string key;    ///< "train.micro_batch"
  std::string value;  ///< as TOML writes it
};

struct RowWorkload {
  std::string model;  ///< text of the config.json
  std::vector<Setting> settings;
  /// Taken over `settings` where those do not fit the memory: what the source leaves open and
  /// users turn on then (activation checkpointing).
  std::vector<Setting> if_too_large;
  std::vector<std::string> what_if;      ///< passes, as --what-if takes them
  std::int64_t timed_parts = 1;          ///< the published time is of a step divided by that
  std::vector<std::string> assumptions;  ///< what the key columns leave open, for people
};

/// From the key columns, and what row_script.h reads in the source, never from the id. Errors
/// (without place) are the reason why a row cannot be predicted: a parallelism that is no subject
/// of predictions, a setting without a key.
Result<RowWorkload> workload_of(const MeasuredRow& row);

/// The TOML file; `model_path` is the config.json, relative to it. A comment names the passes.
std::string toml_of(const RowWorkload& workload, const std::string& model_path, bool too_large);

}  // namespace foregather::tasks
