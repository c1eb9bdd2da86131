#include "sim/engine/shared_device.h"

#include <algorithm>
#include <cassert>

namespace foregather::sim {
namespace {

// Whole nanoseconds until `work` is done.
Ns time_for(std::int64_t work, std::uint32_t speed) {
  return speed == kWhole ? (work + kWhole - 1) / kWhole : (work + speed - 1) / speed;
}

}  // namespace

SharedDevice::SharedDevice(const Graph& graph, std::span<const LaunchRows> rows,
                           std::span<const CostTable> prices, std::vector<Timeline>& timelines,
                           const Meetings& meetings, std::vector<EventRecord> events)
    : graph_(graph),
      rows_(rows),
      timelines_(timelines),
      meetings_(meetings),
      communicators_(graph.communicators.size()),
      first_stream_{0},
      queues_(graph.classes.size() * communicators_),
      meeting_(communicators_),
      events_(std::move(events)),
      now_(graph.classes.size(), 0),
      next_(graph.classes.size()),
      changed_(graph.classes.size()),
      moved_(graph.classes.size()),
      dirty_(graph.classes.size()) {
  for (const RankClass& rank_class : graph.classes) {
    const std::uint32_t depth = prices[rank_class.hardware].host.launch_queue;
    for (std::size_t s = 0; s < graph.at(rank_class.program).streams.size(); ++s)
      streams_.emplace_back().places = LaunchQueue(depth);
    first_stream_.push_back(static_cast<std::uint32_t>(streams_.size()));
  }
  events_.clear();
  events_.push_back({0, {}, true});
}

// Its fields are written in place: a copy of an item just written would wait for the stores.
SharedDevice::Item& SharedDevice::enqueue(std::uint16_t c, Stream& on, ItemKind kind,
                                          std::uint32_t id, Ns issued, Ns host_time) {
  constexpr std::size_t kCompactAt = 4096;
  if (on.head == on.queue.size()) {
    if (is_coasting()) disturb(kind, id, host_time);
    on.queue.clear();
    on.head = 0;
    if (on.running == Running::no) next_.set(c, std::min(next_[c], std::max(now_[c], issued)));
  } else if (on.head >= kCompactAt && 2 * on.head > on.queue.size() && !is_coasting()) {
    on.queue.erase(on.queue.begin(), on.queue.begin() + static_cast<std::ptrdiff_t>(on.head));
    on.head = 0;
  }
  ++queued_;
  Item& item = on.queue.emplace_back();
  item.kind = kind;
  item.id = id;
  item.issued = issued;
  return item;
}

void SharedDevice::launch(std::uint16_t c, std::uint32_t local_op, Ns issued, OpInstance host,
                          std::uint32_t step) {
  const LaunchRow& row = rows_[c][local_op];
  StepTimes& times = timelines_[c].step(step);
  times.states[local_op] = OpState::launched;
  times.ops[local_op].issued = issued;
  ++times.unfinished;
  Stream& on = stream(c, row.stream);
  on.places.launched();
  Item& item = enqueue(c, on, ItemKind::op, local_op, issued, issued);
  item.step = step;
  item.host = host;
  if (row.collective) item.order = queue(c, row.communicator).launched++;
}

EventHandle SharedDevice::record(std::uint16_t c, std::uint32_t s, Ns host_time, OpInstance host) {
  const auto handle = static_cast<EventHandle>(events_.size());
  events_.emplace_back();
  enqueue(c, stream(c, s), ItemKind::record, handle, host_time, host_time).host = host;
  return handle;
}

void SharedDevice::wait(std::uint16_t c, std::uint32_t s, EventHandle event, Ns host_time) {
  enqueue(c, stream(c, s), ItemKind::wait, event, 0, host_time);
}

// Classes meet in collectives only: between them each goes ahead of the others.
void SharedDevice::advance(Ns time) {
  while (true) {
    const std::uint16_t c = next_.first();
    if (next_[c] > time || next_[c] == kForever) return;
    if (coast_.left != 0 && coast_.at + coast_.pairing.took <= time) {
      coast();
      continue;
    }
    stop_coasting();
    if (!play_alone(c, time, kUnlimited)) play_together(next_[c]);
  }
}

// Others than `c` go no further than it: their hosts may go on as soon as that of `c` does.
void SharedDevice::make_places(const WantedPlaces& wanted) {
  const std::uint16_t c = wanted.rank_class;
  const LaunchQueue& places = stream(c, wanted.stream).places;
  while (true) {
    const std::uint32_t missing = places.missing(wanted.launches);
    const std::uint16_t first = next_.first();
    if (missing == 0 || next_[first] == kForever) return;
    if (coast()) continue;
    stop_coasting();
    const bool played =
        first == c ? play_alone(c, kForever - 1, missing) : play_alone(first, next_[c], kUnlimited);
    if (!played) play_together(next_[first]);
  }
}

// A class that wants none is between two steps, and begins the next one when another has come to
// the end of its own: it goes no further than those.
void SharedDevice::make_any_places(std::span<const WantedPlaces> wanted) {
  while (true) {
    const std::uint16_t first = next_.first();
    if (next_[first] == kForever) return;
    stop_coasting();
    std::size_t most = kUnlimited;
    bool wants = false;
    Ns horizon = kForever - 1;
    for (const WantedPlaces& each : wanted) {
      const std::uint32_t missing =
          stream(each.rank_class, each.stream).places.missing(each.launches);
      if (missing == 0) return;
      horizon = std::min(horizon, next_[each.rank_class]);
      if (each.rank_class != first) continue;
      wants = true;
      most = std::min<std::size_t>(most, missing);
    }
    if (!play_alone(first, wants ? kForever - 1 : horizon, most)) play_together(next_[first]);
  }
}

// All that happens at `now`.
void SharedDevice::play_together(Ns now) {
  const auto classes = static_cast<std::uint16_t>(next_.size());
  for (std::uint16_t c = 0; c < classes; ++c) {
    if (next_[c] > now) continue;
    dirty_[c] = 1;
    end_ops(c, now);
  }
  // A class that starts a collective may let others go on.
  for (bool again = true; again;) {
    again = false;
    for (std::uint16_t c = 0; c < classes; ++c) {
      if (dirty_[c] != 1) continue;
      dirty_[c] = 2;
      again = true;
      settle(c, now);
    }
  }
  for (std::uint16_t c = 0; c < classes; ++c) {
    if (changed_[c] == 0 || now_[c] > now) continue;  // it is ahead
    changed_[c] = 0;
    set_speeds(c, now);
  }
  for (std::uint16_t c = 0; c < classes; ++c) {
    if (dirty_[c] == 0) continue;
    dirty_[c] = 0;
    plan_next(c, now);
  }
}

void SharedDevice::end_ops(std::uint16_t c, Ns now) {
  for (Stream& on : streams(c))
    if (on.running == Running::yes && on.finish == now) end_op(c, on, now);
}

void SharedDevice::end_op(std::uint16_t c, Stream& on, Ns now) {
  const Item& item = on.current;
  const LaunchRow& row = rows_[c][item.id];
  StepTimes& times = timelines_[c].step(item.step);
  if (log_ != nullptr) log_->push_back({c, item.step, item.id, times.end});
  times.ops[item.id] =
      op_time(times.ops[item.id].issued, on.start, on.transfer, now, on.current_cause, item.step);
  times.states[item.id] = OpState::done;
  times.end = std::max(times.end, now);
  --times.unfinished;
  const OpInstance self{timelines_[c].row(item.id), item.step, c};
  on.ready = now;
  on.cause = {self, Reason::stream};
  on.running = Running::no;
  on.finish = kForever;
  on.places.ended(now, self);
  --queued_;
  changed_[c] = moved_[c] = 1;
  if (!row.collective) return;
  Communicator& mine = queue(c, row.communicator);
  mine.end = now;
  mine.last = self;
  mine.busy = false;
}

void SharedDevice::undo(const std::vector<Ended>& log, std::vector<Timeline>& timelines) {
  for (auto it = log.rbegin(); it != log.rend(); ++it) {
    StepTimes& times = timelines[it->rank_class].step(it->step);
    times.states[it->local_op] = OpState::launched;
    times.end = it->end_before;
    ++times.unfinished;
  }
}

void SharedDevice::settle(std::uint16_t c, Ns now) {
  for (bool progress = true; progress;) {
    progress = false;
    for (Stream& on : streams(c))
      while (on.running == Running::no && on.head != on.queue.size() && take(c, on, now))
        progress = true;
  }
}

// Performs the head of an idle stream if it can happen now.
bool SharedDevice::take(std::uint16_t c, Stream& on, Ns now) {
  const Item& item = on.queue[on.head];
  EventRecord* event = item.kind == ItemKind::op ? nullptr : &events_[item.id];
  switch (item.kind) {
    case ItemKind::wait:
      if (!event->done) return false;
      if (event->time > on.ready) {
        on.ready = event->time;
        on.cause = {event->by, Reason::event};
      }
      break;
    case ItemKind::record:
      if (item.issued > now) return false;
      if (item.issued > on.ready) {
        on.ready = item.issued;
        on.cause = {item.host, Reason::host};
      }
      *event = {on.ready, on.cause.by, true};
      moved_[c] = 1;
      if (recorded_ != nullptr) recorded_->push_back(item.id);
      break;
    case ItemKind::op:
      if (item.issued > now || !begin(c, on, item, now)) return false;
      ++on.head;
      return true;
  }
  ++on.head;
  --queued_;
  return true;
}

bool SharedDevice::begin(std::uint16_t c, Stream& on, const Item& item, Ns now) {
  const LaunchRow& row = rows_[c][item.id];
  Ns ready = on.ready;
  Cause cause = on.cause;
  if (item.issued > ready) {
    ready = item.issued;
    cause = {item.host, Reason::host};
  }
  if (row.has_deps) {
    const Range ops = graph_.at(graph_.classes[c].program).ops;
    const StepTimes& times = timelines_[c].step(item.step);
    for (OpId dep : graph_.deps_of(graph_.ops[ops.first + item.id])) {
      const std::uint32_t local = dep.row() - ops.first;
      if (times.states[local] != OpState::done) return false;
      if (times.ops[local].end <= ready) continue;
      ready = times.ops[local].end;
      cause = {{dep.row(), item.step, c}, Reason::dependency};
    }
  }
  if (row.collective) {
    Communicator& mine = queue(c, row.communicator);
    if (mine.busy || item.order != mine.started) return false;
    if (mine.end > ready) cause = {mine.last, Reason::communicator};
    mine.busy = true;
    ++mine.started;
  }
  on.current = item;
  on.current_cause = cause;
  on.start = on.transfer = now;
  const Price& price = rows_[c].price(row);
  on.demand = price.demand;
  changed_[c] = 1;
  if (row.collective && meetings_.classes(c, row.communicator).size() > 1) {
    arrive(c, on, now);
    return true;
  }
  on.running = Running::yes;
  on.work = price.duration * kWhole;
  on.updated = now;
  on.speed = on.own_speed = kWhole;
  on.finish = now + price.duration;
  return true;
}

// The streams that take part in the collective of `on`, as far as they have arrived, by member.
void SharedDevice::find_parts(std::uint16_t c, const Stream& on) {
  const std::uint32_t communicator = rows_[c][on.current.id].communicator;
  parts_.clear();
  for (std::uint16_t member : meetings_.classes(c, communicator))
    for (Stream& other : streams(member))
      if (other.running != Running::no && rows_[member][other.current.id].collective &&
          rows_[member][other.current.id].communicator == communicator &&
          other.current.order == on.current.order)
        parts_.push_back(&other);
}

void SharedDevice::arrive(std::uint16_t c, Stream& on, Ns now) {
  on.running = Running::waiting;
  on.finish = kForever;
  // It spins on its SMs, but moves nothing.
  const Demand full = on.demand;
  on.demand = {full[static_cast<std::size_t>(Resource::sm)]};
  const std::uint32_t communicator = rows_[c][on.current.id].communicator;
  const auto members = meetings_.classes(c, communicator);
  find_parts(c, on);
  if (parts_.size() < members.size()) return;
  std::vector<std::uint32_t>& meeting = meeting_[communicator];
  meeting.clear();
  for (const Stream* part : parts_)
    meeting.push_back(static_cast<std::uint32_t>(part - streams_.data()));
  transfer(parts_, members, now);
}

void SharedDevice::transfer(std::span<Stream* const> parts, std::span<const std::uint16_t> members,
                            Ns now) {
  std::size_t last = 0;
  Ns duration = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i]->start > parts[last]->start) last = i;
    const LaunchRows& rows = rows_[members[i]];
    duration = std::max(duration, rows.price(rows[parts[i]->current.id]).duration);
  }
  const OpInstance late{
      graph_.at(graph_.classes[members[last]].program).ops.first + parts[last]->current.id,
      parts[last]->current.step, members[last]};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Stream& part = *parts[i];
    const LaunchRows& rows = rows_[members[i]];
    if (part.start < now) part.current_cause = {late, Reason::rendezvous};
    part.running = Running::yes;
    part.transfer = part.updated = now;
    part.work = duration * kWhole;
    part.speed = part.own_speed = kWhole;
    part.finish = now + duration;
    part.demand = rows.price(rows[part.current.id]).demand;
    changed_[members[i]] = 1;
    if (dirty_[members[i]] == 0) dirty_[members[i]] = 2;
  }
}

