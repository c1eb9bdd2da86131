#include "core/rebuild/labels.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "core/run/kernel_names.h"

namespace foregather::rebuild {
namespace {

constexpr std::string_view kStep = "ProfilerStep", kOptimizer = "Optimizer.step";

constexpr std::array<std::pair<std::string_view, int>, 12> kSizes{{
    {"Float", 4},
    {"BFloat16", 2},
    {"Half", 2},
    {"Double", 8},
    {"Long", 8},
    {"Int", 4},
    {"Short", 2},
    {"Byte", 1},
    {"Char", 1},
    {"Bool", 1},
    {"Float8_e4m3fn", 1},
    {"Float8_e5m2", 1},
}};

// "aten::mul, seq = 48289, op_id = 1002103, sizes = [[2, 3]]" of torch.autograd.profiler.emit_nvtx
// is aten::mul (torch/autograd/profiler.py of PyTorch): numbers of one execution name no scope.
std::string_view without_numbers(std::string_view range) {
  for (const std::string_view number : {", seq = ", ", op_id = ", ", sizes = "})
    range = range.substr(0, range.find(number));
  return range;
}

}  // namespace

Labels::Labels(const run::Recording& recording, const Timeline& timeline)
    : recording_(recording), labels_(timeline.calls.size()) {
  for (const RecordedOp& op : timeline.ops) {
    const std::size_t row = op.activity.row(), kind = kind_row(row);
    kinds_.resize(std::max(kinds_.size(), kind + 1));
    if (!kinds_[kind])
      kinds_[kind] = run::op_kind(recording.activities.kind[row],
                                  recording.text(recording.activities.name[row]));
  }
  const run::RangeColumns& rows = recording.ranges;
  std::unordered_map<std::uint32_t, std::uint32_t> threads;  // by lane: of the timeline
  for (std::uint32_t t = 0; t < timeline.threads.size(); ++t)
    threads.emplace(timeline.threads[t].lane.row(), t);
  std::vector<std::vector<std::uint32_t>> ranges(timeline.threads.size());
  for (std::uint32_t i = 0; i < rows.size(); ++i)
    if (const auto thread = threads.find(rows.lane[i].row());
        thread != threads.end() && rows.kind[i] != run::RangeKind::python)
      ranges[thread->second].push_back(i);
  for (std::uint32_t t = 0; t < ranges.size(); ++t) {
    std::stable_sort(ranges[t].begin(), ranges[t].end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(rows.start[a], -rows.end[a]) < std::pair(rows.start[b], -rows.end[b]);
    });
    std::vector<std::uint32_t> open;  // ranges around the call, outermost first
    std::size_t next = 0;
    for (const std::uint32_t c : timeline.threads[t].calls) {
      const Ns time = recording.calls.start[timeline.calls[c].row.row()];
      const auto close = [&](Ns at) {
        std::erase_if(open, [&](std::uint32_t i) { return rows.end[i] <= at; });
      };
      for (; next < ranges[t].size() && rows.start[ranges[t][next]] <= time; ++next) {
        close(rows.start[ranges[t][next]]);
        open.push_back(ranges[t][next]);
      }
      close(time);
      Label& label = labels_[c];
      label.label.phase = open.empty() ? Phase::other : Phase::forward;
      std::string_view annotation, operation;
      for (const std::uint32_t i : open) {
        const std::string_view name = recording.text(rows.name[i]);
        if (rows.is_backward[i] != 0 || name.starts_with("autograd::engine"))
          label.label.phase = Phase::backward;
        if (name.starts_with(kOptimizer)) label.label.phase = Phase::optimizer;
        if (rows.kind[i] == run::RangeKind::annotation && !name.starts_with(kStep))
          annotation = name;
        if (rows.kind[i] == run::RangeKind::op && operation.empty()) operation = name;
        if (rows.collective[i]) label.collective = rows.collective[i];
      }
      label.label.scope = without_numbers(annotation.empty() ? operation : annotation);
    }
  }
}

std::size_t Labels::kind_row(std::size_t activity) const {
  constexpr std::size_t kKinds = 3;
  return recording_.activities.name[activity].row() * kKinds +
         static_cast<std::size_t>(recording_.activities.kind[activity]);
}

OpLabel Labels::of(const RecordedOp& op) const {
  const std::size_t row = op.activity.row();
  const run::KnownOps& known = recording_.known;
  if (!known.kind.empty())
    return {known.kind[row], known.phase[row], recording_.text(known.scope[row])};
  OpLabel label = op.has_launch ? labels_[op.call].label : OpLabel();
  label.kind = *kinds_[kind_row(row)];
  return label;
}

run::CollectiveRow Labels::collective(const RecordedOp& op) const {
  const run::CollectiveRow own = recording_.activities.collective[op.activity.row()];
  return own || !op.has_launch ? own : labels_[op.call].collective;
}

Bytes message_bytes(const run::Recording& recording, const run::RecordedCollective& collective) {
  const std::string_view dtype = recording.text(collective.dtype);
  const auto* const size = std::find_if(kSizes.begin(), kSizes.end(),
                                        [&](const auto& row) { return row.first == dtype; });
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  if (size == kSizes.end()) return 0;
  return size->second * std::clamp<std::int64_t>(
                            std::max(collective.in_elements, collective.out_elements), 0, kMost);
}

}  // namespace foregather::rebuild
