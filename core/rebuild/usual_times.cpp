#include "core/rebuild/usual_times.h"

#include <algorithm>
#include <tuple>

namespace foregather::rebuild {
namespace {

struct Use {
  StringId name;
  std::int64_t size = 0;  ///< bytes of a copy or a message, threads of a kernel
  Ns duration = 0;
  std::uint32_t recording = 0, op = 0;
  bool is_collective = false;
};

/// Messages whose bytes nobody recorded are like no other.
bool are_alike(const Use& a, const Use& b) {
  return a.name == b.name && a.size == b.size && (a.size != 0 || !a.is_collective);
}

class Uses {
 public:
  void add(const RankTimeline& rank, std::uint32_t recording,
           const std::vector<std::optional<Meeting>>& meetings) {
    const run::Recording& from = *rank.recording;
    std::vector<StringId> names(from.strings.size());  // of all recordings
    for (std::uint32_t i = 0; i < rank.timeline.ops.size(); ++i) {
      const RecordedOp& op = rank.timeline.ops[i];
      const std::size_t row = op.activity.row();
      const StringId own = from.activities.name[row];
      StringId& name = names[own.row()];
      if (!name) name = names_.intern(from.text(own));
      const std::int64_t size =
          std::max<std::int64_t>(from.activities.bytes[row], from.activities.threads[row]);
      Use use{name, size, op.end - op.start, recording, i, false};
      use.is_collective = is_collective(rank.labels.of(op).kind);
      if (use.is_collective) use.size = 0;
      if (const run::CollectiveRow described = rank.labels.collective(op);
          use.is_collective && described)
        use.size = message_bytes(from, from.collectives[described.row()]);
      if (meetings[i]) {
        use.size = meetings[i]->bytes;
        use.duration = op.end - meetings[i]->transfer;
      }
      uses_.push_back(use);
    }
  }

  void scatter(std::vector<std::vector<Ns>>& times) {
    std::sort(uses_.begin(), uses_.end(), [](const Use& a, const Use& b) {
      return std::tie(a.name, a.size, a.recording, a.op) <
             std::tie(b.name, b.size, b.recording, b.op);
    });
    std::vector<Ns> durations;
    for (std::size_t first = 0, end = 0; first < uses_.size(); first = end) {
      durations.clear();
      do durations.push_back(uses_[end++].duration);
      while (end < uses_.size() && are_alike(uses_[first], uses_[end]));
      const Ns usual = usual_time(durations, uses_[first].is_collective);
      for (std::size_t i = first; i < end; ++i) times[uses_[i].recording][uses_[i].op] = usual;
    }
  }

 private:
  StringTable names_;
  std::vector<Use> uses_;
};

}  // namespace

Ns usual_time(std::vector<Ns>& durations, bool is_collective) {
  const auto n = static_cast<Ns>(durations.size());
  if (is_collective) {
    const auto at = durations.begin() + n / 2;
    std::nth_element(durations.begin(), at, durations.end());
    if (n % 2 != 0) return *at;
    const Ns below = *std::max_element(durations.begin(), at);
    return below + (*at - below) / 2;
  }
  // Quotients and remainders apart, so that no sum of times overflows.
  Ns whole = 0, rest = 0;
  for (const Ns duration : durations) {
    whole += duration / n;
    rest += duration % n;
  }
  return whole + (rest + n / 2) / n;
}

std::vector<std::vector<Ns>> usual_times(const RankTimelines& ranks, const Meetings& meetings) {
  Uses uses;
  std::vector<std::vector<Ns>> times;
  for (std::uint32_t i = 0; i < ranks.size(); ++i) {
    uses.add(*ranks[i], i, meetings[i]);
    times.emplace_back(ranks[i]->timeline.ops.size());
  }
  uses.scatter(times);
  return times;
}

}  // namespace foregather::rebuild
