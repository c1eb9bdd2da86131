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
class FreeEventQueue {
 public:
  explicit FreeEventQueue(Lowering& lowering) : lowering_(lowering) {}

  void begin_section();
  void take();
  /// After what the compute stream has been given so far.
  void put();
  /// Section body is a copy of first, with the main thread's actions moved by `main_shift`.
  void copy_section(std::uint32_t main_shift);
  void resolve();

 private:
  struct Entry {
    bool takes = false;
    EventId event;             ///< of a put
    std::uint32_t thread = 0;  ///< of a take, with the place in its action list
    std::uint32_t position = 0;
  };
  using Queue = std::deque<EventId>;

  std::vector<Entry>& entries();
  void play(const std::vector<Entry>& entries, Queue& queue, Section section, bool write);

  Lowering& lowering_;
  std::vector<Entry> first_, body_;
  std::vector<EventId> events_;  ///< of the puts of a section, shared by both
  std::size_t puts_ = 0;
};

}  // namespace foregather::plan
