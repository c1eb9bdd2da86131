// The device with contention: ops that run at one time share SMs, memory bandwidth and links.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/engine/device_state.h"
#include "sim/engine/pairing.h"
#include "sim/engine/rates.h"

namespace foregather::sim {

/// When each class goes on next.
class NextTimes {
 public:
  explicit NextTimes(std::size_t classes) : times_(classes, kForever) {}
  Ns operator[](std::uint16_t c) const { return times_[c]; }
  void set(std::uint16_t c, Ns time) {
    if (c == first_)
      is_first_known_ = is_first_known_ && time <= times_[c];
    else if (time < times_[first_] || (time == times_[first_] && c < first_))
      first_ = c;
    times_[c] = time;
  }
  /// The earliest class, the lowest of equals.
  std::uint16_t first() const {
    if (!is_first_known_)
      first_ = static_cast<std::uint16_t>(std::ranges::min_element(times_) - times_.begin());
    is_first_known_ = true;
    return first_;
  }
  std::size_t size() const { return times_.size(); }

 private:
  std::vector<Ns> times_;
  mutable std::uint16_t first_ = 0;  ///< if known; else none is earlier than it was
  mutable bool is_first_known_ = true;
};

/// All devices of a job. Launches, event records and waits queue on their streams; advance() plays
/// them in time order. Speeds change only when an op starts or ends, and work is counted in integer
/// units (ns × kWhole), so the result does not depend on when advance() is called. Cost: per op two
/// events, each linear in the streams of a device.
///
/// Assumes that nothing is launched before the time that advance() has reached.
class SharedDevice {
 public:
  static constexpr bool needs_time = true;

  /// `events`: memory to use again.
  SharedDevice(const Graph& graph, std::span<const LaunchRows> rows,
               std::span<const CostTable> prices, std::vector<Timeline>& timelines,
               const Meetings& meetings, std::vector<EventRecord> events = {});

  void launch(std::uint16_t c, std::uint32_t local_op, Ns issued, OpInstance host,
              std::uint32_t step);
  EventHandle record(std::uint16_t c, std::uint32_t stream, Ns host_time, OpInstance host);
  /// `host_time`: when the host enqueues it.
  void wait(std::uint16_t c, std::uint32_t stream, EventHandle event, Ns host_time);
  const EventRecord& event(EventHandle handle) const { return events_[handle]; }
  const EventRecord& place(std::uint16_t c, std::uint32_t s) const {
    return streams_[first_stream_[c] + s].places.place();
  }

  /// Plays on until the full stream has the places, as far as it stays busy, or nothing happens any
  /// more without further launches.
  void make_places(const WantedPlaces& wanted);
  /// The same of several, until one of them has all its places. Until then nothing else may be
  /// launched than what is wanted.
  void make_any_places(std::span<const WantedPlaces> wanted);
  /// When something happens next; kForever if nothing will without further launches.
  Ns next_time() const { return next_[next_.first()]; }
  /// Has an op ended or an event happened on the class's device since the last call?
  bool has_moved(std::uint16_t c) { return std::exchange(moved_[c], 0) != 0; }
  /// Plays everything that happens until `time`, inclusive.
  void advance(Ns time);
  bool idle() const { return queued_ == 0; }

  /// Notes every op that ends from now on, so that undo() of the same log takes it back from the
  /// timelines: for a copy that plays ahead what may still change.
  struct Ended {
    std::uint16_t rank_class;
    std::uint32_t step;
    std::uint32_t local_op;
    Ns end_before;
  };
  void log_to(std::vector<Ended>* log) { log_ = log; }
  static void undo(const std::vector<Ended>& log, std::vector<Timeline>& timelines);

  /// What decides how the devices go on, to be compared with a later state. Copies what is queued,
  /// and the last `events` events or those since the first one in a queue.
  struct Snapshot;
  /// The items that a period brings the streams of the only class, where `periods` have brought
  /// nothing else: as far as these fill the queues, a later period fills them alike.
  struct Supply {
    std::span<const std::uint32_t> items;  ///< by stream; empty: not known
    std::uint32_t periods = 0;
  };
  /// Are the ops that are next on the only class's streams all of these rows and that step? Quick.
  bool is_within(Range rows, std::uint32_t step) const;
  void remember(Snapshot& snapshot, std::uint32_t events) const { remember(snapshot, events, {}); }
  void remember(Snapshot& snapshot, std::uint32_t events, const Supply& supply) const;
  /// From then on until forget() the device notes in the snapshot what ends.
  void note_in(Snapshot& snapshot);
  void forget();
  std::vector<EventRecord> take_events() { return std::move(events_); }  ///< at the end
  EventHandle next_event() const { return static_cast<EventHandle>(events_.size()); }
  /// Is the present state the remembered one, a period later? No events but those remembered are
  /// waited for any more. Several classes repeat only step by step.
  bool repeats(const Snapshot& snapshot, const Pairing& pairing);
  /// If repeats(): makes it the state of pairing.periods periods later, with all that happens in
  /// them. Events recorded in these follow those that there are.
  void skip(const Snapshot& snapshot, const Pairing& pairing);

