#include "sim/engine/list_device.h"

#include <algorithm>

namespace foregather::sim {

ListDevice::ListDevice(const Graph& graph, std::span<const LaunchRows> rows,
                       std::span<const CostTable> prices, std::vector<Timeline>& timelines,
                       const Meetings& meetings, std::vector<EventRecord> events)
    : graph_(graph),
      rows_(rows),
      timelines_(timelines),
      meetings_(meetings),
      communicators_(graph.communicators.size()),
      queues_(graph.classes.size() * communicators_),
      events_(std::move(events)),
      queued_(graph.classes.size()) {
  for (const RankClass& rank_class : graph.classes) {
    first_stream_.push_back(static_cast<std::uint32_t>(streams_.size()));
    const std::uint32_t depth = prices[rank_class.hardware].host.launch_queue;
    for (std::size_t s = 0; s < graph.at(rank_class.program).streams.size(); ++s)
      streams_.emplace_back().places = LaunchQueue(depth);
  }
  events_.clear();
  events_.push_back({0, {}, true});
}

// The rest of launch(): the op may have to wait in its stream's queue, or let others go on.
void ListDevice::launch_in_turn(std::uint16_t c, std::uint32_t local_op, Ns issued, OpInstance host,
                                std::uint32_t step) {
  const LaunchRow& row = rows_[c][local_op];
  StepTimes& times = timelines_[c].step(step);
  times.states[local_op] = OpState::launched;
  ++times.unfinished;
  Item item;
  item.id = local_op;
  item.step = step;
  item.issued = issued;
  item.host = host;
  if (row.collective) item.order = queue(c, row.communicator).launched++;
  Stream& on = stream(c, row.stream);
  if (!on.empty() || !start(c, item)) return enqueue(c, on, item);
  if (queued_[c] != 0) drain(c);
  while (!dirty_.empty()) {
    const std::uint16_t next = dirty_.back();
    dirty_.pop_back();
    drain(next);
  }
}

EventHandle ListDevice::record(std::uint16_t c, std::uint32_t s, Ns host_time, OpInstance host) {
  const auto handle = static_cast<EventHandle>(events_.size());
  events_.emplace_back();
  Item item;
  item.kind = ItemKind::record;
  item.id = handle;
  item.issued = host_time;
  item.host = host;
  Stream& on = stream(c, s);
  if (on.empty()) {
    perform(on, item);
  } else {
    enqueue(c, on, item);
  }
  return handle;
}

void ListDevice::wait(std::uint16_t c, std::uint32_t s, EventHandle event, Ns /*host_time*/) {
  Stream& on = stream(c, s);
  Item item;
  item.kind = ItemKind::wait;
  item.id = event;
  if (!on.empty() || !perform(on, item)) enqueue(c, on, item);
}

void ListDevice::enqueue(std::uint16_t c, Stream& on, const Item& item) {
  on.queue.push_back(item);
  ++queued_[c];
}

// Starts and ends an op if all that it waits for is known. False: it stays at the head of its
// stream.
bool ListDevice::start(std::uint16_t c, Item& item) {
  const LaunchRow& row = rows_[c][item.id];
  const Stream& on = stream(c, row.stream);
  item.start = on.ready;
  item.cause = on.cause;
  if (row.has_deps) {
    const Range ops = graph_.at(graph_.classes[c].program).ops;
    const StepTimes& times = timelines_[c].step(item.step);
    for (OpId dep : graph_.deps_of(graph_.ops[ops.first + item.id])) {
      const std::uint32_t local = dep.row() - ops.first;
      if (times.states[local] != OpState::done) return false;
      if (times.ops[local].end > item.start) {
        item.start = times.ops[local].end;
        item.cause = {{dep.row(), item.step, c}, Reason::dependency};
      }
    }
  }
  const Price& price = rows_[c].price(row);
  if (is_late(item.issued, item.start, price)) {
    item.start = item.issued + price.launch_lead;
    item.cause = {item.host, Reason::host};
  } else {
    item.start += price.lead;
  }
  if (row.collective) return arrive(c, item, row);
  finish(c, item, row, item.start, item.start + price.duration);
  return true;
}

bool ListDevice::arrive(std::uint16_t c, Item& item, const LaunchRow& row) {
  const Price& price = rows_[c].price(row);
  Queue& mine = queue(c, row.communicator);
  if (item.order != mine.started) return false;
  if (mine.end > item.start) {
    item.start = mine.end;
    item.cause = {mine.last, Reason::communicator};
  }
  const auto members = meetings_.classes(c, row.communicator);
  if (members.size() == 1) {
    const Ns transfer = item.start + price.lateness;
    finish(c, item, row, transfer, transfer + price.duration);
    return true;
  }
  item.arrived = true;
  // The others wait at the heads of their streams; this one may not be in a queue yet.
  std::vector<Item*>& meeting = meeting_;
  meeting.clear();
  for (std::uint16_t member : members) {
    if (member == c) {
      meeting.push_back(&item);
      continue;
    }
    const std::size_t streams = graph_.at(graph_.classes[member].program).streams.size();
    for (std::uint32_t s = 0; s < streams; ++s) {
      Stream& other = stream(member, s);
      if (other.empty()) continue;
      Item& head = other.queue[other.head];
      if (head.kind == ItemKind::op && head.arrived &&
          rows_[member][head.id].communicator == row.communicator && head.order == item.order)
        meeting.push_back(&head);
    }
  }
  if (meeting.size() < members.size()) return false;
  std::size_t last = 0;
  Ns duration = 0, lateness = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (meeting[i]->start > meeting[last]->start) last = i;
    const LaunchRows& rows = rows_[members[i]];
    const Price& part = rows.price(rows[meeting[i]->id]);
    if (!part.is_own) duration = std::max(duration, part.duration);
    lateness = std::max(lateness, part.lateness);
  }
  const Ns arrival = meeting[last]->start, transfer = arrival + lateness;
  const Range last_ops = graph_.at(graph_.classes[members[last]].program).ops;
  const OpInstance late{last_ops.first + meeting[last]->id, meeting[last]->step, members[last]};
  for (std::size_t i = 0; i < members.size(); ++i) {
    Item& part = *meeting[i];
    if (part.start < arrival) part.cause = {late, Reason::rendezvous};
    const LaunchRow& part_row = rows_[members[i]][part.id];
    const Price& part_price = rows_[members[i]].price(part_row);
    finish(members[i], part, part_row, transfer,
           transfer + (part_price.is_own ? part_price.duration : duration));
    if (members[i] == c) continue;
    ++stream(members[i], part_row.stream).head;
    --queued_[members[i]];
    dirty_.push_back(members[i]);
  }
  return true;
}

