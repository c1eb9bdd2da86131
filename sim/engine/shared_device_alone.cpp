#include <algorithm>
#include <array>

#include "sim/engine/shared_device.h"

namespace foregather::sim {

// A collective in which other classes take part: all of them decide its speed.
bool SharedDevice::is_shared(std::uint16_t c, const Stream& on) const {
  const LaunchRow& row = rows_[c][on.current.id];
  return row.collective && meetings_.classes(c, row.communicator).size() > 1;
}

// The stream of the class that acts next, or null if the general path must decide. The others are
// in background_ or wait: for events in awaited_, or for launches after `horizon`, which shrinks.
SharedDevice::Stream* SharedDevice::alone(std::uint16_t c, Ns now, Ns& horizon) {
  Stream* found = nullptr;
  awaited_.clear();
  background_.clear();
  for (Stream& on : streams(c)) {
    if (on.running != Running::no) {
      if (is_shared(c, on)) return nullptr;
      background_.push_back(&on);
      continue;
    }
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
    if (found != nullptr) return nullptr;
    found = &on;
  }
  if (background_.empty()) return found;
  const auto next = std::ranges::min_element(background_, {}, &Stream::finish);
  if (found != nullptr) return (*next)->finish > now ? found : nullptr;
  found = *next;
  background_.erase(next);
  return found;
}

// set_speeds() of `on` and the background.
void SharedDevice::share_with_background(std::uint16_t c, Stream& on, Ns now) {
  changed_[c] = 0;
  if (background_.empty()) {
    if (on.running == Running::yes) change_speed(on, on.own_speed = kWhole, now);
    return;
  }
  if (background_.size() > 1) {
    set_speeds(c, now);
    dirty_[c] = 0;
    return;
  }
  Stream& other = *background_.front();
  std::array<std::uint32_t, 2> speeds{kWhole, kWhole};
  if (on.running == Running::yes) {
    share(on.demand, other.demand, speeds);
    on.own_speed = speeds[0];
    change_speed(on, speeds[0], now);
  }
  other.own_speed = speeds[1];
  change_speed(other, speeds[1], now);
}

bool SharedDevice::play_alone(std::uint16_t c, Ns horizon, std::size_t most) {
  Ns now = next_[c];
  Stream* const only = alone(c, now, horizon);
  if (only == nullptr) return false;
  Stream& on = *only;
  const LaunchRows rows = rows_[c];
  bool others = false;  // they have something to do at `now`
  bool moved = false;
  const auto go_to = [&](Ns time) {
    if (changed_[c] != 0) share_with_background(c, on, now);
    if (time > horizon) return false;
    for (const Stream* other : background_)
      if (other->finish <= time) return false;
    now = time;
    return true;
  };
  while (!others) {
    if (on.running == Running::yes) {
      if (changed_[c] != 0) share_with_background(c, on, now);
      if (!go_to(on.finish)) break;
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
    if (item.issued > now && !go_to(item.issued)) break;
    const LaunchRow* row = item.kind == ItemKind::op ? &rows[item.id] : nullptr;
    if (row != nullptr && (row->collective || row->has_deps)) {
      others = true;
      break;
    }
    moved = true;
    if (row == nullptr) {
      others = std::ranges::find(awaited_, item.id) != awaited_.end();
      take(c, on, now);
      continue;
    }
    const Price& price = rows.price(*row);
    on.current_cause = item.issued > on.ready ? Cause{item.host, Reason::host} : on.cause;
    on.current = item;
    on.start = on.transfer = now;
    on.demand = price.demand;
    on.running = Running::yes;
    on.work = price.duration * kWhole;
    on.updated = now;
    on.speed = on.own_speed = kWhole;
    on.finish = now + price.duration;
    changed_[c] = 1;
    ++on.head;
  }
  if (!moved) return false;
  if (others) {
    now_[c] = now;
    next_.set(c, now);
  } else {
    if (changed_[c] != 0) share_with_background(c, on, now);
    plan_next(c, now);
  }
  return true;
}

}  // namespace foregather::sim
