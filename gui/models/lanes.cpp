#include "gui/models/lanes.h"

#include <algorithm>
#include <array>
#include <future>
#include <map>
#include <tuple>
#include <utility>

#include "core/base/lanes.h"

namespace foregather::gui {
namespace {

struct Item {
  Ns begin = 0, end = 0;
  std::uint32_t row = 0;
  std::uint8_t tag = 0;  ///< an OpKind
};

bool starts_before(const Item& a, const Item& b) {
  return std::tie(a.begin, a.end, a.row) < std::tie(b.begin, b.end, b.row);
}

// Linear where few items are out of place, and not far.
void sort_nearly_sorted(std::vector<Item>& items) {
  constexpr std::size_t kFew = 8;  // moves an item
  std::size_t moves = 0;
  for (std::size_t i = 1; i < items.size(); ++i) {
    const Item item = items[i];
    std::size_t at = i;
    for (; at > 0 && starts_before(item, items[at - 1]); --at) items[at] = items[at - 1];
    items[at] = item;
    moves += i - at;
    if (moves > kFew * items.size()) return std::sort(items.begin(), items.end(), starts_before);
  }
}

// Makes tracks of items as they come: in order, but for a few places, they go straight to one.
class TrackMaker {
 public:
  void reserve(std::size_t items) {
    track_.reserve(items);
    items_to_come_ = items;
  }

  void add(const Item& item) {
    if (!is_in_order_) return items_.push_back(item);
    if (last_ - first_ == kPlaces) pass_on();
    std::size_t at = last_++;
    for (; at > first_ && starts_before(item, waiting(at - 1)); --at) waiting(at) = waiting(at - 1);
    waiting(at) = item;
  }

  // As few as do without overlaps.
  std::vector<Track> finish() {
    std::vector<Track> tracks;
    while (first_ < last_) pass_on();
    if (is_in_order_ && track_.empty()) return tracks;
    if (is_in_order_)
      tracks.push_back(std::move(track_));
    else
      tracks = spread();
    for (Track& track : tracks) track.finish();
    return tracks;
  }

 private:
  static constexpr std::size_t kPlaces = 64;  ///< a power of two

  Item& waiting(std::size_t at) { return waiting_[at % kPlaces]; }

  // The first one that waits, to the track if it goes behind it.
  void pass_on() {
    const Item item = waiting(first_++);
    if (is_in_order_ && (track_.empty() || item.begin >= track_.end(track_.size() - 1)))
      return track_.add(item.begin, item.end, item.row, item.tag);
    if (is_in_order_) {
      is_in_order_ = false;
      items_.reserve(items_to_come_);
      for (std::size_t i = 0; i < track_.size(); ++i)
        items_.push_back({track_.begin(i), track_.end(i), track_.item(i), track_.tag(i)});
      track_ = {};
    }
    items_.push_back(item);
  }

  std::vector<Track> spread() {
    sort_nearly_sorted(items_);
    const auto overlap = [](const Item& a, const Item& b) { return b.begin < a.end; };
    std::vector<Track> tracks(1);
    if (std::adjacent_find(items_.begin(), items_.end(), overlap) == items_.end()) {
      tracks[0].reserve(items_.size());
      for (const Item& item : items_) tracks[0].add(item.begin, item.end, item.row, item.tag);
    } else {
      std::vector<LaneSlice> slices;
      slices.reserve(items_.size());
      for (const Item& item : items_) slices.push_back({0, item.begin, item.end});
      const Lanes lanes = lay_out_lanes(slices, 1);
      tracks.resize(lanes.count[0]);
      for (std::size_t i = 0; i < items_.size(); ++i)
        tracks[lanes.lane[i]].add(items_[i].begin, items_[i].end, items_[i].row, items_[i].tag);
    }
    items_ = {};
    return tracks;
  }

  std::size_t items_to_come_ = 0;
  bool is_in_order_ = true;
  std::array<Item, kPlaces> waiting_;  // the latest ones, in order
  std::size_t first_ = 0, last_ = 0;
  Track track_;              // while they are in order
  std::vector<Item> items_;  // else
};

class LaneBuilder {
 public:
  explicit LaneBuilder(const Session& session) : session_(session) {}

