#include "core/rebuild/rank_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/rebuild/labels.h"

namespace foregather::rebuild {
namespace {

/// A thread that launches nothing for longer than this waited for another one that did.
constexpr Ns kHandOver = 20 * kMicrosecond;

// As torch.profiler writes those that are gathered and cast.
DType dtype_called(std::string_view name) {
  if (name == "BFloat16") return DType::bf16;
  return name == "Half" ? DType::f16 : DType::f32;
}

// Of PyTorch's copy kernels to a shorter dtype.
DType dtype_of_cast(std::string_view kernel) {
  return kernel.find("bfloat16_copy") != std::string_view::npos ? DType::bf16 : DType::f16;
}

class ProgramWriting {
 public:
  ProgramWriting(const RankTimeline& rank, const RankSurroundings& around, GraphBuilder& builder)
      : recording_(*rank.recording),
        timeline_(rank.timeline),
        labels_(rank.labels),
        rank_(rank.rank),
        around_(around),
        b_(builder) {}

  ProgramId run() {
    const ProgramId program = b_.begin_program(fmt::format("rank {}", rank_));
    add_streams();
    add_ops();
    add_events();
    add_threads();
    for (const RecordedCall* call : calls_by_issue()) perform(*call);
    b_.end_program();
    Program& written = b_.graph().programs[program.row()];
    for (HostThread& thread : written.threads)
      thread.sections[static_cast<std::size_t>(Section::first)] =
          thread.sections[static_cast<std::size_t>(Section::body)];
    return program;
  }

 private:
  // Threads launch on a stream in the order in which they issue, and wait for each other in it.
  std::vector<const RecordedCall*> calls_by_issue() const {
    std::vector<const RecordedCall*> calls;
    for (const RecordedCall& call : timeline_.calls) calls.push_back(&call);
    std::ranges::stable_sort(calls, {}, &RecordedCall::issued);
    return calls;
  }

  std::string lane_name(run::LaneRow row) const {
    const run::Lane& lane = recording_.lanes[row.row()];
    return fmt::format("{}/{}", recording_.text(lane.process), recording_.text(lane.thread));
  }

  void add_streams() {
    std::map<std::uint32_t, int> seen;
    for (const RecordedStream& stream : timeline_.streams) {
      const int copy = seen[stream.lane.row()]++;
      const std::string name = lane_name(stream.lane);
      streams_.push_back(b_.stream(copy == 0 ? name : fmt::format("{} overlap {}", name, copy)));
    }
  }

  void add_ops() {
    std::vector<OpId> deps;
    for (std::size_t i = 0; i < timeline_.ops.size(); ++i) {
      const RecordedOp& recorded = timeline_.ops[i];
      const std::size_t row = recorded.activity.row();
      const OpLabel label = labels_.of(recorded);
      OpSpec spec;
      spec.kind = label.kind;
      spec.phase = label.phase;
      spec.scope = b_.scope(label.scope);
      spec.stream = streams_[recorded.stream];
      Cost cost;
      cost.kind = spec.kind;
      cost.is_fixed = true;
      cost.kernels = 0;
      cost.fixed_time = recorded.end - recorded.start;
      cost.launch_lead = recorded.launch_lead;
      cost.lead = recorded.lead;
      cost.bytes_written = recording_.activities.bytes[row];
      cost.usual_time = around_.usual[i];
      if (spec.kind == OpKind::cast)
        cost.dtype = dtype_of_cast(recording_.text(recording_.activities.name[row]));
      spec.role = Role::compute;
      if (is_collective(spec.kind)) {
        spec.role = Role::other;
        spec.communicator = around_.meetings[i] ? meeting(*around_.meetings[i], recorded, cost)
                                                : communicator(recorded, cost);
        if (cost.message_bytes == 0 && !recording_.known.kind.empty())
          cost.message_bytes = recording_.known.bytes[row];
        cost.group = b_.graph().at(spec.communicator).group;
      }
      spec.cost = b_.cost(cost);
      deps.clear();
      for (const std::uint32_t dep : recorded.deps) deps.push_back(ops_[dep]);
      ops_.push_back(b_.op(spec, {}, deps));
    }
  }

  // Its wait for the other ranks comes from when they arrive.
  CommunicatorId meeting(const Meeting& meeting, const RecordedOp& recorded, Cost& cost) const {
    cost.message_bytes = meeting.bytes;
    if (const run::CollectiveRow row = labels_.collective(recorded))
      cost.dtype = dtype_called(recording_.text(recording_.collectives[row.row()].dtype));
    cost.fixed_time = recorded.end - meeting.transfer;
    cost.lateness = meeting.lateness;
    return around_.communicators[meeting.chain];
  }

