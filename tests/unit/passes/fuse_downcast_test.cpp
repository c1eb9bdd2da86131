#include <catch2/catch.hpp>

#include "tests/fixtures/parts.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

constexpr std::int64_t kElements = 1024;  // of each parameter, on 4 ranks
constexpr Bytes kWide = 4 * kElements, kNarrow = 2 * kElements;

struct Layers {
  bool prefetches = false;        ///< the second gather is issued before the first use
  std::int64_t padding = 0;       ///< elements that the gather's output has beyond the parameter
  Bytes narrow_more = 0;          ///< of the cast's storage behind what it writes
  bool releases = false;          ///< values end when their tensors are released, of which two each
  bool reads_wide_first = false;  ///< the first step reads the second layer's wide copy once more
};

// DeepCompile's graph before PR 7588: for each of two layers a gather in f32, its cast to bf16 on
// the compute stream, a use.
Graph two_layers(const Layers& how) {
  GraphBuilder b;
  const GroupId group = b.group("world", first_ranks(4), 1);
  const CommunicatorId comm = b.communicator("world", group);
  b.begin_program("rank");
  const StreamId compute = b.stream("compute");
  const StreamId gather_stream = b.stream("all_gather");
  b.thread("main");
  struct Layer {
    Buffer shard, wide, narrow;
    TensorId whole, view;  // of `wide` and of `narrow` once more
    OpId gather, cast, use, more;
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
    const std::array<std::int64_t, 1> whole{kElements}, part{kElements / 4},
        given{kElements - how.padding};
    const Bytes used = kWide - 4 * how.padding, cast = kNarrow - 2 * how.padding;
    const auto make = [&](const char* name, Bytes bytes, Cause cause) {
      return b.storage({bytes, b.graph().strings.intern(name), row.scope, unit, cause, false});
    };
    const StorageId shard = make("weight", kWide / 4, Cause::parameter_shard);
    const StorageId wide = make("gathered", kWide, Cause::unsharded_parameter);
    const StorageId narrow = make("cast", cast + how.narrow_more, Cause::cast_copy);
    layer.shard = {shard, b.tensor(shard, DType::f32, part), kWide / 4};
    layer.wide = {wide, b.tensor(wide, DType::f32, whole), kWide};
    layer.narrow = {narrow, b.tensor(narrow, DType::bf16, given), cast};
    const Buffer parameter{wide, b.tensor(wide, DType::f32, given), used};
    layer.whole = parameter.tensor;
    layer.view = b.tensor(narrow, DType::bf16, given);
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
    spec.cost = streaming(b, OpKind::cast, used, cast);
    layer.cast = op(b, spec, {read(parameter), write(layer.narrow)});
    spec.role = Role::compute;
    spec.cost = gemm(b, 32, 32, 32);
    layer.use = op(b, spec, {read(layer.narrow)});
    if (how.reads_wide_first && i == 1) layer.more = op(b, spec, {read(parameter)});
    layer.done = b.event();
  }
  b.select(0, Section::init);
  for (const Layer& layer : layers) b.alloc(layer.shard.storage, compute);
  const auto gather = [&](const Layer& layer) {
    b.alloc(layer.wide.storage, gather_stream);
    b.launch(layer.gather);
    b.record(layer.done, gather_stream);
  };
  const auto end = [&](StorageId storage, TensorId one, TensorId other) {
    if (!how.releases) return b.free(storage);
    b.release(one);
    b.release(other);
  };
  for (const Section section : {Section::first, Section::body}) {
    b.select(0, section);
    for (int i = 0; i < 2; ++i) {
      if (i == 0 || !how.prefetches) gather(layers[i]);
      if (i == 0 && how.prefetches) gather(layers[1]);
      b.wait(compute, layers[i].done);
      b.alloc(layers[i].narrow.storage, compute);
      b.launch(layers[i].cast);
      if (how.reads_wide_first && section == Section::first && i == 1) b.launch(layers[i].more);
      b.record_stream(layers[i].wide.storage, compute);
      end(layers[i].wide.storage, layers[i].wide.tensor, layers[i].whole);
      b.launch(layers[i].use);
      end(layers[i].narrow.storage, layers[i].narrow.tensor, layers[i].view);
    }
  }
  b.end_program();
  one_class(b, ProgramId(0), 4);
  return b.finish();
}

}  // namespace

TEST_CASE("a fused downcast halves the gather and ends the full copies") {
  constexpr Bytes kShards = 2 * kWide / 4;
  const Graph before = two_layers({});
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
  const Graph before = two_layers({.prefetches = true});
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

TEST_CASE("a fused downcast of a padded gather receives the padding, too") {
  constexpr std::int64_t kPadding = 3;
  for (const bool releases : {false, true}) {
    CAPTURE(releases);
    const Graph before = two_layers({.padding = kPadding, .releases = releases});
    REQUIRE(problems(before) == "");
    const Graph after = passed(before, {"fuse-downcast"});
    CHECK(problems(after) == "");
    CHECK(gathered_bytes(after) == 2 * kNarrow);
    // Shards, a padded narrow copy and the cast shard.
    CHECK(live_peak(after) == 2 * kWide / 4 + kNarrow + kNarrow / 4);
    const AccessedTensor output = after.accesses_of(after.at(launches(after).at(1))).back();
    CHECK(output.bytes == kNarrow);
    CHECK(after.at(after.at(output.tensor).storage).bytes == kNarrow);
  }
  // Four ranks pad by three elements at most: what is behind more of them is no padding.
  std::vector<sim::PassNote> notes;
  const Graph more = two_layers({.padding = 4});
  REQUIRE(problems(more) == "");
  passed(more, {"fuse-downcast"}, &notes);
  CHECK_FALSE(notes.at(0).changed);
}

TEST_CASE("a fused downcast takes away the releases of the full copy") {
  const Graph before = two_layers({.releases = true});
  REQUIRE(problems(before) == "");
  const Graph after = passed(before, {"fuse-downcast"});
  CHECK(problems(after) == "");
  CHECK(gathered_bytes(after) == 2 * kNarrow);
  CHECK(live_peak(after) == 2 * kWide / 4 + kNarrow + kNarrow / 4);
}

TEST_CASE("a cast into part of a storage stays, as does one that a step of two has alone") {
  std::vector<sim::PassNote> notes;
  const Graph part = two_layers({.narrow_more = 2});
  REQUIRE(problems(part) == "");
  passed(part, {"fuse-downcast"}, &notes);
  CHECK_FALSE(notes.at(0).changed);
  const Graph uneven = two_layers({.reads_wide_first = true});
  REQUIRE(problems(uneven) == "");
  const Graph after = passed(uneven, {"fuse-downcast"}, &notes);
  CHECK(problems(after) == "");
  CHECK(notes.at(0).did == "1 gathers of a step send the narrow dtype, 2.0 KiB less");
  CHECK(gathered_bytes(after) == kNarrow + kWide);
}
