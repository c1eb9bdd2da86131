// A workload from its TOML file.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/plan/model.h"
#include "core/plan/workload.h"

namespace foregather::plan {

inline constexpr Bytes kWorkloadFileLimit = 1 * MiB;

/// Reads the file, applies each KEY=VALUE of `sets` over it in order, and resolves what needs no
/// model (see resolve_cluster). Unset dtypes of communication follow train.precision. The path of
/// the config.json is relative to the file, or to the working directory when it comes from `sets`.
///
/// Errors: FILE:LINE:COL for syntax, unknown keys (the nearest is suggested), types and ranges;
/// `--set KEY` for those of `sets`. Later checks find the places in Workload::sources.
Result<Workload> read_workload(const std::string& path, const std::vector<std::string>& sets);

/// The same from text; `path` is for places and relative paths.
Result<Workload> parse_workload(std::string_view text, const std::string& path,
                                const std::vector<std::string>& sets);

/// What the file and `sets` name themselves, key by key: without other tools' files, what follows,
/// and checks of keys against each other. Errors: those of parse_workload() at a single key.
Result<Workload> parse_own_keys(std::string_view text, const std::string& path,
                                const std::vector<std::string>& sets);

/// The keys that a file gives itself, by dotted path, with the texts that --set would take for
/// them. Lists are left out, and what other tools' files say. Errors: syntax.
Result<std::map<std::string, std::string>> written_keys(std::string_view text,
                                                        const std::string& path);

/// A workload without file and model: only what a ready schedule leaves open may be set (those of
/// the cluster but nodes, what prices attention, and allocator.conf); other keys are an error.
Result<Workload> machine_of_sets(const std::vector<std::string>& sets);

/// Fills world size, nodes, GPUs per node and shard size from each other. Errors: a world that the
/// nodes do not divide. Whether the strategy can run it, check_plan says.
Status resolve_cluster(Workload& workload);
/// DeepSpeed's batch of all ranks, whose number is known: of the micro-batch and the accumulation
/// the one that is not set follows; neither: no accumulation. Both: a warning where they
/// contradict it.
Status share_batch(Workload& workload);

/// resolve_cluster, and the defaults that the model gives: the sequence length.
Status resolve_workload(Workload& workload, const ModelConfig& model);

}  // namespace foregather::plan
