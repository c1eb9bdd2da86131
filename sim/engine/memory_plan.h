// The memory of a rank class without its times.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engine/class_memory.h"

namespace foregather::sim {

/// What the allocator does in each step where that follows from the order of the actions alone: no
/// free waits for an event (nothing is recorded on a second stream), and the host threads take
/// turns. Then the timing of a step needs only the few calls that went to the driver, and pricing a
/// graph anew changes nothing here. step() may be called by several threads.
class MemoryPlan {
 public:
  /// An alloc, free, release or empty_cache whose host time is not that of a call served from the
  /// cache.
  struct DriverCall {
    std::uint32_t action = 0;  ///< index in its thread's section
    alloc::DriverCalls calls;
    friend bool operator==(const DriverCall&, const DriverCall&) = default;
  };
  struct Step {
    MemoryPeaks peaks;
    std::vector<std::vector<DriverCall>> calls;  ///< by thread, ascending
    /// The alloc that found no memory: the plan ends there.
    struct Failure {
      std::uint32_t thread = 0;
      std::uint32_t action = 0;
    };
    std::optional<Failure> failure;
  };

  /// Consecutive actions of one thread.
  struct Turn {
    std::uint32_t thread = 0;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };
  /// Of each section, in order.
  using Turns = std::array<std::vector<Turn>, kSections>;

  /// Follows from the actions alone. Null if two threads could launch or touch memory at one time,
  /// or a stream is recorded.
  static std::shared_ptr<const Turns> take_turns(const Program& program);
  /// Null without turns, as times could matter. `graph` is borrowed, and not looked at any more
  /// once all steps are planned; `keep`, if given, is what holds it until then.
  static std::unique_ptr<MemoryPlan> make(const Graph& graph, const Program& program,
                                          const alloc::AllocConfig& config, Bytes capacity,
                                          std::shared_ptr<const Graph> keep,
                                          std::shared_ptr<const Turns> turns);
  /// The same with the program's turns.
  static std::unique_ptr<MemoryPlan> make(const Graph& graph, const Program& program,
                                          const alloc::AllocConfig& config, Bytes capacity) {
    return make(graph, program, config, capacity, nullptr, take_turns(program));
  }
  ~MemoryPlan();

  /// Step 0 is init, 1 the first step, then bodies. Planned when first asked for; the reference
  /// stays valid. Nothing follows a step with a failure. Once a body has left every storage where
  /// it found it, and called no driver, all that follow are like it, and not planned; nor are they
  /// if the memory that it got would have served nothing before.
  const Step& step(std::uint32_t number);
  /// Is the plan that of any capacity from `capacity` on? So it is once all its steps are
  /// planned, if the allocator never came near its limit.
  bool holds_from(Bytes capacity);

 private:
  struct NoClock;
  /// An alloc of the latest step that took all or the front of something of at least the size of a
  /// small segment.
  struct Cut {
    const Action* action = nullptr;
    bool is_new = false;  ///< it came from the driver
    ClassMemory::Place from;
  };

  MemoryPlan(const Graph& graph, const Program& program, const alloc::AllocConfig& config,
             Bytes capacity);
  static bool take_turns(const Program& program, Section section, std::vector<Turn>& turns);
  Step plan(std::size_t number);
  /// False if it ends with an alloc that found no memory.
  bool perform(const Turn& turn, Section section, bool notes_cuts, Step& step);
  /// Whether the step has left every storage where it found it.
  bool keeps_places(std::size_t number, const Step& step);
  /// Whether the step after one that keeps places does the same without a call.
  bool next_is_alike(const Step& step) const;

  std::mutex mutex_;
  std::condition_variable planned_;
  bool is_planning_ = false;  ///< by the thread that then has the allocator
  std::exception_ptr fault_;  ///< of a step that could not be planned: nothing follows it
  const Graph& graph_;
  const Program& program_;
  std::unique_ptr<NoClock> clock_;
  std::optional<ClassMemory> memory_;  ///< until all steps are planned
  std::shared_ptr<const Graph> keep_;
  std::shared_ptr<const Turns> turns_;
  std::deque<Step> steps_;
  bool remembers_;  ///< the allocator's answers depend on more than on what is where
  bool scales_;     ///< its answers may depend on a capacity that is not reached
  bool is_plain_;   ///< they are best fits, in segments that stay as they are
  bool repeats_ = false;
  Bytes most_reserved_ = 0;
  bool met_limit_ = false;
  std::vector<std::pair<std::uint32_t, ClassMemory::Place>> places_;  ///< after the last step
  std::vector<Cut> cuts_;  ///< of the last step, in order
};

}  // namespace foregather::sim