  std::vector<Lane> build() {
    auto collected = std::async([this] {
      for (std::size_t side = 0; side < session_.sides(); ++side) collect(side);
    });
    for (std::size_t p = 0; p < session_.pairs().size(); ++p) add_host(p);
    collected.get();
    for (std::size_t p = 0; p < session_.pairs().size(); ++p) add_streams(p);
    std::stable_sort(lanes_.begin(), lanes_.end(),
                     [](const Lane& a, const Lane& b) { return a.pair < b.pair; });
    return std::move(lanes_);
  }

 private:
  // In one pass over the ops: a stream's own lie far apart.
  void collect(std::size_t side) {
    run::RunView run = session_.run(side);
    std::vector<std::size_t> count(run.streams.size());
    for (const run::StreamRow stream : run.ops.stream) ++count[stream.row()];
    std::vector<TrackMaker> makers(run.streams.size());
    for (std::size_t s = 0; s < makers.size(); ++s) makers[s].reserve(count[s]);
    for (std::size_t i = 0; i < run.ops.size(); ++i)
      if (session_.is_shown(side, run.ops.step[i]))
        makers[run.ops.stream[i].row()].add(op_item(side, i, run.ops.start[i], run.ops.end[i]));
    for (TrackMaker& maker : makers) tracks_[side].push_back(maker.finish());
  }

  Item op_item(std::size_t side, std::size_t row, Ns begin, Ns end) const {
    return {session_.on_axis(side, begin), session_.on_axis(side, end),
            static_cast<std::uint32_t>(row),
            static_cast<std::uint8_t>(session_.run(side).ops.kind[row])};
  }

  LaneSide stream_side(std::size_t p, std::size_t side, run::StreamRow stream) {
    run::RunView run = session_.run(side);
    LaneSide out;
    out.name = run.text_of(run.streams[stream.row()].name);
    std::vector<Track>& tracks = tracks_[side][stream.row()];
    if (is_last_of_class(p, side))
      out.tracks = std::move(tracks);
    else
      out.tracks = tracks;
    out.critical = critical(p, side, stream);
    return out;
  }

  bool is_last_of_class(std::size_t p, std::size_t side) const {
    const auto& pairs = session_.pairs();
    return std::none_of(pairs.begin() + static_cast<std::ptrdiff_t>(p) + 1, pairs.end(),
                        [&](const RankPair& later) {
                          return later.sides[side] &&
                                 later.sides[side]->rank_class == pairs[p].sides[side]->rank_class;
                        });
  }

  // Ops of one stream may overlap: what begins before the last one ended is cut there.
  Track critical(std::size_t p, std::size_t side, run::StreamRow stream) {
    run::RunView run = session_.run(side);
    Track track;
    Ns reached = session_.extent().begin;
    for (const compare::PathStep& step : session_.pairs()[p].sides[side]->path.steps) {
      const std::size_t row = step.op.row();
      const Ns end = session_.on_axis(side, run.ops.end[row]);
      if (run.ops.stream[row] != stream || end < reached) continue;
      track.add(std::max(end - step.time, reached), end, static_cast<std::uint32_t>(row));
      reached = end;
    }
    track.finish();
    return track;
  }

  std::vector<run::StreamRow> streams(std::size_t p, std::size_t side) const {
    std::vector<run::StreamRow> found;
    const auto& rank = session_.pairs()[p].sides[side];
    if (!rank) return found;
    run::RunView run = session_.run(side);
    for (std::size_t s = 0; s < run.streams.size(); ++s)
      if (run.streams[s].rank_class == rank->rank_class) found.emplace_back(s);
    return found;
  }

  struct StreamTime {
    run::StreamRow stream;
    Ns time = 0;
  };
  // On which streams the ops of a group ran, and how long: of most groups on one.
  struct StreamTimes {
    std::vector<StreamTime> first;                           // by group
    std::map<std::uint32_t, std::vector<StreamTime>> other;  // of groups that have others

    void add(std::uint32_t group, const StreamTime& op) {
      StreamTime* place = &first[group];
      if (place->stream && place->stream != op.stream) {
        auto& others = other[group];
        const auto known = std::ranges::find(others, op.stream, &StreamTime::stream);
        place = known == others.end() ? &others.emplace_back() : &*known;
      }
      place->stream = op.stream;
      place->time += op.time;
    }
    template <class Visit>
    void visit(std::uint32_t group, Visit&& visit) const {
      if (first[group].stream) visit(first[group]);
      if (const auto found = other.find(group); found != other.end())
        std::ranges::for_each(found->second, visit);
    }
  };

