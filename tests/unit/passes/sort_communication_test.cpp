// The golden orders of the reference (Thunder §B.5 to B.7) on its toy of five layers.
#include <catch2/catch.hpp>

#include <map>

#include "tests/fixtures/parts.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

constexpr int kLayers = 5;
constexpr Bytes kToyWeight = 1024, kToyActivation = 64;

struct ToySchedule {
  Graph graph;
  std::map<OpId, std::string> names;
};

// Asynchronous collectives on a stream of their own, as Thunder's traces have them: its stream
// follows the caller's, and the caller's waits for its event where the trace has a wait.
class ToyBuilder {
 public:
  ToyBuilder() {
    group_ = b_.group("fsdp", first_ranks(2), 1);
    comm_ = b_.communicator("fsdp", group_);
    b_.begin_program("thunder");
    compute_ = b_.stream("compute");
    nccl_ = b_.stream("nccl");
    b_.thread("python");
    b_.select(0, Section::init);
    for (int i = 0; i < kLayers; ++i) {
      shards_.push_back(buffer(b_, "shard", kToyWeight / 2, Cause::parameter_shard));
      full_.push_back(buffer(b_, "full", kToyWeight, Cause::unsharded_parameter));
      b_.alloc(shards_.back().storage, compute_);
    }
  }

  OpId collective_op(OpKind kind, const Buffer& from, const Buffer& to, const std::string& name) {
    OpSpec spec;
    spec.kind = kind;
    spec.role = kind == OpKind::all_gather ? Role::gather : Role::reduce;
    spec.stream = nccl_;
    spec.communicator = comm_;
    spec.cost = collective(b_, kind, DType::f32, kToyWeight, group_);
    return named(op(b_, spec, {read(from), write(to)}), name);
  }

  OpId compute(std::initializer_list<AccessedTensor> parts, const std::string& name) {
    OpSpec spec;
    spec.stream = compute_;
    spec.cost = gemm(b_, 4, 16, 16);
    return named(op(b_, spec, parts), name);
  }

  // Makes both sections; emit() writes one.
  template <class Emit>
  ToySchedule finish(Emit emit) {
    for (const Section section : {Section::first, Section::body}) {
      b_.select(0, section);
      b_.mark(0, Phase::forward);
      emit();
    }
    b_.end_program();
    one_class(b_, ProgramId(0), 2);
    return {b_.finish(), names_};
  }

  void issue(OpId op, const Buffer& into, EventId follow, EventId done) {
    b_.alloc(into.storage, compute_);
    order(b_, nccl_, follow, compute_);
    b_.launch(op);
    b_.record(done, nccl_);
  }
  void wait(EventId done) { b_.wait(compute_, done); }

  GraphBuilder b_;
  std::vector<Buffer> shards_, full_;

 private:
  OpId named(OpId op, const std::string& name) {
    names_[op] = name;
    return op;
  }

  GroupId group_;
  CommunicatorId comm_;
  StreamId compute_, nccl_;
  std::map<OpId, std::string> names_;
};

// ag0 wait0 lin0 ag1 wait1 lin1 …
ToySchedule forward() {
  ToyBuilder t;
  std::vector<Buffer> x{buffer(t.b_, "x", kToyActivation, Cause::activation)};
  std::vector<OpId> gathers, linears;
  std::vector<EventId> follow, done;
  for (int i = 0; i < kLayers; ++i) {
    const auto n = static_cast<std::size_t>(i);
    x.push_back(buffer(t.b_, "x", kToyActivation, Cause::activation));
    gathers.push_back(
        t.collective_op(OpKind::all_gather, t.shards_[n], t.full_[n], "ag" + std::to_string(i)));
    linears.push_back(
        t.compute({read(x[n]), read(t.full_[n]), write(x[n + 1])}, "lin" + std::to_string(i)));
    follow.push_back(t.b_.event());
    done.push_back(t.b_.event());
  }
  t.b_.alloc(x[0].storage, StreamId(0));
  return t.finish([&] {
    for (std::size_t i = 0; i < kLayers; ++i) {
      t.issue(gathers[i], t.full_[i], follow[i], done[i]);
      t.wait(done[i]);
      t.b_.alloc(x[i + 1].storage, StreamId(0));
      t.b_.launch(linears[i]);
      t.b_.free(t.full_[i].storage);
      if (i > 0) t.b_.free(x[i].storage);
    }
    t.b_.free(x[kLayers].storage);
  });
}

