#include "core/rebuild/meetings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "core/base/text.h"

namespace foregather::rebuild {
namespace {

constexpr Ns kLateBeyond = 2;  // usual transfers

std::vector<Ns> begins(const RankTimelines& ranks, const std::vector<Ns>& epochs) {
  std::vector<Ns> begins;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    begins.push_back(ranks[i] == nullptr ? 0 : ranks[i]->begin + epochs[i]);
  return begins;
}

/// A collective on the first recording's clock.
struct Times {
  Ns arrived = 0;              ///< the last recorded rank
  std::size_t arrived_as = 0;  ///< which of the chain's recordings that is
  Ns first_end = 0;
  Ns lateness = 0;
  bool meets() const { return first_end >= arrived; }
  Ns shortest() const { return first_end - arrived; }
};

// Parts of one file have one clock, also where no collective tells.
void share_clocks(const std::vector<RankTimelines>& windows,
                  std::vector<std::optional<Clock>>& clocks) {
  std::map<std::string_view, std::size_t> first_of;  // by file
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    const run::Recording* recording = nullptr;
    for (const RankTimelines& ranks : windows)
      if (recording == nullptr && ranks[i] != nullptr) recording = ranks[i]->recording;
    if (recording == nullptr || !recording->is_part || clocks[i]) continue;
    const std::size_t first = first_of.try_emplace(recording->source, i).first->second;
    clocks[i] = i == 0 ? Clock{} : clocks[first];
  }
}

class Putting {
 public:
  Putting(const std::vector<RankTimelines>& windows, const std::vector<Ns>& epochs)
      : windows_(windows), epochs_(epochs) {}

  PutTogether run() {
    const std::size_t recordings = epochs_.size();
    std::vector<SharedEnd> ends;
    for (const RankTimelines& ranks : windows_) {
      together_.matched.push_back(match_collectives(ranks));
      add_shared_ends(ranks, together_.matched.back(), begins(ranks, epochs_), ends);
    }
    together_.clocks = align_clocks(recordings, std::move(ends));
    std::vector<bool> meets(recordings);
    for (std::size_t w = 0; w < windows_.size(); ++w) {
      Meetings meetings;
      for (const RankTimeline* rank : windows_[w])
        meetings.emplace_back(rank == nullptr ? 0 : rank->timeline.ops.size());
      for (std::uint32_t c = 0; c < together_.matched[w].chains.size(); ++c)
        meet(w, c, meetings, meets);
      together_.meetings.push_back(std::move(meetings));
    }
    for (std::uint32_t i = 0; i < recordings; ++i)
      if (!meets[i]) together_.clocks[i].reset();
    share_clocks(windows_, together_.clocks);
    for (std::uint32_t i = 0; i < recordings; ++i) describe(i);
    describe_groups();
    return std::move(together_);
  }

 private:
  void warn(std::string text) { together_.warnings.push_back(std::move(text)); }

  const RecordedOp& op(std::size_t w, const CollectiveChain& chain, std::size_t collective,
                       std::size_t member) const {
    return windows_[w][chain.recordings[member]]->timeline.ops[chain.op(collective, member)];
  }
  /// Of a recording's timeline: time 0, on the first recording's clock.
  Ns origin(std::size_t w, std::uint32_t recording) const {
    return windows_[w][recording]->begin + epochs_[recording] - together_.clocks[recording]->offset;
  }

  void meet(std::size_t w, std::uint32_t c, Meetings& meetings, std::vector<bool>& meets) {
    const CollectiveChain& chain = together_.matched[w].chains[c];
    const auto& first = together_.clocks[chain.recordings.front()];
    for (const std::uint32_t recording : chain.recordings) {
      const auto& clock = together_.clocks[recording];
      if (!clock || clock->island != first->island) return part(w, chain, chain.collectives());
    }
    std::vector<Times> times(chain.collectives());
    std::size_t apart = 0;
    for (std::size_t i = 0; i < times.size(); ++i) {
      for (std::size_t m = 0; m < chain.recordings.size(); ++m) {
        const Ns zero = origin(w, chain.recordings[m]);
        const Ns start = zero + op(w, chain, i, m).start, end = zero + op(w, chain, i, m).end;
        if (m == 0 || start > times[i].arrived) times[i].arrived_as = m;
        times[i].arrived = m == 0 ? start : std::max(times[i].arrived, start);
        times[i].first_end = m == 0 ? end : std::min(times[i].first_end, end);
      }
      apart += times[i].meets() ? 0 : 1;
    }
    if (2 * apart >= times.size()) return part(w, chain, times.size());
    part(w, chain, apart);
    if (chain.size > chain.recordings.size()) find_late(w, chain, times);
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (!times[i].meets()) continue;
      Bytes bytes = 0;
      for (std::size_t m = 0; m < chain.recordings.size(); ++m)
        bytes = std::max(bytes, bytes_of(w, chain, i, m));
      for (std::size_t m = 0; m < chain.recordings.size(); ++m) {
        const std::uint32_t recording = chain.recordings[m];
        meets[recording] = true;
        meetings[recording][chain.op(i, m)] =
            Meeting{c,
                    times[i].arrived + times[i].lateness - origin(w, recording),
                    times[i].lateness,
                    bytes,
                    chain.recordings[times[i].arrived_as],
                    static_cast<std::uint32_t>(chain.op(i, times[i].arrived_as))};
      }
    }
  }

