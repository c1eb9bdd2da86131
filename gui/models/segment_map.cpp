#include "gui/models/segment_map.h"

#include <algorithm>
#include <map>

#include "core/base/text.h"
#include "gui/models/time_axis.h"

namespace foregather::gui {
namespace {

using run::SegmentChange;

bool is_growth(SegmentChange change) {
  return change != SegmentChange::released && change != SegmentChange::unmapped;
}

// Held ranges of one step, by their first address: when each began.
class HeldRanges {
 public:
  struct Range {
    Bytes bytes = 0;
    Ns since = 0;
  };
  void add(std::uint64_t address, Bytes bytes, Ns time) {
    ranges_.try_emplace(address, Range{bytes, time});
  }
  /// Calls ended(address, bytes, since) for what lay in the range; the rest of a range stays.
  template <class Ended>
  void remove(std::uint64_t address, Bytes bytes, Ended&& ended) {
    const std::uint64_t last = address + static_cast<std::uint64_t>(bytes);
    auto at = ranges_.upper_bound(address);
    if (at != ranges_.begin()) --at;
    while (at != ranges_.end() && at->first < last) {
      const auto [begin, range] = *at;
      const std::uint64_t end = begin + static_cast<std::uint64_t>(range.bytes);
      if (end <= address) {
        ++at;
        continue;
      }
      at = ranges_.erase(at);
      const std::uint64_t from = std::max(begin, address), to = std::min(end, last);
      ended(from, static_cast<Bytes>(to - from), range.since);
      if (begin < from) ranges_[begin] = {static_cast<Bytes>(from - begin), range.since};
      if (to < end)
        at = ranges_.insert_or_assign(to, Range{static_cast<Bytes>(end - to), range.since}).first;
    }
  }
  template <class Ended>
  void remove_all(Ended&& ended) {
    for (const auto& [begin, range] : ranges_) ended(begin, range.bytes, range.since);
    ranges_.clear();
  }

