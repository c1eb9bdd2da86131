// recompute=… against the plan that recomputes by itself.
#include <catch2/catch.hpp>

#include "sim/passes/registry.h"
#include "tests/fixtures/parts.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

Graph plan(const char* sample, const char* checkpointing) {
  return sample_with(sample, {"model.layers=3",
                              std::string("train.activation_checkpointing=") + checkpointing})
      .graph;
}

std::int64_t recomputed_flops(const Graph& graph) {
  std::int64_t flops = 0;
  for (const OpId op : launches(graph))
    if (graph.at(op).phase == Phase::recompute) flops += graph.at(graph.at(op).cost).flops;
  return flops;
}

}  // namespace

TEST_CASE("recompute=full on a plan is the plan that recomputes") {
  for (const char* sample : {"tiny_fsdp2", "llama3_8b_fsdp2", "llama2_7b_fsdp1"}) {
    CAPTURE(sample);
    const Graph before = plan(sample, "none"), oracle = plan(sample, "full");
    for (const char* pass : {"recompute=full", "recompute=model.layers.*"}) {
      CAPTURE(pass);
      const Graph after = passed(before, {pass});
      CHECK(problems(after) == "");
      CHECK(all_flops(after) == all_flops(oracle));
      CHECK(all_flops(after) == all_flops(before) + recomputed_flops(after));
      CHECK(live_peak(after) == live_peak(oracle));
      CHECK(launches(after).size() == launches(oracle).size());
      CHECK(live_peak(after) < live_peak(before));
    }
  }
}

TEST_CASE("recompute of one block costs that block's forward alone") {
  const Graph before = plan("tiny_fsdp2", "none");
  const Graph all = passed(before, {"recompute=full"});
  std::vector<sim::PassNote> notes;
  const Graph one = passed(before, {"recompute=model.layers.1"}, &notes);
  CHECK(notes[0].did.find("1 block runs") != std::string::npos);
  CHECK(3 * recomputed_flops(one) == recomputed_flops(all));
  for (const OpId op : launches(one))
    if (one.at(op).phase == Phase::recompute) {
      CHECK(std::string(one.scope_name(one.at(op).scope)).starts_with("model.layers.1"));
      REQUIRE(one.origins_of(one.at(op)).size() == 1);
      CHECK(one.at(one.origins_of(one.at(op)).front()).phase == Phase::forward);
    }
}

TEST_CASE("recompute finds nothing where nothing matches or is left, and says so") {
  std::vector<sim::PassNote> notes;
  const Graph before = plan("tiny_fsdp2", "none");
  for (const char* pass : {"recompute=nowhere", "recompute=none"}) {
    passed(before, {pass}, &notes);
    CHECK_FALSE(notes[0].changed);
  }
  for (const char* checkpointing : {"full", "selective"}) {
    passed(plan("tiny_fsdp2", checkpointing), {"recompute=full"}, &notes);
    CHECK_FALSE(notes[0].changed);
    CHECK(notes[0].did.find("recompute already") != std::string::npos);
  }
  const Graph one = plan("tiny_fsdp2", "first:1");
  CHECK(recomputed_flops(passed(one, {"recompute=full"}, &notes)) == 3 * recomputed_flops(one));
  CHECK(notes[0].did.find("2 blocks run") != std::string::npos);
}

// A block whose one op makes what its backward needs and what the head reads, which is kept.
TEST_CASE("what the forward leaves to others is not written again") {
  constexpr Bytes kIn = 4096, kOut = 2048, kSaved = 1024;
  GraphBuilder b;
  b.begin_program("rank");
  const StreamId compute = b.stream("compute");
  b.thread("main");
  const ScopeId block = b.scope("layers.0"), head = b.scope("head");
  const Buffer in = buffer(b, "in", kIn, Cause::activation);
  const Buffer out = buffer(b, "out", kOut, Cause::activation);
  const Buffer saved = buffer(b, "saved", kSaved, Cause::activation);
  const auto add = [&](Phase phase, ScopeId scope, std::initializer_list<AccessedTensor> accesses) {
    OpSpec spec;
    spec.phase = phase;
    spec.scope = scope;
    spec.stream = compute;
    spec.cost = streaming(b, OpKind::elementwise, kIn, kOut);
    return op(b, spec, accesses);
  };
  const OpId forward = add(Phase::forward, block, {read(in), write(out), write(saved)});
  const OpId loss = add(Phase::forward, head, {read(out)});
  const OpId backward_head = add(Phase::backward, head, {read(out)});
  const OpId backward = add(Phase::backward, block, {read(saved), read(out)});
  b.select(0, Section::init);
  b.alloc(in.storage, compute);
  for (const Section section : {Section::first, Section::body}) {
    b.select(0, section);
    b.alloc(out.storage, compute);
    b.alloc(saved.storage, compute);
    for (const OpId each : {forward, loss, backward_head, backward}) b.launch(each);
    b.free(saved.storage);
    b.free(out.storage);
  }
  b.end_program();
  one_class(b, ProgramId(0), 1);
  const Graph before = b.finish();
  REQUIRE(problems(before) == "");
  const Graph after = passed(before, {"recompute=full"});
  CHECK(problems(after) == "");
  const auto order = launches(after);
  REQUIRE(order.size() == 5);
  const Op& again = after.at(order[3]);
  CHECK(again.phase == Phase::recompute);
  const auto parts = after.accesses_of(again);
  REQUIRE(parts.size() == 3);
  CHECK(after.at(parts[0].tensor).storage == in.storage);
  const StorageId stand_in = after.at(parts[1].tensor).storage;
  CHECK(stand_in != out.storage);
  CHECK(after.at(stand_in).bytes == kOut);
  CHECK(after.at(parts[2].tensor).storage == saved.storage);
  // The stand-in is there while the forward runs again, beside the output.
  CHECK(live_peak(before) == kIn + kOut + kSaved);
  CHECK(live_peak(after) == kIn + 2 * kOut + kSaved);
}

TEST_CASE("recompute=none on a plan that recomputes names the key to set") {
  sim::PassTarget target{plan("tiny_fsdp2", "full"), {}};
  const auto pass = sim::parse_pass("recompute=none");
  REQUIRE(pass);
  const auto note = (*pass)(target);
  REQUIRE_FALSE(note);
  CHECK(note.error().text().find("--set train.activation_checkpointing=none") != std::string::npos);
}
