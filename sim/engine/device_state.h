// What the two device models (list_device.h, shared_device.h) have in common: events, causes, and
// the rows that they write.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/ir/graph.h"
#include "sim/cost/cost_table.h"
#include "sim/engine/simulation.h"

namespace foregather::sim {

inline constexpr Ns kForever = std::numeric_limits<Ns>::max();

/// The op that decided a time, in whichever step and class it ran. Default constructed: no op. One
/// word, so that it is copied in one move.
class OpInstance {
 public:
  constexpr OpInstance() = default;
  constexpr OpInstance(std::uint32_t op_row, std::uint32_t step, std::uint16_t rank_class)
      : word_(op_row | std::uint64_t{step & kStepMask} << 32 |
              (std::uint64_t{rank_class} + 1) << kClassShift) {}

  bool exists() const { return word_ != 0; }
  std::uint32_t op() const { return static_cast<std::uint32_t>(word_); }  ///< row of Graph::ops
  std::uint16_t rank_class() const {                                      ///< 0 if there is no op
    return static_cast<std::uint16_t>(word_ == 0 ? 0 : (word_ >> kClassShift) - 1);
  }
  friend bool operator==(OpInstance, OpInstance) = default;
  bool is_in(std::uint32_t step) const {
    return word_ != 0 && (word_ >> 32 & kStepMask) == (step & kStepMask);
  }
  /// The same op so many steps later; no op if there is none.
  OpInstance later(std::uint32_t steps) const {
    return exists() ? OpInstance(op(), static_cast<std::uint32_t>(word_ >> 32 & kStepMask) + steps,
                                 rank_class())
                    : OpInstance();
  }

 private:
  static constexpr std::uint32_t kStepMask = 0x7fff;  // a cause is at most a few steps old
  static constexpr int kClassShift = 47;
  std::uint64_t word_ = 0;
};

struct Cause {
  OpInstance by;
  Reason reason = Reason::start;
};

/// One recording of an event. Time and cause mean something once `done`.
struct EventRecord {
  Ns time = 0;
  OpInstance by;
  bool done = false;
};

inline OpTime op_time(Ns issued, Ns start, Ns transfer, Ns end, const Cause& cause,
                      std::uint32_t step) {
  return {issued,
          start,
          transfer,
          end,
          cause.by.op(),
          cause.by.rank_class(),
          !cause.by.is_in(step),
          cause.reason};
}

/// Index into Device::events_; 0 is an event that has always happened.
using EventHandle = std::uint32_t;

enum class OpState : std::uint8_t { absent, launched, done };

/// The op times of one execution of a section by one class, by row − program.ops.first.
struct StepTimes {
  std::vector<OpTime> ops;
  std::vector<OpState> states;
  std::vector<std::uint8_t> ran;  ///< memory for the result's
  Ns end = 0;                     ///< of the ops that are done
  std::uint32_t unfinished = 0;
};

/// Steps of one class by number: 0 is init, 1 the first step, then bodies.
class Timeline {
 public:
  /// `buffers` of earlier timelines are used again.
  explicit Timeline(Range ops, std::vector<StepTimes> buffers = {})
      : ops_(ops), spare_(std::move(buffers)) {}

  StepTimes& step(std::uint32_t number) {
    return number == latest_ ? *latest_times_ : look_up(number);
  }
  const StepTimes& step(std::uint32_t number) const { return steps_[number - oldest_]; }
  std::uint32_t local(std::uint32_t op_row) const { return op_row - ops_.first; }
  std::uint32_t row(std::uint32_t local_op) const { return ops_.first + local_op; }
  /// The lowest step whose buffer is kept.
  std::uint32_t oldest() const { return oldest_; }
  /// Buffers of steps before `number` may be used again.
  void forget_before(std::uint32_t number);
  /// All buffers; nothing is left.
  std::vector<StepTimes> take_buffers();

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;
  StepTimes& look_up(std::uint32_t number);

  Range ops_;
  std::uint32_t latest_ = kNone;  ///< the step that was asked for last
  StepTimes* latest_times_ = nullptr;
  std::uint32_t oldest_ = 0;
  std::deque<StepTimes> steps_;
  std::vector<StepTimes> spare_;
};

/// The launches that a stream holds: a launch takes the place of the one `depth` launches before.
class LaunchQueue {
 public:
  /// 0: no limit.
  explicit LaunchQueue(std::uint32_t depth = 0)
      : ends_(std::max(depth, 1U), EventRecord{0, {}, true}), depth_(depth) {}