// The gathers of the arguments at the top, then dx4 dw4 rs4 rwait4 dx3 …
ToySchedule toy_backward() {
  ToyBuilder t;
  const auto make = [&](const char* name, Bytes bytes, Cause cause) {
    return buffer(t.b_, name, bytes, cause);
  };
  std::vector<Buffer> x, g{make("g", kToyActivation, Cause::gradient)}, dw, reduced;
  struct Layer {
    OpId ag, dx, dw, rs;
    EventId follow, done, rs_follow, rs_done;
  };
  std::vector<Layer> layers(kLayers);
  for (std::size_t i = 0; i < kLayers; ++i) {
    x.push_back(make("x", kToyActivation, Cause::activation));
    dw.push_back(make("dw", kToyWeight, Cause::gradient));
    reduced.push_back(make("reduced", kToyWeight / 2, Cause::reduced_gradient));
    g.push_back(make("g", kToyActivation, Cause::gradient));
  }
  for (std::size_t i = 0; i < kLayers; ++i)
    layers[i].ag =
        t.collective_op(OpKind::all_gather, t.shards_[i], t.full_[i], "ag" + std::to_string(i));
  for (std::size_t i = kLayers; i-- > 0;) {
    Layer& layer = layers[i];
    const std::string n = std::to_string(i);
    // g[0] is the gradient of the output.
    const Buffer& in = g[kLayers - 1 - i];
    layer.dx = t.compute({read(in), read(t.full_[i]), write(g[kLayers - i])}, "dx" + n);
    layer.dw = t.compute({read(in), read(x[i]), write(dw[i])}, "dw" + n);
    layer.rs = t.collective_op(OpKind::reduce_scatter, dw[i], reduced[i], "rs" + n);
    for (EventId* event : {&layer.follow, &layer.done, &layer.rs_follow, &layer.rs_done})
      *event = t.b_.event();
  }
  t.b_.alloc(g[0].storage, StreamId(0));
  for (const Buffer& activation : x) t.b_.alloc(activation.storage, StreamId(0));
  return t.finish([&] {
    for (std::size_t i = 0; i < kLayers; ++i) {
      t.issue(layers[i].ag, t.full_[i], layers[i].follow, layers[i].done);
      t.wait(layers[i].done);
    }
    for (std::size_t i = kLayers; i-- > 0;) {
      const Layer& layer = layers[i];
      t.b_.alloc(g[kLayers - i].storage, StreamId(0));
      t.b_.launch(layer.dx);
      t.b_.free(t.full_[i].storage);
      t.b_.alloc(dw[i].storage, StreamId(0));
      t.b_.launch(layer.dw);
      if (i + 1 < kLayers) t.b_.free(g[kLayers - 1 - i].storage);
      t.issue(layer.rs, reduced[i], layer.rs_follow, layer.rs_done);
      t.wait(layer.rs_done);
      t.b_.free(dw[i].storage);
      t.b_.free(reduced[i].storage);
    }
    t.b_.free(g[kLayers].storage);
  });
}

