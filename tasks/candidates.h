// Many candidates of one source: what they share is worked out once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/run/sweep.h"
#include "sim/engine/engine.h"
#include "sim/engine/memory_plans.h"
#include "tasks/point_figures.h"
#include "tasks/workload_source.h"

namespace foregather::tasks {

/// What a candidate changes about the source: --set and --what-if, in order.
struct Candidate {
  std::vector<std::string> sets;
  std::vector<std::string> what_if;
};

/// A schedule that candidates share, passes applied.
struct SharedSchedule {
  std::shared_ptr<const Graph> graph;
  sim::PriceChanges prices;
  std::vector<std::string> warnings;  ///< of its states and passes
};

/// Candidates whose schedule_key() is equal: the schedule before passes, and for the passes asked
/// for. Thread safe; its schedules go with it.
class CandidateGroup {
 private:
  friend class Candidates;
  using Shared = std::shared_ptr<const SharedSchedule>;

  /// What hardware changes in a schedule: has it FlashAttention, the workspace of its products.
  using Lowering = std::pair<bool, Bytes>;

  std::mutex mutex_;
  std::map<Lowering, Result<Shared>> lowered_;
  std::map<std::pair<Lowering, std::string>, Result<Shared>> rewritten_;  ///< by passes, too
  std::map<Shared, Bytes> memory_floors_;  ///< of CandidateFloors, in the allocator
};

/// What a candidate cannot go below.
struct CandidateFloors {
  Ns step = 0;         ///< however its ops are ordered
  Bytes memory = 0;    ///< live on the device, with what lies outside the allocator
  Bytes capacity = 0;  ///< of the device
  std::int64_t tokens_per_rank_step = 0;
  std::int64_t world_size = 1;
};

/// The model's own work in a steady step, wherever it comes in the schedule.
struct ScheduledLaunch {
  OpKind kind = OpKind::other;
  Phase phase = Phase::other;
  std::uint16_t micro_batch = 0;
  ScopeId scope;
  StreamId stream;
  friend bool operator==(const ScheduledLaunch&, const ScheduledLaunch&) = default;
};

/// The repeated blocks of a model.
struct RepeatedBlocks {
  std::size_t count = 0;
  std::optional<std::vector<bool>> recomputed;  ///< as a whole; absent: parts of them are
};

/// What a steady step asks of the device, however its ops overlap.
struct ScheduleLoads {
  double clock = 1;                       ///< of the schedule, as a fraction of boost_clock
  std::vector<Ns> busy;                   ///< of each stream, then of each communicator
  std::vector<ScheduledLaunch> launches;  ///< of compute in the host's order, none that recomputes
  std::vector<Bytes> live;                ///< at each of them, with what lies outside the allocator
  Bytes capacity = 0;                     ///< of the device
  std::int64_t tokens_per_rank_step = 0;
};

/// Thread safe. A workload's candidates share models, machines, schedules and what the allocator
/// does to them; those of other sources are predicted one by one.
class Candidates {
 public:
  /// `text` is the content of a workload; absent: the source is something else.
  Candidates(std::string source, std::optional<std::string> text)
      : source_(std::move(source)), text_(std::move(text)) {}

  /// What the schedule before passes follows from.
  static std::string schedule_key(const Candidate& candidate);

  /// Buffers of one thread: what the last schedule's engine and figures were read with.
  struct Worker {
    std::shared_ptr<const SharedSchedule> schedule;
    sim::EngineOptions options;
    std::unique_ptr<sim::Engine> engine;  ///< of that schedule and these options
    FigureReader reader;
    std::vector<std::string> warnings;  ///< of the last candidate
  };

  /// The figures that `simulate` has for the same settings. Errors: those of `simulate`.
  Result<run::PointFigures> predict(const Candidate& candidate, CandidateGroup& group,
                                    Worker& worker);

  /// Without simulating it. All zero where the source is no workload. Errors: as predict().
  Result<CandidateFloors> floors(const Candidate& candidate, CandidateGroup& group) const;

  /// Of its first class; busy at `clock`, or where that is absent at the schedule's own. Errors: as
  /// predict(); host threads whose order is left open. The source must be a workload.
  Result<ScheduleLoads> loads(const Candidate& candidate, std::optional<double> clock) const;

  /// The source must be a workload. Errors: as predict().
  Result<RepeatedBlocks> blocks(const Candidate& candidate) const;

 private:
  using Shared = std::shared_ptr<const SharedSchedule>;
  /// A schedule with its prices on one machine.
  struct Prepared;
  Result<Prepared> prepared(const Candidate& candidate, CandidateGroup& group) const;
  Result<run::PointFigures> predict_alone(const Candidate& candidate, Worker& worker) const;
  static CandidateGroup::Lowering lowering_of(const ReadWorkload& read);
  Result<Shared> lowered(const ReadWorkload& read, CandidateGroup& group) const;
  Result<Shared> rewritten(const ReadWorkload& read, const Candidate& candidate,
                           CandidateGroup& group) const;

  std::string source_;
  std::optional<std::string> text_;
  mutable KeptParts kept_;
  sim::MemoryPlans plans_;
};

}  // namespace foregather::tasks
