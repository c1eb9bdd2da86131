// What is queued goes on to repeat: played by copying.
#include <algorithm>
#include <cassert>

#include "sim/engine/shared_device.h"

namespace foregather::sim {

// The remembered state is pairing.periods + 1 periods old, the queues are full of what repeats.
void SharedDevice::begin_coasting(Snapshot& snapshot, const Pairing& pairing,
                                  std::span<const std::uint32_t> items, Ns now) {
  const auto move = [&](Ns before, Ns after) { return after == before ? 0 : pairing.took; };
  stop_coasting();
  coast_.pairing = pairing;
  coast_.streams.resize(streams_.size());
  coast_.first.resize(streams_.size());
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    const Stream& before = snapshot.streams[s];
    const Stream& on = streams_[s];
    if (items[s] == 0 && (on.running != Running::no || on.head != on.queue.size())) return;
    coast_.streams[s] = {items[s],
                         move(before.ready, on.ready),
                         move(before.start, on.start),
                         move(before.transfer, on.transfer),
                         move(before.updated, on.updated),
                         move(before.finish, on.finish)};
    coast_.first[s] = on.current;
  }
  coast_.communicators.resize(queues_.size());
  for (std::size_t k = 0; k < queues_.size(); ++k)
    coast_.communicators[k] = {
        (queues_[k].launched - snapshot.queues[k].launched) / (pairing.periods + 1),
        move(snapshot.queues[k].end, queues_[k].end)};
  coast_.now = move(snapshot.now.front(), now_.front());
  coast_.next = move(snapshot.next.front(), next_[0]);
  coast_.ended.swap(snapshot.ended);
  coast_.recorded.swap(snapshot.recorded);
  coast_.ends.clear();
  coast_.at = now;
  look_ahead();
}

// How many periods the stream finds in its queue, and one item more: that is looked at. What the
// host issues decides nothing if it was issued before the device comes to it.
std::uint32_t SharedDevice::periods_queued(const Stream& on, std::uint32_t items,
                                           std::uint32_t most) const {
  const std::size_t queued = on.queue.size() - on.head;
  if (queued == 0) return 0;
  auto periods = static_cast<std::uint32_t>(std::min<std::size_t>((queued - 1) / items, most));
  for (; periods != 0; --periods) {
    std::size_t last = on.head + std::size_t{periods} * items;
    while (last != on.head && on.queue[last].kind == ItemKind::wait) --last;
    if (on.queue[last].kind == ItemKind::wait || on.queue[last].issued <= coast_.at) break;
  }
  return periods;
}

void SharedDevice::look_ahead() {
  std::uint32_t periods = 0xffffffffU;
  bool takes = false;
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    if (coast_.streams[s].items == 0) continue;
    takes = true;
    periods = periods_queued(streams_[s], coast_.streams[s].items, periods);
  }
  coast_.left = takes ? periods : 0;
  coast_.horizon = next_event();
}

bool SharedDevice::coast() {
  if (coast_.left == 0) return false;
  --coast_.left;
  ++coast_.played;
  const std::uint32_t period = coast_.pairing.periods + coast_.played;
  StepTimes& times = timelines_.front().step(coast_.pairing.step);
  coast_.ends.push_back(times.end);
  if (log_ != nullptr)
    for (const Ended& ended : coast_.ended)
      log_->push_back({0, ended.step, ended.local_op + coast_.pairing.ops * period, times.end});
  repeat_ops(coast_.ended, coast_.pairing, period);
  repeat_events(coast_.recorded, coast_.pairing, period);
  times.unfinished -= static_cast<std::uint32_t>(coast_.ended.size());
  for (const Ended& ended : coast_.ended) {
    const std::uint32_t local = ended.local_op + coast_.pairing.ops * period;
    streams_[rows_.front()[local].stream].places.ended(
        times.ops[local].end, {timelines_.front().row(local), ended.step, 0});
  }
  move_by_period(1);
  return true;
}

void SharedDevice::take_back_period() {
  assert(log_ == nullptr && recorded_ == nullptr);
  const std::uint32_t period = coast_.pairing.periods + coast_.played;
  --coast_.played;
  ++coast_.left;
  StepTimes& times = timelines_.front().step(coast_.pairing.step);
  times.end = coast_.ends.back();
  coast_.ends.pop_back();
  times.unfinished += static_cast<std::uint32_t>(coast_.ended.size());
  for (const Ended& ended : coast_.ended) {
    const std::uint32_t local = ended.local_op + coast_.pairing.ops * period;
    times.states[local] = OpState::launched;
    streams_[rows_.front()[local].stream].places.take_back();
  }
  for (const EventHandle handle : coast_.recorded)
    events_[handle + coast_.pairing.records * period] = {};
  move_by_period(-1);
}

// A period forth or back, after its count.
void SharedDevice::move_by_period(int direction) {
  const Pairing& pairing = coast_.pairing;
  const auto move_op = [&](OpInstance& op) {
    if (pairing.is_of_period(op)) op = pairing.moved(op, static_cast<std::uint32_t>(direction));
  };
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    const Coast::Move& move = coast_.streams[s];
    Stream& on = streams_[s];
    on.head += static_cast<std::size_t>(direction * std::int64_t{move.items});
    queued_ -= static_cast<std::size_t>(direction * std::int64_t{move.items});
    on.ready += direction * move.ready;
    on.start += direction * move.start;
    on.transfer += direction * move.transfer;
    on.updated += direction * move.updated;
    on.finish += direction * move.finish;
    move_op(on.cause.by);
    move_op(on.current_cause.by);
    if (on.running != Running::no)
      on.current = coast_.played == 0 ? coast_.first[s] : on.queue[on.head - 1];
  }
  for (std::size_t k = 0; k < queues_.size(); ++k) {
    const Coast::Meet& meet = coast_.communicators[k];
    queues_[k].started += static_cast<std::uint32_t>(direction) * meet.started;
    queues_[k].end += direction * meet.end;
    move_op(queues_[k].last);
  }
  now_.front() += direction * coast_.now;
  next_.set(0, next_[0] + direction * coast_.next);
  coast_.at += direction * pairing.took;
  moved_.front() = 1;
}

void SharedDevice::land(Ns time) {
  while (coast_.played != 0 && coast_.at > time) take_back_period();
}

void SharedDevice::land_at(Ns time) {
  land(time);
  if (is_coasting() && coast_.played == 0 && coast_.at == time) return;
  stop_coasting();
  advance(time);
}

// Something comes to a stream that is idle, or nearly so: it may begin at once. A wait for what is
// recorded behind all that is left does not.
void SharedDevice::disturb(ItemKind kind, std::uint32_t id, Ns time) {
  if (kind == ItemKind::wait && id >= coast_.horizon) return;
  land(time);
  stop_coasting();
}

}  // namespace foregather::sim
