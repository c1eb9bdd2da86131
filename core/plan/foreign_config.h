// Configuration files of other tools that stand for the tables of a workload.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/plan/workload_keys.h"

namespace foregather::plan {

/// A key of a workload as such a file says it.
struct ForeignKey {
  std::string name;
  KeyValue value;
  std::string place;  ///< FILE:LINE:COL of what it comes from
};

struct ForeignConfig {
  std::string path;
  std::vector<ForeignKey> keys;
  OfAllRanks of_all_ranks;
  /// What the file says and has no effect here, dotted; a section without any effect is one entry.
  std::vector<std::string> ignored;
};

/// Is the text a JSON object with a key that only DeepSpeed configurations have?
bool is_deepspeed_config(std::string_view text);

/// A DeepSpeed JSON (keys and defaults of DeepSpeed 0.17.6, runtime/config.py and zero/config.py).
/// Without bf16 or fp16 training is fp32, without gradient_clipping nothing is clipped; Adam is
/// DeepSpeed's fused one unless torch_adam. "auto" is what Hugging Face's Trainer resolves it to:
/// bf16, clipping, and for sizes `auto` of the key; batch sizes that are "auto" are left to the
/// workload. Of the three batch sizes and the world size, the one that is missing follows from the
/// others (share_batch). Stages 0, 2 and 3; 0 is DDP that reduces one bucket a step. Offloading to
/// NVMe is read as to the CPU, and listed. Errors: syntax, wrong types, a stage that is not
/// simulated, FILE:LINE:COL.
Result<ForeignConfig> read_deepspeed_config(std::string_view text, const std::string& path);

/// A torchtitan TOML (its JobConfig of 2024 and 2025): FSDP2 of Llama 3, with the batch, sequence,
/// checkpointing, clipping, offload, reshard policy and degrees of data parallelism that it says,
/// or torchtitan's defaults: 8 sequences of 2048 tokens, every second block checkpointed. Degrees
/// are read in [parallelism], and in [training] and [experimental] as before 2025. Other kinds of
/// parallelism are listed where their degree is not 1. A model that is not known
/// here is listed; the workload then needs model.config.
Result<ForeignConfig> read_torchtitan_config(std::string_view text, const std::string& path);

/// Has the TOML text a table that torchtitan has and a workload has not?
bool is_torchtitan_config(std::string_view text);

}  // namespace foregather::plan
