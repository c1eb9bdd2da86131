#include <catch2/catch.hpp>

#include "tasks/rates.h"

using namespace foregather;

TEST_CASE("MFU is of the device as the what-if makes it, and never above all of it") {
  Graph graph;
  graph.model_flops_per_rank_step = 400'000'000;
  sim::Hardware hardware;
  hardware.compute.matmul_bf16 = 1e12;
  CHECK(tasks::mfu(graph, hardware, kMillisecond) == 0.4);
  CHECK(tasks::mfu(graph, hardware, kMillisecond / 2, 2) == 0.4);
  CHECK(tasks::mfu(graph, hardware, kMillisecond / 2) == 0.8);
  CHECK_FALSE(tasks::mfu(graph, hardware, kMillisecond / 4));
}
