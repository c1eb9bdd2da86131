// fusion=… on schedules: issue 1337 of lightning-thunder by its formulas, and what a region costs.
#include <cstdlib>
#include <fstream>
#include <set>
#include <catch2/catch.hpp>

#include "core/base/file.h"
#include "core/ir/builder.h"
#include "core/ir/validate.h"
#include "sim/passes/fusion_groups.h"
#include "tests/support/places.h"
#include "tests/support/thunder_programs.h"
#include "tests/unit/passes/schedules.h"
#include "traces/thunder_graph.h"

using namespace foregather;
using namespace foregather::test;
using sim::FusionGroup;
using sim::FusionNode;

namespace {

Graph lowered_thunder(const std::string& text) {
  const auto file = traces::read_thunder(text, "t.txt");
  REQUIRE(file);
  std::vector<std::string> warnings;
  auto result = traces::thunder_graph(traces::thunder_parts(*file, "t.txt", warnings), {});
  REQUIRE(result);
  REQUIRE(problems(result->graph) == "");
  return std::move(result->graph);
}

// Elementwise ops and a product on one stream; values are freed after their last use.
class Chain {
 public:
  static constexpr Bytes kBytes = 1000;

  Chain() {
    builder_.begin_program("chain");
    stream_ = builder_.stream("compute");
    thread_ = builder_.thread("main");
    scope_ = builder_.scope("block");
    kept_ = value();
  }
  // Value 0 is there before. The op depends on those that make `after`.
  std::size_t op(const std::vector<std::size_t>& inputs, OpKind kind = OpKind::elementwise,
                 Phase phase = Phase::forward, const std::vector<std::size_t>& after = {}) {
    const std::size_t made = value();
    Cost cost;
    cost.kind = kind;
    cost.flops = 7 + static_cast<std::int64_t>(made);
    cost.bytes_written = kBytes;
    cost.bytes_read = kBytes * static_cast<Bytes>(inputs.size());
    std::vector<AccessedTensor> accesses;
    for (const std::size_t input : inputs)
      accesses.push_back({tensors_[input], Access::read, 0, kBytes});
    accesses.push_back({tensors_[made], Access::write, 0, kBytes});
    OpSpec spec;
    spec.kind = kind;
    spec.phase = phase;
    spec.scope = scope_;
    spec.stream = stream_;
    spec.cost = builder_.cost(cost);
    std::vector<OpId> deps;
    for (const std::size_t value : after) deps.push_back(OpId(value - 1));
    ops_.push_back({builder_.op(spec, accesses, deps), inputs, made});
    return made;
  }
  Graph finish() {
    builder_.select(thread_, Section::init);
    builder_.alloc(storages_[kept_], stream_);
    for (const Section section : {Section::first, Section::body}) {
      builder_.select(thread_, section);
      for (std::size_t i = 0; i < ops_.size(); ++i) {
        builder_.alloc(storages_[ops_[i].made], stream_);
        builder_.launch(ops_[i].op);
        for (std::size_t value = 1; value < storages_.size(); ++value)
          if (last_use(value) == i) builder_.free(storages_[value]);
      }
    }
    builder_.end_program();
    RankClass all;
    all.program = ProgramId(0);
    builder_.rank_class(all, std::vector<std::uint32_t>{0});
    return builder_.finish();
  }

 private:
  struct Row {
    OpId op;
    std::vector<std::size_t> inputs;
    std::size_t made;
  };
  std::size_t value() {
    Storage row;
    row.bytes = kBytes;
    storages_.push_back(builder_.storage(row));
    tensors_.push_back(builder_.whole(storages_.back()));
    return storages_.size() - 1;
  }
  std::size_t last_use(std::size_t value) const {
    std::size_t last = ops_.size();
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if (ops_[i].made == value || std::ranges::count(ops_[i].inputs, value) > 0) last = i;
    return last;
  }

  GraphBuilder builder_;
  StreamId stream_;
  std::uint32_t thread_ = 0;
  ScopeId scope_;
  std::size_t kept_ = 0;
  std::vector<StorageId> storages_;
  std::vector<TensorId> tensors_;
  std::vector<Row> ops_;
};

}  // namespace

