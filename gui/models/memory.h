// Memory over time, on the timeline's axis.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "gui/models/session.h"
#include "gui/models/step_curve.h"

namespace foregather::gui {

enum class MemoryCurve : std::uint8_t { requested, allocated, active, reserved };
inline constexpr std::size_t kMemoryCurves = 4;

using BytesByCause = std::array<Bytes, kCauses>;

/// Allocations that share scope, name and cause.
struct Holder {
  Cause cause = Cause::unknown;
  std::string scope, name;
  std::int64_t blocks = 0;
  Bytes bytes = 0;  ///< of their blocks
};

/// The memory of one rank of one run. Its curves end where the rank does.
class RankMemory {
 public:
  RankMemory(const Session& session, std::size_t side, const RankStep& rank);

  bool empty() const { return !is_known(MemoryCurve::allocated) && total_.empty(); }
  /// A recording may lack a curve.
  bool is_known(MemoryCurve curve) const { return !this->curve(curve).empty(); }
  const StepCurve& curve(MemoryCurve curve) const {
    return curves_[static_cast<std::size_t>(curve)];
  }
  /// The outermost that is known: reserved, allocated or the allocations' total().
  const StepCurve& highest_curve() const;

  /// Sum of the blocks of all allocations. Every step begins with what it found.
  const StepCurve& total() const { return total_; }
  /// What the allocator left of its limit at the highest point of the range; absent where either is
  /// not known.
  std::optional<Bytes> headroom(TimeRange range) const;
  /// What makes up total() at one of its points. At most 64 changes are replayed.
  BytesByCause by_cause(std::size_t point) const;
  /// Of any allocation that lasts.
  bool has_cause(Cause cause) const { return has_cause_[static_cast<std::size_t>(cause)]; }
  bool causes_inferred() const { return causes_inferred_; }
  /// Who holds the bytes at a time of the axis, largest first. Linear in allocations.
  std::vector<Holder> holders(Ns time) const;

  std::optional<Bytes> limit() const;  ///< of the allocator: capacity less what lies outside
  struct Oom {
    Ns time = 0;  ///< of the axis
    Bytes requested = 0;
    std::string name;
  };
  const std::vector<Oom>& ooms() const { return ooms_; }

 private:
  struct Change {
    run::StepRow step;
    Ns time = 0;
    Bytes bytes = 0;
    Cause cause = Cause::unknown;
  };
  void add_curves();
  void add_causes();
  Ns end_of(const StepCurve& curve) const;
  void apply(std::size_t point, BytesByCause& held) const;
  bool is_own(run::StepRow step) const {
    return run_->steps[step.row()].rank_class == rank_class_ && session_->is_shown(side_, step);
  }

  const Session* session_;
  const run::Run* run_;
  std::size_t side_;
  run::ClassRow rank_class_;
  std::array<StepCurve, kMemoryCurves> curves_;
  StepCurve total_;
  std::vector<Change> changes_;            ///< by point of total_
  std::vector<BytesByCause> checkpoints_;  ///< before each 64th point
  std::array<bool, kCauses> has_cause_{};
  bool causes_inferred_ = false;
  std::vector<Oom> ooms_;
};

/// The memory of a pair; a side without any is empty().
std::array<std::optional<RankMemory>, 2> pair_memory(const Session& session, const RankPair& pair);

}  // namespace foregather::gui
