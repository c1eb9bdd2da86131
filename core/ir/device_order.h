// Which device work is known to have ended before which: vector clocks. Internal to core/ir.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ir/graph.h"

namespace foregather {

/// Vector clocks of one program's streams and host threads while its actions are performed.
///
/// A clock has one number for each stream (its first n ops have ended) and one for each host thread
/// (its first n actions have been performed). Each stream and each thread has a clock; events,
/// communicators, awaited ops and awaited actions keep copies. What A knows is ordered before what
/// A does next. Costs O(streams + threads) a call.
class DeviceOrder {
 public:
  /// A saved copy of a clock; 0 until save() wrote to it.
  using Saved = std::uint32_t;

  DeviceOrder(std::size_t streams, std::size_t threads);

  /// Counts one action of a thread.
  void act(std::uint32_t thread) { ++host(thread)[streams_ + thread]; }
  /// All threads meet: each knows what any knew.
  void meet();

  /// An op enters `stream`: after all that the stream and the launching thread know. Returns its
  /// number on the stream.
  std::uint32_t launch(std::uint32_t thread, StreamId stream);
  /// An event after the work so far on a stream, issued by a thread.
  void record(std::uint32_t thread, StreamId stream, Saved& event);
  void save_stream(StreamId stream, Saved& saved) { save(device(stream), saved); }
  void save_host(std::uint32_t thread, Saved& saved) { save(host(thread), saved); }

  /// The stream's next op comes after what was saved.
  void stream_learns(StreamId stream, Saved saved) { join(device(stream), at(saved)); }
  void host_learns(std::uint32_t thread, Saved saved) { join(host(thread), at(saved)); }
  void host_learns_stream(std::uint32_t thread, StreamId stream) {
    join(host(thread), device(stream));
  }
  void host_learns_all(std::uint32_t thread);

  /// Ops launched on a stream so far.
  std::uint32_t position(StreamId stream) const { return device(stream)[stream.row()]; }
  /// Is op number `position` of `of` ordered before the next op of `stream`?
  bool stream_knows(StreamId stream, StreamId of, std::uint32_t position) const {
    return device(stream)[of.row()] >= position;
  }
  bool host_knows(std::uint32_t thread, StreamId of, std::uint32_t position) const {
    return host(thread)[of.row()] >= position;
  }
  /// Actions that a thread has performed so far.
  std::uint32_t performed(std::uint32_t thread) const { return host(thread)[streams_ + thread]; }
  /// Does `thread` come after the first `count` actions of thread `of`?
  bool host_follows(std::uint32_t thread, std::uint32_t of, std::uint32_t count) const {
    return host(thread)[streams_ + of] >= count;
  }

 private:
  using Clock = std::span<std::uint32_t>;
  using ConstClock = std::span<const std::uint32_t>;

  Clock device(StreamId stream) { return row(clocks_, stream.row()); }
  ConstClock device(StreamId stream) const { return row(clocks_, stream.row()); }
  Clock host(std::uint32_t thread) { return row(clocks_, streams_ + thread); }
  ConstClock host(std::uint32_t thread) const { return row(clocks_, streams_ + thread); }
  ConstClock at(Saved saved) const { return row(saved_, saved - 1); }
  Clock row(std::vector<std::uint32_t>& rows, std::size_t i) {
    return Clock(rows).subspan(i * width_, width_);
  }
  ConstClock row(const std::vector<std::uint32_t>& rows, std::size_t i) const {
    return ConstClock(rows).subspan(i * width_, width_);
  }
  static void join(Clock clock, ConstClock other);
  void save(ConstClock clock, Saved& saved);

  std::size_t streams_;
  std::size_t width_;
  std::vector<std::uint32_t> clocks_;  ///< streams, then threads
  std::vector<std::uint32_t> saved_;
};

}  // namespace foregather
