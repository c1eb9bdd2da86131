// SOURCE -> a priced schedule, ready for the engine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/rebuild/rebuild.h"
#include "sim/cost/cost_table.h"
#include "sim/cost/hardware.h"
#include "sim/engine/engine.h"
#include "sim/passes/pass.h"
#include "tasks/workload_files.h"

namespace foregather::tasks {

/// A workload that a database holds.
struct StoredWorkload {
  std::string text;
  std::string location;  ///< of the run
  FileDigests inputs;    ///< what of its files must be as it was
};

/// What to simulate.
struct Sources {
  std::vector<std::string> paths;    ///< at least one; several are ranks, or two Thunder traces
  bool is_pair = false;              ///< those of a forward and its backward
  std::optional<std::int64_t> step;  ///< of a recorded run
  /// What is read in place of the one path, a workload.
  std::optional<StoredWorkload> workload = std::nullopt;
  std::vector<std::string> defaults = {};  ///< sets before those asked for: no warning names them
};

/// A recorded run before any what-if.
struct AsRecorded {
  Graph graph;
  std::vector<sim::CostTable> prices;
};

struct Schedule {
  std::string name;      ///< of the source: its file name without folder and ending
  std::string model;     ///< "llama, 32 layers"; empty for a schedule dump
  std::string strategy;  ///< "fsdp2"; empty for a schedule dump
  std::string batch;     ///< "micro-batch 8 × 320 tokens" of a workload
  std::string source_text;
  std::vector<std::string> inputs;  ///< the files that were read
  FileDigests digests;              ///< of those that a workload names
  Graph graph;
  sim::Hardware hardware;
  std::vector<sim::CostTable> prices;  ///< by RankClass::hardware
  sim::EngineOptions engine;           ///< capacity without what lies outside the allocator
  sim::PriceChanges changes;           ///< of the passes, which the prices have already
  double link_scale = 1;               ///< of cluster.link_bandwidth_scale and the passes
  Bytes capacity = 0;
  Bytes outside_allocator = 0;
  std::vector<sim::PassNote> what_if;  ///< what each pass did
  // Of a Thunder trace.
  std::optional<Bytes> estimator_peak;  ///< by Thunder's own rules
  Bytes argument_bytes = 0;             ///< that the caller of the traced function holds
  /// Of a recorded run: what was measured of each class.
  std::vector<rebuild::RebuiltRank> recorded;
  rebuild::GroupSizes group_sizes;        ///< see rebuild::Rebuilt
  bool is_one_recording = false;          ///< of all ranks, see rebuild::Rebuilt
  bool replays_measured = false;          ///< a recording, no prediction of our own
  std::optional<AsRecorded> as_recorded;  ///< of a recorded run that a what-if changed
  bool has_host = true;  ///< false: all that its host does is in host_delay actions
  std::vector<std::string> warnings;
};

/// Reads, lowers, rewrites by the passes in order, and prices a workload, a schedule dump, a
/// Thunder trace (or a forward's and its backward's), the Chakra traces of some ranks, recorded
/// runs, or runs of a database. `sets` are KEY=VALUE. A pass that finds nothing to do is a warning.
/// Errors: several files of a format that is not one a rank.
Result<Schedule> load_schedule(const Sources& sources, const std::vector<std::string>& sets,
                               const std::vector<sim::Pass>& what_if);

/// Of one file.
Result<Schedule> load_schedule(const std::string& source, const std::vector<std::string>& sets,
                               const std::vector<sim::Pass>& what_if);

}  // namespace foregather::tasks
