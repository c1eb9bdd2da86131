#include "sim/cost/price.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "core/ir/builder.h"
#include "sim/cost/outside.h"
#include "sim/cost/rounding.h"
#include "sim/cost/slowest.h"

using namespace foregather;
using namespace foregather::sim;

namespace {

Cost row(OpKind kind, DType type, Bytes read, Bytes written) {
  Cost cost;
  cost.kind = kind;
  cost.dtype = type;
  cost.bytes_read = read;
  cost.bytes_written = written;
  return cost;
}

Cost message(OpKind kind, DType type, Bytes bytes, GroupId group) {
  Cost cost = row(kind, type, 0, 0);
  cost.message_bytes = bytes;
  cost.group = group;
  return cost;
}

/// A few rows of every model, over eight ranks on one node and sixteen on two.
Graph sample() {
  GraphBuilder builder;
  std::vector<std::uint32_t> ranks(16);
  for (std::uint32_t i = 0; i < 16; ++i) ranks[i] = i;
  const GroupId node = builder.group("node", std::span(ranks).first(8), 1);
  const GroupId all = builder.group("all", ranks, 2);
  builder.communicator("node", node);

  Cost gemm = row(OpKind::gemm, DType::bf16, 2 * (8192 + 4096) * 14336, 2 * 8192 * 4096);
  gemm.flops = 2LL * 8192 * 4096 * 14336;
  gemm.m = 8192;
  gemm.n = 4096;
  gemm.k = 14336;
  gemm.batch = 1;
  builder.cost(gemm);
  Cost attention = row(OpKind::attention, DType::bf16, 3 * 8192 * 4096 * 2, 2 * 8192 * 4096);
  attention.flops = 2LL * 32 * 8192 * 8192 * 128;
  attention.m = attention.n = 8192;
  attention.k = 128;
  attention.batch = 32;
  builder.cost(attention);
  Cost norm = row(OpKind::norm, DType::f32, 1 << 28, 1 << 27);
  norm.kernels = 5;
  builder.cost(norm);
  Cost optimizer = row(OpKind::optimizer, DType::f32, 1 << 30, 1 << 29);
  optimizer.kernels = 60;
  builder.cost(optimizer);
  builder.cost(row(OpKind::device_to_host, DType::f32, 1 << 20, 1 << 20));

  builder.cost(message(OpKind::all_gather, DType::bf16, 436'224'000, node));
  builder.cost(message(OpKind::reduce_scatter, DType::f32, 872'448'000, all));
  builder.cost(message(OpKind::all_reduce, DType::f32, 4, all));
  builder.cost(message(OpKind::all_to_all, DType::bf16, 1 << 26, node));
  Cost fixed = row(OpKind::fused, DType::f32, 1 << 20, 0);
  fixed.is_fixed = true;
  fixed.fixed_time = 12'345;
  builder.cost(fixed);
  return builder.finish();
}

}  // namespace

TEST_CASE("prices of a sample on H100 are what they were") {
  const CostTable table = price(sample(), load_hardware("h100_sxm").value(), {});
  std::string text;
  for (const Price& p : table.prices) {
    text +=
        fmt::format("{:>9} {:>6} {:>5} {:>5} {:>5} {:>5}  {}\n", p.duration, p.host, p.demand[0],
                    p.demand[1], p.demand[2], p.demand[3], table.sources[p.source]);
  }
  CHECK(text == R"(  1447698   7000 32768  2834     0     0  roofline gemm bf16 h100_sxm
  1998822   7000 32768  1314     0     0  roofline attention bf16 h100_sxm
   165096  17000 16384 23856     0     0  roofline norm f32 h100_sxm
   718317 154500 16384 21932     0     0  roofline optimizer f32 h100_sxm
    22365   7000     0   459     0     0  roofline device_to_host f32 h100_sxm
  1129678  25000  5958  6610 31706     0  nccl 2.26 all_gather ring Simple, 1 node, h100_sxm nvswitch
  2423568  25000  3972  9903 31669 30051  nccl 2.26 reduce_scatter ring Simple, 2 nodes, h100_sxm infiniband
    29034  25000   248     0     0     0  nccl 2.26 all_reduce tree LL, 2 nodes, h100_sxm infiniband
   182537  25000  6951  7192 30187     0  nccl 2.26 all_to_all point-to-point, 1 node, h100_sxm nvswitch
    12345   7000 16384   831     0     0  given by the schedule
)");
}

