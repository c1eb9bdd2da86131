#include "traces/memory_viz.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "traces/pickle_writer.h"

namespace foregather::traces {
namespace {

using run::BindingRecord;
using run::SegmentChange;
using run::SegmentRecord;

struct Mapped {
  Bytes bytes = 0;
  const SegmentRecord* segment = nullptr;  ///< whose stream and kind it has
};

/// Memory from the driver by address. Mapped ranges that touch are one, as in PyTorch's snapshots.
class Held {
 public:
  void apply(const SegmentRecord& row) {
    if (row.change == SegmentChange::released)
      ranges_.erase(row.address);
    else if (row.change == SegmentChange::unmapped)
      cut(row.address, row.bytes);
    else
      add(row);
  }
  const std::map<std::uint64_t, Mapped>& ranges() const { return ranges_; }
  /// The segment that holds an address; null: none.
  const SegmentRecord* at(std::uint64_t address) const {
    const auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return nullptr;
    const auto& [begin, range] = *std::prev(after);
    return address < begin + static_cast<std::uint64_t>(range.bytes) ? range.segment : nullptr;
  }

 private:
  static bool joins(const Mapped& a, const SegmentRecord& b) {
    return a.segment->expandable && b.expandable && a.segment->stream == b.stream &&
           a.segment->large == b.large;
  }

  void add(const SegmentRecord& row) {
    auto entry = ranges_.insert_or_assign(row.address, Mapped{row.bytes, &row}).first;
    const auto next = std::next(entry);
    if (next != ranges_.end() &&
        next->first == row.address + static_cast<std::uint64_t>(row.bytes) &&
        joins(next->second, row)) {
      entry->second.bytes += next->second.bytes;
      ranges_.erase(next);
    }
    if (entry == ranges_.begin()) return;
    const auto before = std::prev(entry);
    if (before->first + static_cast<std::uint64_t>(before->second.bytes) != row.address ||
        !joins(before->second, row))
      return;
    before->second.bytes += entry->second.bytes;
    ranges_.erase(entry);
  }

  void cut(std::uint64_t address, Bytes bytes) {
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return;
    const auto entry = std::prev(after);
    const Bytes in_front = static_cast<Bytes>(address - entry->first);
    const Bytes behind = entry->second.bytes - in_front - bytes;
    const SegmentRecord* const segment = entry->second.segment;
    entry->second.bytes = in_front;
    if (in_front <= 0) ranges_.erase(entry);
    if (behind > 0)
      ranges_.emplace(address + static_cast<std::uint64_t>(bytes), Mapped{behind, segment});
  }

  std::map<std::uint64_t, Mapped> ranges_;
};

/// The history of one step in host order. Rows with one time are put in an order that makes sense:
/// whatever a new block or a returned segment needs has been freed before.
class History {
 public:
  /// An event of the step, exactly one of the two.
  struct Event {
    const SegmentRecord* segment = nullptr;
    const BindingRecord* binding = nullptr;
    bool is_free = false;
  };

  explicit History(run::RunView run, run::StepRow step) {
    for (const SegmentRecord& row : run.segments) {
      if (row.step != step) continue;
      if (row.change == SegmentChange::held)
        held_.apply(row);
      else
        segments_.push_back(&row);
    }
    for (const BindingRecord& row : run.bindings) {
      if (row.step != step || row.block_bytes <= 0) continue;
      if (row.from_before)
        live_.insert_or_assign(row.address, &row);
      else
        allocs_.push_back(&row);
      if (!row.still_bound) frees_.push_back(&row);
    }
    std::stable_sort(frees_.begin(), frees_.end(), [](const auto* a, const auto* b) {
      return a->freed != b->freed ? a->freed < b->freed : a->allocated < b->allocated;
    });
  }