  // One for each group and stream: collectives that a recording shows side by side stay so.
  CommunicatorId communicator(const RecordedOp& recorded, Cost& cost) {
    const run::CollectiveRow row = labels_.collective(recorded);
    std::string name = "?";
    std::uint32_t ranks = around_.world_size;
    if (row) {
      const run::RecordedCollective& collective = recording_.collectives[row.row()];
      name = recording_.text(collective.group);
      if (collective.group_size > 0) ranks = collective.group_size;
      cost.message_bytes = message_bytes(recording_, collective);
      cost.dtype = dtype_called(recording_.text(collective.dtype));
    }
    const auto [known, is_new] =
        communicators_.try_emplace(std::pair(name, recorded.stream), CommunicatorId());
    if (is_new) {
      std::vector<std::uint32_t> members;
      // The members that are known: this rank.
      members.push_back(rank_);
      const std::string group_name = fmt::format("{} of rank {}, {} ranks", name, rank_, ranks);
      const GroupId group = b_.group(group_name, members, 1);
      around_.group_sizes[group_name] = ranks;
      known->second =
          b_.communicator(fmt::format("{} of rank {}, stream {}", name, rank_,
                                      lane_name(timeline_.streams[recorded.stream].lane)),
                          group);
    }
    return known->second;
  }

  void add_events() {
    events_.resize(timeline_.ops.size());
    for (const RecordedCall& call : timeline_.calls)
      if (call.awaited && !call.awaits_device && !events_[*call.awaited])
        events_[*call.awaited] = b_.event();
  }

  void add_threads() {
    launches_.resize(timeline_.ops.size());
    last_launch_.resize(timeline_.streams.size());
    for (const RecordedThread& thread : timeline_.threads)
      threads_.push_back({b_.thread(lane_name(thread.lane))});
    if (timeline_.unlaunched.empty()) return;
    const std::uint32_t thread = b_.thread("launches without a record");
    b_.select(thread, Section::body);
    for (const std::uint32_t op : timeline_.unlaunched) launch(op, thread);
  }

  // Behind the launch of the op before it on its stream, whichever thread that is of.
  void launch(std::uint32_t op, std::uint32_t thread) {
    Launch& last = last_launch_[timeline_.ops[op].stream];
    if (last.exists && last.thread != thread) wait_for(thread, last.thread, last.action);
    last = {thread, b_.position(), true};
    b_.launch(ops_[op]);
    if (events_[op]) b_.record(events_[op], streams_[timeline_.ops[op].stream]);
    launches_[op] = {thread, b_.position() - 1, true};
  }

  // Whoever launched the op has done so before, and recorded the event behind it.
  void wait_for_launch(std::uint32_t thread, std::uint32_t op) {
    const Launch& launch = launches_[op];
    if (launch.exists && launch.thread != thread) wait_for(thread, launch.thread, launch.action);
  }

  void wait_for(std::uint32_t thread, std::uint32_t other, std::uint32_t action) {
    auto& waited = waited_[{thread, other}];
    if (waited > action) return;
    waited = action + 1;
    b_.host_wait_action(other, action);
  }

  struct Launch {
    std::uint32_t thread = 0, action = 0;
    bool exists = false;
  };

  struct Thread {
    std::uint32_t index = 0;  ///< in the program
    Ns at = 0;                ///< recorded time that its actions have come to
    Ns last_end = 0;          ///< of its last call
    std::uint32_t last_action = 0;
    bool has_called = false;
  };

  // The thread whose last call ended last, while `own` did nothing before `call`.
  const Thread* handed_over_by(const Thread& own, const RecordedCall& call) const {
    if (call.start - own.at <= kHandOver) return nullptr;
    const Thread* last = nullptr;
    for (const Thread& other : threads_) {
      if (&other == &own || !other.has_called || other.last_end <= own.at ||
          other.last_end > call.start)
        continue;
      if (last == nullptr || other.last_end > last->last_end) last = &other;
    }
    return last;
  }

  void perform(const RecordedCall& call) {
    Thread& own = threads_[call.thread];
    b_.select(own.index, Section::body);
    if (const Thread* other = handed_over_by(own, call)) {
      wait_for(own.index, other->index, other->last_action);
      own.at = std::max(own.at, other->last_end);
    }
    pass_until(own, call.issued);
    for (const std::uint32_t op : call.ops) launch(op, own.index);
    if (call.awaited) {
      wait_for_launch(own.index, *call.awaited);
      if (call.awaits_device)
        b_.host_wait_device();
      else
        b_.host_wait(events_[*call.awaited]);
      own.at = std::max(own.at, timeline_.ops[*call.awaited].end);
    }
    pass_until(own, call.end);
    if (b_.position() == 0) return;
    own.has_called = true;
    own.last_end = own.at;
    own.last_action = b_.position() - 1;
  }

  void pass_until(Thread& thread, Ns time) {
    if (time <= thread.at) return;
    b_.host_delay(time - thread.at);
    thread.at = time;
  }

  const run::Recording& recording_;
  const Timeline& timeline_;
  const Labels& labels_;
  std::uint32_t rank_;
  const RankSurroundings& around_;
  GraphBuilder& b_;
  std::vector<StreamId> streams_;
  std::vector<OpId> ops_;            // by op of the timeline
  std::vector<EventId> events_;      // by op of the timeline: behind those that the host waits for
  std::vector<Thread> threads_;      // by thread of the timeline
  std::vector<Launch> launches_;     // by op of the timeline; action: the last one for it
  std::vector<Launch> last_launch_;  // by stream
  /// Actions of another thread that a thread has waited for, all up to there.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> waited_;
  std::map<std::pair<std::string, std::uint32_t>, CommunicatorId> communicators_;
};

}  // namespace

ProgramId add_program(const RankTimeline& rank, const RankSurroundings& around,
                      GraphBuilder& builder) {
  return ProgramWriting(rank, around, builder).run();
}

}  // namespace foregather::rebuild
