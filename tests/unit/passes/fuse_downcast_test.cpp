#include <catch2/catch.hpp>

#include "tests/fixtures/parts.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

constexpr std::int64_t kElements = 1024;  // of each parameter, on 4 ranks
constexpr Bytes kWide = 4 * kElements, kNarrow = 2 * kElements;

// DeepCompile's graph before PR 7588: for each of two layers a gather in f32, its cast to bf16 on
// the compute stream, a use. With `prefetches` the second gather is issued before the first use.
Graph two_layers(bool prefetches) {
  GraphBuilder b;
  const GroupId group = b.group("world", first_ranks(4), 1);
  const CommunicatorId comm = b.communicator("world", group);
  b.begin_program("rank");
  const StreamId compute = b.stream("compute");
  const StreamId gather_stream = b.stream("all_gather");
  b.thread("main");
  struct Layer {
    Buffer shard, wide, narrow;
    TensorId narrowed;
    OpId gather, cast, use;
    EventId done;
  };
  Layer layers[2];
  for (int i = 0; i < 2; ++i) {
    Layer& layer = layers[i];
    Unit row;
    row.scope = b.scope(i == 0 ? "layers.0" : "layers.1");
    row.group = group;
    row.parameters = row.padded_elements = kElements;
    row.gathered = DType::bf16;
    const UnitId unit = b.unit(row);
    const std::array<std::int64_t, 1> whole{kElements}, part{kElements / 4};
    const auto make = [&](const char* name, Bytes bytes, Cause cause) {
      return b.storage({bytes, b.graph().strings.intern(name), row.scope, unit, cause, false});
    };
    const StorageId shard = make("weight", kWide / 4, Cause::parameter_shard);
    const StorageId wide = make("gathered", kWide, Cause::unsharded_parameter);
    const StorageId narrow = make("cast", kNarrow, Cause::cast_copy);
    layer.shard = {shard, b.tensor(shard, DType::f32, part), kWide / 4};
    layer.wide = {wide, b.tensor(wide, DType::f32, whole), kWide};
    layer.narrow = {narrow, b.tensor(narrow, DType::bf16, whole), kNarrow};
    OpSpec spec;
    spec.phase = Phase::forward;
    spec.scope = row.scope;
    spec.unit = unit;
    spec.role = Role::gather;
    spec.stream = gather_stream;
    spec.communicator = comm;
    spec.cost = collective(b, OpKind::all_gather, DType::f32, kWide, group);
    layer.gather = op(b, spec, {read(layer.shard), write(layer.wide)});
    spec.communicator = {};
    spec.stream = compute;
    spec.role = Role::cast;
    spec.cost = streaming(b, OpKind::cast, kWide, kNarrow);
    layer.cast = op(b, spec, {read(layer.wide), write(layer.narrow)});
    spec.role = Role::compute;
    spec.cost = gemm(b, 32, 32, 32);
    layer.use = op(b, spec, {read(layer.narrow)});
    layer.done = b.event();
  }
  b.select(0, Section::init);
  for (const Layer& layer : layers) b.alloc(layer.shard.storage, compute);
  const auto gather = [&](const Layer& layer) {
    b.alloc(layer.wide.storage, gather_stream);
    b.launch(layer.gather);
    b.record(layer.done, gather_stream);
  };
  for (const Section section : {Section::first, Section::body}) {
    b.select(0, section);
    for (int i = 0; i < 2; ++i) {
      if (i == 0 || !prefetches) gather(layers[i]);
      if (i == 0 && prefetches) gather(layers[1]);
      b.wait(compute, layers[i].done);
      b.alloc(layers[i].narrow.storage, compute);
      b.launch(layers[i].cast);
      b.record_stream(layers[i].wide.storage, compute);
      b.free(layers[i].wide.storage);
      b.launch(layers[i].use);
      b.free(layers[i].narrow.storage);
    }
  }
  b.end_program();
  one_class(b, ProgramId(0), 4);
  return b.finish();
}

}  // namespace

TEST_CASE("a fused downcast halves the gather and ends the full copies") {
  constexpr Bytes kShards = 2 * kWide / 4;
  const Graph before = two_layers(false);
  REQUIRE(problems(before) == "");
  CHECK(gathered_bytes(before) == 2 * kWide);
  CHECK(live_peak(before) == kShards + kWide + kNarrow);
  std::vector<sim::PassNote> notes;
  const Graph after = passed(before, {"fuse-downcast"}, &notes);
  CHECK(problems(after) == "");
  CHECK(notes.at(0).did == "2 gathers of a step send the narrow dtype, 4.0 KiB less");
  CHECK(gathered_bytes(after) == 2 * kNarrow);
  CHECK(live_peak(after) == kShards + kNarrow + kNarrow / 4);
  // cast shard, gather, use: the cast of the whole is an origin of its gather.
  const auto order = launches(after);
  REQUIRE(order.size() == 6);
  CHECK(after.at(after.at(order[0]).cost).bytes_read == kWide / 4);
  CHECK(after.at(order[0]).stream == after.at(order[1]).stream);
  REQUIRE(after.origins_of(after.at(order[1])).size() == 1);
  CHECK(after.at(after.origins_of(after.at(order[1]))[0]).kind == OpKind::cast);
  CHECK_FALSE(passed(after, {"fuse-downcast"}, &notes).ops.empty());
  CHECK_FALSE(notes.at(0).changed);
}

TEST_CASE("prefetched gathers keep the shard's dtype if the prefetch does") {
  const Graph before = two_layers(true);
  REQUIRE(problems(before) == "");
  std::vector<sim::PassNote> notes;
  const Graph target = passed(before, {"fuse-downcast,prefetch_dtype=target"}, &notes);
  CHECK(problems(target) == "");
  CHECK(gathered_bytes(target) == 2 * kNarrow);
  const Graph shard = passed(before, {"fuse-downcast,prefetch_dtype=shard"}, &notes);
  CHECK(problems(shard) == "");
  CHECK(gathered_bytes(shard) == kNarrow + kWide);
  CHECK(notes.at(0).did.find("1 prefetched") != std::string::npos);
}
