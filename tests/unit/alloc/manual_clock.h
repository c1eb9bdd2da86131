// An event clock whose time a test moves by hand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/alloc/event_clock.h"

namespace foregather::alloc::test {

/// Work on a stream ends at busy_until of the stream; an event is that time at its recording.
class ManualClock final : public EventClock {
 public:
  EventToken record(StreamId stream) override {
    return {static_cast<std::uint64_t>(busy_until(stream))};
  }
  bool query(EventToken event) override {
    ++queries;
    return static_cast<Ns>(event.value) <= now;
  }
  void synchronize(EventToken event) override { now = std::max(now, static_cast<Ns>(event.value)); }

  /// Enqueues work of this length, starting now or when the stream is free.
  void work(StreamId stream, Ns length) {
    Ns& end = busy_until(stream);
    end = std::max(end, now) + length;
  }

  Ns now = 0;
  int queries = 0;

 private:
  Ns& busy_until(StreamId stream) {
    if (stream.row() >= busy_until_.size()) busy_until_.resize(stream.row() + 1);
    return busy_until_[stream.row()];
  }
  std::vector<Ns> busy_until_;
};

}  // namespace foregather::alloc::test