void SharedDevice::set_speeds(std::uint16_t c, Ns now) {
  active_.clear();
  demands_.clear();
  for (Stream& on : streams(c)) {
    if (on.running == Running::no) continue;
    active_.push_back(&on);
    demands_.push_back(&on.demand);
  }
  speeds_.resize(active_.size());
  share(demands_, speeds_);
  for (std::size_t i = 0; i < active_.size(); ++i) {
    Stream& on = *active_[i];
    on.own_speed = speeds_[i];
    if (on.running != Running::yes) continue;
    const LaunchRow& row = rows_[c][on.current.id];
    if (!row.collective || meetings_.classes(c, row.communicator).size() == 1) {
      set_speed(c, on, on.own_speed, now);
      continue;
    }
    const std::vector<std::uint32_t>& meeting = meeting_[row.communicator];
    std::uint32_t least = kWhole;
    for (const std::uint32_t part : meeting) least = std::min(least, streams_[part].own_speed);
    if (least == on.speed) continue;
    const auto members = meetings_.classes(c, row.communicator);
    for (std::size_t m = 0; m < meeting.size(); ++m)
      set_speed(members[m], streams_[meeting[m]], least, now);
  }
}

void SharedDevice::set_speed(std::uint16_t c, Stream& on, std::uint32_t speed, Ns now) {
  if (change_speed(on, speed, now) && dirty_[c] == 0) dirty_[c] = 2;
}

bool SharedDevice::change_speed(Stream& on, std::uint32_t speed, Ns now) {
  if (speed == on.speed) return false;
  on.work -= (now - on.updated) * on.speed;
  on.updated = now;
  on.speed = speed;
  on.finish = now + time_for(std::max<std::int64_t>(on.work, 0), speed);
  return true;
}

void SharedDevice::plan_next(std::uint16_t c, Ns now) {
  now_[c] = now;
  Ns next = kForever;
  for (const Stream& on : streams(c)) {
    if (on.running != Running::no) {
      next = std::min(next, on.finish);
    } else if (on.head != on.queue.size() && on.queue[on.head].issued > now) {
      next = std::min(next, on.queue[on.head].issued);
    }
  }
  next_.set(c, next);
}

}  // namespace foregather::sim
