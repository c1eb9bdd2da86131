#include "sim/engine/device_state.h"

#include <algorithm>

namespace foregather::sim {
namespace {

constexpr Ns kMillion = 1'000'000;

// time × ppm / 10^6 without overflow, rounded down.
Ns scaled(Ns time, std::int32_t ppm) {
  return time / kMillion * ppm + time % kMillion * ppm / kMillion;
}

}  // namespace

// A step gets its memory when it is asked for the first time: often the first one never is.
StepTimes& Timeline::look_up(std::uint32_t number) {
  while (oldest_ + steps_.size() <= number) steps_.emplace_back();
  latest_ = number;
  latest_times_ = &steps_[number - oldest_];
  StepTimes& times = *latest_times_;
  if (times.states.size() != ops_.count) {
    if (!spare_.empty()) {
      times = std::move(spare_.back());
      spare_.pop_back();
    }
    times.ops.resize(ops_.count, OpTime{});
    times.states.assign(ops_.count, OpState::absent);
    times.end = 0;
    times.unfinished = 0;
  }
  return times;
}

void Timeline::forget_before(std::uint32_t number) {
  latest_ = kNone;
  while (oldest_ < number && !steps_.empty()) {
    if (!steps_.front().states.empty()) spare_.push_back(std::move(steps_.front()));
    steps_.pop_front();
    ++oldest_;
  }
}

std::vector<StepTimes> Timeline::take_buffers() {
  forget_before(oldest_ + static_cast<std::uint32_t>(steps_.size()));
  return std::move(spare_);
}

Meetings::Meetings(const Graph& graph) : communicators_(graph.communicators.size()) {
  const std::size_t classes = graph.classes.size();
  std::vector<bool> uses(classes * communicators_);
  for (std::size_t c = 0; c < classes; ++c) {
    const Range ops = graph.at(graph.classes[c].program).ops;
    for (std::uint32_t row = ops.first; row < ops.end(); ++row)
      if (graph.ops[row].communicator)
        uses[c * communicators_ + graph.ops[row].communicator.row()] = true;
  }
  const auto is_member = [&](std::size_t c, const Group& group) {
    if (group.instances > 1) return true;
    const auto ranks = graph.ranks_of(group.ranks);
    return std::ranges::any_of(graph.ranks_of(graph.classes[c].ranks), [&](std::uint32_t rank) {
      return std::ranges::find(ranks, rank) != ranks.end();
    });
  };
  members_.resize(classes * communicators_);
  for (std::size_t k = 0; k < communicators_; ++k) {
    const Group& group = graph.at(graph.communicators[k].group);
    std::vector<std::uint16_t> together;
    for (std::size_t c = 0; c < classes; ++c)
      if (uses[c * communicators_ + k] && is_member(c, group))
        together.push_back(static_cast<std::uint16_t>(c));
    for (std::size_t c = 0; c < classes; ++c) {
      auto& mine = members_[c * communicators_ + k];
      const bool alone = group.ranks.count <= 1 || !is_member(c, group);
      mine = alone ? std::vector<std::uint16_t>{static_cast<std::uint16_t>(c)} : together;
    }
  }
}

std::span<const std::uint16_t> Meetings::classes(std::uint16_t rank_class,
                                                 std::uint32_t communicator) const {
  return members_[rank_class * communicators_ + communicator];
}

namespace {

void fill_rows(const Graph& graph, const Program& program, std::vector<LaunchRow>& rows) {
  rows.resize(program.ops.count);
  for (std::uint32_t i = 0; i < program.ops.count; ++i) {
    const Op& op = graph.ops[program.ops.first + i];
    LaunchRow& row = rows[i];
    row.collective = static_cast<bool>(op.communicator);
    row.stream = op.stream.row();
    row.communicator = row.collective ? op.communicator.row() : 0;
    row.cost = op.cost.row();
    row.has_deps = op.deps.count != 0;
  }
}

}  // namespace

void LaunchTable::fill(const Graph& graph, std::span<const CostTable> prices) {
  by_class_.clear();
  scaled_.clear();
  for (const RankClass& each : graph.classes) {
    const auto [rows, is_new] = by_program_.try_emplace(each.program.row());
    if (is_new) fill_rows(graph, graph.at(each.program), rows->second);
    const std::span<const Price> own = prices[each.hardware].prices;
    std::span<const Price> computes = own;
    if (each.compute_scale_ppm != kMillion) {
      const auto [scaled_prices, is_first] =
          scaled_.try_emplace({each.hardware, each.compute_scale_ppm}, own.begin(), own.end());
      if (is_first)
        for (Price& price : scaled_prices->second)
          price.duration = scaled(price.duration, each.compute_scale_ppm);
      computes = scaled_prices->second;
    }
    by_class_.emplace_back(rows->second, computes, own);
  }
}

}  // namespace foregather::sim
