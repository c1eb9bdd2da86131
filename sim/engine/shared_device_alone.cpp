#include <algorithm>

#include "sim/engine/shared_device.h"

namespace foregather::sim {

// A collective in which other classes take part: all of them decide its speed.
bool SharedDevice::is_shared(std::uint16_t c, const Stream& on) const {
  const LaunchRow& row = rows_[c][on.current.id];
  return row.collective && meetings_.classes(c, row.communicator).size() > 1;
}

// The only stream of the class that can do something at `now`, or null. `horizon` shrinks to before
// another one can.
SharedDevice::Stream* SharedDevice::alone(std::uint16_t c, Ns now, Ns& horizon) {
  Stream* found = nullptr;
  awaited_.clear();
  for (Stream& on : streams(c)) {
    if (on.running == Running::no) {
      if (on.head == on.queue.size()) continue;
      const Item& head = on.queue[on.head];
      if (head.kind == ItemKind::wait && !events_[head.id].done) {
        awaited_.push_back(head.id);
        continue;
      }
      if (head.kind != ItemKind::wait && head.issued > now) {
        horizon = std::min(horizon, head.issued - 1);
        continue;
      }
    }
    if (found != nullptr || (on.running != Running::no && is_shared(c, on))) return nullptr;
    found = &on;
  }
  return found;
}

bool SharedDevice::play_alone(std::uint16_t c, Ns horizon, std::size_t most) {
  Ns now = next_[c];
  Stream* const only = alone(c, now, horizon);
  if (only == nullptr) return false;
  Stream& on = *only;
  const std::vector<LaunchRow>& rows = rows_[c];
  const std::vector<Price>& prices = prices_[graph_.classes[c].hardware].prices;
  bool others = false;  // they have something to do at `now`
  bool moved = false;
  while (!others) {
    if (on.running == Running::yes) {
      if (on.finish > horizon) break;
      now = on.finish;
      end_op(c, on, now);
      moved = true;
      if (--most == 0) {
        others = true;  // as far as play_alone() knows
        break;
      }
    }
    if (on.head == on.queue.size()) break;
    const Item& item = on.queue[on.head];
    if (item.kind == ItemKind::wait) {
      if (!events_[item.id].done) break;
      take(c, on, now);
      moved = true;
      continue;
    }
    if (item.issued > horizon) break;
    const LaunchRow* row = item.kind == ItemKind::op ? &rows[item.id] : nullptr;
    if (row != nullptr && (row->collective || row->has_deps)) {
      others = true;
      now = std::max(now, item.issued);
      break;
    }
    now = std::max(now, item.issued);
    moved = true;
    if (row == nullptr) {
      others = std::ranges::find(awaited_, item.id) != awaited_.end();
      take(c, on, now);
      continue;
    }
    on.current_cause = item.issued > on.ready ? Cause{item.host, Reason::host} : on.cause;
    on.current = item;
    on.start = on.transfer = now;
    on.demand = prices[row->cost].demand;
    on.running = Running::yes;
    on.work = row->duration * kWhole;
    on.updated = now;
    on.speed = on.own_speed = kWhole;
    on.finish = now + row->duration;
    ++on.head;
  }
  if (!moved) return false;
  if (others) {
    now_[c] = next_[c] = now;
  } else {
    plan_next(c, now);
  }
  return true;
}

}  // namespace foregather::sim
