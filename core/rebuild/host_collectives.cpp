#include "core/rebuild/host_collectives.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "core/rebuild/labels.h"
#include "core/rebuild/range_labels.h"
#include "core/rebuild/window.h"

namespace foregather::rebuild {
namespace {

constexpr std::string_view kGloo = "gloo:";

/// By parts of names without underscores, in this order; nothing: no communication.
constexpr std::array<std::pair<std::string_view, std::optional<OpKind>>, 12> kKinds{{
    {"wait", std::nullopt},
    {"init", std::nullopt},
    {"coalescing", std::nullopt},
    {"allgather", OpKind::all_gather},
    {"reducescatter", OpKind::reduce_scatter},
    {"allreduce", OpKind::all_reduce},
    {"alltoall", OpKind::all_to_all},
    {"broadcast", OpKind::broadcast},
    {"barrier", OpKind::barrier},
    {"reduce", OpKind::reduce},
    {"send", OpKind::send_recv},
    {"recv", OpKind::send_recv},
}};

class Listing {
 public:
  explicit Listing(const run::Recording& recording)
      : recording_(recording), rows_(recording.ranges) {
    for (const auto& [number, range] : host_steps(recording)) steps_[range.begin] = {number, range};
  }

  std::vector<HostCollective> run() {
    std::vector<std::vector<std::uint32_t>> lanes = ranges_by_lane(recording_);
    find_gloo(lanes);
    for (std::vector<std::uint32_t>& lane : lanes) find_issued(std::move(lane));
    std::stable_sort(issued_.begin(), issued_.end(), [this](const Issued& a, const Issued& b) {
      return rows_.start[a.range] < rows_.start[b.range];
    });
    std::vector<HostCollective> list;
    for (const Issued& issued : issued_) list.push_back(described(issued));
    return list;
  }

 private:
  struct Issued {
    std::uint32_t range = 0;
    OpKind kind = OpKind::other;
    RangeLabel label;
  };

  const run::RecordedCollective& at(std::uint32_t range) const {
    return recording_.collectives[rows_.collective[range].row()];
  }
  bool is_gloo(std::uint32_t range) const {
    return recording_.text(at(range).name).starts_with(kGloo);
  }

  // Gloo's threads carry out what others issue.
  void find_gloo(const std::vector<std::vector<std::uint32_t>>& lanes) {
    for (const auto& lane : lanes)
      for (const std::uint32_t i : lane)
        if (rows_.collective[i] && is_gloo(i)) gloo_[at(i).in_elements].emplace(rows_.start[i], i);
  }

  void find_issued(std::vector<std::uint32_t> lane) {
    std::vector<std::uint32_t> described;
    for (const std::uint32_t i : lane)
      if (rows_.collective[i] && !is_gloo(i)) described.push_back(i);
    if (described.empty()) return;
    std::stable_sort(described.begin(), described.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(rows_.start[a], -rows_.end[a]) < std::pair(rows_.start[b], -rows_.end[b]);
    });
    RangeWalk walk(recording_, std::move(lane));
    for (std::size_t n = 0; n < described.size(); ++n) {
      const std::uint32_t i = described[n];
      const bool is_outer =
          n + 1 < described.size() && rows_.start[described[n + 1]] < rows_.end[i];
      const auto kind = collective_called(recording_.text(at(i).name));
      if (!is_outer && kind) issued_.push_back({i, *kind, walk.at(rows_.start[i])});
    }
  }

  HostCollective described(const Issued& issued) {
    run::RecordedCollective collective = at(issued.range);
    HostCollective row;
    row.time = rows_.start[issued.range];
    row.step = step_at(row.time);
    row.scope = issued.label.scope;
    row.phase = issued.label.phase;
    row.kind = issued.kind;
    row.group = recording_.text(collective.group);
    if (recording_.text(collective.dtype).empty()) {
      const std::int64_t own = std::max(collective.in_elements, collective.out_elements);
      if (const auto gloo = take_gloo(own, row.time)) collective.dtype = at(*gloo).dtype;
    }
    row.dtype = recording_.text(collective.dtype);
    row.ranks = ranks_of(collective, row.kind);
    if (complete(collective, row) && element_size(row.dtype))
      row.bytes = message_bytes(recording_, collective);
    return row;
  }

  std::optional<std::int64_t> step_at(Ns time) const {
    auto next = steps_.upper_bound(time);
    if (next == steps_.begin() || time >= (--next)->second.second.end) return std::nullopt;
    return next->second.first;
  }

  std::optional<std::uint32_t> take_gloo(std::int64_t elements, Ns issued) {
    const auto same = gloo_.find(elements);
    if (same == gloo_.end()) return std::nullopt;
    const auto next = same->second.lower_bound(issued);
    if (next == same->second.end()) return std::nullopt;
    const std::uint32_t range = next->second;
    same->second.erase(next);
    return range;
  }

  // Said, or by the sizes of both sides; of a list with one side alone only known where all process
  // groups are of one size.
  std::uint32_t ranks_of(const run::RecordedCollective& collective, OpKind kind) const {
    if (collective.group_size > 0) return collective.group_size;
    if (kind != OpKind::all_gather && kind != OpKind::reduce_scatter) return 0;
    const auto [less, more] = std::minmax(collective.in_elements, collective.out_elements);
    const std::vector<std::uint32_t>& sizes = recording_.group_sizes;
    if (less <= 0 && sizes.empty()) return recording_.world_size.value_or(0);
    if (less <= 0)
      return std::equal(sizes.begin() + 1, sizes.end(), sizes.begin()) ? sizes.front() : 0;
    return static_cast<std::uint32_t>(std::min<std::int64_t>(more / less, kMostRanks));
  }

  // The side that a list does not say. False: it cannot be known.
  static bool complete(run::RecordedCollective& collective, const HostCollective& row) {
    std::int64_t& in = collective.in_elements;
    std::int64_t& out = collective.out_elements;
    const bool gathers = row.kind == OpKind::all_gather && out == 0;
    const bool scatters = row.kind == OpKind::reduce_scatter && in == 0;
    if (!gathers && !scatters) return true;
    if (row.ranks == 0) return false;
    constexpr std::int64_t kMost = std::int64_t{1} << 50;
    (gathers ? out : in) = std::min(gathers ? in : out, kMost / row.ranks) * row.ranks;
    return true;
  }

  static constexpr std::int64_t kMostRanks = std::int64_t{1} << 30;
  const run::Recording& recording_;
  const run::RangeColumns& rows_;
  std::map<Ns, std::pair<std::int64_t, HostStep>> steps_;          // by begin
  std::map<std::int64_t, std::multimap<Ns, std::uint32_t>> gloo_;  // by elements: ranges by start
  std::vector<Issued> issued_;
};

}  // namespace

std::optional<OpKind> collective_called(std::string_view name) {
  std::string text(name);
  std::erase(text, '_');
  const auto* const found = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& row) {
    return text.find(row.first) != std::string::npos;
  });
  return found == kKinds.end() ? OpKind::other : found->second;
}

std::vector<HostCollective> host_collectives(const run::Recording& recording) {
  return Listing(recording).run();
}

}  // namespace foregather::rebuild
