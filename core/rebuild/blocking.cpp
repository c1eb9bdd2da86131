#include "core/rebuild/blocking.h"

#include <algorithm>
#include <limits>

namespace foregather::rebuild {
namespace {

/// Traces in whole microseconds: an end may be that much later than the call that waited for it.
constexpr Ns kWaitRounding = 2 * kMicrosecond;

/// Ends of ops, to search for the last one in a stretch of time.
class Ends {
 public:
  /// `launched`: when each op was, in the recording's time.
  Ends(const Timeline& timeline, const std::vector<Ns>& launched)
      : timeline_(timeline), launched_(launched), order_(timeline.ops.size()) {
    for (std::uint32_t i = 0; i < order_.size(); ++i) order_[i] = i;
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(timeline.ops[a].end, a) < std::pair(timeline.ops[b].end, b);
    });
  }

  /// The op that ended last in (begin, end], of those launched until `called`.
  std::optional<std::uint32_t> last(Ns begin, Ns end, Ns called) const {
    auto at = std::upper_bound(order_.begin(), order_.end(), end, [&](Ns time, std::uint32_t op) {
      return time < timeline_.ops[op].end;
    });
    while (at != order_.begin() && timeline_.ops[*--at].end > begin)
      if (launched_[*at] <= called) return *at;
    return std::nullopt;
  }

 private:
  const Timeline& timeline_;
  const std::vector<Ns>& launched_;
  std::vector<std::uint32_t> order_;
};

}  // namespace

void find_blocking_calls(const run::Recording& recording, Timeline& timeline) {
  // The timeline's own times of calls before the first device work are all 0.
  const auto called = [&](const RecordedCall& call) {
    return recording.calls.start[call.row.row()];
  };
  std::vector<Ns> launched_at(timeline.ops.size(), std::numeric_limits<Ns>::min());
  for (const RecordedCall& call : timeline.calls)
    for (const std::uint32_t op : call.ops) launched_at[op] = called(call);
  const Ends ends(timeline, launched_at);
  // The end of all that was launched before a time.
  std::vector<std::uint32_t> by_launch(timeline.ops.size());
  for (std::uint32_t i = 0; i < by_launch.size(); ++i) by_launch[i] = i;
  std::sort(by_launch.begin(), by_launch.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(launched_at[a], a) < std::pair(launched_at[b], b);
  });
  std::size_t launched = 0;
  Ns last_end = 0;
  for (RecordedCall& call : timeline.calls) {
    while (launched < by_launch.size() && launched_at[by_launch[launched]] < called(call))
      last_end = std::max(last_end, timeline.ops[by_launch[launched++]].end);
    if (!call.ops.empty()) {
      const std::uint32_t own =
          *std::find_if(call.ops.rbegin(), call.ops.rend(),
                        [&](std::uint32_t op) { return timeline.ops[op].has_launch; });
      if (timeline.ops[own].end > call.start && timeline.ops[own].end <= call.end)
        call.awaited = own;
    } else if (call.kind == CallClass::synchronize || call.kind == CallClass::synchronize_device) {
      call.awaited = ends.last(call.start, call.end + kWaitRounding, called(call));
      call.awaits_device = call.kind == CallClass::synchronize_device && call.awaited &&
                           timeline.ops[*call.awaited].end == last_end;
    }
  }
}

}  // namespace foregather::rebuild
