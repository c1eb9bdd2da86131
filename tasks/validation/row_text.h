// What the free texts of a published result say that has no key column.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/plan/model_names.h"

namespace foregather::tasks {

struct LoraText {
  std::optional<std::int64_t> rank;
  std::vector<std::string> targets;  ///< as train.lora_targets takes them; empty: not stated
};

/// LoRA that a text names ("Llama-2-7B + LoRA r16 (q,k,v,o)", "rank 8, all linear"); absent where
/// it names none or denies it ("LoRA-free"). Targets are the modules of `names`; `has_fused_qkv`:
/// one makes query, key and value. Errors (without place): QLoRA, DoRA, other adapters.
Result<std::optional<LoraText>> lora_of(std::string_view text, const plan::ModelNames& names,
                                        bool has_fused_qkv);

/// What "FSDP2 + CPU offload" or "ZeRO-3, offload optimizer" mean for parallel.offload; empty:
/// nothing is offloaded. Without further words all is that the strategy can offload. Errors
/// (without place): what the strategy of the key column does not offload, activations, NVMe.
Result<std::string> offload_of(std::string_view text, std::string_view strategy_key);

}  // namespace foregather::tasks
