#include "core/rebuild/drift.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/rebuild/clocks.h"
#include "core/rebuild/meetings.h"

namespace foregather::rebuild {
namespace {

std::shared_ptr<const run::Recording> corrected(const run::Recording& from, const Clock& clock,
                                                Ns epoch) {
  auto recording = std::make_shared<run::Recording>(from);
  const auto correct = [&](std::vector<Ns>& times) {
    for (Ns& time : times) time -= drifted(clock, time + epoch);
  };
  for (auto* times :
       {&recording->activities.start, &recording->activities.end, &recording->calls.start,
        &recording->calls.end, &recording->ranges.start, &recording->ranges.end,
        &recording->syncs.start, &recording->syncs.end, &recording->memory.time})
    correct(*times);
  return recording;
}

}  // namespace

std::optional<Undrifted> without_drift(std::span<const run::Recording* const> recordings,
                                       const std::vector<RankTimelines>& windows,
                                       const std::vector<Ns>& epochs) {
  if (recordings.size() < 2) return std::nullopt;
  const auto clocks = clocks_of(windows, epochs);
  const auto drifts = [](const std::optional<Clock>& clock) { return clock && clock->rate != 0; };
  if (std::none_of(clocks.begin(), clocks.end(), drifts)) return std::nullopt;
  constexpr double kPerMillion = 1e6;
  Undrifted undrifted;
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    if (!drifts(clocks[i])) {
      undrifted.recordings.emplace_back(recordings[i], [](const run::Recording*) {});
      continue;
    }
    const double ppm = static_cast<double>(clocks[i]->rate) / kPerMillion;
    undrifted.recordings.push_back(corrected(*recordings[i], *clocks[i], epochs[i]));
    undrifted.notes.push_back(fmt::format(
        "{}: its clock runs {:.1f} ppm {} than the first one's, as the ends of shared collectives "
        "tell: its times are corrected",
        recordings[i]->source, ppm < 0 ? -ppm : ppm, ppm < 0 ? "slower" : "faster"));
  }
  return undrifted;
}

}  // namespace foregather::rebuild
