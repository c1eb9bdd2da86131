// Random schedules that cannot deadlock: for comparing engines.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/builder.h"
#include "sim/cost/cost_table.h"

namespace foregather::sim {

struct RandomJob {
  Graph graph;
  std::vector<CostTable> prices;
};

/// A deterministic function of `seed`. Up to three classes, four streams, two host threads and two
/// communicators; `ops` compute ops a program; deps, events across streams, host waits, launch
/// queues of a few places, storages that live within one section. Then each thread does `blocks`
/// times what is like each other.
RandomJob random_job(std::uint64_t seed, std::uint32_t ops, std::uint32_t blocks = 0);

}  // namespace foregather::sim