  /// Calls `sink(event)` for every event, when held() and live() are as they are after it.
  template <class Sink>
  void play(Sink&& sink) {
    const auto emit = [&](Event event) {
      apply(event);
      sink(event);
    };
    const auto free_until = [&](Ns time) {
      while (next_free_ < frees_.size() && frees_[next_free_]->freed < time)
        emit({nullptr, frees_[next_free_++], true});
    };
    // Of the frees at one time only those of blocks that are in the way.
    const auto clear = [&](std::uint64_t address, Bytes bytes, Ns time) {
      free_until(time);
      for (std::size_t i = next_free_; i < frees_.size() && frees_[i]->freed == time; ++i) {
        const BindingRecord& row = *frees_[i];
        const bool overlaps = row.address < address + static_cast<std::uint64_t>(bytes) &&
                              address < row.address + static_cast<std::uint64_t>(row.block_bytes);
        const auto live = live_.find(row.address);
        if (!overlaps || live == live_.end() || live->second != &row) continue;
        std::rotate(frees_.begin() + static_cast<std::ptrdiff_t>(next_free_),
                    frees_.begin() + static_cast<std::ptrdiff_t>(i),
                    frees_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        emit({nullptr, frees_[next_free_++], true});
      }
    };
    const auto change_until = [&](Ns time) {
      for (; next_segment_ < segments_.size() && segments_[next_segment_]->time <= time;) {
        const SegmentRecord& row = *segments_[next_segment_++];
        clear(row.address, row.bytes, row.time);
        emit({&row, nullptr, false});
      }
    };
    for (const BindingRecord* row : allocs_) {
      change_until(row->allocated);
      clear(row->address, row->block_bytes, row->allocated);
      emit({nullptr, row, false});
    }
    change_until(std::numeric_limits<Ns>::max());
    free_until(std::numeric_limits<Ns>::max());
    while (next_free_ < frees_.size()) emit({nullptr, frees_[next_free_++], true});
  }

  const Held& held() const { return held_; }
  const std::map<std::uint64_t, const BindingRecord*>& live() const { return live_; }

 private:
  void apply(const Event& event) {
    if (event.segment != nullptr)
      held_.apply(*event.segment);
    else if (event.is_free)
      live_.erase(event.binding->address);
    else
      live_.insert_or_assign(event.binding->address, event.binding);
  }

  Held held_;
  std::map<std::uint64_t, const BindingRecord*> live_;
  std::vector<const SegmentRecord*> segments_;
  std::vector<const BindingRecord*> allocs_;
  std::vector<const BindingRecord*> frees_;
  std::size_t next_segment_ = 0;
  std::size_t next_free_ = 0;
};

class VizWriter {
 public:
  VizWriter(run::RunView run, const std::string& conf, const TextSink& sink)
      : run_(run), conf_(conf), sink_(sink) {}

  Status write() {
    std::vector<std::optional<run::StepRow>> last(run_.classes.size());
    for (std::size_t row = 0; row < run_.steps.size(); ++row)
      last[run_.steps[row].rank_class.row()] = run::StepRow(row);
    std::vector<History> histories;
    for (const auto& step : last) histories.emplace_back(run_, step.value_or(run::StepRow()));

    pickle_.begin_dict().key("device_traces").begin_list();
    for (History& history : histories) {
      pickle_.begin_list();
      history.play([&](const History::Event& event) { write_event(event, history); });
      pickle_.end_list();
      if (Status flushed = flush(); !flushed) return flushed;
    }
    pickle_.end_list().key("segments").begin_list();
    for (std::size_t device = 0; device < histories.size(); ++device)
      write_segments(histories[device], static_cast<std::int64_t>(device));
    pickle_.end_list();
    write_settings();
    pickle_.key("external_annotations").begin_list().end_list();
    pickle_.end_dict().finish();
    return flush();
  }

 private:
  Status flush() { return sink_(pickle_.take()); }

  static std::uint64_t handle(run::StreamRow stream) { return stream ? stream.row() : 0; }

  void write_frames(const BindingRecord& row) {
    pickle_.key("frames").begin_list().begin_dict();
    pickle_.field("name", run_.text_of(row.name))
        .field("filename", run_.text_of(row.scope))
        .field("line", 0);
    pickle_.end_dict().end_list();
  }

  void write_entry(const char* action, std::uint64_t address, Bytes size, run::StreamRow stream,
                   Ns time, const BindingRecord* row) {
    pickle_.begin_dict()
        .field("action", action)
        .field("addr", address)
        .field("size", size)
        .field("stream", handle(stream))
        .field("time_us", time / kMicrosecond);
    if (row != nullptr)
      write_frames(*row);
    else
      pickle_.key("frames").begin_list().end_list();
    pickle_.end_dict();
  }

