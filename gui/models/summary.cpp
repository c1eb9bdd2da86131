#include "gui/models/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/text.h"
#include "core/compare/caveats.h"

namespace foregather::gui {
namespace {

using Value = std::optional<std::int64_t>;

/// The rank whose times and the rank whose memory are the side's.
struct Sides {
  const RankStep* time = nullptr;
  const RankStep* memory = nullptr;
};

const run::StepInfo& step_of(run::RunView run, const RankStep& rank) {
  return run.steps[rank.step.row()];
}

Sides representative(const Session& session, std::size_t side) {
  Sides found;
  for (const RankPair& pair : session.pairs()) {
    if (!pair.sides[side] || !pair.sides[side]->step) continue;
    const RankStep& rank = *pair.sides[side];
    if (found.time == nullptr) found = {&rank, &rank};
    if (session.sides() > 1) break;
    const run::StepInfo& step = step_of(session.run(side), rank);
    const run::StepInfo& slowest = step_of(session.run(side), *found.time);
    const run::StepInfo& largest = step_of(session.run(side), *found.memory);
    if (step.end - rank.begin > slowest.end - found.time->begin) found.time = &rank;
    if (step.peak_reserved > largest.peak_reserved) found.memory = &rank;
  }
  return found;
}

// Timelines of pipelines say of each op which part of the step it is, and not what it does.
bool knows_collectives(const Session& session, std::size_t side) {
  run::RunView run = session.run(side);
  return session.knows_launches(side) || run.about.world_size < 2 ||
         std::ranges::any_of(run.ops.kind, [](OpKind kind) { return is_collective(kind); });
}

std::string hidden_step(const OpenRun& open, const run::StepInfo& step) {
  const std::string number = step.kind == run::StepKind::other
                                 ? fmt::format("step {}", step.number)
                                 : fmt::format("the {} step", name(step.kind));
  return fmt::format("{}: {} of {}, {}, lies over the one that is shown", open.location, number,
                     open.run->text_of(open.run->classes[step.rank_class.row()].name),
                     format_time(step.end - step.begin));
}

void add_unmatched(const Session& session, std::size_t side, std::vector<Badge>& badges) {
  Badge badge;
  std::int64_t ops = 0, ranks = 0;
  for (const RankPair& pair : session.pairs()) {
    if (!pair.matching) continue;
    ++ranks;
    const auto alone =
        side == 0 ? pair.matching->of_first_alone() : pair.matching->of_second_alone();
    for (const compare::MatchedGroup& group : alone) {
      ops += group.first_ops + group.second_ops;
      badge.lines.push_back(fmt::format("{}: {} ops, {}", pair.matching->key(group),
                                        group.first_ops + group.second_ops,
                                        format_time(group.first_time + group.second_time)));
    }
  }
  if (ops == 0) return;
  badge.text = fmt::format("{}: {} {} ops{} met nothing", session.letter(side), format_count(ops),
                           name(session.run(side).about.kind),
                           ranks > 1 ? fmt::format(" of {} ranks", ranks) : "");
  badges.push_back(std::move(badge));
}

void add_dropped(const Session& session, std::vector<Badge>& badges) {
  std::int64_t events = 0;
  Badge badge;
  for (std::size_t side = 0; side < session.sides(); ++side)
    for (const auto& [reason, count] : session.run(side).about.dropped) {
      events += count;
      badge.lines.push_back(fmt::format("{}: {}: {} damaged events were left out",
                                        session.open_run(side).location, reason,
                                        format_count(count)));
    }
  if (badge.lines.empty()) return;
  badge.text = fmt::format("{} dropped event{}", format_count(events), events == 1 ? "" : "s");
  badges.push_back(std::move(badge));
}

// Of two runs it says which.
std::string out_of_memory(const Session& session) {
  std::string sides;
  for (std::size_t side = 0; session.sides() > 1 && side < session.sides(); ++side)
    if (!session.run(side).failures.empty())
      sides += fmt::format("{}{}", sides.empty() ? "" : ", ", session.letter(side));
  return sides.empty() ? "out of memory" : sides + ": out of memory";
}

compare::Side side_of(const Session& session, std::size_t side, const RankPair& pair) {
  const OpenRun& open = session.open_run(side);
  const RankStep& rank = *pair.sides[side];
  return {*open.run, rank.step, rank.begin, rank.busy, open.location, open.machine};
}

}  // namespace

std::optional<double> Figure::error() const {
  return value[0] && value[1] ? relative_error(*value[0], *value[1]) : std::nullopt;
}

std::string Figure::text(std::size_t side) const {
  if (!value[side]) return "not known";
  return unit == Unit::ns ? format_time(*value[side]) : format_bytes(*value[side]);
}

std::array<Figure, 5> five_figures(const Session& session) {
  using Unit = Figure::Unit;
  std::array<Figure, 5> figures{Figure{"step time", Unit::ns, {}}, Figure{"compute", Unit::ns, {}},
                                Figure{"communication", Unit::ns, {}},
                                Figure{"exposed communication", Unit::ns, {}},
                                Figure{"reserved memory", Unit::bytes, {}}};
  std::array<const run::StepInfo*, 2> memory{};
  for (std::size_t side = 0; side < session.sides(); ++side) {
    const Sides ranks = representative(session, side);
    if (ranks.time == nullptr) continue;
    const run::StepInfo& step = step_of(session.run(side), *ranks.time);
    const bool is_cut = compare::is_cut_short(session.run(side), ranks.time->step);
    if (ranks.time->busy.ops > 0 && !is_cut) {
      figures[0].value[side] = step.end - ranks.time->begin;
      figures[1].value[side] = ranks.time->busy.compute;
      if (knows_collectives(session, side)) {
        figures[2].value[side] = ranks.time->busy.comm;
        figures[3].value[side] = ranks.time->busy.exposed;
      }
    }
    memory[side] = &step_of(session.run(side), *ranks.memory);
  }
  const bool knows_reserved = std::all_of(memory.begin(), memory.end(), [](const auto* step) {
    return step == nullptr || step->peak_reserved > 0;
  });
  if (!knows_reserved) figures[4].name = "allocated memory";
  for (std::size_t side = 0; side < session.sides(); ++side) {
    if (memory[side] == nullptr) continue;
    const Bytes peak = knows_reserved ? memory[side]->peak_reserved : memory[side]->peak_allocated;
    if (peak > 0) figures[4].value[side] = peak;
  }
  return figures;
}

std::string figures_csv(const Session& session) {
  std::string out = "figure";
  for (std::size_t side = 0; side < session.sides(); ++side) out += "," + session.word(side);
  out += '\n';
  for (const Figure& figure : five_figures(session)) {
    std::string name = figure.name;
    std::ranges::replace(name, ' ', '_');
    out += name + (figure.unit == Figure::Unit::ns ? "_ns" : "_bytes");
    for (std::size_t side = 0; side < session.sides(); ++side)
      out += figure.value[side] ? fmt::format(",{}", *figure.value[side]) : ",";
    out += '\n';
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> about(const Session& session, std::size_t side) {
  const run::RunInfo& about = session.run(side).about;
  std::vector<std::pair<std::string, std::string>> rows{{"run", about.name},
                                                        {"kind", std::string(name(about.kind))}};
  const auto add = [&](const char* what, const std::string& value) {
    if (!value.empty()) rows.emplace_back(what, value);
  };
  add("made by", about.tool);
  add("from", about.source);
  add("strategy", about.strategy);
  add("hardware", about.hardware);
  std::set<run::ClassRow> shown;
  for (const RankPair& pair : session.pairs())
    if (pair.sides[side]) shown.insert(pair.sides[side]->rank_class);
  add("ranks", fmt::format("{} of {} shown", shown.size(), about.world_size));
  if (about.parameters > 0) add("parameters", format_count(about.parameters));
  add("ops", format_count(static_cast<std::int64_t>(session.run(side).ops.size())));
  return rows;
}

std::vector<Badge> badges(const Session& session) {
  std::vector<Badge> found;
  const auto add = [&](const char* what, std::vector<std::string> lines) {
    if (lines.empty()) return;
    found.push_back({fmt::format("{} {}{}", lines.size(), what, lines.size() == 1 ? "" : "s"),
                     std::move(lines)});
  };
  std::vector<std::string> warnings, ooms, proxies, hidden;
  for (std::size_t side = 0; side < session.sides(); ++side) {
    const OpenRun& open = session.open_run(side);
    for (const std::string& warning : open.warnings) warnings.push_back(warning);
    for (std::size_t s = 0; s < open.run->steps.size(); ++s)
      if (!session.is_shown(side, run::StepRow(s)))
        hidden.push_back(hidden_step(open, open.run->steps[s]));
    for (const run::FailureRecord& failure : open.run->failures)
      ooms.push_back(fmt::format("{}: no memory for {} of {}", open.location,
                                 format_bytes(failure.bytes), open.run->text_of(failure.name)));
  }
  for (const RankPair& pair : session.pairs())
    if (pair.sides[0] && pair.sides[1] && pair.sides[0]->rank != pair.sides[1]->rank)
      proxies.push_back(fmt::format("{}: has no rank {}: rank {} stands for it",
                                    session.open_run(0).location, pair.sides[1]->rank,
                                    pair.sides[0]->rank));
  for (const RankPair& pair : session.pairs())
    if (pair.sides[0] && pair.sides[1] && pair.matching)
      for (std::string& caveat :
           compare::caveats(side_of(session, 0, pair), side_of(session, 1, pair)))
        if (std::ranges::find(warnings, caveat) == warnings.end())
          warnings.push_back(std::move(caveat));
  add("out of memory", std::move(ooms));
  if (!found.empty()) found.front().text = out_of_memory(session);
  add("warning", std::move(warnings));
  add_dropped(session, found);
  add("proxy rank", std::move(proxies));
  add("hidden step", std::move(hidden));
  for (std::size_t side = 0; side < session.sides(); ++side) add_unmatched(session, side, found);
  return found;
}

}  // namespace foregather::gui