  /// Collectives of a chain that do not meet after all.
  void part(std::size_t w, const CollectiveChain& chain, std::size_t collectives) {
    const auto ops = static_cast<std::int64_t>(collectives * chain.recordings.size());
    CollectiveCount& count = together_.matched[w].counts[chain.group];
    count.matched -= ops;
    count.unmatched += ops;
  }

  Bytes bytes_of(std::size_t w, const CollectiveChain& chain, std::size_t i, std::size_t m) const {
    const RankTimeline& rank = *windows_[w][chain.recordings[m]];
    const run::CollectiveRow row = rank.labels.collective(op(w, chain, i, m));
    return row ? message_bytes(*rank.recording, rank.recording->collectives[row.row()]) : 0;
  }

  void find_late(std::size_t w, const CollectiveChain& chain, std::vector<Times>& times) {
    std::map<std::pair<StringId, Bytes>, std::vector<std::size_t>> alike;
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (!times[i].meets()) continue;
      const RankTimeline& rank = *windows_[w][chain.recordings[0]];
      const StringId name = rank.recording->activities.name[op(w, chain, i, 0).activity.row()];
      alike[{name, bytes_of(w, chain, i, 0)}].push_back(i);
    }
    Late& late = late_[chain.group];
    late.absent = chain.size - chain.recordings.size();
    late.size = chain.size;
    late.collectives += times.size();
    for (auto& [key, rows] : alike) {
      std::vector<Ns> transfers;
      for (const std::size_t i : rows) transfers.push_back(times[i].shortest());
      const auto at = transfers.begin() + static_cast<std::ptrdiff_t>((transfers.size() - 1) / 2);
      std::nth_element(transfers.begin(), at, transfers.end());
      const Ns usual = *at;
      for (const std::size_t i : rows) {
        if (times[i].shortest() <= kLateBeyond * usual) continue;
        times[i].lateness = times[i].shortest() - usual;
        ++late.late;
        late.waited += times[i].lateness;
      }
    }
  }

  void describe_groups() {
    std::map<std::string, CollectiveCount> counts;
    for (const MatchedCollectives& matched : together_.matched)
      for (const auto& [group, count] : matched.counts) {
        counts[group].matched += count.matched;
        counts[group].unmatched += count.unmatched;
      }
    for (const auto& [group, count] : counts)
      if (count.unmatched > 0)
        warn(
            fmt::format("group {}: {} of {} collectives of the recorded ranks have no counterpart "
                        "among them, and are replayed rank by rank",
                        group, count.unmatched, count.matched + count.unmatched));
    for (const auto& [group, late] : late_)
      if (late.late > 0)
        warn(fmt::format(
            "group {}: {} of its {} ranks were not recorded; {} of {} collectives "
            "waited {} for them, as their length beside like ones tells, and wait as "
            "long whatever changes",
            group, late.absent, late.size, late.late, late.collectives, format_time(late.waited)));
  }

  void describe(std::uint32_t recording) {
    const auto& clock = together_.clocks[recording];
    const RankTimeline* rank = nullptr;
    for (const RankTimelines& ranks : windows_)
      if (rank == nullptr) rank = ranks[recording];
    if (rank == nullptr) return;
    if (!clock)
      warn(
          fmt::format("{}: shares fewer than {} collectives with the other ranks, so its clock "
                      "cannot be aligned: no figure compares it with them",
                      rank->recording->source, kFewestSharedCollectives));
    else if (clock->island != 0)
      warn(
          fmt::format("{}: no recording ties it to the first one by {} shared collectives, so its "
                      "clock is aligned among others only: no figure compares it with the first",
                      rank->recording->source, kFewestSharedCollectives));
    else if (clock->has_few)
      warn(
          fmt::format("{}: is tied to the first one by fewer than {} shared collectives: its clock "
                      "is as good as their ends",
                      rank->recording->source, kFewestSharedCollectives));
    else if (std::abs(clock->drift) > clock->uncertainty && clock->uncertainty > 0)
      warn(
          fmt::format("{}: its clock drifts by {} from the first half of its collectives to the "
                      "second, more than the uncertainty of the offset ({})",
                      rank->recording->source, format_time(std::abs(clock->drift)),
                      format_time(clock->uncertainty)));
  }

  /// Of a group, some of whose ranks were not recorded.
  struct Late {
    std::size_t absent = 0, size = 0, late = 0, collectives = 0;
    Ns waited = 0;
  };

  const std::vector<RankTimelines>& windows_;
  const std::vector<Ns>& epochs_;
  std::map<std::string, Late> late_;
  PutTogether together_;
};

}  // namespace

std::vector<std::optional<Clock>> clocks_of(const std::vector<RankTimelines>& windows,
                                            const std::vector<Ns>& epochs) {
  std::vector<SharedEnd> ends;
  for (const RankTimelines& ranks : windows)
    add_shared_ends(ranks, match_collectives(ranks), begins(ranks, epochs), ends);
  return align_clocks(epochs.size(), std::move(ends));
}

PutTogether put_together(const std::vector<RankTimelines>& windows, const std::vector<Ns>& epochs) {
  if (epochs.size() < 2) {
    PutTogether alone;
    alone.clocks.resize(epochs.size());
    alone.matched.resize(windows.size());
    for (const RankTimelines& ranks : windows)
      for (Meetings& meetings = alone.meetings.emplace_back(); const RankTimeline* rank : ranks)
        meetings.emplace_back(rank->timeline.ops.size());
    return alone;
  }
  return Putting(windows, epochs).run();
}

}  // namespace foregather::rebuild
