#include "core/compare/matching.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace foregather::compare {
namespace {

/// What ops share at a level; what the level does not know is 0.
struct Key {
  std::uint32_t scope = 0, kernel = 0, ordinal = 0;
  std::uint16_t micro_batch = 0;
  Phase phase = Phase::forward;
  OpKind kind = OpKind::gemm;
  friend bool operator==(const Key&, const Key&) = default;
};

struct Hash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = std::uint64_t{key.scope} << 32U | key.kernel;
    hash = hash * 0x9e3779b97f4a7c15U + (std::uint64_t{key.ordinal} << 32U |
                                         std::uint64_t{key.micro_batch} << 16U |
                                         std::uint64_t{static_cast<std::uint8_t>(key.phase)} << 8U |
                                         static_cast<std::uint8_t>(key.kind));
    hash ^= hash >> 32U;
    return hash * 0xd6e8feb86659fd93U;
  }
};

template <class Value>
using Table = std::unordered_map<Key, Value, Hash>;

constexpr std::uint32_t kNoGroup = 0xffffffffU;

class Side {
 public:
  Side(run::RunView run, run::StepRow step, StringTable& strings)
      : run_(run), span_(run::ops_of(run, step)), strings_(strings), ids_(run.strings.size()) {
    left.reserve(span_.last - span_.first);
    for (std::size_t row = span_.first; row < span_.last; ++row) left.push_back(row);
    group_of.assign(left.size(), kNoGroup);
  }

  Ns time(std::size_t row) const { return run_.ops.end[row] - run_.ops.transfer[row]; }
  std::uint32_t& group(std::size_t row) { return group_of[row - span_.first]; }

  Key key(std::size_t row, MatchLevel level, bool by_kernel, Table<std::uint32_t>& ordinals) {
    const run::OpColumns& ops = run_.ops;
    Key key;
    key.phase = ops.phase[row];
    if (level == MatchLevel::phase) return key;
    key.scope = text(ops.scope[row]).row();
    if (level == MatchLevel::scope_phase) return key;
    if (level == MatchLevel::op && by_kernel) {
      key.kernel = text(ops.source[row]).row();
      key.ordinal = ordinals[key]++;
      return key;
    }
    key.kind = ops.kind[row];
    if (level == MatchLevel::scope_kind) return key;
    key.micro_batch = ops.micro_batch[row];
    key.ordinal = ops.ordinal[row];
    return key;
  }
  OpKind kind(std::size_t row) const { return run_.ops.kind[row]; }

  std::vector<std::size_t> left;  // rows that no level has matched yet
  std::vector<std::uint32_t> group_of;

 private:
  // The id in the strings of both.
  StringId text(StringId own) {
    if (!own) return strings_.intern("");
    StringId& known = ids_[own.row()];
    if (!known) known = strings_.intern(run_.text_of(own));
    return known;
  }

  run::RunView run_;
  run::OpSpan span_;
  StringTable& strings_;
  std::vector<StringId> ids_;  // by string of the run
};

class Joining {
 public:
  Joining(run::RunView first, run::StepRow first_step, run::RunView second,
          run::StepRow second_step)
      : by_kernel_(first.about.kind == run::RunKind::measured &&
                   second.about.kind == run::RunKind::measured),
        sides_{Side(first, first_step, matching_.strings),
               Side(second, second_step, matching_.strings)} {}

  Matching run() {
    for (const std::size_t row : sides_[1].left) matching_.second_time += sides_[1].time(row);
    for (std::size_t level = 0; level < kMatchLevels; ++level) join(static_cast<MatchLevel>(level));
    matching_.matched = matching_.groups.size();
    leave(0);
    matching_.only_first = matching_.groups.size() - matching_.matched;
    leave(1);
    for (std::size_t s = 0; s < 2; ++s) matching_.group_of[s] = std::move(sides_[s].group_of);
    return std::move(matching_);
  }

 private:
  void add(std::vector<MatchedGroup>& groups, std::size_t s, std::size_t row, std::uint32_t g) {
    MatchedGroup& group = groups[g];
    ++(s == 0 ? group.first_ops : group.second_ops);
    (s == 0 ? group.first_time : group.second_time) += sides_[s].time(row);
  }

  // The rows that are left, by key.
  std::vector<std::uint32_t> collect(std::size_t s, MatchLevel level, bool by_kernel,
                                     Table<std::uint32_t>& known,
                                     std::vector<MatchedGroup>& groups) {
    Table<std::uint32_t> ordinals;
    std::vector<std::uint32_t> rows;
    Side& side = sides_[s];
    rows.reserve(side.left.size());
    for (const std::size_t row : side.left) {
      const Key key = side.key(row, level, by_kernel, ordinals);
      const auto [found, is_new] =
          known.try_emplace(key, static_cast<std::uint32_t>(groups.size()));
      if (is_new) {
        MatchedGroup& group = groups.emplace_back();
        group.level = level;
        group.phase = key.phase;
        group.kind = side.kind(row);
        group.micro_batch = key.micro_batch;
        group.ordinal = key.ordinal;
        if (level < MatchLevel::phase) group.scope = StringId(key.scope);
        if (level == MatchLevel::op && by_kernel) group.kernel = StringId(key.kernel);
      }
      add(groups, s, row, found->second);
      rows.push_back(found->second);
    }
    return rows;
  }

