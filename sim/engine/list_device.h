// The device without contention: every op runs at full speed, so its times follow from what came
// before it and are known when it is launched.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/engine/device_state.h"
#include "sim/engine/pairing.h"

namespace foregather::sim {

/// All devices of a job. Launches resolve at once, in O(1); only a collective whose other ranks
/// have not arrived makes the rest of its stream wait in a queue. The order of launches on a stream
/// and on a communicator is the order of the calls.
class ListDevice {
 public:
  static constexpr bool needs_time = false;  ///< advance() does nothing

  /// `events`: memory to use again.
  ListDevice(const Graph& graph, std::span<const LaunchRows> rows,
             std::span<const CostTable> prices, std::vector<Timeline>& timelines,
             const Meetings& meetings, std::vector<EventRecord> events = {});

  void launch(std::uint16_t c, std::uint32_t local_op, Ns issued, OpInstance host,
              std::uint32_t step) {
    const LaunchRow& row = rows_[c][local_op];
    const Price& price = rows_[c].price(row);
    Stream& on = stream(c, row.stream);
    on.places.launched();
    if (row.collective || row.has_deps || queued_[c] != 0) [[unlikely]]
      return launch_in_turn(c, local_op, issued, host, step);
    // What start() and finish() do, for the ops that wait for their stream alone.
    Timeline& timeline = timelines_[c];
    StepTimes& times = timeline.step(step);
    const bool late = is_late(issued, on.ready, price);
    const Ns start = late ? issued + price.launch_lead : on.ready + price.lead;
    const Cause cause = late ? Cause{host, Reason::host} : on.cause;
    const Ns end = start + price.duration;
    times.ops[local_op] = op_time(issued, start, start, end, cause, step);
    times.states[local_op] = OpState::done;
    times.end = std::max(times.end, end);
    on.ready = end;
    on.cause = {{timeline.row(local_op), step, c}, Reason::stream};
    on.places.ended(end, on.cause.by);
  }
  /// An event after all work that was enqueued on the stream. Later work comes after it.
  EventHandle record(std::uint16_t c, std::uint32_t stream, Ns host_time, OpInstance host);
  void wait(std::uint16_t c, std::uint32_t stream, EventHandle event, Ns host_time);
  const EventRecord& event(EventHandle handle) const { return events_[handle]; }
  /// The end of the launch whose place in the launch queue the next launch takes.
  const EventRecord& place(std::uint16_t c, std::uint32_t s) const {
    return stream(c, s).places.place();
  }

  void make_places(const WantedPlaces&) {}
  void make_any_places(std::span<const WantedPlaces>) {}
  Ns next_time() const { return kForever; }
  void advance(Ns) {}
  bool has_moved(std::uint16_t) const { return true; }  ///< launches of others may move it
  bool idle() const {
    return std::ranges::all_of(queued_, [](auto items) { return items == 0; });
  }

  /// As in SharedDevice; an op of the only class has ended when it was launched.
  struct Snapshot;
  bool is_within(Range, std::uint32_t) const { return queued_[0] == 0; }
  void remember(Snapshot& snapshot, std::uint32_t events) const;
  void note_in(Snapshot&) {}
  void forget() {}
  std::vector<EventRecord> take_events() { return std::move(events_); }  ///< at the end
  EventHandle next_event() const { return static_cast<EventHandle>(events_.size()); }
  bool repeats(const Snapshot& snapshot, const Pairing& pairing);
  void skip(const Snapshot& snapshot, const Pairing& pairing);

 private:
  /// Does a launch hold an op back longer than the ops that it waits for?
  static bool is_late(Ns issued, Ns ready, const Price& price) {
    const Ns behind_launch = issued + price.launch_lead, behind_ops = ready + price.lead;
    return behind_launch > behind_ops || (behind_launch == behind_ops && issued > ready);
  }

  enum class ItemKind : std::uint8_t { op, record, wait };
  struct Item {
    ItemKind kind = ItemKind::op;
    bool arrived = false;
    std::uint32_t id = 0;  ///< local op or event
    std::uint32_t step = 0;
    std::uint32_t order = 0;  ///< of a collective on its communicator
    Ns issued = 0;
    OpInstance host;
    Ns start = 0;
    Cause cause;
  };
  struct Stream {
    Ns ready = 0;
    Cause cause;
    std::vector<Item> queue;
    std::size_t head = 0;
    LaunchQueue places;

    bool empty() const { return head == queue.size(); }
  };
  struct Queue {  ///< a communicator as a class sees it
    Ns end = 0;
    OpInstance last;
    std::uint32_t launched = 0, started = 0;
  };

  Stream& stream(std::uint16_t c, std::uint32_t s) { return streams_[first_stream_[c] + s]; }
  const Stream& stream(std::uint16_t c, std::uint32_t s) const {
    return streams_[first_stream_[c] + s];
  }
  Queue& queue(std::uint16_t c, std::uint32_t k) { return queues_[c * communicators_ + k]; }
  bool pair(const Snapshot& snapshot, const Pairing& pairing);
  void launch_in_turn(std::uint16_t c, std::uint32_t local_op, Ns issued, OpInstance host,
                      std::uint32_t step);
  bool start(std::uint16_t c, Item& item);
  bool arrive(std::uint16_t c, Item& item, const LaunchRow& row);
  void finish(std::uint16_t c, const Item& item, const LaunchRow& row, Ns transfer, Ns end);
  bool perform(Stream& on, const Item& item);
  void enqueue(std::uint16_t c, Stream& on, const Item& item);
  void drain(std::uint16_t c);

  const Graph& graph_;
  std::span<const LaunchRows> rows_;
  std::vector<Timeline>& timelines_;
  const Meetings& meetings_;
  std::size_t communicators_;
  std::vector<std::uint32_t> first_stream_;
  std::vector<Stream> streams_;
  std::vector<Queue> queues_;
  std::vector<EventRecord> events_;
  std::vector<std::size_t> queued_;   ///< items, by class
  std::vector<std::uint16_t> dirty_;  ///< classes whose streams may go on
  std::vector<Item*> meeting_;        ///< scratch of arrive(), in order of the members
};

struct ListDevice::Snapshot {
  std::vector<Stream> streams;
  std::vector<Queue> queues;
  EventHandle first_event = 0, next_event = 0;
  std::vector<EventRecord> events;
};

}  // namespace foregather::sim