  /// After repeats(), and skip() of pairing.periods if these are any: a device that has more in its
  /// queues than a period takes from them does what the period did, whatever is launched behind
  /// that. From `now` on, the end of a period, it coasts: goes on by whole periods without playing
  /// them, as far as what is queued reaches. make_places() and coast() may thereby come to times
  /// before which the host launches: what would be disturbed is taken back then. So only one thread
  /// may act. `items`: what a period takes from each stream. The snapshot's notes are taken.
  void begin_coasting(Snapshot& snapshot, const Pairing& pairing,
                      std::span<const std::uint32_t> items, Ns now);
  bool is_coasting() const { return coast_.left + coast_.played != 0; }
  bool is_coasting(Range rows, std::uint32_t step) const {
    return is_coasting() && coast_.pairing.rows == rows && coast_.pairing.step == step;
  }
  /// All that was launched since goes on to repeat.
  void look_ahead();
  /// Goes on by a period; false if it cannot.
  bool coast();
  /// Takes back what lies behind `time`.
  void land(Ns time);
  /// Plays to just there, and coasts no more unless it is there already.
  void land_at(Ns time);

 private:
  enum class ItemKind : std::uint8_t { op, record, wait };
  struct Item {
    ItemKind kind = ItemKind::op;
    std::uint32_t id = 0;
    std::uint32_t step = 0;
    std::uint32_t order = 0;
    Ns issued = 0;
    OpInstance host;
  };
  enum class Running : std::uint8_t { no, yes, waiting };  ///< waiting: arrived, others have not
  struct Stream {
    Cause cause;   ///< what its next op would be bound by
    Ns ready = 0;  ///< since when
    Running running = Running::no;
    Item current;
    Ns start = 0;
    Ns transfer = 0;
    Cause current_cause;
    std::int64_t work = 0;  ///< left at `updated`, in ns × kWhole
    Ns updated = 0;
    std::uint32_t own_speed = kWhole;  ///< that its device allows
    std::uint32_t speed = kWhole;      ///< of a collective: the least of its members
    Demand demand{};
    Ns finish = kForever;
    std::vector<Item> queue;
    std::size_t head = 0;
    LaunchQueue places;
  };
  bool pair(const Snapshot& snapshot, const Pairing& pairing);
  bool pair(const Snapshot& snapshot, const Pairing& pairing, std::uint16_t c,
            std::span<const std::uint32_t> launched);
  static bool pair(const Item& before, Item& now, const Pairing& pairing, std::uint32_t launched);
  static void move(Item& item, const Pairing& pairing, std::uint32_t launched);
  struct Communicator {
    Ns end = 0;
    OpInstance last;
    std::uint32_t launched = 0, started = 0;
    bool busy = false;
  };
  /// What a period changes, and how many are left. Periods are counted from the remembered one.
  struct Coast {
    struct Move {
      std::uint32_t items = 0;  ///< taken from the queue
      Ns ready = 0, start = 0, transfer = 0, updated = 0, finish = 0;
    };
    struct Meet {
      std::uint32_t started = 0;
      Ns end = 0;
    };
    Pairing pairing;
    std::vector<Ended> ended;           ///< in the remembered one
    std::vector<EventHandle> recorded;  ///< likewise
    std::vector<Move> streams;
    std::vector<Meet> communicators;
    Ns now = 0, next = 0;     ///< moves of the class's
    std::vector<Item> first;  ///< current ones before the first period
    std::vector<Ns> ends;     ///< of the step, before each of `played`
    Ns at = 0;                ///< where the next one begins
    EventHandle horizon = 0;  ///< events from there on are recorded later than all that is left
    std::uint32_t left = 0, played = 0;
  };
  void move_by_period(int direction);
  void take_back_period();
  void disturb(ItemKind kind, std::uint32_t id, Ns time);
  std::uint32_t periods_queued(const Stream& on, std::uint32_t items, std::uint32_t most) const;
  void repeat_ops(std::span<const Ended> ended, const Pairing& pairing, std::uint32_t period);
  void repeat_events(std::span<const EventHandle> recorded, const Pairing& pairing,
                     std::uint32_t period);
  void stop_coasting() { coast_.left = coast_.played = 0; }