  StreamTimes stream_times(const RankPair& pair, std::size_t side) const {
    run::RunView run = session_.run(side);
    const auto& group_of = pair.matching->group_of[side];
    const std::size_t first = run::ops_of(run, pair.sides[side]->step).first;
    StreamTimes times;
    times.first.resize(pair.matching->groups.size());
    for (std::size_t i = 0; i < group_of.size(); ++i) {
      const std::size_t row = first + i;
      times.add(group_of[i], {run.ops.stream[row], run.ops.end[row] - run.ops.transfer[row]});
    }
    return times;
  }

  // Which stream of the first run shares most time with which of the second.
  std::map<run::StreamRow, run::StreamRow> partners(std::size_t p) const {
    std::map<run::StreamRow, run::StreamRow> partner;  // of the first run's stream
    const RankPair& pair = session_.pairs()[p];
    if (!pair.matching) return partner;
    const std::array sides{stream_times(pair, 0), stream_times(pair, 1)};
    std::map<std::pair<run::StreamRow, run::StreamRow>, Ns> shared;
    for (std::uint32_t g = 0; g < pair.matching->matched; ++g)
      sides[0].visit(g, [&](const StreamTime& first) {
        sides[1].visit(g, [&](const StreamTime& second) {
          shared[{first.stream, second.stream}] += std::min(first.time, second.time);
        });
      });
    // Streams of one name before others: two GPUs may do the same work.
    const auto has_other_name = [&](const std::pair<run::StreamRow, run::StreamRow>& streams) {
      return session_.run(0).text_of(session_.run(0).streams[streams.first.row()].name) !=
             session_.run(1).text_of(session_.run(1).streams[streams.second.row()].name);
    };
    std::vector<std::tuple<bool, Ns, std::pair<run::StreamRow, run::StreamRow>>> most;
    for (const auto& [streams, time] : shared)
      most.emplace_back(has_other_name(streams), -time, streams);
    std::sort(most.begin(), most.end());
    std::map<run::StreamRow, run::StreamRow> taken;
    for (const auto& [other, time, streams] : most)
      if (!partner.contains(streams.first) && taken.emplace(streams.second, streams.first).second)
        partner[streams.first] = streams.second;
    return partner;
  }

  void add_streams(std::size_t p) {
    const auto partner = partners(p);
    std::vector<run::StreamRow> left = streams(p, 1);
    for (const run::StreamRow stream : streams(p, 0)) {
      Lane lane;
      lane.pair = p;
      lane.sides[0] = stream_side(p, 0, stream);
      if (const auto met = partner.find(stream); met != partner.end()) {
        lane.sides[1] = stream_side(p, 1, met->second);
        std::erase(left, met->second);
      }
      add(std::move(lane));
    }
    for (const run::StreamRow stream : left) {
      Lane lane;
      lane.pair = p;
      lane.sides[1] = stream_side(p, 1, stream);
      add(std::move(lane));
    }
  }

  LaneSide launches(std::size_t p, std::size_t side) const {
    run::RunView run = session_.run(side);
    LaneSide out;
    out.kind = SpanKind::launch;
    out.name = "launches";
    std::vector<run::OpSpan> shown;
    std::size_t ops = 0;
    for (std::size_t s = 0; s < run.steps.size(); ++s) {
      if (run.steps[s].rank_class != session_.pairs()[p].sides[side]->rank_class ||
          !session_.is_shown(side, run::StepRow(s)))
        continue;
      shown.push_back(run::ops_of(run, run::StepRow(s)));
      ops += shown.back().last - shown.back().first;
    }
    TrackMaker maker;
    maker.reserve(ops);
    for (const auto& [first, last] : shown)
      for (std::size_t i = first; i < last; ++i)
        maker.add(op_item(side, i, run.ops.issued[i], run.ops.issued[i]));
    out.tracks = maker.finish();
    return out;
  }

