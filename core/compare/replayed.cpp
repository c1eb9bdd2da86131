#include "core/compare/replayed.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

namespace foregather::compare {
namespace {

bool is_replay(run::RunView run) {
  return run.about.kind == run::RunKind::predicted && run.about.strategy == run::kReplay;
}

// The joined step of each step, and of each joined one the step that it has the peak of.
struct Joined {
  std::vector<run::StepRow> of;
  std::vector<run::StepInfo> steps;
  std::vector<run::StepRow> peak;
};

Joined joined(const std::vector<run::StepInfo>& steps) {
  Joined joined;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const run::StepInfo& step = steps[s];
    if (joined.steps.empty() || joined.steps.back().rank_class != step.rank_class) {
      joined.steps.push_back(step);
      joined.peak.emplace_back(s);
    }
    run::StepInfo& whole = joined.steps.back();
    joined.of.emplace_back(joined.steps.size() - 1);
    whole.begin = std::min(whole.begin, step.begin);
    whole.end = std::max(whole.end, step.end);
    whole.host_end = std::max(whole.host_end, step.host_end);
    whole.peak_requested = std::max(whole.peak_requested, step.peak_requested);
    whole.peak_active = std::max(whole.peak_active, step.peak_active);
    whole.peak_reserved = std::max(whole.peak_reserved, step.peak_reserved);
    if (step.peak_allocated > whole.peak_allocated) {
      whole.peak_allocated = step.peak_allocated;
      whole.peak_at = step.peak_at;
      whole.causes_inferred = step.causes_inferred;
      joined.peak.back() = run::StepRow(s);
    }
  }
  for (run::StepInfo& whole : joined.steps) whole.kind = run::StepKind::other;
  return joined;
}

void join_bindings(const Joined& joined, std::vector<run::BindingRecord>& bindings) {
  std::map<std::tuple<run::StepRow, std::uint64_t, Bytes>, std::size_t> bound;  // at a step's end
  std::size_t kept = 0;
  for (const run::BindingRecord& next : bindings) {
    run::BindingRecord binding = next;
    binding.step = joined.of[binding.step.row()];
    const auto before = bound.find({binding.step, binding.address, binding.bytes});
    if (binding.from_before && before != bound.end()) {
      run::BindingRecord& begun = bindings[before->second];
      begun.freed = binding.freed;
      begun.still_bound = binding.still_bound;
      if (!binding.still_bound) bound.erase(before);
      continue;
    }
    if (binding.still_bound) bound[{binding.step, binding.address, binding.bytes}] = kept;
    bindings[kept++] = binding;
  }
  bindings.resize(kept);
}

void count_on(run::OpColumns& ops) {
  std::map<std::tuple<run::StepRow, std::uint16_t, StringId, Phase, OpKind>, std::uint32_t> next;
  for (std::size_t i = 0; i < ops.size(); ++i)
    ops.ordinal[i] =
        next[{ops.step[i], ops.micro_batch[i], ops.scope[i], ops.phase[i], ops.kind[i]}]++;
}

// What the op before on its stream held back, in the step before, knows it now.
void link(run::OpColumns& ops, std::size_t streams) {
  std::vector<run::OpRow> last(streams);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!ops.stream[i]) continue;
    run::OpRow& before = last[ops.stream[i].row()];
    if (!ops.bound_by[i] && ops.bound_by_previous_step[i] != 0 &&
        ops.reason[i] == run::BoundReason::stream && before) {
      ops.bound_by[i] = before;
      ops.bound_by_previous_step[i] = 0;
    }
    if (!before || ops.end[i] >= ops.end[before.row()]) before = run::OpRow(i);
  }
}

}  // namespace

std::optional<std::int64_t> replayed_step(run::RunView run) {
  constexpr std::string_view kStep = "--step ";
  const std::string_view options = run.about.options;
  if (!is_replay(run) || !options.starts_with(kStep)) return std::nullopt;
  std::int64_t number = 0;
  const auto read =
      std::from_chars(options.data() + kStep.size(), options.data() + options.size(), number);
  if (read.ec != std::errc()) return std::nullopt;
  return number;
}

bool replays_all_steps(run::RunView run) { return is_replay(run) && !replayed_step(run); }

bool meets_all_steps(run::RunView prediction, run::RunView measured) {
  return replays_all_steps(prediction) && measured.about.kind == run::RunKind::measured &&
         measured.steps.size() > measured.classes.size();
}

void join_steps(run::Run& run) {
  Joined joined = compare::joined(run.steps);
  if (joined.steps.size() == run.steps.size()) return;
  join_bindings(joined, run.bindings);
  std::erase_if(run.causes, [&](const run::CauseRecord& row) {
    return joined.peak[joined.of[row.step.row()].row()] != row.step;
  });
  const auto follow = [&](auto& rows) {
    for (auto& row : rows) row.step = joined.of[row.step.row()];
  };
  follow(run.segments);
  follow(run.memory);
  follow(run.causes);
  follow(run.failures);
  for (run::StepRow& step : run.ops.step) step = joined.of[step.row()];
  count_on(run.ops);
  link(run.ops, run.streams.size());
  run.steps = std::move(joined.steps);
}

}  // namespace foregather::compare
