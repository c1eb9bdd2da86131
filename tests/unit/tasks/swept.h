// Small sweeps, for tests of what becomes of them.
#pragma once

#include <string>
#include <vector>

#include "tasks/sweep.h"
#include "tests/support/places.h"

namespace foregather::test {

using tasks::Sweep;
using tasks::SweepCounts;
using tasks::SweepProgress;
using tasks::SweepRequest;

inline const std::string kSamples = source_dir() + "/traces/samples/";

class Rows final : public run::SweepSink {
 public:
  Status add(const run::SweepPoint& point) override {
    points.push_back(point);
    return {};
  }
  std::vector<run::SweepPoint> points;
};

struct Swept {
  Result<SweepCounts> counts;
  std::vector<run::SweepPoint> points;
};

inline Swept swept(const SweepRequest& request) {
  const auto sweep = Sweep::open(request);
  if (!sweep) return {tl::unexpected(sweep.error()), {}};
  Rows rows;
  auto counts = sweep->run(rows, [](const SweepProgress&) {});
  return {std::move(counts), std::move(rows.points)};
}

inline SweepRequest tiny(std::vector<std::string> vary) {
  SweepRequest request;
  request.source = kSamples + "tiny_fsdp2.toml";
  request.vary = std::move(vary);
  request.jobs = 2;
  return request;
}

inline std::string refusal(const SweepRequest& request) {
  const Swept outcome = swept(request);
  return outcome.counts ? "" : outcome.counts.error().text();
}

inline std::vector<std::int64_t> indices(const std::vector<run::SweepPoint>& points) {
  std::vector<std::int64_t> all;
  for (const run::SweepPoint& point : points) all.push_back(point.index);
  return all;
}

}  // namespace foregather::test
