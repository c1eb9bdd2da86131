#include <algorithm>

#include "sim/engine/shared_device.h"

namespace foregather::sim {

bool SharedDevice::is_within(Range rows, std::uint32_t step) const {
  const auto is_like = [&](const Item& item) {
    return item.step == step && rows.contains(timelines_.front().row(item.id));
  };
  return std::ranges::all_of(streams_, [&](const Stream& on) {
    if (on.running != Running::no && !is_like(on.current)) return false;
    const auto first = on.queue.begin() + static_cast<std::ptrdiff_t>(on.head);
    const auto next = std::find_if(first, on.queue.end(),
                                   [](const Item& item) { return item.kind == ItemKind::op; });
    return next == on.queue.end() || is_like(*next);
  });
}

void SharedDevice::remember(Snapshot& snapshot, std::uint32_t events, const Supply& supply) const {
  snapshot.next_event = next_event();
  snapshot.first_event = next_event() - std::min(next_event(), events);
  snapshot.streams.resize(streams_.size());
  snapshot.lengths.resize(streams_.size());
  snapshot.is_supplied = !supply.items.empty();
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    snapshot.lengths[s] = streams_[s].queue.size() - streams_[s].head;
    snapshot.is_supplied = snapshot.is_supplied &&
                           snapshot.lengths[s] <= std::size_t{supply.items[s]} * supply.periods;
  }
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    const Stream& from = streams_[s];
    Stream& to = snapshot.streams[s];
    const std::span queued = std::span(from.queue).subspan(from.head);
    // The first period's are the oldest ones.
    const auto oldest = snapshot.is_supplied && queued.size() > supply.items[s]
                            ? queued.first(supply.items[s])
                            : queued;
    for (const Item& item : oldest)
      if (item.kind != ItemKind::op) snapshot.first_event = std::min(snapshot.first_event, item.id);
    std::vector<Item> queue = std::move(to.queue);
    if (snapshot.is_supplied)
      queue.clear();
    else
      queue.assign(queued.begin(), queued.end());
    to.cause = from.cause;
    to.ready = from.ready;
    to.running = from.running;
    to.current = from.current;
    to.start = from.start;
    to.transfer = from.transfer;
    to.current_cause = from.current_cause;
    to.work = from.work;
    to.updated = from.updated;
    to.own_speed = from.own_speed;
    to.speed = from.speed;
    to.demand = from.demand;
    to.finish = from.finish;
    to.queue = std::move(queue);
    to.head = 0;
    to.places.remember(from.places);
  }
  snapshot.queues = queues_;
  snapshot.events.assign(events_.begin() + snapshot.first_event, events_.end());
  snapshot.changed = changed_;
  snapshot.meeting = meeting_;
  snapshot.now = now_;
  snapshot.next.resize(next_.size());
  for (std::uint16_t c = 0; c < next_.size(); ++c) snapshot.next[c] = next_[c];
  snapshot.queued = queued_;
}

void SharedDevice::note_in(Snapshot& snapshot) {
  snapshot.ended.clear();
  snapshot.recorded.clear();
  log_ = &snapshot.ended;
  recorded_ = &snapshot.recorded;
}

void SharedDevice::forget() {
  log_ = nullptr;
  recorded_ = nullptr;
}

// `launched`: collectives that a period launches on the item's communicator. Where blocks repeat,
// when the host issued the item decides nothing: the device has come as far as the host.
bool SharedDevice::pair(const Item& before, Item& now, const Pairing& pairing,
                        std::uint32_t launched) {
  if (before.kind != now.kind) return false;
  if (pairing.steps != 0) {
    if (!pairing.past_or_later(before.issued, now.issued)) return false;
    if (before.issued >= pairing.past && !pairing.op(before.host, now.host)) return false;
  }
  if (now.kind != ItemKind::op) {
    if (now.id != before.id + pairing.records) return false;
  } else {
    if (now.step != before.step + pairing.steps) return false;
    if (pairing.steps == 0 && now.step != pairing.step) return false;
    if (now.id != before.id + pairing.ops || now.order != before.order + launched) return false;
  }
  move(now, pairing, launched);
  return true;
}

void SharedDevice::move(Item& item, const Pairing& pairing, std::uint32_t launched) {
  item.id += (item.kind == ItemKind::op ? pairing.ops : pairing.records) * pairing.periods;
  item.order += launched * pairing.periods;
  item.issued += pairing.later();
}

// The streams of one class. `launched` by communicator.
bool SharedDevice::pair(const Snapshot& snapshot, const Pairing& pairing, std::uint16_t c,
                        std::span<const std::uint32_t> launched) {
  const auto order_of = [&](const Item& item) {
    if (item.kind != ItemKind::op || !rows_[c][item.id].collective) return 0U;
    return launched[rows_[c][item.id].communicator];
  };
  for (std::size_t s = first_stream_[c]; s < first_stream_[c + 1U]; ++s) {
    const Stream& before = snapshot.streams[s];
    Stream& now = streams_[s];
    if (now.running != before.running) return false;
    if (now.running == Running::waiting && pairing.steps == 0) return false;
    const std::span queued = std::span(now.queue).subspan(now.head);
    if (queued.size() != snapshot.lengths[s]) return false;
    if (!pairing.time(before.ready, now.ready) || !pairing.cause(before.cause, now.cause))
      return false;
    if (snapshot.is_supplied && pairing.periods != 0)
      for (Item& item : queued) move(item, pairing, order_of(item));
    for (std::size_t i = 0; i < before.queue.size(); ++i)
      if (!pair(before.queue[i], queued[i], pairing, order_of(queued[i]))) return false;
    if (!now.places.pair(before.places, pairing)) return false;
    if (now.running == Running::no) continue;
    const bool is_like = before.work == now.work && before.speed == now.speed &&
                         before.own_speed == now.own_speed && before.demand == now.demand;
    if (!is_like || !pair(before.current, now.current, pairing, order_of(now.current)) ||
        !pairing.time(before.start, now.start) || !pairing.time(before.transfer, now.transfer) ||
        !pairing.time(before.updated, now.updated) || !pairing.time(before.finish, now.finish) ||
        !pairing.cause(before.current_cause, now.current_cause))
      return false;
  }
  Ns next = next_[c];
  const bool is_later =
      pairing.time(snapshot.now[c], now_[c]) && pairing.time(snapshot.next[c], next);
  next_.set(c, next);
  return is_later;
}

