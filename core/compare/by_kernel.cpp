#include "core/compare/by_kernel.h"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace foregather::compare {
namespace {

struct Use {
  std::int64_t ops = 0;
  Ns time = 0;
};

std::map<std::string_view, Use> uses(run::RunView run, run::StepRow step) {
  std::map<std::string_view, Use> uses;
  const run::OpSpan ops = run::ops_of(run, step);
  for (std::size_t row = ops.first; row < ops.last; ++row) {
    Use& use = uses[run.text_of(run.ops.source[row])];
    ++use.ops;
    use.time += run.ops.end[row] - run.ops.transfer[row];
  }
  return uses;
}

}  // namespace

std::vector<KernelChange> by_kernel(run::RunView first, run::StepRow first_step,
                                    run::RunView second, run::StepRow second_step) {
  std::map<std::string_view, KernelChange> changes;
  for (const auto& [name, use] : uses(first, first_step)) {
    changes[name].first_ops = use.ops;
    changes[name].first_time = use.time;
  }
  for (const auto& [name, use] : uses(second, second_step)) {
    changes[name].second_ops = use.ops;
    changes[name].second_time = use.time;
  }
  std::vector<KernelChange> list;
  for (auto& [name, change] : changes) {
    change.name = name;
    list.push_back(std::move(change));
  }
  std::stable_sort(list.begin(), list.end(), [](const KernelChange& a, const KernelChange& b) {
    return std::abs(a.first_time - a.second_time) > std::abs(b.first_time - b.second_time);
  });
  return list;
}

}  // namespace foregather::compare
