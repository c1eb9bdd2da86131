#include "tests/support/random_graph.h"

#include <algorithm>
#include <set>
#include <string>

#include "tests/fixtures/parts.h"

namespace foregather::test {
namespace {

class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed) : random_(seed) {}

  Graph build() {
    ranks_ = 1 + below(8);
    b_.graph().world_size = ranks_;
    b_.graph().parameters = below(1000);
    group_ = b_.group("world", first_ranks(ranks_), 1 + below(3));
    comm_ = b_.communicator("world", group_);
    for (std::uint32_t i = below(3); i > 0; --i) collectives_.push_back(below(2) == 0);
    const std::uint32_t programs = ranks_ > 1 ? 1 + below(2) : 1;
    for (std::uint32_t p = 0; p < programs; ++p) {
      const ProgramId program = make_program();
      RankClass ranks;
      ranks.name = b_.graph().strings.intern("class \"" + std::to_string(p) + "\"\n");
      ranks.program = program;
      ranks.hardware = below(2);
      ranks.start_delay = below(100);
      std::vector<std::uint32_t> members;
      for (std::uint32_t rank = 0; rank < ranks_; ++rank)
        if (rank % programs == p) members.push_back(rank);
      b_.rank_class(ranks, members);
    }
    return b_.finish();
  }

 private:
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }

  ProgramId make_program() {
    const ProgramId program = b_.begin_program("program");
    streams_ = 1 + below(4);
    for (std::uint32_t q = 0; q < streams_; ++q)
      b_.stream("stream " + std::to_string(q), static_cast<std::int32_t>(below(3)) - 1);
    threads_ = 1 + below(3);
    for (std::uint32_t h = 0; h < threads_; ++h) b_.thread("thread " + std::to_string(h));
    thread_ = 0;
    last_ = -1;
    storages_.clear();
    for (std::uint32_t i = 1 + below(5); i > 0; --i) make_storage();
    b_.select(0, Section::init);
    for (Slot& slot : storages_) {
      slot.is_kept = below(2) == 0;
      if (slot.is_kept) b_.alloc(slot.storage, StreamId(below(streams_)));
    }
    const std::uint32_t launches = below(12);
    for (std::uint32_t i = 0; i < launches; ++i) ops_.push_back(make_op(OpKind::copy));
    for (const bool is_gather : collectives_)
      ops_.push_back(make_op(is_gather ? OpKind::all_gather : OpKind::all_reduce));
    perform(Section::first);
    perform(Section::body);
    ops_.clear();
    b_.end_program();
    return program;
  }

  struct Slot {
    StorageId storage;
    std::vector<TensorId> tensors;
    Bytes bytes = 0;
    bool is_kept = false;
  };

  void make_storage() {
    Storage storage;
    storage.bytes = 64 * (1 + below(64));
    storage.name = b_.graph().strings.intern("data " + std::to_string(below(4)));
    if (below(2) == 0) storage.scope = b_.scope("layers." + std::to_string(below(3)));
    storage.cause = static_cast<Cause>(below(kScheduleCauses));
    storage.on_host = below(8) == 0;
    Slot slot{b_.storage(storage), {}, storage.bytes, false};
    for (std::uint32_t i = 1 + below(3); i > 0; --i) {
      const std::vector<std::int64_t> shape{storage.bytes / 64, 1 + below(8)};
      slot.tensors.push_back(
          b_.tensor(slot.storage, static_cast<DType>(below(10)), shape, Bytes{0}));
    }
    storages_.push_back(slot);
  }

  OpId make_op(OpKind kind) {
    OpSpec spec;
    spec.role = static_cast<Role>(below(13));
    spec.phase = static_cast<Phase>(below(5));
    spec.micro_batch = static_cast<std::uint16_t>(below(3));
    if (below(2) == 0) spec.scope = b_.scope("layers." + std::to_string(below(3)));
    spec.stream = StreamId(below(streams_));
    if (is_collective(kind)) {
      spec.communicator = comm_;
      spec.cost = collective(b_, kind, DType::bf16, 4096, group_);
    } else if (below(2) == 0) {
      spec.cost = streaming(b_, kind, below(5000), below(5000));
    } else {
      spec.cost = fixed(b_, kind, below(10'000));
    }
    spec.kind = kind;
    std::vector<AccessedTensor> accesses;
    for (std::uint32_t i = below(4); i > 0; --i) {
      const Slot& slot = storages_[below(static_cast<std::uint32_t>(storages_.size()))];
      const TensorId tensor = slot.tensors[below(static_cast<std::uint32_t>(slot.tensors.size()))];
      const Bytes bytes = slot.bytes / 64;  // at least that long
      const Bytes offset = below(static_cast<std::uint32_t>(bytes));
      accesses.push_back({tensor, static_cast<Access>(below(3)), offset,
                          below(static_cast<std::uint32_t>(bytes - offset))});
    }
    std::vector<OpId> deps;
    if (!ops_.empty() && below(3) == 0)
      deps.push_back(ops_[below(static_cast<std::uint32_t>(ops_.size()))]);
    std::vector<OpId> origins;
    if (!ops_.empty() && below(4) == 0) origins.push_back(ops_[0]);
    return b_.op(spec, accesses, deps, origins);
  }

  // Goes on in a random thread, behind all that was done so far.
  void hand_over(Section section) {
    const std::uint32_t next = below(threads_);
    if (next == thread_) return;
    const std::int64_t last = last_;
    const std::uint32_t before = thread_;
    thread_ = next;
    b_.select(thread_, section);
    if (last >= 0) b_.host_wait_action(before, static_cast<std::uint32_t>(last));
    last_ = b_.position() - 1;
  }
  void done() { last_ = static_cast<std::int64_t>(b_.position()) - 1; }

  void order_all() {
    switch (below(3)) {
      case 0: b_.host_wait_device(); break;
      case 1:
        for (std::uint32_t q = 0; q < streams_; ++q) b_.host_wait_stream(StreamId(q));
        break;
      default:
        for (std::uint32_t q = 0; q < streams_; ++q) {
          const EventId event = b_.event();
          b_.record(event, StreamId(q));
          for (std::uint32_t to = 0; to < streams_; ++to)
            if (to != q) b_.wait(StreamId(to), event);
        }
    }
  }

  void perform(Section section) {
    thread_ = 0;
    last_ = -1;
    b_.select(0, section);
    for (Slot& slot : storages_)
      if (!slot.is_kept) b_.alloc(slot.storage, StreamId(below(streams_)));
    order_all();
    done();
    for (const OpId op : ops_) {
      hand_over(section);
      if (below(2) == 0) b_.host_delay(1 + below(1000));
      if (below(4) == 0) b_.mark(1, Phase::backward);
      b_.launch(op);
      order_all();
      done();
    }
    hand_over(section);
    b_.host_wait_device();
    for (Slot& slot : storages_) {
      if (slot.is_kept) continue;
      if (below(2) == 0) {
        b_.free(slot.storage);
      } else {
        for (const TensorId tensor : slot.tensors) b_.release(tensor);
      }
    }
    if (below(2) == 0) b_.empty_cache();
  }

  std::mt19937_64 random_;
  GraphBuilder b_;
  std::uint32_t ranks_ = 1, streams_ = 1, threads_ = 1, thread_ = 0;
  std::int64_t last_ = -1;  ///< index of the last action of thread_
  GroupId group_;
  CommunicatorId comm_;
  std::vector<bool> collectives_;
  std::vector<Slot> storages_;
  std::vector<OpId> ops_;
};

}  // namespace

Graph random_graph(std::uint64_t seed) { return RandomGraph(seed).build(); }

}  // namespace foregather::test
