// The host threads of all ranks: they perform their actions in time order and drive the devices and
// the allocators.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "sim/engine/class_memory.h"
#include "sim/engine/device_state.h"
#include "sim/engine/engine.h"
#include "sim/engine/memory_plan.h"
#include "sim/engine/pairing.h"
#include "sim/engine/repeats.h"

namespace foregather::sim {

/// Launches for which places are made at once: what looking ahead costs is shared by so many.
inline constexpr std::uint32_t kMostPlaces = 64;

/// A class that is further ahead of the slowest one waits for it before its next step: one whose
/// steps take no time must not run away.
inline constexpr std::uint32_t kMostStepsAhead = 2;

inline constexpr std::size_t kActionKinds = static_cast<std::size_t>(ActionKind::mark) + 1;

/// What is left of one step besides its op times.
struct StepRecord {
  Ns host_begin = 0;
  Ns host_end = 0;
  MemoryStep memory;
};

/// Threads interleave by (time, class, thread), as far as it matters: the threads of a class share
/// an allocator, and the device is played to a time only when no thread could still launch before.
/// A thread that waits for the device lets device time pass. Instantiated for ListDevice and
/// SharedDevice.
template <class Device>
class HostLoop {
 public:
  /// `plans` by class; where there is none, the allocator runs along (if options.memory).
  /// `repeats`, of the first class; all have plans or no memory: where a repeat ends, a step is
  /// compared with the one before, and of a class that is the only one what repeats is skipped as
  /// soon as it goes on as before. Null: neither.
  HostLoop(const Graph& graph, std::span<const LaunchRows> rows, std::span<const CostTable> prices,
           const EngineOptions& options, std::span<const std::shared_ptr<MemoryPlan>> plans,
           const ProgramRepeats* repeats, Device& device);
  ~HostLoop();

  /// Goes on until every class has issued step `target` (0 is init, 1 the first step). Returns
  /// early when memory has run out: see oom(); and within the target step when that is found to go
  /// on as the one before: see settled(). Called again, it goes to the end of that step. Errors: a
  /// deadlock.
  Status issue(std::uint32_t target);

  const std::optional<OutOfMemory>& oom() const { return oom_; }
  /// From where it is, the target step does what the step before did, so many ns later, with the
  /// same memory. 0: that is not known.
  Ns settled() const { return settled_; }
  /// Completes what record() says of a settled step.
  void end_settled();
  /// The step that the class began last: 0 is init.
  std::uint32_t begun(std::uint16_t c) const {
    return static_cast<std::uint32_t>(runs_[c]->records.size() - 1);
  }
  std::uint32_t unresolved_synchronizations() const { return unresolved_; }
  /// Of a step that was issued (or in which memory ran out).
  StepRecord& record(std::uint16_t c, std::uint32_t step) { return runs_[c]->records[step]; }

 private:
  /// blocked: it waits for the device; waiting: for another thread of its class.
  enum class State : std::uint8_t { ready, blocked, waiting, done };
  /// The periods of a thread's repeat so far.
  struct Periods {
    std::uint32_t next = 0;            ///< number of the one that begins
    std::uint32_t alike = 0;           ///< how many took as long as the one before, in a row
    std::uint32_t patience = 2;        ///< of these before the next look
    Ns begun = 0, took = 0;            ///< the last one
    std::uint32_t calls = 0;           ///< to the driver, in the one under way
    bool is_remembered = false;        ///< the snapshot is that of the last boundary
    std::uint32_t switches = 0;        ///< then
    std::uint32_t first_switches = 0;  ///< when the first one began
    Ns last_end = 0;                   ///< at that boundary, as last_wait
    OpInstance last_wait;
  };
  struct Thread {
    std::uint16_t rank_class = 0;
    std::uint16_t index = 0;
    State state = State::done;
    const Action* begin = nullptr;
    const Action* at = nullptr;
    const Action* end = nullptr;
    const Action* watched = nullptr;  ///< other threads wait for what is before it; or the end
    const Action* stop = nullptr;  ///< the first of: the end, `watched`, `boundary`, a driver call
    const Action* boundary = nullptr;  ///< where a period of `repeat` ends and the next one begins
    const Repeat* repeat = nullptr;
    const Repeat* last_repeat = nullptr;
    Periods periods;
    const MemoryPlan::DriverCall* next_call = nullptr;
    const MemoryPlan::DriverCall* last_call = nullptr;
    Ns time = 0;
    Ns last_end = 0;  ///< of its last action: before `time` while it waits for the next
    OpInstance last_wait;
    std::vector<EventHandle> handles;  ///< what the wait under way is for
  };
  /// What decides how a thread, a class, all go on.
  struct ThreadMark {
    State state = State::done;
    std::ptrdiff_t at = 0, watched = 0;  ///< in the section
    Ns time = 0, last_end = 0;
    OpInstance last_wait;
    std::vector<EventHandle> handles;
    std::span<const MemoryPlan::DriverCall> calls;  ///< left of the section
  };
  struct ClassMark {
    std::uint32_t step = 0, active = 0;
    Ns idle_since = 0;
    std::vector<EventHandle> events;
    std::vector<ThreadMark> threads;
  };
  struct Mark {
    Ns time = 0;
    Ns past = 0;  ///< before that nothing happens any more
    std::vector<ClassMark> classes;
    typename Device::Snapshot device;
  };
  struct Clock;
  struct ClassRun {
    std::uint16_t rank_class = 0;
    std::vector<Thread> threads;
    std::uint32_t step = 0;
    std::uint32_t active = 0;  ///< threads not done; 0 while the class waits for slower ones
    std::uint32_t blocked = 0;
    Ns idle_since = 0;
    std::vector<EventHandle> events;
    std::unique_ptr<Clock> clock;
    std::unique_ptr<ClassMemory> memory;
    MemoryPlan* plan = nullptr;
    const MemoryPlan::Step* planned = nullptr;
    bool is_in_turns = false;  ///< in the step under way all classes keep to the order of time
    std::vector<StepRecord> records;
    EventHandle step_event = 0, last_step_event = 0;  ///< next ones when the last two steps began
    const Program* program = nullptr;
    const HostPrices* prices = nullptr;
    /// By kind: what an action costs that concerns neither the device nor, where no allocator runs
    /// along, anything else; below 0: it does.
    std::array<Ns, kActionKinds> quiet{};
    std::uint32_t first_op = 0;
    std::uint32_t first_event = 0;
  };

