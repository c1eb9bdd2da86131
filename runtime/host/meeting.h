// Collectives of ranks that share memory.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "runtime/clock.h"
#include "runtime/device.h"
#include "runtime/groups.h"
#include "runtime/host/rating.h"

namespace foregather::runtime {

/// One rank's part of one collective.
struct Arrival {
  std::uint32_t member = 0;  ///< row of Members::ranks
  OpId op;
  std::uint64_t ticket = 0;  ///< collectives before it on its communicator
  const Cost* cost = nullptr;
  double speed = 1;  ///< its rated time ÷ this
  std::span<const BoundAccess> accesses;
  std::uint64_t seed = 0;  ///< of what is sent where the schedule names no tensors
};

struct Meet {
  Ns transfer = 0;         ///< the last rank had arrived
  std::uint32_t last = 0;  ///< row of Job::ranks that arrived last
  OpId last_op;            ///< its part of the collective
  bool is_bound = false;   ///< its tensors were sent and received, not values of its own
  Bytes checked_bytes = 0;
  Ns overrun = 0;     ///< what the data took longer than the rated time; negative: less
  std::string wrong;  ///< numbers that are not what they should be; empty: none
};

/// The collectives of one communicator's instance, one after the other.
///
/// All ranks put what they send into buffers of the meeting, as NCCL does into its channels. When
/// the last one has arrived, data move: small messages straight from all others, larger ones in
/// chunks around the ring of members, neighbour by neighbour, reductions adding on the way. Each
/// step ends no sooner than the rated bandwidth allows. Then each rank takes its result into its
/// tensors and compares it with what the others sent, and all leave together.
///
/// Two meetings alternate: a rank may arrive at the next one while others still leave this one, but
/// nobody gets two ahead.
class MeetingRoom {
 public:
  MeetingRoom(Members members, const Clock& clock, const Rating& rating, double link_scale,
              const std::atomic<bool>& failed);

  /// Performs one collective; called by one thread of each member. Nothing once the job has failed.
  std::optional<Meet> meet(const Arrival& arrival);
  /// Lets everybody go: the job has failed.
  void wake();
  const Members& members() const { return members_; }

 private:
  using Buffer = std::vector<std::byte>;
  struct Part {
    Buffer in, out;
    Buffer result;  ///< what its tensors hold in the end; others still read `out`
    std::array<Buffer, 2> sums;
    std::uint32_t steps = 0;  ///< that this rank has made; guarded by the meeting's mutex
    bool is_bound = false;
  };
  struct Meeting {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<std::uint64_t> ticket;
    std::uint32_t arrived = 0, left = 0, last = 0;
    OpId last_op;
    Ns transfer = 0;
    std::vector<Part> parts;
  };
  struct Chunk {
    Bytes offset = 0, bytes = 0;
  };
  /// What one call of meet() works on.
  struct Call {
    const Arrival& arrival;
    Meeting& meeting;
    Bytes message = 0;                       ///< in whole elements
    Ns begin = 0;                            ///< of the transfer
    Ns time = 0;                             ///< rated
    std::vector<BoundAccess> accesses = {};  ///< with the types that the collective takes them for
    std::uint32_t size() const { return static_cast<std::uint32_t>(meeting.parts.size()); }
    std::uint32_t me() const { return arrival.member; }
    Part& part(std::uint32_t member) const { return meeting.parts[member]; }
    DType type() const { return arrival.cost->dtype; }
  };

  Bytes sent(const Call& call) const;
  Bytes received(const Call& call) const;
  void take_types(Call& call) const;
  bool stage(const Call& call, Part& part) const;
  bool arrive(Call& call);
  bool leave(const Call& call);
  Chunk chunk_of(const Call& call, std::uint32_t member) const;
  bool wait_steps(const Call& call, std::uint32_t member, std::uint32_t steps);
  void step(const Call& call, double share);
  bool transfer(Call& call);
  bool gather_around(const Call& call, double from, double to);
  bool reduce_around(const Call& call, double to);
  void reduce_directly(const Call& call, Chunk chunk, std::byte* to) const;
  void take(const Call& call, Meet& meet) const;
  std::string compare(const Call& call, const Buffer& result, Bytes& bytes) const;
  std::string compare_sums(const Call& call, const Buffer& result, Chunk chunk) const;

  Members members_;
  const Clock& clock_;
  Rating rating_;
  double link_scale_;
  const std::atomic<bool>& failed_;
  std::array<Meeting, 2> meetings_;
};

}  // namespace foregather::runtime
