// A device with many blocks in its queue goes on by whole blocks: what the host then launches must
// find it where it would have been.
#include <catch2/catch.hpp>

#include "slow_engine.h"
#include "core/ir/builder.h"
#include "sim/engine/engine.h"

namespace foregather::sim {
namespace {

/// What follows the blocks, while the device is still busy with them.
enum class CoastingTail { launch, wait, host_wait, record, two_threads };

struct CoastingCase {
  CoastingTail tail = CoastingTail::launch;
  std::uint32_t depth = 0;   ///< of the launch queue
  std::uint32_t more = 0;    ///< launches behind the blocks, before the tail
  std::uint32_t before = 1;  ///< the tail waits for the block so many before the last
  std::uint32_t blocks = 24;
  std::uint32_t other_blocks = 0;  ///< behind them, unlike them
  Bytes bytes = 0;                 ///< that each block keeps
};

class CoastingJob {
 public:
  explicit CoastingJob(const CoastingCase& each) : case_(each) {
    const std::uint32_t rank = 0;
    communicator_ = b_.communicator("world", b_.group("world", std::span(&rank, 1), 1));
    b_.begin_program("rank");
    for (StreamId* stream : {&compute_, &gather_, &side_, &other_side_}) *stream = b_.stream("s");
    for (int t = 0; t < 2; ++t) b_.thread("t");
    for (std::uint32_t block = 0; block < each.blocks; ++block) {
      half_.push_back(b_.event());
      whole_.push_back(b_.event());
    }
    gathered_ = b_.event();
    recorded_ = b_.event();
    for (const Section section : {Section::first, Section::body}) write(section);
    b_.end_program();
    RankClass rank_class;
    rank_class.program = ProgramId(0);
    b_.rank_class(rank_class, std::span(&rank, 1));
    graph = b_.finish();
    table.host.launch_queue = each.depth;
    table.host.record = table.host.wait = 2;
    table.host.synchronize = 3;
    table.host.device_malloc = 3000;
    table.sources.push_back("by hand");
  }

  Graph graph;
  CostTable table;

 private:
  void launch(StreamId stream, OpKind kind, Ns duration, double demand) {
    Cost cost;
    cost.flops = duration;
    cost.kind = kind;
    OpSpec spec;
    spec.kind = kind;
    spec.stream = stream;
    spec.cost = b_.cost(cost);
    if (kind == OpKind::all_gather) spec.communicator = communicator_;
    if (spec.cost.row() == table.prices.size()) {
      Price price;
      price.duration = duration;
      price.host = 5;
      price.demand.fill(static_cast<std::uint16_t>(demand * kWhole));
      table.prices.push_back(price);
    }
    b_.launch(b_.op(spec));
  }

  void write(Section section) {
    b_.select(0, section);
    std::vector<StorageId> kept;
    for (std::uint32_t block = 0; block < case_.blocks; ++block) {
      if (case_.bytes != 0) {
        Storage storage;
        storage.bytes = case_.bytes;
        kept.push_back(b_.storage(storage));
        b_.alloc(kept.back(), compute_);
      }
      launch(compute_, OpKind::attention, 101, 0.9);
      b_.wait(gather_, whole_[block == 0 ? 0 : block - 1]);
      launch(gather_, OpKind::all_gather, 83, 0.4);
      b_.record(gathered_, gather_);
      launch(compute_, OpKind::gemm, 67, 0.8);
      b_.record(half_[block], compute_);
      b_.wait(compute_, gathered_);
      launch(compute_, OpKind::gemm, 53, 1);
      b_.record(whole_[block], compute_);
    }
    for (std::uint32_t block = 0; block < case_.other_blocks; ++block) {
      launch(compute_, OpKind::attention, 89, 0.9);
      launch(gather_, OpKind::all_gather, 31, 0.1);
      launch(compute_, OpKind::gemm, 47, 0.6);
    }
    for (std::uint32_t i = 0; i < case_.more; ++i) launch(compute_, OpKind::gemm, 59, 1);
    tail(section);
    b_.select(0, section);
    for (const StorageId storage : kept) b_.free(storage);
    launch(compute_, OpKind::gemm, 61, 0.5);
    b_.host_wait_stream(compute_);
  }

