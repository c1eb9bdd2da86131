// The keys of a workload, declared once: reading, `--set`, suggestions and help all use this table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/result.h"
#include "core/plan/workload.h"

namespace foregather::plan {

struct ModelConfig;

/// A value as somebody wrote it.
struct KeyValue {
  std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>> content;
  /// It came from a command line: the text may stand for any type.
  bool is_text = false;
};

/// Strategies, bit by bit.
using StrategySet = std::uint16_t;
template <class... Each>
constexpr StrategySet set_of(Each... strategies) {
  return static_cast<StrategySet>((0U | ... | (1U << static_cast<unsigned>(strategies))));
}
inline constexpr StrategySet kEveryStrategy = 0xffff;

/// Without what a key has no effect.
struct KeyNeeds {
  std::string_view text;  ///< "train.optimizer = sgd"; empty: nothing
  bool (*holds)(const Workload&) = nullptr;
};

/// Of which models a key has an effect.
struct KeyModels {
  std::string_view text;  ///< "a model with rotary positions"; empty: all
  bool (*holds)(const ModelConfig&) = nullptr;
};

/// One key.
struct WorkloadKey {
  std::string_view name;           ///< dotted path: "train.micro_batch"
  std::string_view values;         ///< what it accepts, for people: "none | full | selective"
  std::string_view default_value;  ///< for people
  std::string_view doc;            ///< one sentence
  /// Checks type and range, then stores. The error has no place.
  Status (*set)(Workload&, const KeyValue&);
  bool is_list = false;                     ///< takes a list as well, or texts separated by commas
  StrategySet strategies = kEveryStrategy;  ///< that read the key, or refuse it
  KeyNeeds needs = {};
  KeyModels models = {};
};

/// All keys, in the order in which documentation lists them.
std::span<const WorkloadKey> workload_keys();

/// By Strategy: "fsdp2"
std::span<const std::string_view> strategy_names();
std::string_view name(Strategy strategy);

/// Keeps a key of [model] that stands for the same key of a config.json (model_families.h); false
/// if it is none. `place` is for messages.
bool keep_model_key(Workload& workload, std::string_view name, const KeyValue& value,
                    std::string place);

/// The key of that dotted path or of its alias (`cluster.hw`), null if there is none.
const WorkloadKey* find_workload_key(std::string_view name);

/// ", did you mean 'y'?" of a name that is no key; "" where nothing is near.
std::string likely_key(std::string_view name);

/// "unknown key 'x', did you mean 'y'?"
std::string unknown_key_message(std::string_view name);

}  // namespace foregather::plan
