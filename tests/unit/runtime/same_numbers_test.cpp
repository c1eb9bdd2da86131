// What compute reads of parameters does not depend on how they were brought together.
#include <map>
#include <mutex>
#include <string>
#include <vector>
#include <catch2/catch.hpp>

#include "core/ir/op_key.h"
#include "core/store/recording_writer.h"
#include "runtime/executor.h"
#include "runtime/host/host_backend.h"
#include "sim/passes/registry.h"
#include "tasks/schedule.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"

using namespace foregather;
using namespace foregather::runtime;

namespace {

using Texts = std::vector<std::string>;

/// By op key: a digest of the unsharded parameters that a forward op reads.
using Digests = std::map<std::string, std::uint64_t>;

/// Lets each op end before the next one is launched, so that what it reads can be looked at.
class WatchedDevice final : public Device {
 public:
  WatchedDevice(std::unique_ptr<Device> device, const Job& job, std::uint32_t rank,
                Digests& digests, std::mutex& mutex)
      : device_(std::move(device)), job_(job), rank_(rank), digests_(digests), mutex_(mutex) {}

  alloc::DeviceMemory& memory() override { return device_->memory(); }
  void fill(StreamId stream, std::byte* to, Bytes bytes, DType type, std::uint64_t seed) override {
    device_->fill(stream, to, bytes, type, seed);
  }
  Mark launch(const Launch& launch) override {
    const Graph& graph = *job_.graph;
    const Op& op = graph.at(launch.op);
    std::uint64_t digest = 0;
    for (const BoundAccess& access : launch.accesses) {
      const Storage& storage = graph.at(graph.at(access.tensor).storage);
      if (access.mode != Access::read || storage.cause != Cause::unsharded_parameter ||
          access.data == nullptr)
        continue;
      for (Bytes i = 0; i < access.bytes; ++i)
        digest = (digest ^ static_cast<std::uint64_t>(access.data[i])) * 0x100000001B3ULL;
    }
    if (digest != 0 && op.role == Role::compute && op.phase == Phase::forward) {
      const std::lock_guard lock(mutex_);
      digests_[op_key(graph, launch.op, job_.ranks[rank_], 0)] = digest;
    }
    const Mark mark = device_->launch(launch);
    device_->synchronize(mark);
    return mark;
  }
  Mark mark(StreamId stream) override { return device_->mark(stream); }
  void wait(StreamId stream, Mark mark) override { device_->wait(stream, mark); }
  bool has_happened(Mark mark) override { return device_->has_happened(mark); }
  void synchronize(Mark mark) override { device_->synchronize(mark); }

 private:
  std::unique_ptr<Device> device_;
  const Job& job_;
  std::uint32_t rank_;
  Digests& digests_;
  std::mutex& mutex_;
};

class WatchedBackend final : public Backend {
 public:
  Digests digests;

  std::string_view name() const override { return "watched"; }
  Status ready() override { return backend_->ready(); }
  std::string description() const override { return {}; }
  Result<std::vector<std::unique_ptr<Device>>> open(const Job& job) override {
    auto devices = backend_->open(job);
    if (!devices) return devices;
    for (std::uint32_t rank = 0; rank < devices->size(); ++rank)
      (*devices)[rank] =
          std::make_unique<WatchedDevice>(std::move((*devices)[rank]), job, rank, digests, mutex_);
    return devices;
  }
  void abandon() override { backend_->abandon(); }
  void stop() override { backend_->stop(); }
  BackendReport report() const override { return backend_->report(); }

 private:
  std::unique_ptr<Backend> backend_ = make_host_backend(
      {.flops = 1e13, .doubles = 1e13, .memory = 1e13, .link = 1e13, .link_latency = 0});
  std::mutex mutex_;
};

// The first step: parameters are as they were made.
Digests digests_of(const std::string& source, const Texts& sets, const Texts& what_if) {
  Texts all{"cluster.hardware=host", "train.seq_len=16", "model.layers=2",
            "parallel.reduce_bucket_size=100000"};
  all.insert(all.end(), sets.begin(), sets.end());
  const auto passes = sim::parse_passes(what_if);
  REQUIRE(passes);
  const auto schedule = tasks::load_schedule(source, all, *passes);
  if (!schedule) FAIL(schedule.error().text());
  for (const sim::PassNote& note : schedule->what_if) CHECK(note.changed);
  const test::Scratch scratch;
  auto writer = store::RecordingWriter::create(scratch.path("run.db"));
  REQUIRE(writer);
  RunOptions options;
  options.steps = 1;
  options.alloc = schedule->engine.alloc;
  options.capacity = schedule->engine.capacity;
  WatchedBackend backend;
  const auto report = execute(schedule->graph, options, backend, **writer);
  if (!report) FAIL(report.error().text());
  CHECK(report->backend.checked_collectives > 0);
  CHECK(report->backend.unchecked_collectives == 0);
  return backend.digests;
}

void check_same(const Digests& expected, const Digests& found) {
  REQUIRE(expected.size() > 20);
  CHECK(found.size() == expected.size());
  for (const auto& [key, digest] : expected) {
    INFO(key);
    const auto other = found.find(key);
    REQUIRE(other != found.end());
    CHECK(other->second == digest);
  }
}

const std::string kSample = test::source_dir() + "/traces/samples/tiny_fsdp2.toml";

}  // namespace

TEST_CASE("whatever a pass does to gathers, compute reads the same parameters") {
  const Digests plain = digests_of(kSample, {}, {});
  for (const Texts& what_if :
       {Texts{"prefetch=none"}, Texts{"forward-prefetch"}, Texts{"limit-all-gathers=1"},
        Texts{"reshard=always"}, Texts{"reshard=never"}, Texts{"reshard=2"}, Texts{"sort-waits"}}) {
    INFO(what_if.front());
    check_same(plain, digests_of(kSample, {}, what_if));
  }
}

TEST_CASE("a downcast before the gather gives the numbers of one behind it") {
  const Texts compiled{"parallel.strategy=deepcompile"};
  const Digests plain = digests_of(kSample, compiled, {});
  check_same(plain, digests_of(kSample, compiled, {"fuse-downcast"}));
  check_same(plain, digests_of(kSample, compiled, {"fuse-downcast", "selective-gather"}));
}

TEST_CASE("a parameter that is gathered once has the numbers of one gathered twice") {
  const test::Scratch scratch;
  scratch.write("tied.json",
                R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 64,
                    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
                    "num_key_value_heads": 2, "max_position_embeddings": 256,
                    "hidden_act": "silu", "tie_word_embeddings": true, "rms_norm_eps": 1e-05})");
  const std::string source = scratch.write("tied.toml", R"(
[model]
config = "tied.json"
tied = "two-names"
[train]
micro_batch = 1
seq_len = 16
precision = "bf16-mixed"
[parallel]
strategy = "fsdp2"
world_size = 4
)");
  check_same(digests_of(source, {}, {}), digests_of(source, {}, {"dedup-shared-params"}));
}
