#include <algorithm>

#include "sim/engine/list_device.h"

namespace foregather::sim {

void ListDevice::remember(Snapshot& snapshot, std::uint32_t events) const {
  snapshot.streams = streams_;
  snapshot.queues = queues_;
  snapshot.next_event = next_event();
  snapshot.first_event = next_event() - std::min(next_event(), events);
  snapshot.events.assign(events_.begin() + snapshot.first_event, events_.end());
}

// Checks all, and moves all if there are periods to move by.
bool ListDevice::pair(const Snapshot& snapshot, const Pairing& pairing) {
  for (std::size_t k = 0; k < queues_.size(); ++k) {
    const Queue& before = snapshot.queues[k];
    Queue& now = queues_[k];
    const std::uint32_t launched = now.launched - before.launched;
    if (now.started - before.started != launched || !pairing.time(before.end, now.end) ||
        !pairing.op(before.last, now.last))
      return false;
    now.launched += launched * pairing.periods;
    now.started += launched * pairing.periods;
  }
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    const Stream& before = snapshot.streams[s];
    Stream& now = streams_[s];
    if (!pairing.time(before.ready, now.ready) || !pairing.cause(before.cause, now.cause) ||
        !now.places.pair(before.places, pairing))
      return false;
  }
  return true;
}

bool ListDevice::repeats(const Snapshot& snapshot, const Pairing& pairing) {
  const std::size_t first = snapshot.first_event + pairing.records;
  if (!idle() || events_.size() != first + snapshot.events.size()) return false;
  for (std::size_t i = 0; i < snapshot.events.size(); ++i) {
    const EventRecord& before = snapshot.events[i];
    EventRecord now = events_[first + i];
    if (before.time < pairing.past && now.time < pairing.past + pairing.took) continue;
    if (!pairing.time(before.time, now.time) || !pairing.op(before.by, now.by)) return false;
  }
  Pairing only_check = pairing;
  only_check.periods = 0;
  return pair(snapshot, only_check);
}

void ListDevice::skip(const Snapshot& snapshot, const Pairing& pairing) {
  StepTimes& times = timelines_.front().step(pairing.step);
  const std::uint32_t first = pairing.latest - timelines_.front().row(0);
  const std::uint32_t end = first + pairing.ops * (pairing.periods + 1);
  for (std::uint32_t local = first + pairing.ops; local < end; ++local) {
    const OpTime& like = times.ops[local - pairing.ops];
    OpTime& time = times.ops[local] = like;
    time.issued += pairing.took;
    time.start += pairing.took;
    time.transfer += pairing.took;
    time.end += pairing.took;
    if (!like.bound_previous_step && pairing.rows.contains(like.bound_by))
      time.bound_by += pairing.ops;
    times.end = std::max(times.end, time.end);
  }
  std::fill(times.states.begin() + first + pairing.ops, times.states.begin() + end, OpState::done);
  const std::size_t recorded = events_.size();
  events_.resize(recorded + std::size_t{pairing.records} * pairing.periods);
  for (std::size_t handle = recorded; handle < events_.size(); ++handle) {
    EventRecord& event = events_[handle] = events_[handle - pairing.records];
    event.time += pairing.took;
    if (pairing.is_of_period(event.by)) event.by = pairing.moved(event.by, 1);
  }
  pair(snapshot, pairing);
}

}  // namespace foregather::sim
