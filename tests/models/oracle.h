// PyTorch's recordings in tests/oracles/data, and what our schedules say about the same cases.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/plan/model.h"
#include "core/plan/workload.h"

namespace foregather::test {

/// One training step as text, in host order of rank 0 (tests/oracles/README.md has the formats).
struct RecordedStep {
  /// "KIND UNIT BYTES DTYPE PHASE MICRO_BATCH RANKS[ GROUP]"; the unit in brackets, "-" for none.
  std::vector<std::string> collectives;
  std::vector<std::string> events;
  /// The events, collectives with their streams, between what streams do: "A waits B",
  /// "record eN on A", "A waits eN", "host waits eN", "record_stream BYTES bytes on A".
  std::vector<std::string> streams;
};

/// A parameter unit of a case; its name is a module path, "" for the root.
struct RecordedUnit {
  std::string name;
  std::int64_t elements = 0;        ///< without padding
  std::int64_t shard_elements = 0;  ///< of one rank, padded
};

struct RecordedCase {
  std::string family;  ///< fsdp1, fsdp2 or ddp
  std::string name;    ///< FAMILY/SETTING/MODEL/WORLD
  std::uint32_t world_size = 0;
  std::int64_t sequences = 0, tokens = 0;  ///< of a micro-batch; tokens a sequence
  plan::ModelConfig config;
  std::map<std::string, std::string> settings;  ///< all of the family: "true", "2", "bf16", "null"
  std::vector<RecordedUnit> units;
  std::int64_t steady_from = 0;
  /// Absent: as the steady one. The events of `second` are not recorded.
  std::optional<RecordedStep> first, second;
  bool first_differs_in_host_waits = false;  ///< and in nothing else (then `first` is absent)
  RecordedStep steady;
};

/// The cases of tests/oracles/data/FAMILY.json, references resolved, in the order of the file.
/// Those of "trees" have no config, and only the settings that differ from the defaults. Throws on
/// a file that is not as described.
std::vector<RecordedCase> recorded_cases(std::string_view family);

/// The rows of tests/oracles/data/streams.json by case.
std::map<std::string, std::vector<std::string>> recorded_streams();

/// The fields of a Hugging Face config.json as the recordings repeat them (`text` is the object).
plan::ModelConfig config_of_json(const std::string& text);

/// The workload of a case; the error is the reason why the keys of a workload cannot express it.
Result<plan::Workload> workload_of(const RecordedCase& recorded);

/// The recordings' implementation choices (tests/oracles/tiny_models.py).
plan::Implementation recorded_implementation();

/// A case, lowered.
struct Lowered {
  plan::Model model;
  plan::Workload workload;
  Graph graph;
};
/// The error is that of workload_of() or of lower().
Result<Lowered> lowered(const RecordedCase& recorded);

/// What a section of our schedule does, in the recordings' words. Pieces are our modules: `embed`,
/// `layers.N`, `head`; see in_modules().
///
/// `unshard`, `reshard` are the first allocation and the first free among a unit's unsharded
/// parameters; `agfree`, `rsfree` are frees of what an all-gather wrote, a reduce-scatter read;
/// `host_wait U` is a wait of the host for an event that was recorded when U was freed (FSDP1).
RecordedStep scheduled_step(const Lowered& lowered, Section section, const RecordedCase& recorded);

/// A recording's events with its pieces joined to our modules: embeddings are `embed`, the final
/// norm and the vocabulary projection `head`. As the recordings, without `bwd<` of the embedding.
std::vector<std::string> in_modules(const std::vector<std::string>& events);

/// Only the events whose token is one of `tokens`.
std::vector<std::string> only(const std::vector<std::string>& events,
                              std::initializer_list<std::string_view> tokens);

/// Nothing if the lists are equal, else where they part, with a few lines of each before and after.
std::string difference(const std::vector<std::string>& expected,
                       const std::vector<std::string>& actual);

}  // namespace foregather::test
