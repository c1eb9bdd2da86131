#include "sim/cost/clock.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <memory>
#include <vector>

#include "core/ir/builder.h"
#include "sim/cost/measured.h"
#include "sim/cost/price.h"

using namespace foregather;
using namespace foregather::sim;

namespace {

Hardware h100() { return load_hardware("h100_sxm").value(); }

Cost product() {
  Cost cost;
  cost.kind = OpKind::gemm;
  cost.dtype = DType::bf16;
  cost.m = cost.n = cost.k = 8192;
  cost.flops = 2LL * 8192 * 8192 * 8192;
  cost.bytes_read = 4LL * 8192 * 8192;
  cost.bytes_written = 2LL * 8192 * 8192;
  cost.batch = 1;
  return cost;
}

Cost passes(OpKind kind) {
  Cost cost;
  cost.kind = kind;
  cost.dtype = DType::bf16;
  cost.bytes_read = cost.bytes_written = 1LL << 30;
  return cost;
}

/// A schedule that runs a product and another kernel so many times.
Graph schedule(const Cost& other, int products, int others) {
  GraphBuilder builder;
  builder.begin_program("rank");
  OpSpec spec;
  spec.stream = builder.stream("compute");
  for (int i = 0; i < products + others; ++i) {
    const Cost cost = i < products ? product() : other;
    spec.kind = cost.kind;
    spec.cost = builder.cost(cost);
    builder.op(spec);
  }
  builder.end_program();
  return builder.finish();
}

std::vector<Ns> durations(const Graph& graph, const Hardware& hardware) {
  std::vector<Ns> times;
  for (const Price& price : price(graph, hardware, {}).prices) times.push_back(price.duration);
  return times;
}

Hardware with_fixed_clock() {
  Hardware hardware = h100();
  hardware.compute.memory_bound_power = 1;
  return hardware;
}

}  // namespace

TEST_CASE("products alone run at the sustained clock") {
  const Graph graph = schedule(passes(OpKind::copy), 8, 0);
  CHECK(durations(graph, h100()) == durations(graph, with_fixed_clock()));
}

TEST_CASE("a schedule's kernels draw the power limit on average") {
  for (const int others : {1, 2, 5}) {
    const Graph graph = schedule(passes(OpKind::elementwise), 4, others);
    const std::vector<Ns> slow = durations(graph, with_fixed_clock());
    const std::vector<Ns> fast = durations(graph, h100());
    const double product_time = 4.0 * static_cast<double>(fast[0]);
    const double other_time = others * static_cast<double>(fast[1]);
    // Of a product all but its ramp goes with the clock.
    const double ramp = h100().kernel.gemm_ramp;
    const double faster =
        (static_cast<double>(slow[0]) - ramp) / (static_cast<double>(fast[0]) - ramp);
    CHECK(faster > 1.005);
    const double power =
        (product_time * faster * faster * faster + other_time * h100().compute.memory_bound_power) /
        (product_time + other_time);
    CHECK(power == Approx(1).margin(2e-3));
    CHECK(fast[1] == slow[1]);
  }
}

TEST_CASE("the clock does not pass the one that rates are stated at") {
  const Hardware hardware = h100();
  const Graph graph = schedule(passes(OpKind::norm), 1, 200);
  const CostTable table = price(graph, with_fixed_clock(), {});
  CHECK(clock_under_power_limit(graph, table.prices, hardware.compute) == Approx(1).margin(1e-9));
}

TEST_CASE("kernels that compute the place of each element go with the clock") {
  Cost strided = passes(OpKind::copy);
  strided.m = 1 << 30;
  const Graph graph = schedule(strided, 4, 1);
  CHECK(durations(graph, h100())[1] < durations(graph, with_fixed_clock())[1]);
}

TEST_CASE("copies to the host, collectives and times that are given have no say in the clock") {
  Cost fixed = passes(OpKind::fused);
  fixed.is_fixed = true;
  fixed.fixed_time = 50'000'000;
  for (const Cost& other : {fixed, passes(OpKind::device_to_host)}) {
    const Graph graph = schedule(other, 4, 4);
    CHECK(durations(graph, h100()) == durations(graph, with_fixed_clock()));
  }
}

TEST_CASE("work that is as fast, or as many times over, leaves the clock") {
  const Graph once = schedule(passes(OpKind::norm), 4, 2),
              thrice = schedule(passes(OpKind::norm), 12, 6);
  CHECK(durations(once, h100()) == durations(thrice, h100()));
  PriceOptions twice;
  twice.compute_scale = 2;
  const Ns plain = price(once, h100(), {}).prices[0].duration;
  CHECK(std::abs(price(once, h100(), twice).prices[0].duration - plain / 2) <= 1);
}

TEST_CASE("a calibrated machine's clock is that of its recording") {
  Hardware calibrated = h100();
  calibrated.measured =
      std::make_shared<const MeasuredTable>(std::vector<run::WorkSample>{}, h100());
  const Graph graph = schedule(passes(OpKind::elementwise), 4, 2);
  CHECK(durations(graph, calibrated) == durations(graph, with_fixed_clock()));
}
