#include "gui/models/memory.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace foregather::gui {
namespace {

constexpr std::size_t kCheckpoint = 64;
constexpr std::array kColumns{&run::MemoryRecord::requested, &run::MemoryRecord::allocated,
                              &run::MemoryRecord::active, &run::MemoryRecord::reserved};

}  // namespace

RankMemory::RankMemory(const Session& session, std::size_t side, const RankStep& rank)
    : session_(&session), run_(&session.run(side)), side_(side), rank_class_(rank.rank_class) {
  for (const run::FailureRecord& failure : run_->failures)
    if (is_own(failure.step))
      ooms_.push_back({session.on_axis(side, failure.time), failure.bytes,
                       std::string(run_->text_of(failure.name))});
  add_curves();
  add_causes();
  for (const run::StepInfo& step : run_->steps)
    causes_inferred_ = causes_inferred_ || (step.rank_class == rank_class_ && step.causes_inferred);
}

void RankMemory::add_curves() {
  for (std::size_t c = 0; c < kMemoryCurves; ++c) {
    const auto column = kColumns[c];
    if (std::none_of(run_->memory.begin(), run_->memory.end(),
                     [&](const auto& point) { return point.*column != 0 && is_own(point.step); }))
      continue;
    for (const run::MemoryRecord& point : run_->memory)
      if (is_own(point.step)) curves_[c].add(session_->on_axis(side_, point.time), point.*column);
    curves_[c].finish(end_of(curves_[c]));
  }
}

// Where device and host are done with the last step; where what happened last was to run out of
// memory, the rank is gone.
Ns RankMemory::end_of(const StepCurve& curve) const {
  const Ns last = curve.empty() ? 0 : curve.time(curve.size() - 1);
  Ns end = last;
  bool is_cut = false;
  for (const Oom& oom : ooms_) {
    is_cut = is_cut || oom.time >= end;
    end = std::max(end, oom.time);
  }
  if (is_cut) return end;
  end = last + 1;
  for (std::size_t s = 0; s < run_->steps.size(); ++s)
    if (is_own(run::StepRow(s)))
      end = std::max(
          end, session_->on_axis(side_, std::max(run_->steps[s].end, run_->steps[s].host_end)));
  return end;
}

// As compare::memory_at_peak(): frees come before allocations of the same time, and what lives for
// no time holds nothing.
void RankMemory::add_causes() {
  for (const run::BindingRecord& binding : run_->bindings) {
    if (!is_own(binding.step)) continue;
    if (!binding.still_bound && binding.freed <= binding.allocated) continue;
    has_cause_[static_cast<std::size_t>(binding.cause)] = true;
    changes_.push_back({binding.step, binding.allocated, binding.block_bytes, binding.cause});
    if (!binding.still_bound)
      changes_.push_back({binding.step, binding.freed, -binding.block_bytes, binding.cause});
  }
  std::sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) {
    return std::tie(a.step, a.time, a.bytes, a.cause) < std::tie(b.step, b.time, b.bytes, b.cause);
  });
  BytesByCause held{};
  Bytes total = 0;
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    if (i % kCheckpoint == 0) checkpoints_.push_back(held);
    apply(i, held);
    total = (i > 0 && changes_[i - 1].step == changes_[i].step ? total : 0) + changes_[i].bytes;
    total_.add(session_->on_axis(side_, changes_[i].time), total);
  }
  total_.finish(end_of(total_));
}

void RankMemory::apply(std::size_t point, BytesByCause& held) const {
  if (point > 0 && changes_[point - 1].step != changes_[point].step) held.fill(0);
  held[static_cast<std::size_t>(changes_[point].cause)] += changes_[point].bytes;
}

BytesByCause RankMemory::by_cause(std::size_t point) const {
  BytesByCause held = checkpoints_[point / kCheckpoint];
  for (std::size_t i = point / kCheckpoint * kCheckpoint; i <= point; ++i) apply(i, held);
  return held;
}

std::vector<Holder> RankMemory::holders(Ns time) const {
  const std::size_t point = total_.at(time);
  if (point == total_.size() || time > total_.end()) return {};
  const run::StepRow step = changes_[point].step;
  const Ns now = session_->of_run(side_, time);
  std::map<std::tuple<StringId, StringId, Cause>, Holder> found;
  for (const run::BindingRecord& binding : run_->bindings) {
    if (binding.step != step || binding.allocated > now) continue;
    if (!binding.still_bound && binding.freed <= now) continue;
    Holder& holder = found[{binding.scope, binding.name, binding.cause}];
    ++holder.blocks;
    holder.bytes += binding.block_bytes;
  }
  std::vector<Holder> holders;
  for (auto& [key, holder] : found) {
    holder.scope = run_->text_of(std::get<0>(key));
    holder.name = run_->text_of(std::get<1>(key));
    holder.cause = std::get<2>(key);
    holders.push_back(std::move(holder));
  }
  std::sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) {
    return std::tie(b.bytes, a.scope, a.name, a.cause) <
           std::tie(a.bytes, b.scope, b.name, b.cause);
  });
  return holders;
}

std::optional<Bytes> RankMemory::limit() const {
  if (run_->about.capacity <= 0) return std::nullopt;
  return run_->about.capacity - run_->about.outside_allocator;
}

const StepCurve& RankMemory::highest_curve() const {
  for (const MemoryCurve known : {MemoryCurve::reserved, MemoryCurve::allocated})
    if (is_known(known)) return curve(known);
  return total_;
}

std::optional<Bytes> RankMemory::headroom(TimeRange range) const {
  const auto most = limit();
  const std::size_t highest = highest_curve().highest(range);
  if (!most || highest == highest_curve().size()) return std::nullopt;
  return *most - highest_curve().value(highest);
}

std::array<std::optional<RankMemory>, 2> pair_memory(const Session& session, const RankPair& pair) {
  std::array<std::optional<RankMemory>, 2> memory;
  for (std::size_t side = 0; side < 2; ++side)
    if (pair.sides[side]) memory[side].emplace(session, side, *pair.sides[side]);
  return memory;
}

}  // namespace foregather::gui