  bool finished() const;
  void begin_sections();
  static bool waits_for_device(const ClassRun& run);
  void begin_section(std::uint16_t c, Ns time);
  Ns all_ended(std::uint32_t next) const;
  void end_thread(Thread& thread);
  /// The ready thread that is next by (time, class, thread), and how far it may go before others
  /// must be looked at.
  struct Turn {
    Thread* thread = nullptr;  ///< null: none is ready
    Ns others = kForever;      ///< when the next of those that it takes turns with comes
    bool is_sole = true;       ///< no other thread of any class is ready
  };

  Turn next_turn() const;
  void go_on(const Turn& turn);
  void reach_stop(Thread& thread);
  void set_stop(ClassRun& run, Thread& thread);
  void begin_repeat(Thread& thread, const Repeat* repeat);
  void reach_boundary(ClassRun& run, Thread& thread);
  std::uint32_t periods_to_skip(const ClassRun& run, const Thread& thread) const;
  Pairing pairing(const ClassRun& run, const Thread& thread, std::uint32_t periods) const;
  std::uint32_t limited(const ClassRun& run, const Thread& thread, std::uint32_t periods) const;
  void skip_periods(ClassRun& run, Thread& thread, std::uint32_t periods);
  void count_items(const ClassRun& run, const Thread& thread);
  void remember(const ClassRun& run, Thread& thread);
  bool coasts(const ClassRun& run, const Thread& thread);
  void begin_coasting(const ClassRun& run, const Thread& thread, std::uint32_t periods);
  void land();
  void end_repeat(const Thread& thread);
  void remember(Mark& mark, Ns now) const;
  Ns nothing_before() const;
  bool repeats(const Mark& mark, Ns now);
  bool repeats(const ClassMark& mark, const ClassRun& run, const Pairing& pairing) const;
  WantedPlaces wanted_places(const ClassRun& run, const Action* at, const Action* stop) const;
  bool let_device_go_on();
  /// One of the rare actions, which go_on() does not perform itself; false if the thread must wait
  /// and did nothing.
  bool perform(Thread& thread);
  bool has_place(const ClassRun& run, const Thread& thread) const;
  void charge(ClassRun& run, Thread& thread, const alloc::DriverCalls& calls);
  void charge_planned(ClassRun& run, Thread& thread);
  bool wait_all(ClassRun& run, Thread& thread);
  bool wait_action(ClassRun& run, Thread& thread, const Action& action);
  void block(ClassRun& run, Thread& thread);
  void wake();
  void run_out(ClassRun& run, const Thread& thread, std::uint32_t storage);
  void break_off();
  Error deadlock() const;

  const Graph& graph_;
  std::span<const LaunchRows> rows_;
  const EngineOptions& options_;
  Device& device_;
  std::vector<std::unique_ptr<ClassRun>> runs_;
  std::vector<Thread*> threads_;  ///< all, by (class, index)
  std::size_t blocked_ = 0;       ///< threads of all classes
  std::size_t in_turns_ = 0;      ///< classes that are in turns
  std::uint32_t target_ = 0;      ///< of issue()
  std::optional<OutOfMemory> oom_;
  std::uint32_t unresolved_ = 0;
  std::vector<WantedPlaces> wanted_;  ///< scratch of let_device_go_on
  const ProgramRepeats* repeats_ = nullptr;
  const Thread* latest_ = nullptr;  ///< the thread that acted last
  std::uint32_t switches_ = 0;      ///< how often it was another one than before
  std::unique_ptr<typename Device::Snapshot> snapshot_;
  std::vector<std::uint32_t> items_;     ///< of a period, by stream: see Device::Supply
  std::uint32_t coasting_switches_ = 0;  ///< when the device began to coast
  std::vector<Mark> marks_;  ///< of the last step, or as far as this one has come, of this one
  std::size_t next_mark_ = 0;
  Ns settled_ = 0;
  bool is_refused_ = false;  ///< issue() was called again for a settled step
};

}  // namespace foregather::sim
