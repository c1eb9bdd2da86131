#include "core/rebuild/pipeline_events.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

namespace foregather::rebuild {
namespace {

constexpr std::string_view kBetweenStages = "pp-comm", kCommunication = "-comm";
constexpr Ns kAtOnce = kMicrosecond;

/// "PP rank 3, TP rank 0, dp-comm".
struct LaneName {
  std::uint32_t stage = 0, tensor = 0;
  std::string_view rank, kind;
};

std::optional<std::uint32_t> number_after(std::string_view text, std::string_view word) {
  const auto at = text.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  std::uint32_t number = 0;
  const char* const begin = text.data() + at + word.size();
  if (std::from_chars(begin, text.data() + text.size(), number).ec != std::errc())
    return std::nullopt;
  return number;
}

std::optional<LaneName> lane_name(const run::Recording& recording, std::size_t lane) {
  if (lane >= recording.labels.size() || !recording.labels[lane].thread) return std::nullopt;
  const std::string_view text = recording.text(recording.labels[lane].thread);
  const auto comma = text.rfind(", ");
  const auto stage = number_after(text, "PP rank ");
  if (comma == std::string_view::npos || !stage) return std::nullopt;
  return LaneName{*stage, number_after(text, "TP rank ").value_or(0), text.substr(0, comma),
                  text.substr(comma + 2)};
}

}  // namespace

PipelineName pipeline_name(std::string_view name) {
  for (const std::string_view direction : {"forward", "backward"})
    for (const std::string_view what : {"send", "recv", "compute"})
      if (name.size() == direction.size() + 1 + what.size() && name.starts_with(direction) &&
          name.ends_with(what))
        return {direction, what};
  return {{}, name};
}

PipelineEvents pipeline_events(const run::Recording& recording) {
  PipelineEvents found;
  const auto& lanes = recording.lanes;
  std::map<StringId, std::uint32_t> processes;
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // stage, data, tensor
  std::map<Key, std::uint32_t> rows;
  std::vector<Key> keys(lanes.size());
  std::vector<std::optional<LaneName>> names(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    names[i] = lane_name(recording, i);
    if (!names[i]) continue;
    const auto data = processes.try_emplace(lanes[i].process, processes.size()).first->second;
    keys[i] = {names[i]->stage, data, names[i]->tensor};
    rows[keys[i]] = 0;
  }
  for (auto& [key, row] : rows) {
    row = static_cast<std::uint32_t>(found.ranks.size());
    found.ranks.push_back({{}, std::get<0>(key), std::get<1>(key), std::get<2>(key), {}});
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (!names[i]) continue;
    PipelineRank& rank = found.ranks[rows.at(keys[i])];
    rank.process = lanes[i].process;
    rank.label = names[i]->rank;
  }
  const run::ActivityColumns& activities = recording.activities;
  for (std::size_t i = 0; i < activities.size(); ++i) {
    const std::size_t lane = activities.lane[i].row();
    if (!names[lane] || !recording.timeline.step[i]) {
      ++found.left_out;
      continue;
    }
    PipelineEvent event;
    event.name = activities.name[i];
    event.rank = rows.at(keys[lane]);
    event.between_stages = names[lane]->kind == kBetweenStages;
    event.is_communication = names[lane]->kind.ends_with(kCommunication);
    event.stream = event.between_stages ? event.name : recording.labels[lane].thread;
    event.step = *recording.timeline.step[i];
    event.start = activities.start[i];
    event.end = activities.end[i];
    found.events.push_back(event);
  }
  std::stable_sort(found.events.begin(), found.events.end(),
                   [](const PipelineEvent& a, const PipelineEvent& b) {
                     return std::tie(a.step, a.start, a.end) < std::tie(b.step, b.start, b.end);
                   });
  std::map<std::pair<std::uint32_t, StringId>, std::uint32_t> seen;  // by rank, name
  for (std::size_t i = 0; i < found.events.size(); ++i) {
    PipelineEvent& event = found.events[i];
    const auto [step, is_new] =
        found.steps.try_emplace(event.step, PipelineStep{i, i, event.start, event.end});
    if (is_new) seen.clear();
    step->second.last = i + 1;
    step->second.end = std::max(step->second.end, event.end);
    event.nth = seen[{event.rank, event.name}]++;
  }
  return found;
}

namespace {

/// Of one name: in which group each rank is. Ranks are parted where they begin apart in any step.
class Parting {
 public:
  explicit Parting(std::size_t ranks) : group_(ranks) {}

  /// Events of one step and number, by start.
  void part(const std::vector<const PipelineEvent*>& events) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> fresh;
    std::uint32_t cluster = 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (i > 0 && events[i]->start - events[i - 1]->start > kAtOnce) ++cluster;
      std::uint32_t& group = group_[events[i]->rank];
      const auto [found, is_new] = fresh.try_emplace({group, cluster}, groups_);
      if (is_new) ++groups_;
      group = found->second;
    }
  }
  std::uint32_t group(std::uint32_t rank) const { return group_[rank]; }

 private:
  std::vector<std::uint32_t> group_;
  std::uint32_t groups_ = 1;
};

}  // namespace

std::vector<std::optional<std::uint32_t>> pipeline_groups(const run::Recording& recording,
                                                          const PipelineEvents& found) {
  const auto& events = found.events;
  std::map<StringId, Parting> partings;  // by name
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < events.size(); ++i)
    if (events[i].is_communication && !events[i].between_stages) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(events[a].name, events[a].step, events[a].nth) <
           std::tie(events[b].name, events[b].step, events[b].nth);
  });
  std::vector<const PipelineEvent*> together;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const PipelineEvent& event = events[order[i]];
    if (!together.empty() && std::tie(together[0]->name, together[0]->step, together[0]->nth) !=
                                 std::tie(event.name, event.step, event.nth)) {
      partings.try_emplace(together[0]->name, found.ranks.size()).first->second.part(together);
      together.clear();
    }
    together.push_back(&event);
  }
  if (!together.empty())
    partings.try_emplace(together[0]->name, found.ranks.size()).first->second.part(together);

  using Key = std::tuple<std::string_view, std::uint32_t, std::uint32_t, std::uint32_t>;
  std::map<Key, std::uint32_t> numbers;
  std::vector<std::optional<std::uint32_t>> groups(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const PipelineEvent& event = events[i];
    if (!event.is_communication) continue;
    const PipelineName name = pipeline_name(recording.text(event.name));
    const PipelineRank& rank = found.ranks[event.rank];
    Key key;
    if (event.between_stages && !name.direction.empty()) {
      // By the later stage of the two.
      const bool is_later = (name.direction == "forward") == (name.what == "recv");
      key = {name.direction, rank.stage + (is_later ? 0 : 1), rank.data, rank.tensor};
    } else if (event.between_stages) {
      key = {name.what, event.rank, 0, 0};
    } else {
      key = {name.what, partings.at(event.name).group(event.rank), 0, 0};
    }
    groups[i] = numbers.try_emplace(key, numbers.size()).first->second;
  }
  return groups;
}

}  // namespace foregather::rebuild