  Stream& stream(std::uint16_t c, std::uint32_t s) { return streams_[first_stream_[c] + s]; }
  Communicator& queue(std::uint16_t c, std::uint32_t k) { return queues_[c * communicators_ + k]; }
  void play_together(Ns now);
  Item& enqueue(std::uint16_t c, Stream& on, ItemKind kind, std::uint32_t id, Ns issued,
                Ns host_time);
  std::span<Stream> streams(std::uint16_t c) {
    return std::span(streams_).subspan(first_stream_[c], first_stream_[c + 1U] - first_stream_[c]);
  }
  static constexpr std::size_t kUnlimited = ~std::size_t{0};
  /// The common case: one stream of the class takes up work, the others wait for it or are busy
  /// with one op each. False if it is not so now. Else plays until that changes, until `horizon`,
  /// or until `most` ops ended.
  bool play_alone(std::uint16_t c, Ns horizon, std::size_t most);
  bool is_shared(std::uint16_t c, const Stream& on) const;
  Stream* alone(std::uint16_t c, Ns now, Ns& horizon);
  void share_with_background(std::uint16_t c, Stream& on, Ns now);
  void end_ops(std::uint16_t c, Ns now);
  void end_op(std::uint16_t c, Stream& on, Ns now);
  void settle(std::uint16_t c, Ns now);
  bool take(std::uint16_t c, Stream& on, Ns now);
  bool begin(std::uint16_t c, Stream& on, const Item& item, Ns now);
  void arrive(std::uint16_t c, Stream& on, Ns now);
  void transfer(std::span<Stream* const> parts, std::span<const std::uint16_t> members, Ns now);
  void find_parts(std::uint16_t c, const Stream& on);
  void set_speeds(std::uint16_t c, Ns now);
  void set_speed(std::uint16_t c, Stream& on, std::uint32_t speed, Ns now);
  /// False if it runs at that speed already.
  static bool change_speed(Stream& on, std::uint32_t speed, Ns now);
  void plan_next(std::uint16_t c, Ns now);

  const Graph& graph_;
  std::span<const LaunchRows> rows_;
  std::vector<Timeline>& timelines_;
  const Meetings& meetings_;
  std::size_t communicators_;
  std::vector<std::uint32_t> first_stream_;  ///< one more than classes
  std::vector<Stream> streams_;
  std::vector<Communicator> queues_;
  /// By communicator: the streams of the collective under way that classes share, by member.
  std::vector<std::vector<std::uint32_t>> meeting_;
  std::vector<EventRecord> events_;
  std::vector<Ns> now_;  ///< by class: played so far
  NextTimes next_;
  std::vector<std::uint8_t> changed_;   ///< by class: speeds must be set again
  std::vector<std::uint8_t> moved_;     ///< by class, until has_moved()
  std::vector<std::uint8_t> dirty_;     ///< by class: heads must be looked at, next_ planned
  std::vector<EventHandle> awaited_;    ///< scratch of play_alone: what other streams wait for
  std::vector<Stream*> background_;     ///< scratch of play_alone: busy streams beside the only one
  std::vector<Stream*> parts_;          ///< scratch: a collective's streams, by member
  std::vector<Stream*> active_;         ///< scratch of set_speeds
  std::vector<const Demand*> demands_;  ///< scratch of set_speeds
  std::vector<std::uint32_t> speeds_;   ///< scratch of set_speeds
  std::vector<Ended>* log_ = nullptr;
  std::vector<EventHandle>* recorded_ = nullptr;  ///< notes events as they are done
  std::size_t queued_ = 0;                        ///< items, running ops included
  Coast coast_;
};

struct SharedDevice::Snapshot {
  std::vector<Stream> streams;       ///< queues from their heads on; empty if `is_supplied`
  std::vector<std::size_t> lengths;  ///< of the queues
  bool is_supplied = false;          ///< the queues hold nothing but the supply
  std::vector<Communicator> queues;
  EventHandle first_event = 0, next_event = 0;
  std::vector<EventRecord> events;  ///< from first_event on
  std::vector<std::uint8_t> changed;
  std::vector<std::vector<std::uint32_t>> meeting;
  std::vector<Ns> now, next;  ///< by class
  std::size_t queued = 0;
  std::vector<Ended> ended;           ///< since then
  std::vector<EventHandle> recorded;  ///< since then
};

}  // namespace foregather::sim
