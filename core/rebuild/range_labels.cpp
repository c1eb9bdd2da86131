#include "core/rebuild/range_labels.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace foregather::rebuild {
namespace {

constexpr std::string_view kStep = "ProfilerStep", kOptimizer = "Optimizer.step",
                           kEngine = "autograd::engine", kFsdp1 = "FullyShardedDataParallel.",
                           kFsdp2 = "FSDP::";

std::string_view take_part(std::string_view& text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string_view part = text.substr(0, slash);
  text.remove_prefix(std::min(slash + 1, text.size()));
  return part;
}

bool is_number_of(char letter, std::string_view part) {
  return part.size() > 1 && part[0] == letter &&
         part.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

struct Place {
  std::string_view scope;
  std::optional<Phase> phase;
};

std::optional<Place> place_of_key(std::string_view name) {
  std::string_view scope = take_part(name);
  for (const char letter : {'r', 's', 'm'})
    if (is_number_of(letter, scope) && !parse<Phase>(name.substr(0, name.find('/'))))
      scope = take_part(name);
  const auto phase = parse<Phase>(take_part(name));
  if (scope.empty() || !phase) return std::nullopt;
  return Place{scope == "-" ? std::string_view() : scope, *phase};
}

// "FSDP::all_gather", "FSDP::all_gather (layers.0)", "FSDP::backward_prefetch for layers.0".
std::optional<Place> place_of_unit(std::string_view name) {
  if (!name.starts_with(kFsdp2)) return std::nullopt;
  const std::string_view what = name.substr(0, name.find(' '));
  Place place;
  if (what.find("backward") != std::string_view::npos) place.phase = Phase::backward;
  std::string_view unit = name.substr(what.size());
  constexpr std::string_view kFor = " for ";
  if (unit.starts_with(kFor)) {
    place.scope = unit.substr(kFor.size());
  } else if (unit.starts_with(" (") && unit.ends_with(')')) {
    place.scope = unit.substr(2, unit.size() - 3);
  } else if (!unit.empty()) {
    return std::nullopt;
  }
  return place;
}

// "aten::mul, seq = 48289, op_id = 1002103, sizes = [[2, 3]]" of torch.autograd.profiler.emit_nvtx
// is aten::mul (torch/autograd/profiler.py of PyTorch): numbers of one execution name no scope.
std::string_view without_numbers(std::string_view range) {
  for (const std::string_view number : {", seq = ", ", op_id = ", ", sizes = "})
    range = range.substr(0, range.find(number));
  return range;
}

}  // namespace

std::vector<std::vector<std::uint32_t>> ranges_by_lane(const run::Recording& recording) {
  const run::RangeColumns& rows = recording.ranges;
  std::vector<std::vector<std::uint32_t>> ranges(recording.lanes.size());
  for (std::uint32_t i = 0; i < rows.size(); ++i)
    if (rows.kind[i] != run::RangeKind::python) ranges[rows.lane[i].row()].push_back(i);
  return ranges;
}

RangeWalk::RangeWalk(const run::Recording& recording, std::vector<std::uint32_t> ranges)
    : recording_(recording), ranges_(std::move(ranges)) {
  const run::RangeColumns& rows = recording.ranges;
  std::stable_sort(ranges_.begin(), ranges_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(rows.start[a], -rows.end[a]) < std::pair(rows.start[b], -rows.end[b]);
  });
}

void RangeWalk::close(Ns time) {
  std::erase_if(open_, [&](std::uint32_t i) { return recording_.ranges.end[i] <= time; });
}

RangeLabel RangeWalk::at(Ns time) {
  const run::RangeColumns& rows = recording_.ranges;
  for (; next_ < ranges_.size() && rows.start[ranges_[next_]] <= time; ++next_) {
    close(rows.start[ranges_[next_]]);
    open_.push_back(ranges_[next_]);
  }
  close(time);
  RangeLabel label;
  label.phase = open_.empty() ? Phase::other : Phase::forward;
  std::string_view annotation, operation;
  bool is_placed = false;
  for (const std::uint32_t i : open_) {
    const std::string_view name = recording_.text(rows.name[i]);
    const bool is_annotation = rows.kind[i] == run::RangeKind::annotation;
    if (const run::CollectiveRow row = rows.collective[i]) {
      label.called = row;
      if (!recording_.collectives[row.row()].is_of_shapes) label.collective = row;
    }
    if (rows.is_backward[i] != 0 || name.starts_with(kEngine)) label.phase = Phase::backward;
    if (name.starts_with(kFsdp1) && name.find("backward") != std::string_view::npos)
      label.phase = Phase::backward;
    if (!is_annotation) {
      if (operation.empty()) operation = name;
      continue;
    }
    std::optional<Place> place = place_of_key(name);
    if (!place) place = place_of_unit(name);
    if (!place && name.starts_with(kOptimizer)) place = Place{{}, Phase::optimizer};
    if (place) {
      label.scope = place->scope;
      label.phase = place->phase.value_or(label.phase);
      is_placed = true;
    } else if (!name.starts_with(kStep)) {
      annotation = name;
    }
  }
  if (!is_placed) label.scope = without_numbers(annotation.empty() ? operation : annotation);
  return label;
}

}  // namespace foregather::rebuild