  void launched() { ++open_; }
  void ended(Ns time, OpInstance by) {
    --open_;
    if (depth_ == 0) return;
    EventRecord& end = ends_[next_end_];
    end.time = time;
    end.by = by;
    if (++next_end_ == depth_) next_end_ = 0;
  }
  /// Undoes the last ended().
  void take_back() {
    ++open_;
    if (depth_ != 0) next_end_ = (next_end_ == 0 ? depth_ : next_end_) - 1;
  }
  /// The end of the launch whose place the next one takes; done and 0 if a place was never used.
  const EventRecord& place() const {
    static constexpr EventRecord kTaken{};
    if (depth_ == 0) return ends_[0];
    if (open_ >= depth_) return kTaken;
    const std::uint32_t next_launch = next_end_ + open_;
    return ends_[next_launch < depth_ ? next_launch : next_launch - depth_];
  }
  /// How many launches must end before the next one has a place, or the next `launches` as far as
  /// the queue can have room for them without running empty.
  std::uint32_t missing(std::uint32_t launches) const {
    if (depth_ == 0) return 0;
    const std::uint32_t wanted = std::max(std::min(launches, depth_ - 1), 1U);
    return open_ + wanted <= depth_ ? 0 : open_ + wanted - depth_;
  }

  /// Becomes like `from`, as far as another's pair() looks at it.
  void remember(const LaunchQueue& from) {
    depth_ = from.depth_;
    next_end_ = from.next_end_;
    open_ = from.open_;
    ends_.resize(from.ends_.size());
    const std::uint32_t ended = depth_ - std::min(open_, depth_);
    const std::uint32_t latest = std::min(ended, next_end_);  // the others are at the end
    std::copy_n(from.ends_.begin() + (next_end_ - latest), latest,
                ends_.begin() + (next_end_ - latest));
    std::copy_n(from.ends_.end() - (ended - latest), ended - latest,
                ends_.end() - (ended - latest));
  }

  /// See Pairing: the ends that launches to come will look at.
  template <class Pairing>
  bool pair(const LaunchQueue& before, const Pairing& pairing) {
    if (depth_ != before.depth_ || open_ != before.open_) return false;
    for (std::uint32_t back = 1; back + open_ <= depth_; ++back) {
      const EventRecord& x = before.ends_[(before.next_end_ + depth_ - back) % depth_];
      EventRecord& y = ends_[(next_end_ + depth_ - back) % depth_];
      if (x.time < pairing.past && y.time < pairing.past + pairing.took) break;
      if (!pairing.time(x.time, y.time) || !pairing.op(x.by, y.by)) return false;
    }
    return true;
  }

 private:
  std::vector<EventRecord> ends_;
  std::uint32_t depth_;
  std::uint32_t next_end_ = 0;  ///< place of the oldest launch that has not ended
  std::uint32_t open_ = 0;      ///< launches that have not ended
};

/// Places for the next launches on a stream of a class.
struct WantedPlaces {
  std::uint16_t rank_class = 0;
  std::uint32_t stream = 0;
  std::uint32_t launches = 0;
};

/// Where an op goes, gathered from the graph. Four of them fill a line of the cache.
struct LaunchRow {
  std::uint32_t stream = 0;
  std::uint32_t communicator = 0;  ///< only if `collective`
  std::uint32_t cost = 0;
  bool collective = false;
  bool has_deps = false;
};
static_assert(sizeof(LaunchRow) == 16);

/// The launches of a class, by row − program.ops.first, and what they cost it.
class LaunchRows {
 public:
  LaunchRows() = default;
  /// `computes`, `collectives`: by cost.
  LaunchRows(std::span<const LaunchRow> rows, std::span<const Price> computes,
             std::span<const Price> collectives)
      : rows_(rows.data()), computes_(computes.data()), collectives_(collectives.data()) {}

  const LaunchRow& operator[](std::size_t local_op) const { return rows_[local_op]; }
  const Price& price(const LaunchRow& row) const {
    return (row.collective ? collectives_ : computes_)[row.cost];
  }

 private:
  const LaunchRow* rows_ = nullptr;
  const Price* computes_ = nullptr;
  const Price* collectives_ = nullptr;
};

/// Which classes meet in each communicator.
class Meetings {
 public:
  explicit Meetings(const Graph& graph);
  /// The classes that a collective of `rank_class` on `communicator` waits for, itself included.
  std::span<const std::uint16_t> classes(std::uint16_t rank_class,
                                         std::uint32_t communicator) const;

 private:
  std::size_t communicators_;
  std::vector<std::vector<std::uint16_t>> members_;  ///< by class × communicator
};

/// The rows of all classes. Those of one program share theirs, so that many classes alike read
/// little memory.
class LaunchTable {
 public:
  LaunchTable() = default;
  LaunchTable(const Graph& graph, std::span<const CostTable> prices) { fill(graph, prices); }
  /// Of the same graph with other prices, which are borrowed until the next call. What was given
  /// before shows these.
  void fill(const Graph& graph, std::span<const CostTable> prices);
  LaunchTable(const LaunchTable&) = delete;
  LaunchTable& operator=(const LaunchTable&) = delete;
  std::span<const LaunchRows> by_class() const { return by_class_; }

 private:
  using Speed = std::pair<std::uint32_t, std::int32_t>;  ///< hardware, compute_scale_ppm
  std::map<std::uint32_t, std::vector<LaunchRow>> by_program_;
  std::map<Speed, std::vector<Price>> scaled_;  ///< of computes, by cost
  std::vector<LaunchRows> by_class_;
};

}  // namespace foregather::sim