  // Threads of the class that called something, those with most calls first.
  std::vector<LaneSide> threads(std::size_t p, std::size_t side) const {
    run::RunView run = session_.run(side);
    std::vector<TrackMaker> makers(run.threads.size());
    std::vector<std::size_t> calls(run.threads.size());
    for (std::size_t i = 0; i < run.calls.size(); ++i) {
      const run::HostCallRecord& call = run.calls[i];
      const std::size_t thread = call.thread.row();
      if (run.threads[thread].rank_class != session_.pairs()[p].sides[side]->rank_class) continue;
      ++calls[thread];
      makers[thread].add({session_.on_axis(side, call.start), session_.on_axis(side, call.end),
                          static_cast<std::uint32_t>(i), 0});
    }
    std::vector<std::size_t> order;
    for (std::size_t t = 0; t < calls.size(); ++t)
      if (calls[t] > 0) order.push_back(t);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return calls[a] > calls[b]; });
    std::vector<LaneSide> found;
    for (const std::size_t t : order) {
      LaneSide& out = found.emplace_back();
      out.kind = SpanKind::call;
      out.name = run.text_of(run.threads[t].name);
      out.tracks = makers[t].finish();
    }
    return found;
  }

  // Recorded threads; where none was recorded, when the host launched what, if that is known.
  std::vector<LaneSide> host(std::size_t p, std::size_t side) const {
    if (!session_.pairs()[p].sides[side]) return {};
    std::vector<LaneSide> found = threads(p, side);
    if (found.empty() && session_.knows_launches(side)) found.push_back(launches(p, side));
    return found;
  }

  void add_host(std::size_t p) {
    std::vector<LaneSide> first = host(p, 0), second = host(p, 1);
    for (std::size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
      Lane lane;
      lane.pair = p;
      lane.is_host = true;
      if (i < first.size()) lane.sides[0] = std::move(first[i]);
      if (i < second.size()) lane.sides[1] = std::move(second[i]);
      add(std::move(lane));
    }
  }

  void add(Lane&& lane) {
    if (lane.depth(0) + lane.depth(1) == 0) return;
    if (!lane.is_host && session_.pairs()[lane.pair].matching) add_residuals(lane);
    lanes_.push_back(std::move(lane));
  }

  // An op has the share of its group's predicted time that it has of the measured one.
  void add_residuals(Lane& lane) const {
    const RankPair& pair = session_.pairs()[lane.pair];
    run::RunView run = session_.run(1);
    const auto [begin, end] = run::ops_of(run, pair.sides[1]->step);
    for (const Track& track : lane.sides[1].tracks) {
      ResidualSums& sums = lane.residuals.emplace_back();
      sums.first.reserve(track.size() + 1);
      sums.second.reserve(track.size() + 1);
      Ns first = 0, second = 0;
      for (std::size_t span = 0; span <= track.size(); ++span) {
        sums.first.push_back(first);
        sums.second.push_back(second);
        if (span == track.size()) break;
        const std::size_t row = track.item(span);
        if (row < begin || row >= end) continue;
        const compare::MatchedGroup& group =
            pair.matching->groups[pair.matching->group_of[1][row - begin]];
        if (!group.level || group.second_time == 0) continue;
        const Ns time = run.ops.end[row] - run.ops.transfer[row];
        second += time;
        first += static_cast<Ns>(static_cast<double>(group.first_time) * static_cast<double>(time) /
                                     static_cast<double>(group.second_time) +
                                 0.5);
      }
    }
  }

  const Session& session_;
  std::array<std::vector<std::vector<Track>>, 2> tracks_;  // by stream
  std::vector<Lane> lanes_;
};

}  // namespace

std::string Lane::label() const {
  const std::string& first = sides[0].name;
  const std::string& second = sides[1].name;
  if (first.empty() || second.empty() || first == second) return first.empty() ? second : first;
  return first + " | " + second;
}

std::array<Ns, 2> Lane::residual(std::size_t track, std::size_t first, std::size_t last) const {
  const ResidualSums& sums = residuals[track];
  return {sums.first[last] - sums.first[first], sums.second[last] - sums.second[first]};
}

std::vector<Lane> build_lanes(const Session& session) { return LaneBuilder(session).build(); }

TimeRange range_of(const Session& session, const Span& span) {
  run::RunView run = session.run(span.side);
  const auto on_axis = [&](Ns time) { return session.on_axis(span.side, time); };
  switch (span.kind) {
    case SpanKind::op: return {on_axis(run.ops.start[span.row]), on_axis(run.ops.end[span.row])};
    case SpanKind::launch:
      return {on_axis(run.ops.issued[span.row]), on_axis(run.ops.issued[span.row])};
    case SpanKind::call:
      return {on_axis(run.calls[span.row].start), on_axis(run.calls[span.row].end)};
  }
  return {};
}

}  // namespace foregather::gui