TEST_CASE("a fixed cost takes the time it was given on any hardware, unless compute is scaled") {
  const Graph graph = sample();
  const CostTable table = price(graph, load_hardware("v100_sxm").value(), {});
  CHECK(table.prices.back().duration == 12'345);
  PriceOptions options;
  options.compute_scale = 3;
  options.link_bandwidth_scale = 7;
  CHECK(price(graph, load_hardware("v100_sxm").value(), options).prices.back().duration == 4'115);
  CHECK(table.sources[table.prices.back().source] == "given by the schedule");
}

TEST_CASE("options scale what they name") {
  const Graph graph = sample();
  const Hardware hw = load_hardware("h100_sxm").value();
  const CostTable plain = price(graph, hw, {});
  PriceOptions links;
  links.link_bandwidth_scale = 2;
  PriceOptions compute;
  compute.compute_scale = 2;
  PriceOptions attention;
  attention.attention_speed = 2;
  const CostTable fast_links = price(graph, hw, links);
  const CostTable fast_attention = price(graph, hw, attention);
  const CostTable fast_compute = price(graph, hw, compute);
  for (std::size_t i = 0; i + 1 < graph.costs.size(); ++i) {
    const Ns before = plain.prices[i].duration;
    const Ns speed = graph.costs[i].kind == OpKind::attention ? 2 : 1;
    CHECK(std::abs(fast_attention.prices[i].duration * speed - before) <= 1);
    if (is_collective(graph.costs[i].kind)) {
      CHECK(fast_links.prices[i].duration <= before);
      CHECK(fast_links.prices[i].duration * 2 >= before);
      CHECK(fast_compute.prices[i].duration == before);
    } else {
      CHECK(fast_links.prices[i].duration == before);
      CHECK(std::abs(fast_compute.prices[i].duration * 2 - before) <= 1);
    }
  }
}

TEST_CASE("an op costs the host as many dispatches as it has operators, and its launches") {
  GraphBuilder builder;
  Cost op;
  op.kind = OpKind::optimizer;
  op.bytes_read = 4096;
  for (const int operators : {1, 3}) {
    op.host_ops = static_cast<std::uint16_t>(operators);
    op.kernels = 2;
    builder.cost(op);
  }
  const Hardware hw = load_hardware("h100_sxm").value();
  const CostTable table = price(builder.finish(), hw, {});
  CHECK(table.prices[0].host == round_ns(hw.host.dispatch + 2 * hw.host.launch));
  CHECK(table.prices[1].host == round_ns(3 * hw.host.dispatch + 2 * hw.host.launch));
}

TEST_CASE("attention is cuDNN's where it is asked for and the hardware has figures of it") {
  const Graph graph = sample();
  PriceOptions cudnn;
  cudnn.cudnn_attention = true;
  const auto attention = [&](const char* name, const PriceOptions& options) {
    const CostTable table = price(graph, load_hardware(name).value(), options);
    for (std::size_t i = 0; i < graph.costs.size(); ++i)
      if (graph.costs[i].kind == OpKind::attention) return table.prices[i].duration;
    return Ns{0};
  };
  CHECK(attention("h100_sxm", cudnn) * 10 < attention("h100_sxm", {}) * 6);
  CHECK(attention("a100_80_sxm", cudnn) == attention("a100_80_sxm", {}));
  CHECK(attention("b200_sxm", cudnn) * 10 < attention("b200_sxm", {}) * 6);
  // PyTorch does not prefer it on a B300; who asks for it has it.
  CHECK(attention("b300_sxm", cudnn) == attention("b300_sxm", {}));
  cudnn.attention_is_stated = true;
  CHECK(attention("b300_sxm", cudnn) * 10 < attention("b300_sxm", {}) * 6);
}

TEST_CASE("cuDNN's kernels have no fp32") {
  GraphBuilder builder;
  Cost cost = sample().costs.front();
  for (const Cost& each : sample().costs)
    if (each.kind == OpKind::attention) cost = each;
  cost.dtype = DType::f32;
  builder.cost(cost);
  const Graph graph = builder.finish();
  PriceOptions cudnn;
  cudnn.cudnn_attention = true;
  const Hardware h100 = load_hardware("h100_sxm").value();
  CHECK(price(graph, h100, cudnn).prices[0].duration == price(graph, h100, {}).prices[0].duration);
}

TEST_CASE("a group that does not know its nodes gets as many as its ranks need") {
  GraphBuilder builder;
  std::vector<std::uint32_t> ranks(16);
  for (std::uint32_t i = 0; i < 16; ++i) ranks[i] = i;
  const GroupId group = builder.group("all", ranks, 1);
  builder.cost(message(OpKind::all_gather, DType::bf16, 1 << 28, group));
  const Graph graph = builder.finish();
  const CostTable table = price(graph, load_hardware("h100_sxm").value(), {});
  CHECK(table.sources[0].find("2 nodes") != std::string::npos);
}

TEST_CASE("bytes outside the allocator count each communicator once") {
  const Hardware hw = load_hardware("h100_sxm").value();
  const Bytes one = outside_allocator_bytes(sample(), hw);
  CHECK(one == 520 * MiB + 64 * MiB + 24 * 14 * MiB);
  CHECK(outside_allocator_bytes(Graph{}, hw) == 520 * MiB + 64 * MiB);
}

TEST_CASE("times and shares round once, and saturate") {
  CHECK(round_ns(0.4) == 0);
  CHECK(round_ns(0.5) == 1);
  CHECK(round_ns(-3) == 0);
  CHECK(round_ns(0.0 / 1e300) == 0);
  CHECK(round_ns(1e30) == static_cast<Ns>(kLongestNs));
  CHECK(round_share(0.5) == kWhole / 2);
  CHECK(round_share(7) == kWhole);
}

TEST_CASE("pricing is fast") {
  Graph graph = sample();
  std::vector<Cost> rows = graph.costs;
  for (std::int64_t i = 0; i < 10'000; ++i) {
    Cost cost = rows[static_cast<std::size_t>(i) % rows.size()];
    cost.m += i;
    cost.message_bytes += i;
    graph.costs.push_back(cost);
  }
  const Hardware hw = load_hardware("h100_sxm").value();
  // Of this program alone, and undisturbed once: others may be busy on the machine.
  double each = INFINITY;
  for (int run = 0; run < 5; ++run) {
    const std::clock_t begin = std::clock();
    const CostTable table = price(graph, hw, {});
    const double took = static_cast<double>(std::clock() - begin) * 1e9 / CLOCKS_PER_SEC;
    each = std::min(each, took / static_cast<double>(table.prices.size()));
  }
  std::cout << "price: " << each << " ns a row\n";
  CHECK(each < 5000);
}

TEST_CASE(
    "the slowest of all ranks sets the pace of compute, not of collectives or recorded times") {
  CHECK(slowest_of(1) == 0);
  CHECK(slowest_of(8) == Approx(1.424));
  CHECK(slowest_of(12) == Approx((1.424 + 1.766) / 2));
  CHECK(slowest_of(4'000'000'000) == Approx(4.291));
  Hardware hw = load_hardware("h100_sxm").value();
  hw.compute.rank_spread = 0.1;
  Graph graph = sample();
  const CostTable one = price(graph, hw, {});
  PriceOptions options;
  options.ranks = 8;
  const CostTable eight = price(graph, hw, options);
  for (std::size_t i = 0; i < graph.costs.size(); ++i) {
    const Cost& cost = graph.costs[i];
    const double slower = is_collective(cost.kind) || cost.is_fixed ? 1 : 1.1424;
    CAPTURE(i);
    CHECK(static_cast<double>(eight.prices[i].duration) ==
          Approx(slower * static_cast<double>(one.prices[i].duration)).epsilon(1e-5));
  }
}

TEST_CASE("float8 products have an efficiency of their own") {
  Hardware hw = load_hardware("h100_sxm").value();
  GraphBuilder builder;
  Cost gemm = row(OpKind::gemm, DType::f8e4m3, 0, 0);
  gemm.flops = 1'000'000'000'000;
  builder.cost(gemm);
  gemm.dtype = DType::bf16;
  builder.cost(gemm);
  const Graph graph = builder.finish();
  const auto times = [&] {
    const auto prices = price(graph, hw, {}).prices;
    return std::pair(static_cast<double>(prices[0].duration),
                     static_cast<double>(prices[1].duration));
  };
  const auto before = times();
  const double gemm_f8 = hw.efficiency.gemm_f8;
  hw.efficiency.gemm_f8 = gemm_f8 / 2;
  const auto half = times();
  CHECK(half.first > before.first * 1.9);
  CHECK(half.second == before.second);
  hw.efficiency.gemm_f8 = 0;
  CHECK(times().first == Approx(before.first * gemm_f8 / hw.efficiency.gemm).epsilon(0.01));
}