 private:
  std::map<std::uint64_t, Range> ranges_;
};

}  // namespace

bool has_addresses(run::RunView run, run::ClassRow rank_class) {
  return std::any_of(run.bindings.begin(), run.bindings.end(), [&](const auto& binding) {
    return binding.address != 0 && run.steps[binding.step.row()].rank_class == rank_class;
  });
}

SegmentMap::SegmentMap(const Session& session, std::size_t side, const RankStep& rank)
    : side_(side), rank_class_(rank.rank_class), rank_(rank.rank) {
  const run::RunView run = session.run(side);
  step_end_ = ends_of_steps(run, session);
  add_bands(run, session);
  add_held(run, session);
  add_blocks(run, session);
  extent_.end = std::max(extent_.end, extent_.begin + 1);
}

bool SegmentMap::is_own(run::RunView run, const Session& session, run::StepRow step) const {
  return run.steps[step.row()].rank_class == rank_class_ && session.is_shown(side_, step);
}

std::vector<Ns> SegmentMap::ends_of_steps(run::RunView run, const Session& session) const {
  std::vector<std::optional<Ns>> first(run.steps.size());
  const auto add = [&](run::StepRow step, Ns time) {
    std::optional<Ns>& known = first[step.row()];
    known = std::min(known.value_or(time), time);
  };
  for (const run::SegmentRecord& segment : run.segments) add(segment.step, segment.time);
  for (const run::BindingRecord& binding : run.bindings) add(binding.step, binding.allocated);
  std::vector<Ns> ends(run.steps.size());
  std::optional<std::size_t> next;
  for (std::size_t s = run.steps.size(); s-- > 0;) {
    if (!is_own(run, session, run::StepRow(s))) continue;
    const run::StepInfo& step = run.steps[s];
    ends[s] = std::max(step.end, step.host_end);
    if (next) {
      const bool follows = run.steps[*next].number == step.number + 1;
      ends[s] = follows ? *first[*next] : std::min(ends[s], *first[*next]);
    }
    if (first[s]) next = s;
  }
  return ends;
}

void SegmentMap::add_bands(run::RunView run, const Session& session) {
  struct Piece {
    std::uint64_t begin = 0, end = 0;
    StringId stream;
  };
  std::vector<Piece> pieces;
  const auto add = [&](std::uint64_t address, Bytes bytes, StringId stream) {
    if (bytes > 0) pieces.push_back({address, address + static_cast<std::uint64_t>(bytes), stream});
  };
  for (const run::SegmentRecord& segment : run.segments)
    if (is_own(run, session, segment.step) && is_growth(segment.change))
      add(segment.address, segment.bytes,
          segment.stream ? run.streams[segment.stream.row()].name : StringId());
  // A run may say where blocks lie without saying what was held for them.
  if (pieces.empty())
    for (const run::BindingRecord& binding : run.bindings)
      if (binding.address != 0 && is_own(run, session, binding.step))
        add(binding.address, binding.block_bytes, StringId());
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  Bytes all = 0;
  std::uint64_t end = 0;
  for (const Piece& piece : pieces) {
    if (bands_.empty() || piece.begin > end) {
      bands_.push_back(
          {piece.begin, 0, 0, piece.stream ? std::string(run.text_of(piece.stream)) : ""});
      end = piece.begin;
    }
    end = std::max(end, piece.end);
    bands_.back().bytes = static_cast<Bytes>(end - bands_.back().address);
  }
  for (const Band& band : bands_) all += band.bytes;
  constexpr Bytes kGaps = 400;  // as many make the height of all
  for (Band& band : bands_) {
    band.at = height_;
    height_ += band.bytes + all / kGaps;
  }
}

std::optional<Bytes> SegmentMap::height_of(std::uint64_t address) const {
  const auto above = std::upper_bound(
      bands_.begin(), bands_.end(), address,
      [](std::uint64_t wanted, const Band& band) { return wanted < band.address; });
  if (above == bands_.begin()) return std::nullopt;
  const Band& band = *std::prev(above);
  const auto into = static_cast<Bytes>(address - band.address);
  if (into >= band.bytes) return std::nullopt;
  return band.at + into;
}

void SegmentMap::extend(TimeRange time) {
  if (extent_ == TimeRange{0, 0}) extent_ = time;
  extent_ = {std::min(extent_.begin, time.begin), std::max(extent_.end, time.end)};
}

// Each step begins with what it found.
void SegmentMap::add_held(run::RunView run, const Session& session) {
  HeldRanges now;
  const auto ended = [&](Ns time) {
    return [this, &session, time](std::uint64_t address, Bytes bytes, Ns since) {
      const auto at = height_of(address);
      if (!at) return;
      const TimeRange held{session.on_axis(side_, since),
                           session.on_axis(side_, std::max(since, time))};
      held_.push_back({held, *at, bytes});
      extend(held);
    };
  };
  run::StepRow step;
  Ns last = 0;
  const auto finish_step = [&] {
    if (step) now.remove_all(ended(std::max(last, step_end_[step.row()])));
  };
  for (const run::SegmentRecord& segment : run.segments) {
    if (!is_own(run, session, segment.step)) continue;
    if (!step || segment.step != step) {
      finish_step();
      step = segment.step;
      last = segment.time;
    }
    last = std::max(last, segment.time);
    if (is_growth(segment.change))
      now.add(segment.address, segment.bytes, segment.time);
    else
      now.remove(segment.address, segment.bytes, ended(segment.time));
  }
  finish_step();
}

void SegmentMap::add_blocks(run::RunView run, const Session& session) {
  for (std::size_t b = 0; b < run.bindings.size(); ++b) {
    const run::BindingRecord& binding = run.bindings[b];
    if (binding.address == 0 || !is_own(run, session, binding.step)) continue;
    const auto at = height_of(binding.address);
    if (!at || binding.freed < binding.allocated) continue;
    const Ns freed = binding.still_bound
                         ? std::max(binding.allocated, step_end_[binding.step.row()])
                         : binding.freed;
    const TimeRange time{session.on_axis(side_, binding.allocated), session.on_axis(side_, freed)};
    blocks_.push_back({time, *at, binding.block_bytes, static_cast<std::uint32_t>(b)});
    tallest_ = std::max(tallest_, binding.block_bytes);
    knows_causes_ = knows_causes_ || binding.cause != Cause::unknown;
    extend(time);
  }
  std::stable_sort(blocks_.begin(), blocks_.end(), [](const Block& a, const Block& b) {
    return std::pair(a.at, a.time.begin) < std::pair(b.at, b.time.begin);
  });
}

std::optional<std::size_t> SegmentMap::block_at(Ns time, Bytes height) const {
  auto at = std::upper_bound(blocks_.begin(), blocks_.end(), height,
                             [](Bytes wanted, const Block& block) { return wanted < block.at; });
  while (at != blocks_.begin() && std::prev(at)->at + tallest_ > height) {
    --at;
    if (at->at + at->bytes > height && at->time.begin <= time && time < at->time.end)
      return static_cast<std::size_t>(at - blocks_.begin());
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> SegmentMap::details(const Session& session,
                                                                     std::size_t block) const {
  const run::RunView run = session.run(side_);
  const run::BindingRecord& binding = run.bindings[blocks_[block].binding];
  std::vector<std::pair<std::string, std::string>> rows;
  const auto add = [&](const char* what, std::string value) {
    if (!value.empty()) rows.emplace_back(what, std::move(value));
  };
  if (binding.scope) add("scope", std::string(run.text_of(binding.scope)));
  if (binding.name) add("name", std::string(run.text_of(binding.name)));
  std::string cause(name(binding.cause));
  std::replace(cause.begin(), cause.end(), '_', ' ');
  add("cause", std::move(cause));
  add("requested", format_bytes(binding.bytes));
  add("block", format_bytes(binding.block_bytes));
  add("address", fmt::format("{:#x}", binding.address));
  const TimeRange time = blocks_[block].time;
  add("allocated", binding.from_before ? "before the step" : format_position(time.begin));
  add("freed", binding.still_bound ? "not in the step" : format_position(time.end));
  add("lived", format_time(time.length()));
  return rows;
}

}  // namespace foregather::gui