// Checks all, and moves all if there are periods to move by.
bool SharedDevice::pair(const Snapshot& snapshot, const Pairing& pairing) {
  std::vector<std::uint32_t> launched(queues_.size());
  for (std::size_t k = 0; k < queues_.size(); ++k) {
    const Communicator& before = snapshot.queues[k];
    Communicator& now = queues_[k];
    launched[k] = now.launched - before.launched;
    if (now.started - before.started != launched[k] || now.busy != before.busy) return false;
    if (!pairing.time(before.end, now.end) || !pairing.op(before.last, now.last)) return false;
    now.launched += launched[k] * pairing.periods;
    now.started += launched[k] * pairing.periods;
  }
  for (std::uint16_t c = 0; c < next_.size(); ++c) {
    const std::span of_class = std::span(launched).subspan(c * communicators_, communicators_);
    if (!pair(snapshot, pairing, c, of_class)) return false;
  }
  return true;
}

bool SharedDevice::repeats(const Snapshot& snapshot, const Pairing& pairing) {
  const auto is_set = [](std::uint8_t flag) { return flag != 0; };
  if (queued_ != snapshot.queued || changed_ != snapshot.changed || meeting_ != snapshot.meeting ||
      std::ranges::any_of(dirty_, is_set))
    return false;
  const std::size_t first = snapshot.first_event + pairing.records;
  if (events_.size() != first + snapshot.events.size()) return false;
  for (const Ended& ended : snapshot.ended)
    if (ended.step != pairing.step ||
        !pairing.rows.contains(timelines_.front().row(ended.local_op)))
      return false;
  for (std::size_t i = 0; i < snapshot.events.size(); ++i) {
    const EventRecord& before = snapshot.events[i];
    EventRecord now = events_[first + i];
    if (before.done != now.done) return false;
    if (!before.done || (before.time < pairing.past && now.time < pairing.past + pairing.took))
      continue;
    if (!pairing.time(before.time, now.time) || !pairing.op(before.by, now.by)) return false;
  }
  Pairing only_check = pairing;
  only_check.periods = 0;
  return pair(snapshot, only_check);
}

// The ops of the remembered period, so many periods later.
void SharedDevice::repeat_ops(std::span<const Ended> ended, const Pairing& pairing,
                              std::uint32_t period) {
  StepTimes& times = timelines_.front().step(pairing.step);
  const Ns later = pairing.took * period;
  const std::uint32_t further = pairing.ops * period;
  for (const Ended& each : ended) {
    const OpTime& like = times.ops[each.local_op];
    OpTime& time = times.ops[each.local_op + further];
    time.start = like.start + later;
    time.transfer = like.transfer + later;
    time.end = like.end + later;
    const bool moves = !like.bound_previous_step && pairing.rows.contains(like.bound_by);
    time.bound_by = like.bound_by + (moves ? further : 0);
    time.bound_class = like.bound_class;
    time.bound_previous_step = like.bound_previous_step;
    time.reason = like.reason;
    times.states[each.local_op + further] = OpState::done;
    times.end = std::max(times.end, time.end);
  }
}

void SharedDevice::repeat_events(std::span<const EventHandle> recorded, const Pairing& pairing,
                                 std::uint32_t period) {
  for (const EventHandle handle : recorded) {
    const EventRecord& like = events_[handle];
    const bool moves = pairing.is_of_period(like.by);
    events_[handle + pairing.records * period] = {
        like.time + pairing.took * period, moves ? pairing.moved(like.by, period) : like.by, true};
  }
}

void SharedDevice::skip(const Snapshot& snapshot, const Pairing& pairing) {
  StepTimes& times = timelines_.front().step(pairing.step);
  const auto periods = pairing.periods;
  events_.resize(events_.size() + std::size_t{pairing.records} * periods);
  for (std::uint32_t period = 1; period <= periods; ++period) {
    repeat_ops(snapshot.ended, pairing, period);
    repeat_events(snapshot.recorded, pairing, period);
  }
  const std::uint32_t first = pairing.latest - timelines_.front().row(0);
  for (std::uint32_t local = first + pairing.ops; local < first + pairing.ops * (periods + 1);
       ++local)
    times.ops[local].issued = times.ops[local - pairing.ops].issued + pairing.took;
  pair(snapshot, pairing);
  const auto launched = [&](const Item& item) {
    if (item.kind == ItemKind::op) times.states[item.id] = OpState::launched;
  };
  for (const Stream& on : streams_) {
    if (on.running != Running::no) launched(on.current);
    std::for_each(on.queue.begin() + static_cast<std::ptrdiff_t>(on.head), on.queue.end(),
                  launched);
  }
}

}  // namespace foregather::sim
