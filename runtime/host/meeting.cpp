#include "runtime/host/meeting.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/host/kernels.h"
#include "runtime/host/numbers.h"

namespace foregather::runtime {
namespace {

bool is_reduction(OpKind kind) {
  return kind == OpKind::reduce_scatter || kind == OpKind::all_reduce || kind == OpKind::reduce;
}

// In whole elements, of every rank's share where there are shares.
Bytes whole_message(const Cost& cost, std::uint32_t ranks) {
  const bool has_shares = cost.kind == OpKind::all_gather || cost.kind == OpKind::reduce_scatter ||
                          cost.kind == OpKind::all_to_all;
  const Bytes unit = size_of(cost.dtype) * (has_shares ? ranks : 1);
  return cost.kind == OpKind::barrier ? 0 : cost.message_bytes / unit * unit;
}

}  // namespace

MeetingRoom::MeetingRoom(Members members, const Clock& clock, const Rating& rating,
                         double link_scale, const std::atomic<bool>& failed)
    : members_(std::move(members)),
      clock_(clock),
      rating_(rating),
      link_scale_(link_scale),
      failed_(failed) {
  for (Meeting& meeting : meetings_) meeting.parts.resize(members_.ranks.size());
}

void MeetingRoom::wake() {
  for (Meeting& meeting : meetings_) {
    const std::lock_guard lock(meeting.mutex);
    meeting.changed.notify_all();
  }
}

Bytes MeetingRoom::sent(const Call& call) const {
  switch (call.arrival.cost->kind) {
    case OpKind::all_gather: return call.message / members_.group_size;
    case OpKind::barrier: return 0;
    default: return call.message;
  }
}

Bytes MeetingRoom::received(const Call& call) const {
  switch (call.arrival.cost->kind) {
    case OpKind::reduce_scatter: return call.message / members_.group_size;
    case OpKind::barrier: return 0;
    default: return call.message;
  }
}

// A buffer of so many bytes, whatever the schedule says of its elements, is one of the wire's type.
void MeetingRoom::take_types(Call& call) const {
  call.accesses.assign(call.arrival.accesses.begin(), call.arrival.accesses.end());
  for (const bool reads : {true, false}) {
    const auto is_meant = [&](const BoundAccess& access) {
      return (access.mode == Access::read) == reads && access.data != nullptr;
    };
    Bytes bytes = 0;
    for (const BoundAccess& access : call.accesses) bytes += is_meant(access) ? access.bytes : 0;
    const Bytes expected = reads ? sent(call) : received(call);
    if (bytes != expected || elements_of(call.accesses, reads) == expected / size_of(call.type()))
      continue;
    for (BoundAccess& access : call.accesses)
      if (is_meant(access)) access.dtype = call.type();
  }
}

// What the rank's tensors hold, where they are as large as what is sent. In place, a rank's share
// of an all-gather is its part of the whole; other collectives send what they overwrite.
bool MeetingRoom::stage(const Call& call, Part& part) const {
  const Bytes bytes = sent(call);
  part.in.resize(static_cast<std::size_t>(bytes));
  part.out.resize(static_cast<std::size_t>(received(call)));
  const DType type = call.type();
  const std::int64_t elements = bytes / size_of(type);
  const std::int64_t reads = elements_of(call.accesses, true);
  const std::int64_t writes = elements_of(call.accesses, false);
  if (elements > 0 && reads == elements)
    return collect(call.accesses, true, part.in.data(), type, elements) == elements;
  if (elements > 0 && reads == 0 && writes == elements &&
      call.arrival.cost->kind != OpKind::send_recv)
    return collect(call.accesses, false, part.in.data(), type, elements) == elements;
  fill_known(part.in.data(), bytes, type, call.arrival.seed, 0);
  return false;
}

bool MeetingRoom::arrive(Call& call) {
  Meeting& meeting = call.meeting;
  Part& part = meeting.parts[call.me()];
  std::unique_lock lock(meeting.mutex);
  if (meeting.ticket != call.arrival.ticket) {
    meeting.ticket = call.arrival.ticket;
    meeting.arrived = meeting.left = 0;
    for (Part& each : meeting.parts) each.steps = 0;
  }
  lock.unlock();
  part.is_bound = stage(call, part);
  lock.lock();
  if (++meeting.arrived == call.size()) {
    meeting.transfer = clock_.now();
    meeting.last = members_.ranks[call.me()];
    meeting.last_op = call.arrival.op;
    meeting.changed.notify_all();
  }
  meeting.changed.wait(lock, [&] { return meeting.arrived == call.size() || failed_; });
  call.begin = meeting.transfer + call.arrival.cost->lateness;
  return !failed_;
}

bool MeetingRoom::leave(const Call& call) {
  Meeting& meeting = call.meeting;
  std::unique_lock lock(meeting.mutex);
  if (++meeting.left == call.size()) meeting.changed.notify_all();
  meeting.changed.wait(lock, [&] { return meeting.left == call.size() || failed_; });
  return !failed_;
}

// Shares of scattered and gathered messages lie by position in the group; others are cut into as
// many as there are members.
MeetingRoom::Chunk MeetingRoom::chunk_of(const Call& call, std::uint32_t member) const {
  if (call.arrival.cost->kind != OpKind::all_reduce) {
    const Bytes bytes = call.message / members_.group_size;
    return {bytes * members_.positions[member], bytes};
  }
  const std::int64_t elements = call.message / size_of(call.type());
  const std::int64_t first = elements * member / call.size();
  const std::int64_t last = elements * (member + 1) / call.size();
  return {first * size_of(call.type()), (last - first) * size_of(call.type())};
}

bool MeetingRoom::wait_steps(const Call& call, std::uint32_t member, std::uint32_t steps) {
  std::unique_lock lock(call.meeting.mutex);
  call.meeting.changed.wait(lock, [&] { return call.part(member).steps >= steps || failed_; });
  return !failed_;
}

// One step is over when that share of the rated time has passed.
void MeetingRoom::step(const Call& call, double share) {
  clock_.sleep_until(call.begin + static_cast<Ns>(share * static_cast<double>(call.time)));
  const std::lock_guard lock(call.meeting.mutex);
  ++call.part(call.me()).steps;
  call.meeting.changed.notify_all();
}

// In step s a rank gets from its left neighbour the chunk that started s + 1 ranks away.
bool MeetingRoom::gather_around(const Call& call, double from, double to) {
  const std::uint32_t n = call.size(), left = (call.me() + n - 1) % n;
  const std::uint32_t before = call.part(call.me()).steps;
  step(call, from);
  for (std::uint32_t s = 0; s + 1 < n; ++s) {
    if (!wait_steps(call, left, before + s + 1)) return false;
    const Chunk chunk = chunk_of(call, (call.me() + 2 * n - 1 - s) % n);
    std::memcpy(call.part(call.me()).out.data() + chunk.offset,
                call.part(left).out.data() + chunk.offset, static_cast<std::size_t>(chunk.bytes));
    step(call, from + (to - from) * (s + 1) / (n - 1));
  }
  return true;
}

// The sum of a chunk starts at the right neighbour of its owner, comes around and ends there. A sum
// is kept until the right neighbour has read it.
bool MeetingRoom::reduce_around(const Call& call, double to) {
  const std::uint32_t n = call.size(), me = call.me();
  const std::uint32_t left = (me + n - 1) % n, right = (me + 1) % n;
  Part& part = call.part(me);
  const auto add_own = [&](Buffer& sum, const Buffer* before, std::uint32_t member) {
    const Chunk chunk = chunk_of(call, member);
    sum.assign(part.in.data() + chunk.offset, part.in.data() + chunk.offset + chunk.bytes);
    if (before != nullptr)
      add(sum.data(), before->data(), call.type(), chunk.bytes / size_of(call.type()));
  };
  add_own(part.sums[0], nullptr, left);
  step(call, 0);
  for (std::uint32_t s = 0; s + 1 < n; ++s) {
    if (!wait_steps(call, left, s + 1) || !wait_steps(call, right, s + 1)) return false;
    add_own(part.sums[(s + 1) % 2], &call.part(left).sums[s % 2], (me + 2 * n - 2 - s) % n);
    step(call, to * (s + 1) / (n - 1));
  }
  const Chunk own = chunk_of(call, me);
  const bool is_whole = call.arrival.cost->kind == OpKind::all_reduce;
  if (own.bytes > 0)
    std::memcpy(part.out.data() + (is_whole ? own.offset : 0), part.sums[(n - 1) % 2].data(),
                static_cast<std::size_t>(own.bytes));
  return true;
}

void MeetingRoom::reduce_directly(const Call& call, Chunk chunk, std::byte* to) const {
  const auto bytes = static_cast<std::size_t>(chunk.bytes);
  std::memcpy(to, call.part(0).in.data() + chunk.offset, bytes);
  for (std::uint32_t member = 1; member < call.size(); ++member)
    add(to, call.part(member).in.data() + chunk.offset, call.type(),
        chunk.bytes / size_of(call.type()));
}

bool MeetingRoom::transfer(Call& call) {
  const std::uint32_t n = call.size(), me = call.me();
  Part& part = call.part(me);
  if (call.message == 0) return true;
  const auto copy = [&](Bytes to, std::uint32_t member, Chunk from) {
    std::memcpy(part.out.data() + to, call.part(member).in.data() + from.offset,
                static_cast<std::size_t>(from.bytes));
  };
  const bool is_ring = n > 1 && call.message >= rating_.direct_below;
  const Chunk everything{0, call.message};
  switch (call.arrival.cost->kind) {
    case OpKind::all_gather:
      if (is_ring) {
        copy(chunk_of(call, me).offset, me, {0, chunk_of(call, me).bytes});
        return gather_around(call, 0, 1);
      }
      for (std::uint32_t member = 0; member < n; ++member)
        copy(chunk_of(call, member).offset, member, {0, chunk_of(call, member).bytes});
      return true;
    case OpKind::reduce_scatter:
      if (is_ring) return reduce_around(call, 1);
      reduce_directly(call, chunk_of(call, me), part.out.data());
      return true;
    case OpKind::all_reduce:
      if (is_ring) return reduce_around(call, 0.5) && gather_around(call, 0.5, 1);
      reduce_directly(call, everything, part.out.data());
      return true;
    case OpKind::reduce:  // to the first of the group
      if (me == 0) reduce_directly(call, everything, part.out.data());
      return true;
    case OpKind::broadcast: copy(0, 0, everything); return true;
    case OpKind::all_to_all:
      for (std::uint32_t member = 0; member < n; ++member)
        copy(chunk_of(call, member).offset, member, chunk_of(call, me));
      return true;
    default:  // to the next of the group
      copy(0, (me + n - 1) % n, everything);
      return true;
  }
}

std::string MeetingRoom::compare_sums(const Call& call, const Buffer& result, Chunk chunk) const {
  const DType type = call.type();
  const std::int64_t first = chunk.offset / size_of(type);
  for (std::int64_t i = 0; i < chunk.bytes / size_of(type); ++i) {
    double sum = 0, size = 0;
    for (std::uint32_t member = 0; member < call.size(); ++member) {
      const double value = value_at(call.part(member).in.data(), type, first + i);
      sum += value;
      size += std::abs(value);
    }
    const double got = value_at(result.data(), type, i);
    const bool wraps = rounding_error(type) == 0;  // integers: their sums may
    if (wraps || std::abs(got - sum) <= 2 * rounding_error(type) * call.size() * size) continue;
    if (std::isnan(got) && std::isnan(sum)) continue;
    return fmt::format("element {} of a sum over {} ranks is {}, expected {}", i, call.size(), got,
                       sum);
  }
  return {};
}

// The result against what the others sent.
std::string MeetingRoom::compare(const Call& call, const Buffer& result, Bytes& bytes) const {
  const OpKind kind = call.arrival.cost->kind;
  const std::uint32_t n = call.size(), me = call.me();
  bytes = std::ssize(result);
  if (is_reduction(kind)) {
    if (kind == OpKind::reduce && me != 0) return bytes = 0, std::string();
    return compare_sums(
        call, result, kind == OpKind::reduce_scatter ? chunk_of(call, me) : Chunk{0, call.message});
  }
  const auto differs = [&](Bytes at, std::uint32_t member, Chunk from) -> std::string {
    if (from.bytes == 0 ||
        std::memcmp(result.data() + at, call.part(member).in.data() + from.offset,
                    static_cast<std::size_t>(from.bytes)) == 0)
      return {};
    return fmt::format("bytes {} to {} are not what position {} of the group sent", at,
                       at + from.bytes, members_.positions[member]);
  };
  std::string wrong;
  const Chunk own = chunk_of(call, me), everything{0, call.message};
  for (std::uint32_t member = 0; member < n && wrong.empty(); ++member) {
    const Chunk chunk = chunk_of(call, member);
    if (kind == OpKind::all_gather) wrong = differs(chunk.offset, member, {0, chunk.bytes});
    if (kind == OpKind::all_to_all) wrong = differs(chunk.offset, member, own);
  }
  if (kind == OpKind::broadcast) wrong = differs(0, 0, everything);
  if (kind == OpKind::send_recv) wrong = differs(0, (me + n - 1) % n, everything);
  return wrong;
}

// Into the rank's tensors; and what is compared comes from there, where they hold it exactly.
void MeetingRoom::take(const Call& call, Meet& meet) const {
  Part& part = call.part(call.me());
  const OpKind kind = call.arrival.cost->kind;
  const bool receives = kind != OpKind::reduce || call.me() == 0;
  const std::int64_t elements = std::ssize(part.out) / size_of(call.type());
  const std::int64_t writes = elements_of(call.accesses, false);
  meet.is_bound = part.is_bound || (kind == OpKind::send_recv && writes == elements);
  const Buffer* result = &part.out;
  if (receives && writes > 0) {
    if (writes != elements) meet.is_bound = false;
    distribute(call.accesses, part.out.data(), call.type(), elements);
    const bool is_exact = std::ranges::all_of(call.accesses, [&](const BoundAccess& access) {
      return access.mode == Access::read || access.dtype == call.type();
    });
    if (is_exact && writes == elements) {
      part.result.resize(part.out.size());
      collect(call.accesses, false, part.result.data(), call.type(), elements);
      result = &part.result;
    }
  }
  if (receives) meet.wrong = compare(call, *result, meet.checked_bytes);
}

std::optional<Meet> MeetingRoom::meet(const Arrival& arrival) {
  const Cost& cost = *arrival.cost;
  Call call{arrival, meetings_[arrival.ticket % 2]};
  call.message = whole_message(cost, members_.group_size);
  call.time = static_cast<Ns>(
      static_cast<double>(rated_time(cost, members_.group_size, link_scale_, rating_)) /
      arrival.speed);
  take_types(call);
  if (!arrive(call)) return std::nullopt;
  Meet meet;
  meet.transfer = call.meeting.transfer;
  meet.last = call.meeting.last;
  meet.last_op = call.meeting.last_op;
  if (!transfer(call)) return std::nullopt;
  if (call.message > 0) take(call, meet);
  meet.overrun = clock_.now() - (call.begin + call.time);
  clock_.sleep_until(call.begin + call.time);
  if (!leave(call)) return std::nullopt;
  return meet;
}

}  // namespace foregather::runtime
