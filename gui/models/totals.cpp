#include "gui/models/totals.h"

#include <algorithm>

namespace foregather::gui {
namespace {

using compare::Interval;

// What is sent during a part of a transfer, of a length; where that is none, all.
Bytes part_of(Bytes bytes, const Interval& part, Ns length) {
  if (length <= 0 || part.end - part.begin == length) return bytes;
  return static_cast<Bytes>(static_cast<double>(bytes) *
                                static_cast<double>(part.end - part.begin) /
                                static_cast<double>(length) +
                            0.5);
}

RankTotals totals_of(const Session& session, std::size_t side, const RankStep& rank,
                     TimeRange range) {
  run::RunView run = session.run(side);
  const Ns begin = session.of_run(side, range.begin), end = session.of_run(side, range.end);
  RankTotals totals;
  std::vector<Interval> compute, comm;
  const auto clip = [&](Ns from, Ns to) {
    return Interval{std::clamp(from, begin, end), std::clamp(to, begin, end)};
  };
  for (std::size_t s = 0; s < run.steps.size(); ++s) {
    if (run.steps[s].rank_class != rank.rank_class || !session.is_shown(side, run::StepRow(s)))
      continue;
    const auto [first, last] = run::ops_of(run, run::StepRow(s));
    for (std::size_t i = first; i < last; ++i) {
      if (run.ops.end[i] <= begin || run.ops.start[i] >= end) continue;
      ++totals.ops;
      if (!is_collective(run.ops.kind[i])) {
        compute.push_back(clip(run.ops.start[i], run.ops.end[i]));
        continue;
      }
      comm.push_back(clip(run.ops.transfer[i], run.ops.end[i]));
      const Interval wait = clip(run.ops.start[i], run.ops.transfer[i]);
      totals.wait += wait.end - wait.begin;
      totals.wire_bytes +=
          part_of(run.ops.wire_bytes[i], comm.back(), run.ops.end[i] - run.ops.transfer[i]);
    }
  }
  const auto computing = compare::united(std::move(compute));
  const auto communicating = compare::united(std::move(comm));
  totals.compute = compare::length(computing);
  totals.comm = compare::length(communicating);
  totals.exposed = totals.comm - compare::length(compare::intersection(communicating, computing));
  return totals;
}

}  // namespace

RangeTotals range_totals(const Session& session, const std::vector<Lane>& lanes,
                         const std::vector<PairMemory>& memory,
                         const std::vector<std::size_t>& selected, TimeRange range) {
  RangeTotals totals;
  totals.range = range;
  for (const std::size_t l : selected) {
    const Lane& lane = lanes[l];
    LaneTotals& of_lane = totals.lanes.emplace_back();
    of_lane.lane = l;
    for (std::size_t side = 0; side < 2; ++side)
      for (const Track& track : lane.sides[side].tracks) {
        const std::size_t first = track.first_after(range.begin);
        of_lane.spans[side] +=
            static_cast<std::int64_t>(track.first_from(first, range.end) - first);
        of_lane.busy[side] += track.busy(range);
      }
    const bool is_new = std::none_of(totals.pairs.begin(), totals.pairs.end(),
                                     [&](const auto& pair) { return pair.pair == lane.pair; });
    if (!is_new) continue;
    auto& of_pair = totals.pairs.emplace_back();
    of_pair.pair = lane.pair;
    for (std::size_t side = 0; side < 2; ++side) {
      const auto& rank = session.pairs()[lane.pair].sides[side];
      if (!rank) continue;
      of_pair.sides[side] = totals_of(session, side, *rank, range);
      if (lane.pair >= memory.size() || !memory[lane.pair][side]) continue;
      const StepCurve& curve = memory[lane.pair][side]->curve(MemoryCurve::allocated);
      if (const std::size_t peak = curve.highest(range); peak < curve.size())
        of_pair.sides[side]->peak = {std::max(curve.time(peak), range.begin), curve.value(peak)};
    }
  }
  return totals;
}

}  // namespace foregather::gui