TEST_CASE("issue 1337: each program peaks by its formula, and passes lead from one to the other") {
  for (int paths = 1; paths <= 12; ++paths)
    for (const int size : {3, 256}) {
      CAPTURE(paths, size);
      const Bytes tensor = Bytes{4} * size * size, inputs = (paths + 1) * tensor;
      const Bytes least = inputs + (paths == 1 ? 2 : 3) * tensor;  // one path carries nothing on
      const Bytes widest = inputs + 2 * paths * tensor;
      const Graph one_by_one = lowered_thunder(paths_one_by_one(paths, size));
      const Graph by_stage = lowered_thunder(paths_stage_by_stage(paths, size));
      const Graph horizontal = lowered_thunder(paths_horizontal(paths, size));
      CHECK(live_peak(one_by_one) == least);
      CHECK(live_peak(by_stage) == inputs + (paths + 1) * tensor);
      CHECK(live_peak(horizontal) == widest);

      std::vector<sim::PassNote> notes;
      CHECK(live_peak(passed(by_stage, {"order=memory"})) == least);
      CHECK(live_peak(passed(horizontal, {"order=memory"}, &notes)) == widest);
      CHECK(notes[0].did.find("proved the least") != std::string::npos);
      CHECK(live_peak(passed(horizontal, {"fusion=none"})) == inputs + (paths + 1) * tensor);
      CHECK(live_peak(passed(horizontal, {"fusion=none", "order=memory"}, &notes)) == least);
      CHECK(notes[1].did.find("proved the least") != std::string::npos);

      CHECK(live_peak(passed(one_by_one, {"fusion=horizontal,memory=ignore"})) == widest);
      CHECK(live_peak(passed(by_stage, {"fusion=consecutive,memory=ignore"})) == widest);
      for (const char* fusion : {"fusion=horizontal", "fusion=vertical", "fusion=consecutive"}) {
        CHECK(live_peak(passed(one_by_one, {fusion}, &notes)) == least);
        // The first relus of two paths fit into the three tensors of the second one.
        CHECK(notes[0].changed == (paths == 2 && std::string(fusion) == "fusion=horizontal"));
      }
      if (paths < 3) continue;
      passed(one_by_one, {"fusion=horizontal"}, &notes);
      CHECK(notes[0].did.find("2 more would raise the live peak") != std::string::npos);
    }
}

TEST_CASE("the samples of issue 1337 are what the generator prints for ten paths") {
  const std::vector<std::pair<const char*, std::string>> samples{
      {"one_by_one", paths_one_by_one(10, 256)},
      {"stage_by_stage", paths_stage_by_stage(10, 256)},
      {"horizontal", paths_horizontal(10, 256)}};
  for (const auto& [name, text] : samples) {
    const std::string path =
        test::source_dir() + "/traces/samples/thunder_ten_paths_" + name + ".txt";
    if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
    const auto shipped = read_file(path, MiB);
    REQUIRE(shipped);
    CHECK(*shipped == text);
  }
}

TEST_CASE("a chain becomes one op that reads its input and writes its output") {
  Chain chain;
  chain.op({chain.op({chain.op({0})})});
  const Graph before = chain.finish();
  REQUIRE(live_peak(before) == 3 * Chain::kBytes);
  for (const char* fusion : {"fusion=consecutive", "fusion=vertical"}) {
    CAPTURE(fusion);
    const Graph after = passed(before, {fusion});
    CHECK(problems(after) == "");
    REQUIRE(launches(after).size() == 1);
    const Op& region = after.at(launches(after).front());
    const Cost& cost = after.at(region.cost);
    CHECK(region.kind == OpKind::fused);
    CHECK(after.scope_name(region.scope) == "block");
    CHECK(after.origins_of(region).size() == 3);
    CHECK(cost.flops == 8 + 9 + 10);
    CHECK(cost.bytes_read == Chain::kBytes);
    CHECK(cost.bytes_written == Chain::kBytes);
    CHECK(live_peak(after) == 2 * Chain::kBytes);
    const Graph again = passed(after, {"fusion=none"});
    CHECK(keys(again) == keys(before));
    CHECK(live_peak(again) == live_peak(before));
    CHECK(launches(again).size() == 3);
  }
}