void ListDevice::finish(std::uint16_t c, const Item& item, const LaunchRow& row, Ns transfer,
                        Ns end) {
  Timeline& timeline = timelines_[c];
  StepTimes& times = timeline.step(item.step);
  const std::uint32_t op_row = graph_.at(graph_.classes[c].program).ops.first + item.id;
  times.ops[item.id] = op_time(item.issued, item.start, transfer, end, item.cause, item.step);
  times.states[item.id] = OpState::done;
  times.end = std::max(times.end, end);
  --times.unfinished;
  Stream& on = stream(c, row.stream);
  const OpInstance self{op_row, item.step, c};
  on.ready = end;
  on.cause = {self, Reason::stream};
  on.places.ended(end, self);
  if (!row.collective) return;
  Queue& mine = queue(c, row.communicator);
  mine.end = end;
  mine.last = self;
  ++mine.started;
}

// Records and waits; false if the event is not known yet.
bool ListDevice::perform(Stream& on, const Item& item) {
  EventRecord& event = events_[item.id];
  if (item.kind == ItemKind::record) {
    if (item.issued > on.ready) {
      on.ready = item.issued;
      on.cause = {item.host, Reason::host};
    }
    event = {on.ready, on.cause.by, true};
    return true;
  }
  if (!event.done) return false;
  if (event.time > on.ready) {
    on.ready = event.time;
    on.cause = {event.by, Reason::event};
  }
  return true;
}

void ListDevice::drain(std::uint16_t c) {
  const std::size_t streams = graph_.at(graph_.classes[c].program).streams.size();
  for (bool progress = true; progress;) {
    progress = false;
    for (std::uint32_t s = 0; s < streams; ++s) {
      Stream& on = stream(c, s);
      while (!on.empty()) {
        Item& head = on.queue[on.head];
        const bool done =
            head.kind == ItemKind::op ? !head.arrived && start(c, head) : perform(on, head);
        if (!done) break;
        ++on.head;
        --queued_[c];
        progress = true;
      }
      if (on.empty()) {
        on.queue.clear();
        on.head = 0;
      }
    }
  }
}

}  // namespace foregather::sim