  void write_event(const History::Event& event, const History& history) {
    if (event.segment != nullptr) {
      const SegmentRecord& row = *event.segment;
      const char* const action = row.change == SegmentChange::allocated  ? "segment_alloc"
                                 : row.change == SegmentChange::released ? "segment_free"
                                 : row.change == SegmentChange::mapped   ? "segment_map"
                                                                         : "segment_unmap";
      write_entry(action, row.address, row.bytes, row.stream, row.time, nullptr);
      return;
    }
    const BindingRecord& row = *event.binding;
    const SegmentRecord* const segment = history.held().at(row.address);
    const run::StreamRow stream = segment == nullptr ? run::StreamRow() : segment->stream;
    if (!event.is_free) {
      write_entry("alloc", row.address, row.bytes, stream, row.allocated, &row);
      return;
    }
    write_entry("free_requested", row.address, row.bytes, stream, row.freed, &row);
    write_entry("free_completed", row.address, row.bytes, stream, row.freed, &row);
  }

  void write_block(std::uint64_t address, Bytes size, const BindingRecord* row) {
    pickle_.begin_dict()
        .field("address", address)
        .field("size", size)
        .field("requested_size", row == nullptr ? Bytes{0} : row->bytes)
        .field("state", row == nullptr ? "inactive" : "active_allocated");
    if (row != nullptr)
      write_frames(*row);
    else
      pickle_.key("frames").begin_list().end_list();
    pickle_.end_dict();
  }

  void write_segments(const History& history, std::int64_t device) {
    for (const auto& [address, range] : history.held().ranges()) {
      const std::uint64_t end = address + static_cast<std::uint64_t>(range.bytes);
      const auto first = history.live().lower_bound(address);
      const auto last = history.live().lower_bound(end);
      Bytes active = 0, requested = 0;
      for (auto live = first; live != last; ++live) {
        active += live->second->block_bytes;
        requested += live->second->bytes;
      }
      pickle_.begin_dict()
          .field("device", device)
          .field("address", address)
          .field("total_size", range.bytes)
          .field("allocated_size", active)
          .field("active_size", active)
          .field("requested_size", requested)
          .field("stream", handle(range.segment->stream))
          .field("segment_type", range.segment->large ? "large" : "small")
          .key("segment_pool_id")
          .pair(0, 0)
          .field("is_expandable", range.segment->expandable)
          .key("frames")
          .begin_list()
          .end_list()
          .key("blocks")
          .begin_list();
      std::uint64_t at = address;
      for (auto live = first; live != last; ++live) {
        if (live->first > at) write_block(at, static_cast<Bytes>(live->first - at), nullptr);
        write_block(live->first, live->second->block_bytes, live->second);
        at = live->first + static_cast<std::uint64_t>(live->second->block_bytes);
      }
      if (at < end) write_block(at, static_cast<Bytes>(end - at), nullptr);
      pickle_.end_list().end_dict();
      is_expandable_ = is_expandable_ || range.segment->expandable;
    }
  }

  // What is not known of the configuration, segments tell in part.
  void write_settings() {
    std::string conf = conf_;
    if (is_expandable_ && conf.find("expandable_segments") == std::string::npos)
      conf = "expandable_segments:True" + (conf.empty() ? "" : "," + conf);
    pickle_.key("allocator_settings")
        .begin_dict()
        .field("PYTORCH_CUDA_ALLOC_CONF", conf)
        .field("expandable_segments", is_expandable_)
        .end_dict();
  }

  run::RunView run_;
  const std::string& conf_;
  const TextSink& sink_;
  PickleWriter pickle_;
  bool is_expandable_ = false;
};

}  // namespace

Status write_memory_viz(run::RunView run, const std::string& conf, const TextSink& sink) {
  if (run.segments.empty())
    return fail("the run has no segments, expected one whose memory was recorded");
  return VizWriter(run, conf, sink).write();
}

}  // namespace foregather::traces
