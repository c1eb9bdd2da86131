// Rows whose sources say which script ran, and what they set.
#pragma once

#include <string>
#include <utility>

#include "tasks/validation/row_workload.h"

namespace foregather::test {

inline tasks::MeasuredRow row_of(std::string source, std::string notes = {}) {
  tasks::MeasuredRow row;
  row.source = std::move(source);
  row.notes = std::move(notes);
  return row;
}

inline tasks::MeasuredRow full_row() {
  tasks::MeasuredRow row = row_of("https://github.com/pytorch/torchtitan/pull/1500");
  row.id = "x";
  row.gpu = "H100-SXM-80GB";
  row.strategy = "fsdp2";
  row.param_dtype = row.compute = "bf16";
  row.reduce_dtype = row.master = "fp32";
  row.checkpointing = "selective_op";
  row.compile = "per_block";
  row.attention = "sdpa";
  row.optimizer = "adamw";
  row.config = "llama3_8b";
  row.link = "nvswitch";
  row.fabric = "none";
  row.gpus = 8;
  row.micro_batch = 1;
  row.seq_len = 512;
  return row;
}

/// As TOML writes it; empty: not set.
inline std::string value_of(const tasks::RowWorkload& workload, const std::string& key) {
  for (const tasks::Setting& setting : workload.settings)
    if (setting.key == key) return setting.value;
  return {};
}

inline bool sets(const tasks::RowWorkload& workload, const std::string& key) {
  return !value_of(workload, key).empty();
}

}  // namespace foregather::test
