// FSDP1's rate limiter.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core/plan/lowering.h"

namespace foregather::plan {

/// The queue of free-events (PyTorch §B.5): each reshard that frees puts one in; each unshard,
/// before it allocates, takes the oldest out if there are at least two and makes the host wait for
/// it. The queue lives on from step to step, so that the first step waits for other events than the
/// steady one.
///
/// While a step is written, take() leaves a place for a wait in the action list. resolve() plays
/// the queue through both sections: the first step begins with an empty queue, the body with the
/// queue that a body leaves behind.
///
/// An event slot is recorded anew in each step, but where a step puts in an event or two, the
/// oldest in the queue may be of two steps ago. Then a second slot keeps the recording before the
/// latest: a stream without work waits for the slot and records the second one just before the slot
/// is recorded again.
class FreeEventQueue {
 public:
  /// `few`: a step may put in fewer events than the queue holds at a take.
  FreeEventQueue(Lowering& lowering, bool few) : lowering_(lowering), few_(few) {}

  void begin_section();
  void take();
  /// After what the compute stream has been given so far.
  void put();
  /// Section body is a copy of first, with the main thread's actions moved by `main_shift`.
  void copy_section(std::uint32_t main_shift);
  void resolve();

 private:
  using Index = std::size_t;  ///< of slots_
  struct Entry {
    bool takes = false;
    Index slot = 0;              ///< of a put
    std::uint32_t thread = 0;    ///< where the entry left places in the action lists, …
    std::uint32_t position = 0;  ///< … one for a take, two for a put of few
  };
  struct Slot {
    EventId event;
    EventId before;          ///< the recording before the latest; absent: nobody waits for it
    std::uint32_t puts = 0;  ///< so far, in play()
  };
  struct Queued {
    Index slot = 0;
    std::uint32_t put = 0;  ///< which of the slot's
  };
  using Queue = std::deque<Queued>;

  std::vector<Entry>& entries();
  void leave_place();
  Action& at(Section section, const Entry& entry, std::uint32_t place);
  void play(Section section, Queue& queue, bool write);
  EventId awaited(const Queued& oldest);
  void keep_recordings();

  Lowering& lowering_;
  bool few_;
  std::vector<Entry> first_, body_;
  std::vector<Slot> slots_;  ///< of the puts of a section, shared by both
  std::size_t puts_ = 0;
};

}  // namespace foregather::plan