TEST_CASE("a region depends on what its parts depend on, and others on the region") {
  Chain chain;
  const auto forward = Phase::forward;
  const auto a = chain.op({0}), b = chain.op({a});
  const auto product = chain.op({b}, OpKind::gemm, forward, {b});
  const auto c = chain.op({product}, OpKind::elementwise, forward, {a, product});
  const auto d = chain.op({c}, OpKind::elementwise, forward, {c, product});
  chain.op({d}, OpKind::gemm, forward, {c, d});
  const Graph before = chain.finish();
  REQUIRE(problems(before) == "");
  const Graph after = passed(before, {"fusion=consecutive"});
  CHECK(problems(after) == "");
  const auto order = launches(after);
  REQUIRE(order.size() == 4);
  const auto deps = [&](std::size_t at) {
    const auto of = after.deps_of(after.at(order[at]));
    return std::set<OpId>(of.begin(), of.end());
  };
  CHECK(deps(0).empty());
  CHECK(deps(1) == std::set{order[0]});
  CHECK(deps(2) == std::set{order[0], order[1]});
  CHECK(deps(3) == std::set{order[2]});
  CHECK(after.at(order[2]).deps.count == 2);
}

TEST_CASE("neither products nor another phase are fused") {
  Chain chain;
  const auto product = chain.op({chain.op({0})}, OpKind::gemm);
  chain.op({chain.op({product})}, OpKind::elementwise, Phase::backward);
  std::vector<sim::PassNote> notes;
  const Graph before = chain.finish();
  for (const char* fusion : {"fusion=consecutive,memory=ignore", "fusion=vertical,memory=ignore",
                             "fusion=horizontal,memory=ignore", "fusion=none"}) {
    CAPTURE(fusion);
    passed(before, {fusion}, &notes);
    CHECK_FALSE(notes[0].changed);
  }
}

// a1 g1 b1 and a2 g2 b2, where g are products: consecutive finds nothing but b1 a2.
TEST_CASE("consecutive merges across what is independent, horizontal what is ready together") {
  const auto make = [] {
    Chain chain;
    for (int path = 0; path < 2; ++path) chain.op({chain.op({chain.op({0})}, OpKind::gemm)});
    return chain.finish();
  };
  const auto parts = [](const Graph& graph) {
    std::vector<std::size_t> counts;
    for (const OpId op : launches(graph)) counts.push_back(graph.origins_of(graph.at(op)).size());
    return counts;
  };
  CHECK(parts(passed(make(), {"fusion=consecutive,memory=ignore"})) ==
        std::vector<std::size_t>{0, 0, 2, 0, 0});
  CHECK(parts(passed(make(), {"fusion=horizontal,memory=ignore"})) ==
        std::vector<std::size_t>{2, 0, 0, 2});
  CHECK(parts(passed(make(), {"fusion=vertical,memory=ignore"})) ==
        std::vector<std::size_t>{0, 0, 0, 0, 0, 0});
}

TEST_CASE("vertical groups leave out what another way leads around") {
  // 0 -> 1 -> 2 and 0 -> 2, where 1 is no fusible node; 3 hangs on 2.
  const std::vector<FusionNode> around{{0, {}}, {{}, {0}}, {0, {0, 1}}, {0, {2}}};
  CHECK(sim::vertical_groups(around) == std::vector<FusionGroup>{{2, 3}});
  const std::vector<FusionNode> diamond{{0, {}}, {0, {0}}, {0, {0}}, {0, {1, 2}}};
  CHECK(sim::vertical_groups(diamond) == std::vector<FusionGroup>{{0, 1, 2, 3}});
  const std::vector<FusionNode> sides{{0, {}}, {1, {0}}, {1, {1}}};
  CHECK(sim::vertical_groups(sides) == std::vector<FusionGroup>{{1, 2}});
}

TEST_CASE("horizontal groups take what becomes ready meanwhile") {
  // Two paths of two fusible nodes each: the second ones are ready once the first are in.
  const std::vector<FusionNode> paths{{0, {}}, {0, {0}}, {0, {}}, {0, {2}}};
  CHECK(sim::horizontal_groups(paths) == std::vector<FusionGroup>{{0, 1, 2, 3}});
  // With a node in between that is not fusible, one region each.
  const std::vector<FusionNode> apart{{0, {}}, {{}, {0}}, {0, {1}}, {0, {}}, {{}, {3}}, {0, {4}}};
  CHECK(sim::horizontal_groups(apart) == std::vector<FusionGroup>{{0, 3}, {2, 5}});
  const auto order = sim::grouped_order(apart, std::vector<FusionGroup>{{0, 3}, {2, 5}});
  REQUIRE(order);
  CHECK(*order == std::vector<FusionGroup>{{0, 3}, {1}, {4}, {2, 5}});
  // Groups that need each other have no order.
  const std::vector<FusionNode> crossed{{0, {}}, {0, {0}}, {0, {}}, {0, {2}}};
  CHECK_FALSE(sim::grouped_order(crossed, std::vector<FusionGroup>{{0, 3}, {1, 2}}));
}