  void join(MatchLevel level) {
    Table<std::uint32_t> known;
    known.reserve(sides_[0].left.size());
    std::vector<MatchedGroup> groups;
    std::array<std::vector<std::uint32_t>, 2> rows;
    for (std::size_t s = 0; s < 2; ++s) rows[s] = collect(s, level, by_kernel_, known, groups);
    std::vector<std::uint32_t> place(groups.size(), kNoGroup);  // in the matching
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].first_ops == 0 || groups[g].second_ops == 0) continue;
      place[g] = static_cast<std::uint32_t>(matching_.groups.size());
      matching_.second_matched[static_cast<std::size_t>(level)] += groups[g].second_time;
      matching_.groups.push_back(groups[g]);
    }
    for (std::size_t s = 0; s < 2; ++s) {
      std::size_t kept = 0;
      for (std::size_t i = 0; i < sides_[s].left.size(); ++i) {
        const std::size_t row = sides_[s].left[i];
        if (place[rows[s][i]] == kNoGroup)
          sides_[s].left[kept++] = row;
        else
          sides_[s].group(row) = place[rows[s][i]];
      }
      sides_[s].left.resize(kept);
    }
  }

  void leave(std::size_t s) {
    Table<std::uint32_t> known;
    const std::size_t first = matching_.groups.size();
    const auto rows = collect(s, MatchLevel::scope_kind, false, known, matching_.groups);
    for (std::size_t g = first; g < matching_.groups.size(); ++g) matching_.groups[g].level.reset();
    for (std::size_t i = 0; i < rows.size(); ++i) sides_[s].group(sides_[s].left[i]) = rows[i];
  }

  Matching matching_;
  bool by_kernel_;
  std::array<Side, 2> sides_;
};

bool has_work(run::RunView run, run::StepRow step) {
  const run::OpSpan ops = run::ops_of(run, step);
  return ops.first < ops.last;
}

// Of a run that was cut short the last steps are under way: those after the last one that all ranks
// have left behind. Hosts run ahead, so that there may be steps without work as well.
std::optional<run::StepRow> last_with_work(run::RunView run, run::ClassRow rank_class) {
  std::vector<std::uint32_t> begun(run.classes.size(), 0);  // the last step with work, by class
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
  if (run.about.state != run::RunState::complete) {
    for (std::size_t s = 0; s < run.steps.size(); ++s)
      if (std::uint32_t& number = begun[run.steps[s].rank_class.row()];
          run.steps[s].number > number && has_work(run, run::StepRow(s)))
        number = run.steps[s].number;
    for (const std::uint32_t number : begun) least = std::min(least, number);
  }
  std::optional<run::StepRow> last, under_way;
  for (std::size_t s = 0; s < run.steps.size(); ++s) {
    if (run.steps[s].rank_class != rank_class || !has_work(run, run::StepRow(s))) continue;
    (run.steps[s].number < least ? last : under_way) = run::StepRow(s);
  }
  return last ? last : under_way;
}

}  // namespace

std::string_view Matching::scope(const MatchedGroup& group) const {
  const std::string_view text = group.scope ? strings.text(group.scope) : std::string_view();
  return text.empty() ? "-" : text;
}

std::string Matching::key(const MatchedGroup& group) const {
  const std::string_view phase = name(group.phase);
  const std::string within = fmt::format("{}/{}", scope(group), phase);
  if (!group.level || group.level == MatchLevel::scope_kind)
    return fmt::format("{}/{}", within, name(group.kind));
  switch (*group.level) {
    case MatchLevel::op:
      if (group.kernel)
        return fmt::format("{}/{}/{}", within, strings.text(group.kernel), group.ordinal);
      return fmt::format("m{}/{}/{}/{}", group.micro_batch, within, name(group.kind),
                         group.ordinal);
    case MatchLevel::scope_phase: return within;
    default: return std::string(phase);
  }
}

Matching match(run::RunView first, run::StepRow first_step, run::RunView second,
               run::StepRow second_step) {
  return Joining(first, first_step, second, second_step).run();
}

run::Comparison comparison_rows(const Matching& matching, std::array<std::string, 2> runs,
                                std::array<run::StepRow, 2> steps) {
  run::Comparison rows;
  rows.runs = std::move(runs);
  rows.steps = steps;
  rows.groups.reserve(matching.groups.size());
  for (const MatchedGroup& group : matching.groups)
    rows.groups.push_back({group.level,
                           group.kind,
                           group.phase,
                           matching.key(group),
                           {group.first_ops, group.second_ops},
                           {group.first_time, group.second_time}});
  rows.group_of = matching.group_of;
  return rows;
}

std::optional<run::ClassRow> class_of_rank(run::RunView run, std::uint32_t rank) {
  for (std::size_t c = 0; c < run.classes.size(); ++c) {
    const auto& ranks = run.classes[c].ranks;
    if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) return run::ClassRow(c);
  }
  return std::nullopt;
}

run::StepRow step_to_compare(run::RunView run, run::ClassRow rank_class,
                             std::optional<std::int64_t> number) {
  if (number && run.about.kind == run::RunKind::measured)
    for (std::size_t s = 0; s < run.steps.size(); ++s)
      if (run.steps[s].rank_class == rank_class && run.steps[s].number == *number)
        return run::StepRow(s);
  run::StepRow last;
  for (std::size_t s = 0; s < run.steps.size(); ++s) {
    if (run.steps[s].rank_class != rank_class) continue;
    if (run.steps[s].kind == run::StepKind::steady) return run::StepRow(s);
    last = run::StepRow(s);
  }
  return last_with_work(run, rank_class).value_or(last);
}

bool is_cut_short(run::RunView run, run::StepRow step) {
  return std::any_of(run.failures.begin(), run.failures.end(), [&](const run::FailureRecord& row) {
    return run.steps[row.step.row()].number == run.steps[step.row()].number;
  });
}

}  // namespace foregather::compare
