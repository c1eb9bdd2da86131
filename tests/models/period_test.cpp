// The steady period of FSDP2's backward over a stack of equal units, prices set by hand.
//
// With t_c the compute of a unit's backward, t_a its all-gather and t_r its reduce-scatter, and
// nothing that slows what runs beside it (reference: PyTorch §G.5):
//
//   communicators   prefetch   period
//   one             none       t_c + t_a + t_r
//   one             pre        max(t_c, t_a + t_r)
//   two             pre        max(t_c, t_a, t_r)
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/models/simulated.h"

namespace foregather::test {

namespace {

struct Times {
  Ns compute, gather, reduce;
};

/// Collectives cost what `times` says, one op of each block's backward its compute, all else
/// nothing.
void set_prices(tasks::Schedule& schedule, const Times& times) {
  sim::CostTable& table = schedule.prices.front();
  for (sim::Price& price : table.prices) price = {0, 0, {}, price.source};
  table.host = {};
  for (std::size_t c = 0; c < table.prices.size(); ++c) {
    const OpKind kind = schedule.graph.costs[c].kind;
    if (kind == OpKind::all_gather) table.prices[c].duration = times.gather;
    if (kind == OpKind::reduce_scatter) table.prices[c].duration = times.reduce;
  }
  // Blocks share cost rows, so one block's rows price all of them.
  const auto is_of_block = [&](const Op& op) {
    return op.phase == Phase::backward && op.kind == OpKind::gemm &&
           schedule.graph.scope_name(op.scope).find("layers.1.") != std::string_view::npos;
  };
  Ns ops = 0;
  for (const OpId id : body_ops(schedule.graph))
    if (is_of_block(schedule.graph.at(id))) ++ops;
  for (const OpId id : body_ops(schedule.graph))
    if (is_of_block(schedule.graph.at(id)))
      table.prices[schedule.graph.at(id).cost.row()].duration = times.compute / ops;
}

/// Between the ends of reduce-scatters in the middle of the stack.
double period(const std::vector<std::string>& sets, const Times& times) {
  constexpr std::size_t kLayers = 24;
  std::vector<std::string> all{"model.layers=" + std::to_string(kLayers),
                               "cluster.contention=false", "train.clip_grad_norm=false"};
  all.insert(all.end(), sets.begin(), sets.end());
  tasks::Schedule schedule = sample("tiny_fsdp2", all);
  set_prices(schedule, times);
  const sim::Simulation result = simulated(schedule);
  const sim::StepResult& step = result.classes.front().steady;
  const std::uint32_t first = schedule.graph.programs.front().ops.first;
  std::vector<Ns> ends;
  for (const OpId id : body_ops(schedule.graph))
    if (schedule.graph.at(id).kind == OpKind::reduce_scatter)
      ends.push_back(step.ops[id.row() - first].end);
  REQUIRE(ends.size() == kLayers + 1);
  return static_cast<double>(ends[kLayers - 4] - ends[8]) / static_cast<double>(kLayers - 12);
}

}  // namespace

TEST_CASE("the backward of equal units has the period of its bottleneck") {
  // The schedule's host delays (a few 10 µs a unit) stay in the shadow of milliseconds.
  constexpr Times kMany[] = {
      {20'000'000, 6'000'000, 4'000'000},  {6'000'000, 20'000'000, 4'000'000},
      {6'000'000, 4'000'000, 20'000'000},  {10'000'000, 7'000'000, 7'000'000},
      {14'000'000, 7'000'000, 7'000'000},  {3'000'000, 12'000'000, 12'000'000},
      {12'000'000, 12'000'000, 1'000'000},
  };
  for (const Times& t : kMany) {
    INFO("compute " << t.compute << ", gather " << t.gather << ", reduce " << t.reduce);
    const auto near = [](Ns time) { return Approx(static_cast<double>(time)).epsilon(0.01); };
    CHECK(period({"parallel.backward_prefetch=none"}, t) == near(t.compute + t.gather + t.reduce));
    CHECK(period({"parallel.backward_prefetch=pre"}, t) ==
          near(std::max(t.compute, t.gather + t.reduce)));
    CHECK(period({"parallel.backward_prefetch=pre", "parallel.separate_reduce_communicator=true"},
                 t) == near(std::max({t.compute, t.gather, t.reduce})));
  }
}

}  // namespace foregather::test