// "ag0 wait0 lin0 …": a wait is named for its collective.
std::string order_of(const ToySchedule& toy, const Graph& graph) {
  std::string text;
  std::string last;
  std::map<std::uint32_t, std::string> recorded;
  for (const Action& action : graph.programs[0].threads[0].actions(Section::body)) {
    std::string word;
    if (action.kind == ActionKind::launch) {
      word = last = toy.names.at(OpId(action.a));
    } else if (action.kind == ActionKind::record && action.stream == StreamId(1)) {
      recorded[action.a] = last;
      continue;
    } else if (action.kind == ActionKind::wait && action.stream == StreamId(0)) {
      const std::string& of = recorded.at(action.a);
      word = (of.starts_with("ag") ? "wait" : "rwait") + of.substr(2);
    } else {
      continue;
    }
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

std::string after(const ToySchedule& toy, const std::vector<std::string>& passes) {
  const Graph graph = passed(toy.graph, passes);
  CHECK(problems(graph) == "");
  CHECK(keys(graph) == keys(toy.graph));
  return order_of(toy, graph);
}

}  // namespace

TEST_CASE("sort-waits: golden orders of the toy") {
  REQUIRE(problems(forward().graph) == "");
  REQUIRE(problems(toy_backward().graph) == "");
  CHECK(after(forward(), {"sort-waits"}) ==
        "ag0 ag1 ag2 ag3 ag4 wait0 lin0 wait1 lin1 wait2 lin2 wait3 lin3 wait4 lin4");
  CHECK(after(toy_backward(), {"sort-waits"})
            .starts_with(
                "ag0 ag1 ag2 ag3 ag4 dw4 rs4 wait0 wait1 wait2 wait3 wait4 dx4 dx3 dw3 rs3 "));
}

TEST_CASE("sort-communication: golden order of the toy") {
  CHECK(after(toy_backward(), {"sort-communication"}) ==
        "ag4 wait4 dx4 dw4 rs4 ag3 wait3 dx3 dw3 rs3 ag2 wait2 dx2 dw2 rs2 ag1 wait1 dx1 dw1 rs1 "
        "ag0 wait0 dx0 dw0 rs0 rwait4 rwait3 rwait2 rwait1 rwait0");
  CHECK(after(forward(), {"sort-waits", "sort-communication"}) ==
        "ag0 wait0 lin0 ag1 wait1 lin1 ag2 wait2 lin2 ag3 wait3 lin3 ag4 wait4 lin4");
}

TEST_CASE("in-flight: golden orders of the toy") {
  CHECK(after(forward(), {"sort-waits", "in-flight=1"}) ==
        "ag0 wait0 lin0 ag1 wait1 lin1 ag2 wait2 lin2 ag3 wait3 lin3 ag4 wait4 lin4");
  CHECK(after(forward(), {"in-flight=2"}) ==
        "ag0 ag1 wait0 lin0 ag2 wait1 lin1 ag3 wait2 lin2 ag4 wait3 lin3 wait4 lin4");
  CHECK(after(forward(), {"in-flight=3"}) ==
        "ag0 ag1 ag2 wait0 lin0 ag3 wait1 lin1 ag4 wait2 lin2 wait3 lin3 wait4 lin4");
  CHECK(after(forward(), {"in-flight=unlimited"}) ==
        "ag0 ag1 ag2 ag3 ag4 wait0 lin0 wait1 lin1 wait2 lin2 wait3 lin3 wait4 lin4");
  CHECK(after(toy_backward(), {"sort-communication", "in-flight=3"})
            .starts_with("ag4 ag3 ag2 wait4 dx4 dw4 rs4 ag1 wait3 dx3 dw3 rs3 ag0 wait2 "));
}

TEST_CASE("K gathers are in memory: freed behind their use, before the next is issued") {
  const ToySchedule toy = forward();
  const Bytes one = live_peak(passed(toy.graph, {"in-flight=1"}));
  for (int k = 2; k < kLayers; ++k)
    CHECK(live_peak(passed(toy.graph, {fmt::format("in-flight={}", k)})) ==
          one + (k - 1) * kToyWeight);
  // All are there in the first layer alone, which has no activation of a layer before.
  CHECK(live_peak(passed(toy.graph, {"sort-waits"})) ==
        one + (kLayers - 1) * kToyWeight - kToyActivation);
}
