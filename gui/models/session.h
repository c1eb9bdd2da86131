// What is open: one run, or two on one axis.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/compare/critical_path.h"
#include "core/compare/exposed.h"
#include "core/compare/intervals.h"
#include "core/compare/matching.h"
#include "core/compare/memory_causes.h"
#include "core/run/run.h"
#include "gui/models/track.h"

namespace foregather::gui {

/// A run and where it came from. Shared, never changed: views of several threads may read it.
struct OpenRun {
  std::shared_ptr<const run::Run> run;
  std::string location;  ///< as given: RUN.db:NAME or a file
  std::vector<std::string> warnings;
  std::optional<std::string> machine = {};  ///< as compare::Side has it
};

/// One rank of one run, and the step of it that figures are of.
struct RankStep {
  run::ClassRow rank_class;
  std::uint32_t rank = 0;
  run::StepRow step;        ///< absent: the class finished none
  Ns begin = 0;             ///< of the step, as compare::step_begins() has it with another side
  compare::BusyTimes busy;  ///< of the step, as the next two
  compare::CriticalPath path;
  compare::MemoryAtPeak memory;
  compare::IntervalSet computing;  ///< when an op that is no collective ran, in all steps
};

/// What is shown together: a rank of the first run above the rank of the second that it stands for.
struct RankPair {
  std::array<std::optional<RankStep>, 2> sides;
  std::optional<compare::Matching> matching;  ///< where both sides have a step
  std::string title() const;                  ///< "rank 0", "rank 0 | rank 3"
};

/// Times of a run become those of the axis by `origin`: the step that figures are of begins at 0
/// (in the class where it begins first), so that both runs lie over each other.
class Session {
 public:
  /// One or two runs. A class of the second run meets the class of the first that has its first
  /// rank, else the first run's first class; with two runs what meets nothing stands alone. Errors:
  /// no rank; an op that ends before it begins; times beyond ±73 years.
  static Result<Session> open(std::vector<OpenRun> runs);

  /// Forgets the pairs that none of these ranks is of; the axis stays. None is named: all stay.
  /// Errors: a rank that no run has.
  Status keep_ranks(const std::vector<std::uint32_t>& ranks);

  std::size_t sides() const { return runs_.size(); }
  run::RunView run(std::size_t side) const { return *runs_[side].run; }
  const OpenRun& open_run(std::size_t side) const { return runs_[side]; }
  const std::vector<RankPair>& pairs() const { return pairs_; }
  /// The time of the axis.
  Ns on_axis(std::size_t side, Ns time) const { return time - origin_[side]; }
  Ns of_run(std::size_t side, Ns time) const { return time + origin_[side]; }
  /// Everything that happens.
  TimeRange extent() const { return extent_; }
  /// The steps that figures are of, on both sides.
  TimeRange steps() const { return steps_; }
  /// steps(), and what their hosts did before: launches and allocations run ahead of the device.
  TimeRange steps_of_hosts() const { return steps_of_hosts_; }
  /// "P" and "M"; "A" and "B" for two runs of one kind.
  char letter(std::size_t side) const;
  /// "predicted" and "measured"; "A" and "B" for two runs of one kind.
  std::string word(std::size_t side) const;
  /// False for a step that lies over the one that figures are of, as the first and the steady step
  /// of a replayed recording do: two on one axis would look like one.
  bool is_shown(std::size_t side, run::StepRow step) const { return is_shown_[side][step.row()]; }
  /// False for a recording, as a pipeline's timeline, that does not say when ops were launched.
  bool knows_launches(std::size_t side) const { return knows_launches_[side]; }
  /// The pair of an op, `wanted` if that has its step; absent if its step is none that figures are
  /// of.
  std::optional<std::size_t> pair_of(std::size_t side, run::OpRow op,
                                     std::optional<std::size_t> wanted) const;
  /// The matched group of an op in that pair, absent where it was not compared.
  const compare::MatchedGroup* group_of(std::size_t side, run::OpRow op,
                                        std::optional<std::size_t> wanted) const;

 private:
  bool is_of_rank(const RankPair& pair, std::uint32_t rank) const;
  void add_pair(std::array<std::optional<run::ClassRow>, 2> classes);
  void choose_steps(std::size_t side);
  void set_axis();
  Ns host_begin(std::size_t side, Ns begin) const;

  std::vector<OpenRun> runs_;
  std::array<Ns, 2> origin_{};
  std::array<bool, 2> knows_launches_{true, true};
  std::array<std::vector<bool>, 2> is_shown_;  ///< by step
  std::vector<RankPair> pairs_;
  TimeRange extent_, steps_, steps_of_hosts_;
};

/// (first − second) / second; absent where the second is 0.
std::optional<double> relative_error(std::int64_t first, std::int64_t second);

}  // namespace foregather::gui
