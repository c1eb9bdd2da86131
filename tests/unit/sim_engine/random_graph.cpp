#include "random_graph.h"

#include <algorithm>
#include <random>

namespace foregather::sim {
namespace {

class Maker {
 public:
  Maker(std::uint64_t seed, std::uint32_t ops, std::uint32_t blocks)
      : random_(seed), ops_(ops), blocks_(blocks) {}

  RandomJob make() {
    const auto classes = 1 + below(3);
    std::vector<std::uint32_t> ranks(classes);
    for (std::uint32_t r = 0; r < classes; ++r) ranks[r] = r;
    const GroupId world = b_.group("world", ranks, 1);
    communicators_ = {b_.communicator("a", world), b_.communicator("b", world)};
    streams_ = 1 + below(4);
    collective_stream_ = {below(streams_), below(streams_)};
    const bool one_program = chance(2);
    // All programs issue the same collectives in the same order, from thread 0.
    for (std::uint32_t i = 0; i < ops_; ++i) collective_before_.push_back(chance(4) ? below(2) : 2);
    const auto programs = one_program ? 1 : classes;
    for (std::uint32_t p = 0; p < programs; ++p) program();
    for (std::uint32_t c = 0; c < classes; ++c) {
      RankClass k;
      k.program = ProgramId(one_program ? 0 : c);
      k.hardware = below(2);
      k.compute_scale_ppm = static_cast<std::int32_t>(500'000 + 250'000 * below(5));
      k.start_delay = below(3) * 50;
      b_.rank_class(k, std::span(&ranks[c], 1));
    }
    RandomJob job;
    job.graph = b_.finish();
    for (int h = 0; h < 2; ++h) job.prices.push_back(prices(job.graph.costs.size()));
    return job;
  }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  bool chance(std::uint32_t n) { return below(n) == 0; }

  CostId cost() {
    Cost cost;
    cost.flops = below(12);
    return b_.cost(cost);
  }

  void program() {
    const ProgramId id = b_.begin_program("p");
    for (std::uint32_t s = 0; s < streams_; ++s) b_.stream("s");
    const auto threads = 1 + below(2);
    for (std::uint32_t t = 0; t < threads; ++t) b_.thread("t");
    for (int e = 0; e < 4; ++e) events_.push_back(b_.event());
    b_.select(0, Section::init);
    b_.host_delay(below(100));
    for (const Section section : {Section::first, Section::body}) {
      local_ops_.clear();
      b_.select(0, section);
      for (std::uint32_t i = 0; i < ops_; ++i) {
        if (collective_before_[i] < 2) collective(collective_before_[i]);
        any_action();
      }
      free_all();
      blocks(true);
      if (threads == 2) second_thread(section);
    }
    b_.end_program();
    (void)id;
    events_.clear();
  }

  void second_thread(Section section) {
    const std::uint32_t length = b_.position();
    b_.select(1, section);
    std::uint32_t waited = 0;
    for (std::uint32_t i = 0; i < ops_; ++i) {
      if (chance(4) && length > 0) {
        waited = std::min(length - 1, waited + below(length / 2 + 1));
        b_.host_wait_action(0, waited);
      }
      local_ops_.clear();  // deps only within a thread
      any_action();
    }
    free_all();
    blocks(false);
  }

  // The same actions again and again, on rows and storages of their own.
  void blocks(bool collectives) {
    const std::uint64_t seed = random_();
    in_block_ = true;
    for (std::uint32_t block = 0; block < blocks_; ++block) {
      random_.seed(seed);
      compute(OpKind::attention);
      for (std::uint32_t i = 0; i < ops_; ++i) {
        if (collectives && collective_before_[i] < 2) collective(collective_before_[i]);
        any_action();
      }
      free_all();
    }
    in_block_ = false;
  }

  void alloc_or_free() {
    if (!bound_.empty() && chance(2)) {
      const auto place = below(static_cast<std::uint32_t>(bound_.size()));
      if (chance(30)) b_.record_stream(bound_[place], stream());
      b_.free(bound_[place]);
      bound_.erase(bound_.begin() + place);
      return;
    }
    Storage storage;
    storage.bytes = 1 + below(1U << (8 + below(18)));
    storage.cause = static_cast<Cause>(below(4));
    bound_.push_back(b_.storage(storage));
    b_.alloc(bound_.back(), stream());
  }

  void free_all() {
    for (const StorageId storage : bound_) b_.free(storage);
    bound_.clear();
  }

  StreamId stream() { return StreamId(below(streams_)); }

  void collective(std::uint32_t which) {
    OpSpec spec;
    spec.kind = OpKind::all_gather;
    spec.communicator = communicators_[which];
    spec.stream = StreamId(collective_stream_[which]);
    spec.cost = cost();
    b_.launch(b_.op(spec));
  }

  void any_action() {
    switch (below(13)) {
      case 0: b_.record(events_[below(4)], stream()); break;
      case 1: b_.wait(stream(), events_[below(4)]); break;
      case 2:
        if (chance(3)) b_.host_wait(events_[below(4)]);
        break;
      case 3: b_.host_delay(below(60)); break;
      case 4:
        if (chance(8)) b_.act({ActionKind::host_wait_stream, stream(), 0, 0});
        if (chance(12)) b_.act({ActionKind::host_wait_device, {}, 0, 0});
        break;
      case 5:
      case 6:
      case 7: alloc_or_free(); break;
      default: compute(OpKind::gemm);
    }
  }

  void compute(OpKind kind) {
    OpSpec spec;
    spec.kind = kind;
    spec.stream = stream();
    spec.cost = cost();
    std::vector<OpId> deps;
    if (!in_block_ && !local_ops_.empty() && chance(4))
      deps.push_back(local_ops_[below(static_cast<std::uint32_t>(local_ops_.size()))]);
    local_ops_.push_back(b_.op(spec, {}, deps));
    b_.launch(local_ops_.back());
  }

  CostTable prices(std::size_t rows) {
    CostTable table;
    for (std::size_t i = 0; i < rows; ++i) {
      Price price;
      price.duration = below(8) == 0 ? 0 : below(200);
      price.host = below(4) == 0 ? 0 : below(40);
      for (auto& demand : price.demand)
        demand = static_cast<std::uint16_t>(chance(2) ? below(kWhole + 1) : below(2) * kWhole);
      table.prices.push_back(price);
    }
    const auto some = [&] { return static_cast<Ns>(below(6)); };
    table.host.record = some();
    table.host.wait = some();
    table.host.synchronize = some();
    table.host.alloc = some();
    table.host.free = some();
    table.host.device_malloc = 10 * some();
    table.host.device_free = 10 * some();
    table.host.device_map = some();
    table.host.launch_queue = chance(2) ? 0 : 1 + below(6);
    if (blocks_ != 0 && chance(2)) table.host.launch_queue = 1 + below(64);
    return table;
  }

  std::mt19937_64 random_;
  std::uint32_t ops_;
  std::uint32_t blocks_;
  bool in_block_ = false;
  GraphBuilder b_;
  std::vector<CommunicatorId> communicators_;
  std::uint32_t streams_ = 1;
  std::vector<std::uint32_t> collective_stream_;
  std::vector<std::uint32_t> collective_before_;
  std::vector<EventId> events_;
  std::vector<OpId> local_ops_;
  std::vector<StorageId> bound_;  ///< by the thread being written
};

}  // namespace

RandomJob random_job(std::uint64_t seed, std::uint32_t ops, std::uint32_t blocks) {
  return Maker(seed, ops, blocks).make();
}

}  // namespace foregather::sim
