#include "core/compare/matching.h"

#include <fmt/format.h>

#include <map>
#include <unordered_map>

namespace foregather::compare {
namespace {

struct Side {
  run::RunView run;
  std::vector<std::size_t> left;  // rows that no level has matched yet
};

std::string scope_of(run::RunView run, std::size_t row) {
  const std::string_view scope = run.text_of(run.ops.scope[row]);
  return scope.empty() ? "-" : std::string(scope);
}

// Ordinals of names, so that two runs of one program meet kernel by kernel.
class KernelOrdinals {
 public:
  std::uint32_t next(std::string_view scope, Phase phase, std::string_view kernel) {
    return counts_[fmt::format("{}/{}/{}", scope, foregather::name(phase), kernel)]++;
  }

 private:
  std::unordered_map<std::string, std::uint32_t> counts_;
};

class Joining {
 public:
  Joining(run::RunView first, run::StepRow first_step, run::RunView second,
          run::StepRow second_step)
      : by_kernel_(first.about.kind == run::RunKind::measured &&
                   second.about.kind == run::RunKind::measured),
        sides_{Side{first, {}}, Side{second, {}}} {
    collect(sides_[0], first_step);
    collect(sides_[1], second_step);
  }

  Matching run() {
    for (const std::size_t row : sides_[1].left) matching_.second_time += time(sides_[1].run, row);
    for (std::size_t level = 0; level < kMatchLevels; ++level) join(static_cast<MatchLevel>(level));
    for (const std::size_t row : sides_[0].left) leave(sides_[0], row, matching_.only_first);
    for (const std::size_t row : sides_[1].left) leave(sides_[1], row, matching_.only_second);
    return std::move(matching_);
  }

 private:
  static void collect(Side& side, run::StepRow step) {
    const run::OpSpan ops = run::ops_of(side.run, step);
    for (std::size_t row = ops.first; row < ops.last; ++row) side.left.push_back(row);
  }

  static Ns time(run::RunView run, std::size_t row) {
    return run.ops.end[row] - run.ops.transfer[row];
  }

  std::string key(run::RunView run, std::size_t row, MatchLevel level, KernelOrdinals& kernels) {
    const std::string scope = scope_of(run, row);
    const Phase phase = run.ops.phase[row];
    const std::string_view kind = foregather::name(run.ops.kind[row]);
    switch (level) {
      case MatchLevel::op:
        if (by_kernel_) {
          const std::string_view kernel = run.text_of(run.ops.source[row]);
          return fmt::format("{}/{}/{}/{}", scope, foregather::name(phase), kernel,
                             kernels.next(scope, phase, kernel));
        }
        return fmt::format("m{}/{}/{}/{}/{}", run.ops.micro_batch[row], scope,
                           foregather::name(phase), kind, run.ops.ordinal[row]);
      case MatchLevel::scope_kind:
        return fmt::format("{}/{}/{}", scope, foregather::name(phase), kind);
      case MatchLevel::scope_phase: return fmt::format("{}/{}", scope, foregather::name(phase));
      case MatchLevel::phase: break;
    }
    return std::string(foregather::name(phase));
  }

  void join(MatchLevel level) {
    std::unordered_map<std::string, std::size_t> rows;  // of groups
    std::vector<MatchedGroup> groups;
    std::array<std::vector<std::size_t>, 2> group_of;  // by position in left
    for (std::size_t s = 0; s < 2; ++s) {
      KernelOrdinals kernels;
      const Side& side = sides_[s];
      for (const std::size_t row : side.left) {
        std::string text = key(side.run, row, level, kernels);
        const auto [known, is_new] = rows.try_emplace(std::move(text), groups.size());
        if (is_new) {
          groups.push_back({});
          groups.back().level = level;
          groups.back().kind = side.run.ops.kind[row];
          groups.back().key = known->first;
        }
        MatchedGroup& group = groups[known->second];
        ++(s == 0 ? group.first_ops : group.second_ops);
        (s == 0 ? group.first_time : group.second_time) += time(side.run, row);
        group_of[s].push_back(known->second);
      }
    }
    const auto is_matched = [&](std::size_t g) {
      return groups[g].first_ops > 0 && groups[g].second_ops > 0;
    };
    for (std::size_t s = 0; s < 2; ++s) {
      std::vector<std::size_t> left;
      for (std::size_t i = 0; i < sides_[s].left.size(); ++i)
        if (!is_matched(group_of[s][i])) left.push_back(sides_[s].left[i]);
      sides_[s].left = std::move(left);
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (!is_matched(g)) continue;
      matching_.second_matched[static_cast<std::size_t>(level)] += groups[g].second_time;
      matching_.groups.push_back(std::move(groups[g]));
    }
  }

  // Under its own key, with the others of it.
  void leave(const Side& side, std::size_t row, std::vector<MatchedGroup>& list) {
    KernelOrdinals ignored;
    std::string text = key(side.run, row, MatchLevel::scope_kind, ignored);
    if (list.empty() || list.back().key != text) {
      list.push_back({});
      list.back().kind = side.run.ops.kind[row];
      list.back().key = std::move(text);
    }
    const bool is_first = &side == &sides_[0];
    ++(is_first ? list.back().first_ops : list.back().second_ops);
    (is_first ? list.back().first_time : list.back().second_time) += time(side.run, row);
  }

  bool by_kernel_;
  std::array<Side, 2> sides_;
  Matching matching_;
};

}  // namespace

std::string_view name(MatchLevel level) {
  switch (level) {
    case MatchLevel::op: return "op";
    case MatchLevel::scope_kind: return "scope_kind";
    case MatchLevel::scope_phase: return "scope_phase";
    case MatchLevel::phase: return "phase";
  }
  return "?";
}

Matching match(run::RunView first, run::StepRow first_step, run::RunView second,
               run::StepRow second_step) {
  return Joining(first, first_step, second, second_step).run();
}

run::StepRow step_to_compare(run::RunView run, run::ClassRow rank_class) {
  run::StepRow last;
  for (std::size_t s = 0; s < run.steps.size(); ++s) {
    if (run.steps[s].rank_class != rank_class) continue;
    last = run::StepRow(s);
    if (run.steps[s].kind == run::StepKind::steady) break;
  }
  return last;
}

}  // namespace foregather::compare
