// What eager ZeRO-3 gathers, keeps and releases, and when: decisions only, no actions.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core/base/units.h"

namespace foregather::plan {

/// DeepSpeed's PartitionedParameterCoordinator (runtime/zero/partitioned_param_coordinator.py of
/// 0.17.6, read; reference: DeepCompile §C.9, "Eager ZeRO-3 rules"). The calling code enters and
/// leaves submodules in the order in which module hooks fire; parameters are rows.
///
/// The first forward and backward record the order of submodules; until then nothing is fetched
/// ahead and all that a submodule used is released when it is left. From then on each entry
/// fetches ahead, in the recorded order, until the elements of that one prefetch reach
/// min(max_live − gathered elements, prefetch_bucket): the last parameter may overshoot. What is
/// fetched for a submodule's own use is never limited. A parameter is not released while it
/// persists, while another running submodule uses it, when the prefetcher has passed a later use of
/// it because it was there, or when it is used again by the submodules that follow within max_reuse
/// elements.
///
/// Persistent parameters that are gathered after the optimizer do not count as gathered elements,
/// nor does what the forward of a micro-batch finds in place: the count starts anew there.
class Zero3Coordinator {
 public:
  struct Limits {
    std::int64_t prefetch_bucket = 0;
    std::int64_t max_live = 0;
    std::int64_t max_reuse = 0;
  };
  struct Parameter {
    std::int64_t elements = 0;
    bool persists = false;
  };
  using Rows = std::vector<std::uint32_t>;
  /// What an entry does, in this order. Rows ascend.
  struct Entry {
    Rows fetched;     ///< gathered now, as one
    Rows awaited;     ///< waited for: in flight until now
    Rows prefetched;  ///< gathered now, as one, for later
  };

  /// `submodules`: the parameters of each, ascending.
  Zero3Coordinator(const Limits& limits, std::vector<Parameter> parameters,
                   std::vector<Rows> submodules);

  /// Before each forward (reset_step). Returns what is in flight and was never used: it is waited
  /// for and released.
  Rows begin_forward();
  /// The returned entry is valid until the next call.
  const Entry& enter(std::uint32_t submodule);
  /// What is released.
  Rows leave(std::uint32_t submodule);
  /// Before the optimizer: everything that is gathered is released.
  Rows release_all();
  /// After the optimizer: the persistent parameters are gathered.
  Rows gather_persistent();

  bool is_gathered(std::uint32_t row) const { return states_[row].is_gathered; }
  /// As DeepSpeed counts them.
  std::int64_t gathered_elements() const { return gathered_; }

 private:
  enum class Trace : std::uint8_t { none, recording, complete };
  struct State {
    bool is_gathered = false;
    bool is_in_flight = false;
    std::int64_t fetched_for = kNever;  ///< the latest step of the trace that it was fetched for
    std::vector<std::uint32_t> users;   ///< submodules that are running
  };
  struct Use {
    std::uint32_t row = 0;
    std::int64_t step = 0;
  };
  static constexpr std::int64_t kNever = -10'000'000'000;

  void fetch_row(std::uint32_t row, Rows& into);
  void prefetch(std::uint32_t submodule);
  void release(std::uint32_t row, Rows& into);
  bool is_kept(std::uint32_t row, const Rows& soon) const;
  Rows used_soon() const;

  Limits limits_;
  std::vector<Parameter> parameters_;
  std::vector<Rows> submodules_;
  std::vector<State> states_;
  Trace trace_ = Trace::none;
  std::vector<std::uint32_t> order_;  ///< submodules, as entered
  std::vector<Use> uses_;             ///< of parameters, in that order
  std::deque<Use> queue_;             ///< uses that are not fetched for yet
  std::int64_t step_ = 0;             ///< entries since begin_forward
  std::int64_t gathered_ = 0;
  Entry entry_;
};

}  // namespace foregather::plan
