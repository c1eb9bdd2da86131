#include "sim/sweep/choice_search.h"

#include <algorithm>
#include <map>

#include "sim/sweep/choice_program.h"

namespace foregather::sim {
namespace {

class ChoiceSearch {
 public:
  ChoiceSearch(const ChoiceRows& rows, const JudgeChoice& judge,
               const std::optional<Judgement>& to_beat, const ChoiceLimits& limits)
      : rows_(rows), judge_(judge), least_(to_beat), limits_(limits) {}

  Result<ChoiceOutcome> run(const std::optional<Choice>& start) {
    std::vector<Choice> starts = firsts();
    if (start) starts.push_back(*start);
    if (const Status done = judge_each(std::move(starts), limits_.judged); !done)
      return tl::unexpected(done.error());
    if (!least_here_ && start) least_here_ = JudgedChoice{*start, {}};
    for (std::optional<Choice> from; least_here_ && from != least_here_->choice;) {
      from = least_here_->choice;
      for (const bool pairs : {false, true}) {
        if (least_here_->choice != *from) break;
        if (const Status done = judge_each(around(*from, pairs), limits_.judged); !done)
          return tl::unexpected(done.error());
      }
    }
    if (const Status done = prove(); !done) return tl::unexpected(done.error());
    outcome_.judged =
        std::ranges::count_if(known_, [](const auto& known) { return known.second.has_value(); });
    return std::move(outcome_);
  }

 private:
  bool is_over(std::int64_t most) const {
    return std::ssize(known_) >= most || (limits_.is_over && limits_.is_over());
  }

  bool is_promising(const Choice& choice, const Judgement& floor) const {
    return floor.fits() && (!least_ || floor < *least_) && !known_.contains(choice);
  }

  std::vector<Choice> firsts() const {
    std::vector<Choice> sets;
    for (std::size_t chosen = 0; chosen <= rows_.choices; ++chosen) {
      sets.emplace_back(rows_.choices);
      std::fill_n(sets.back().begin(), chosen, true);
    }
    return sets;
  }

  // One choice is another, or one takes the place of another.
  std::vector<Choice> around(const Choice& from, bool pairs) const {
    std::vector<Choice> sets;
    for (std::size_t i = 0; i < from.size(); ++i) {
      Choice other = from;
      other[i] = !other[i];
      if (!pairs) {
        sets.push_back(std::move(other));
        continue;
      }
      for (std::size_t j = i + 1; j < from.size(); ++j) {
        if (from[i] == from[j]) continue;
        Choice swapped = other;
        swapped[j] = !swapped[j];
        sets.push_back(std::move(swapped));
      }
    }
    return sets;
  }

  // The least floor first.
  Status judge_each(std::vector<Choice> sets, std::int64_t most) {
    std::vector<std::pair<Judgement, std::size_t>> order;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const Judgement floor = floor_of(rows_, sets[i]);
      if (is_promising(sets[i], floor)) order.emplace_back(floor, i);
    }
    std::ranges::sort(order);
    for (const auto& [floor, i] : order) {
      if (!is_promising(sets[i], floor)) continue;
      if (is_over(most)) break;
      if (const Status done = judge(sets[i]); !done) return done;
    }
    return {};
  }

  Status judge(const Choice& choice) {
    const auto judged = judge_(choice);
    if (!judged) return tl::unexpected(judged.error());
    known_.emplace(choice, *judged);
    if (!*judged || !(*judged)->fits()) return {};
    if (!least_here_ || **judged < least_here_->judgement)
      least_here_ = JudgedChoice{choice, **judged};
    if (least_ && **judged >= *least_) return {};
    least_ = **judged;
    outcome_.best = JudgedChoice{choice, **judged};
    return {};
  }

  Status prove() {
    if (rows_.cost.empty()) return {};
    return rows_.choices <= limits_.enumerated ? exhaust() : ask_solver();
  }

  Status exhaust() {
    std::vector<std::pair<Judgement, Choice>> left;
    for (std::uint32_t set = 0; set < 1U << rows_.choices; ++set) {
      Choice choice(rows_.choices);
      for (std::size_t i = 0; i < choice.size(); ++i) choice[i] = (set >> i & 1) != 0;
      const Judgement floor = floor_of(rows_, choice);
      if (is_promising(choice, floor)) left.emplace_back(floor, std::move(choice));
    }
    std::ranges::sort(left);
    auto next = left.begin();
    for (; next != left.end() && is_promising(next->second, next->first); ++next) {
      if (limits_.is_over && limits_.is_over()) {
        outcome_.cost_floor = next->first.cost;
        return {};
      }
      if (const Status done = judge(next->second); !done) return done;
    }
    outcome_.is_proved = true;
    if (least_) outcome_.cost_floor = least_->cost;
    return {};
  }

  Status ask_solver() {
    std::vector<Choice> without;
    for (const auto& [choice, judgement] : known_) without.push_back(choice);
    for (const std::int64_t most = std::ssize(known_) + limits_.proof;;) {
      const auto next = least_choice(rows_, without);
      if (!next) {
        outcome_.no_floor = next.error().message;
        return {};
      }
      outcome_.is_proved = !*next || (least_ && (*next)->floor >= least_->cost);
      if (outcome_.is_proved) {
        if (least_) outcome_.cost_floor = least_->cost;
        return {};
      }
      outcome_.cost_floor = (*next)->floor;
      if (!(*next)->choice || is_over(most)) return {};
      if (const Status done = judge(*(*next)->choice); !done) return done;
      without.push_back(*(*next)->choice);
    }
  }

  const ChoiceRows& rows_;
  const JudgeChoice& judge_;
  std::optional<Judgement> least_;          // of what fits
  std::optional<JudgedChoice> least_here_;  // of the sets judged here
  const ChoiceLimits& limits_;
  std::map<Choice, std::optional<Judgement>> known_;
  ChoiceOutcome outcome_;
};

}  // namespace

Result<ChoiceOutcome> search_choices(const ChoiceRows& rows, const JudgeChoice& judge,
                                     const std::optional<Choice>& start,
                                     const std::optional<Judgement>& to_beat,
                                     const ChoiceLimits& limits) {
  return ChoiceSearch(rows, judge, to_beat, limits).run(start);
}

}  // namespace foregather::sim
