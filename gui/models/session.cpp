#include "gui/models/session.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "core/compare/replayed.h"
#include "core/compare/step_begins.h"

namespace foregather::gui {
namespace {

constexpr Ns kMostTime = Ns{1} << 61U;

Status check(const OpenRun& open) {
  run::RunView run = *open.run;
  if (run.classes.empty()) return fail_at(open.location, "has no ranks to show");
  const auto is_sane = [](Ns time) { return time > -kMostTime && time < kMostTime; };
  const auto bad = [&](const char* what, std::size_t row) {
    return fail_at(open.location, "is damaged: {} {} ends before it begins, or lies centuries away",
                   what, row);
  };
  for (std::size_t i = 0; i < run.ops.size(); ++i)
    if (run.ops.start[i] > run.ops.transfer[i] || run.ops.transfer[i] > run.ops.end[i] ||
        !is_sane(run.ops.start[i]) || !is_sane(run.ops.end[i]) || !is_sane(run.ops.issued[i]))
      return bad("op", i);
  for (std::size_t i = 0; i < run.calls.size(); ++i)
    if (run.calls[i].start > run.calls[i].end || !is_sane(run.calls[i].start) ||
        !is_sane(run.calls[i].end))
      return bad("call", i);
  for (std::size_t i = 0; i < run.steps.size(); ++i)
    if (run.steps[i].begin > run.steps[i].end || !is_sane(run.steps[i].begin) ||
        !is_sane(run.steps[i].end))
      return bad("step", i);
  for (std::size_t i = 0; i < run.memory.size(); ++i)
    if (!is_sane(run.memory[i].time)) return bad("memory", i);
  for (std::size_t i = 0; i < run.bindings.size(); ++i)
    if (!is_sane(run.bindings[i].allocated) || !is_sane(run.bindings[i].freed))
      return bad("allocation", i);
  return {};
}

// What one side replays all steps of a recording as one meets them as one.
void join_replayed(std::vector<OpenRun>& runs) {
  for (std::size_t side = 0; side < 2; ++side) {
    OpenRun& other = runs[1 - side];
    if (!compare::meets_all_steps(*runs[side].run, *other.run)) continue;
    auto joined = std::make_shared<run::Run>(*other.run);
    compare::join_steps(*joined);
    other.run = std::move(joined);
    other.warnings.push_back(fmt::format(
        "{}: all its steps are compared as one, as the other side predicts them", other.location));
  }
}

RankStep rank_step(run::RunView run, run::ClassRow rank_class, std::optional<std::int64_t> step) {
  RankStep side;
  side.rank_class = rank_class;
  side.rank = run.classes[rank_class.row()].ranks.front();
  side.step = compare::step_to_compare(run, rank_class, step);
  std::vector<compare::Interval> computing;
  for (std::size_t s = 0; s < run.steps.size(); ++s) {
    if (run.steps[s].rank_class != rank_class) continue;
    const auto [first, last] = run::ops_of(run, run::StepRow(s));
    for (std::size_t i = first; i < last; ++i) {
      if (!is_collective(run.ops.kind[i]))
        compare::append(computing, {run.ops.start[i], run.ops.end[i]});
    }
  }
  side.computing = compare::united(std::move(computing));
  if (!side.step) return side;
  side.begin = run.steps[side.step.row()].begin;
  side.busy = compare::busy_times(run, side.step);
  side.memory = compare::memory_at_peak(run, side.step);
  return side;
}

void extend(TimeRange& range, Ns begin, Ns end) {
  range.begin = std::min(range.begin, begin);
  range.end = std::max(range.end, end);
}

bool has_launches(run::RunView run) {
  if (run.about.kind != run::RunKind::measured) return true;
  for (std::size_t i = 0; i < run.ops.size(); ++i)
    if (run.ops.issued[i] != 0 || run.ops.launch[i]) return true;
  return false;
}

constexpr TimeRange kNothing{std::numeric_limits<Ns>::max(), std::numeric_limits<Ns>::min()};

}  // namespace

std::string RankPair::title() const {
  const auto rank = [&](std::size_t side) { return fmt::format("rank {}", sides[side]->rank); };
  if (!sides[0] || !sides[1]) return rank(sides[0] ? 0 : 1);
  return sides[0]->rank == sides[1]->rank ? rank(0) : rank(0) + " | " + rank(1);
}

Result<Session> Session::open(std::vector<OpenRun> runs) {
  for (const OpenRun& open : runs)
    if (const Status sane = check(open); !sane) return tl::unexpected(sane.error());
  Session session;
  if (runs.size() == 2) join_replayed(runs);
  session.runs_ = std::move(runs);
  run::RunView first = session.run(0);
  if (session.sides() == 1) {
    for (std::size_t c = 0; c < first.classes.size(); ++c)
      session.add_pair({run::ClassRow(c), std::nullopt});
  } else {
    std::vector<bool> has_met(first.classes.size());
    run::RunView second = session.run(1);
    for (std::size_t c = 0; c < second.classes.size(); ++c) {
      const auto own = compare::class_of_rank(first, second.classes[c].ranks.front());
      const run::ClassRow meets = own.value_or(run::ClassRow(0));
      has_met[meets.row()] = true;
      session.add_pair({meets, run::ClassRow(c)});
    }
    for (std::size_t c = 0; c < first.classes.size(); ++c)
      if (!has_met[c]) session.add_pair({run::ClassRow(c), std::nullopt});
  }
  for (std::size_t side = 0; side < session.sides(); ++side) {
    session.knows_launches_[side] = has_launches(session.run(side));
    session.choose_steps(side);
  }
  session.set_axis();
  return session;
}

void Session::add_pair(std::array<std::optional<run::ClassRow>, 2> classes) {
  RankPair pair;
  for (std::size_t side = 0; side < 2; ++side)
    if (classes[side])
      pair.sides[side] =
          rank_step(run(side), *classes[side],
                    sides() == 2 ? compare::replayed_step(run(1 - side)) : std::nullopt);
  if (pair.sides[1])
    pair.sides[0]->rank = [&] {
      const auto& ranks = run(0).classes[classes[0]->row()].ranks;
      const bool has = std::find(ranks.begin(), ranks.end(), pair.sides[1]->rank) != ranks.end();
      return has ? pair.sides[1]->rank : ranks.front();
    }();
  if (pair.sides[0] && pair.sides[1] && pair.sides[0]->step && pair.sides[1]->step) {
    pair.matching = compare::match(run(0), pair.sides[0]->step, run(1), pair.sides[1]->step);
    std::tie(pair.sides[0]->begin, pair.sides[1]->begin) =
        compare::step_begins(run(0), pair.sides[0]->step, run(1), pair.sides[1]->step);
  }
  for (std::size_t side = 0; side < 2; ++side)
    if (std::optional<RankStep>& rank = pair.sides[side]; rank && rank->step)
      rank->path = compare::critical_path(run(side), rank->step, rank->begin);
  pairs_.push_back(std::move(pair));
}

bool Session::is_of_rank(const RankPair& pair, std::uint32_t rank) const {
  for (std::size_t side = 0; side < sides(); ++side) {
    if (!pair.sides[side]) continue;
    const auto& own = run(side).classes[pair.sides[side]->rank_class.row()].ranks;
    if (std::find(own.begin(), own.end(), rank) != own.end()) return true;
  }
  return false;
}

Status Session::keep_ranks(const std::vector<std::uint32_t>& ranks) {
  if (ranks.empty()) return {};
  for (const std::uint32_t rank : ranks)
    if (std::none_of(pairs_.begin(), pairs_.end(),
                     [&](const RankPair& pair) { return is_of_rank(pair, rank); }))
      return fail_at(runs_[0].location, "has no rank {}, nor has what it is compared with", rank);
  std::erase_if(pairs_, [&](const RankPair& pair) {
    return std::none_of(ranks.begin(), ranks.end(),
                        [&](std::uint32_t rank) { return is_of_rank(pair, rank); });
  });
  return {};
}

void Session::choose_steps(std::size_t side) {
  run::RunView of = run(side);
  is_shown_[side].assign(of.steps.size(), true);
  for (const RankPair& pair : pairs_) {
    if (!pair.sides[side] || !pair.sides[side]->step) continue;
    const run::StepInfo& chosen = of.steps[pair.sides[side]->step.row()];
    for (std::size_t s = 0; s < of.steps.size(); ++s) {
      const run::StepInfo& other = of.steps[s];
      if (run::StepRow(s) == pair.sides[side]->step || other.rank_class != chosen.rank_class)
        continue;
      if (other.begin < chosen.end && chosen.begin < other.end) is_shown_[side][s] = false;
    }
  }
}

// When the hosts of the compared steps began with them.
Ns Session::host_begin(std::size_t side, Ns begin) const {
  run::RunView of = run(side);
  std::vector<bool> is_compared(of.steps.size());
  for (const RankPair& pair : pairs_) {
    if (!pair.sides[side] || !pair.sides[side]->step) continue;
    is_compared[pair.sides[side]->step.row()] = true;
    if (!knows_launches_[side]) continue;
    const auto [first, last] = run::ops_of(of, pair.sides[side]->step);
    for (std::size_t i = first; i < last; ++i) begin = std::min(begin, of.ops.issued[i]);
  }
  for (const run::MemoryRecord& point : of.memory)
    if (is_compared[point.step.row()]) begin = std::min(begin, point.time);
  return begin;
}

char Session::letter(std::size_t side) const {
  const bool are_alike = sides() > 1 && run(0).about.kind == run(1).about.kind;
  if (are_alike) return side == 0 ? 'A' : 'B';
  return run(side).about.kind == run::RunKind::measured ? 'M' : 'P';
}

std::string Session::word(std::size_t side) const {
  const bool are_alike = sides() > 1 && run(0).about.kind == run(1).about.kind;
  return are_alike ? std::string{letter(side)} : std::string(name(run(side).about.kind));
}

void Session::set_axis() {
  extent_ = steps_ = steps_of_hosts_ = kNothing;
  for (std::size_t side = 0; side < sides(); ++side) {
    run::RunView of = run(side);
    TimeRange compared = kNothing, all = kNothing;
    for (const RankPair& pair : pairs_)
      if (pair.sides[side] && pair.sides[side]->step) {
        const RankStep& rank = *pair.sides[side];
        extend(compared, rank.begin, of.steps[rank.step.row()].end);
      }
    for (std::size_t i = 0; i < of.ops.size(); ++i)
      extend(all,
             knows_launches_[side] ? std::min(of.ops.issued[i], of.ops.start[i]) : of.ops.start[i],
             of.ops.end[i]);
    for (const run::StepInfo& step : of.steps) extend(all, step.begin, step.end);
    for (const run::HostCallRecord& call : of.calls) extend(all, call.start, call.end);
    for (const run::MemoryRecord& point : of.memory) extend(all, point.time, point.time);
    if (all == kNothing) continue;
    origin_[side] = compared == kNothing ? all.begin : compared.begin;
    extend(extent_, all.begin - origin_[side], all.end - origin_[side]);
    if (compared == kNothing) continue;
    extend(steps_, 0, compared.end - origin_[side]);
    extend(steps_of_hosts_, host_begin(side, compared.begin) - origin_[side], steps_.end);
  }
  if (extent_ == kNothing) extent_ = {0, 1};
  if (steps_ == kNothing || steps_.length() == 0) steps_ = extent_;
  extent_.end = std::max(extent_.end, extent_.begin + 1);
  steps_.end = std::max(steps_.end, steps_.begin + 1);
  extend(steps_of_hosts_, steps_.begin, steps_.end);
}

std::optional<std::size_t> Session::pair_of(std::size_t side, run::OpRow op,
                                            std::optional<std::size_t> wanted) const {
  const auto has_step = [&](const RankPair& pair) {
    return pair.sides[side] && pair.sides[side]->step == run(side).ops.step[op.row()];
  };
  if (wanted && *wanted < pairs_.size() && has_step(pairs_[*wanted])) return wanted;
  const auto first = std::ranges::find_if(pairs_, has_step);
  if (first == pairs_.end()) return std::nullopt;
  return static_cast<std::size_t>(first - pairs_.begin());
}

const compare::MatchedGroup* Session::group_of(std::size_t side, run::OpRow op,
                                               std::optional<std::size_t> wanted) const {
  const auto pair = pair_of(side, op, wanted);
  if (!pair || !pairs_[*pair].matching) return nullptr;
  const compare::Matching& matching = *pairs_[*pair].matching;
  const std::size_t first = run::ops_of(run(side), run(side).ops.step[op.row()]).first;
  return &matching.groups[matching.group_of[side][op.row() - first]];
}

std::optional<double> relative_error(std::int64_t first, std::int64_t second) {
  if (second == 0) return std::nullopt;
  return static_cast<double>(first - second) / static_cast<double>(second);
}

}  // namespace foregather::gui