  void tail(Section section) {
    const std::uint32_t block = case_.blocks - case_.before;
    const auto launch_aside = [&](StreamId stream) { launch(stream, OpKind::gemm, 97, 0.7); };
    switch (case_.tail) {
      case CoastingTail::launch: return launch_aside(side_);
      case CoastingTail::wait: b_.wait(side_, whole_[block]); return launch_aside(side_);
      case CoastingTail::host_wait: b_.host_wait(whole_[block]); return launch_aside(side_);
      case CoastingTail::record:
        b_.record(recorded_, side_);
        b_.wait(other_side_, recorded_);
        return launch_aside(other_side_);
      case CoastingTail::two_threads:
        const std::uint32_t here = b_.position();
        b_.host_wait(half_[block]);
        launch_aside(side_);
        b_.select(1, section);
        b_.host_wait_action(0, here - 1);
        b_.host_wait(whole_[block]);
        launch_aside(other_side_);
        return;
    }
  }

  CoastingCase case_;
  GraphBuilder b_;
  CommunicatorId communicator_;
  StreamId compute_, gather_, side_, other_side_;
  std::vector<EventId> half_, whole_;  ///< by block: when it is half done, and done
  EventId gathered_, recorded_;
};

void check_times(const StepResult& fast, const std::vector<SlowTime>& slow) {
  for (std::size_t i = 0; i < fast.ops.size(); ++i) {
    if (fast.ran[i] == 0) continue;
    INFO("op " << i);
    const OpTime& time = fast.ops[i];
    CHECK((SlowTime{time.issued, time.start, time.transfer, time.end}) == slow[i]);
  }
}

// Where memory is recorded every launch is played.
void check_coasting(const CoastingCase& each) {
  const CoastingJob job(each);
  const std::vector<CostTable> prices{job.table};
  EngineOptions options;
  const auto all = simulate(job.graph, prices, options);
  options.record_memory = false;
  const auto fast = simulate(job.graph, prices, options);
  REQUIRE((all.has_value() && fast.has_value()));
  REQUIRE(all->steps == fast->steps);
  const auto times = [](const StepResult& step) {
    std::vector<SlowTime> rows;
    for (const OpTime& time : step.ops)
      rows.push_back({time.issued, time.start, time.transfer, time.end});
    return rows;
  };
  check_times(fast->classes[0].first, times(all->classes[0].first));
  check_times(fast->classes[0].steady, times(all->classes[0].steady));
}

}  // namespace

TEST_CASE("what is launched while the device coasts finds it where it would be") {
  for (const CoastingTail tail : {CoastingTail::launch, CoastingTail::wait, CoastingTail::host_wait,
                                  CoastingTail::record, CoastingTail::two_threads})
    for (const std::uint32_t depth : {16U, 40U})
      for (const std::uint32_t more : {0U, 1U, 2U, 5U, 9U})
        for (std::uint32_t before = 1; before <= 12; ++before) {
          INFO("tail " << static_cast<int>(tail) << " depth " << depth << " more " << more
                       << " before " << before);
          const CoastingJob job({tail, depth, more, before});
          const std::vector<CostTable> prices{job.table};
          EngineOptions options;
          options.memory = false;
          const auto fast = simulate(job.graph, prices, options);
          REQUIRE(fast.has_value());
          const auto slow = simulate_slowly(job.graph, prices, true, fast->steps);
          check_times(fast->classes[0].first, slow[0][1]);
          check_times(fast->classes[0].steady, slow[0][fast->steps]);
        }
}

TEST_CASE("a device that coasts goes from blocks to other blocks") {
  for (const std::uint32_t depth : {16U, 40U, 90U})
    for (const CoastingTail tail : {CoastingTail::launch, CoastingTail::two_threads})
      check_coasting({tail, depth, 1, 1, 60, 60});
}

TEST_CASE("a device that coasts waits for a host that falls behind") {
  for (const std::uint32_t depth : {16U, 40U, 90U})
    for (const Bytes bytes : {MiB / 2, MiB, 3 * MiB / 2, 2 * MiB})
      check_coasting({CoastingTail::launch, depth, 1, 1, 200, 0, bytes});
}

TEST_CASE("what a device took back is still there, however long it has coasted") {
  for (const CoastingTail tail : {CoastingTail::launch, CoastingTail::wait})
    for (const std::uint32_t more : {2U, 2000U, 5999U}) check_coasting({tail, 6000, more, 1, 4000});
}

}  // namespace foregather::sim
