#include "traces/snapshot.h"

#include <algorithm>
#include <string>

#include "traces/read_all.h"
#include "traces/snapshot_shapes.h"

namespace foregather::traces {
namespace {

using Kind = PickleValue::Kind;

/// Takes the rows out of the root of the pickle.
class Assembler {
 public:
  Assembler(const PickleHeap& heap, SnapshotShapes& shapes, Snapshot& snapshot)
      : heap_(heap), shapes_(shapes), snapshot_(snapshot) {}

  Status assemble(PickleValue root) {
    if (!is(root, PickleContainer::dict))
      return fail("is a pickle of something else, expected a dict with segments and device_traces");
    const PickleValue* const segments = find(root, "segments");
    const PickleValue* const traces = find(root, "device_traces");
    if (segments == nullptr || traces == nullptr)
      return fail("has no {}, expected a dict with segments and device_traces",
                  segments == nullptr ? "segments" : "device_traces");
    for_each(root, [&](std::string_view key, const PickleValue&) {
      if (keeps(key)) snapshot_.keys.emplace_back(key);
    });
    if (Status done = take_segments(*segments); !done) return done;
    if (Status done = take_traces(*traces); !done) return done;
    if (const PickleValue* settings = find(root, "allocator_settings"))
      if (is(*settings, PickleContainer::dict)) take_settings(*settings);
    if (kept_ > kMostKept)
      return fail(
          "has more than {} KiB of keys and allocator_settings, expected some dozens of them",
          kMostKept / KiB);
    return {};
  }

 private:
  bool is(const PickleValue& value, PickleContainer kind) const {
    return value.is(Kind::container) && heap_.kind(value.container()) == kind;
  }

  const PickleValue* find(const PickleValue& dict, std::string_view key) const {
    const auto items = heap_.items(dict.container());
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (heap_.strings.text(items[i].text()) == key) return &items[i + 1];
    return nullptr;
  }

  template <class Visit>
  void for_each(const PickleValue& dict, Visit visit) const {
    const auto items = heap_.items(dict.container());
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      visit(heap_.strings.text(items[i].text()), items[i + 1]);
  }

  Status take_segments(const PickleValue& list) {
    if (!is(list, PickleContainer::list)) return fail("segments is no list, expected a list");
    const auto items = heap_.items(list.container());
    std::vector<bool> taken(shapes_.segments.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!items[i].is_record(SnapshotShapes::segment) || taken[items[i].row])
        return fail(
            "entry {} of segments is no segment, expected a dict with address, total_size, stream, "
            "segment_type and blocks",
            i);
      taken[items[i].row] = true;
      snapshot_.segments.push_back(std::move(shapes_.segments[items[i].row]));
      const std::int64_t device = snapshot_.segments.back().device;
      if (device < 0 || device >= kSnapshotDevices)
        return fail("entry {} of segments is of device {}, expected 0 to {}", i, device,
                    kSnapshotDevices - 1);
    }
    std::stable_sort(snapshot_.segments.begin(), snapshot_.segments.end(),
                     [](const auto& a, const auto& b) { return a.address < b.address; });
    return {};
  }

  Status take_traces(const PickleValue& list) {
    if (!is(list, PickleContainer::list)) return fail("device_traces is no list, expected a list");
    for (const PickleValue& trace : heap_.items(list.container())) {
      const std::size_t device = snapshot_.traces.size();
      if (!is(trace, PickleContainer::list))
        return fail("entry {} of device_traces is no list, expected a list of events", device);
      if (Status done = take_trace(heap_.items(trace.container()), device); !done) return done;
    }
    return {};
  }

  Status take_trace(std::span<const PickleValue> items, std::size_t device) {
    bool is_all = items.size() == shapes_.events.size();
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!items[i].is_record(SnapshotShapes::event))
        return fail(
            "entry {} of the trace of device {} is no event, expected a dict with action, addr, "
            "size and stream",
            i, device);
      is_all = is_all && items[i].row == i;
    }
    std::vector<SnapshotEvent>& trace = snapshot_.traces.emplace_back();
    if (is_all) {
      trace = std::move(shapes_.events);
      shapes_.events.clear();
      return {};
    }
    trace.reserve(std::min(items.size(), shapes_.events.size()));
    taken_.resize(shapes_.events.size());
    for (const PickleValue& item : items) {
      if (item.row >= shapes_.events.size() || taken_[item.row])
        return fail(
            "the trace of device {} has events of another one, or one twice, expected its own",
            device);
      taken_[item.row] = true;
      trace.push_back(shapes_.events[item.row]);
    }
    return {};
  }

  void take_settings(const PickleValue& dict) {
    SnapshotSettings& settings = snapshot_.settings.emplace();
    for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
      const PickleValue* const conf = find(dict, name);
      if (conf != nullptr && conf->is(Kind::text) && settings.conf.empty())
        settings.conf = heap_.strings.text(conf->text());
    }
    const PickleValue* const split = find(dict, "max_split_size");
    // Unlimited is −1, or the greatest unsigned number.
    if (split != nullptr && (split->is(Kind::integer) || split->is(Kind::unsigned_integer)))
      settings.max_split_size = split->integer;
    const PickleValue* const threshold = find(dict, "garbage_collection_threshold");
    if (threshold != nullptr && threshold->is(Kind::real))
      settings.garbage_collection_threshold = threshold->real;
    const PickleValue* const expandable = find(dict, "expandable_segments");
    if (expandable != nullptr && expandable->is(Kind::boolean))
      settings.expandable_segments = expandable->integer != 0;
    const PickleValue* const divisions = find(dict, "roundup_power2_divisions");
    if (divisions != nullptr && is(*divisions, PickleContainer::dict)) take_divisions(*divisions);
    list_options(dict);
  }

  // A few bytes of a pickle can name a long text, or a dict, again and again.
  bool keeps(std::string_view text) {
    constexpr Bytes kEntry = 64;
    if (kept_ <= kMostKept) kept_ += static_cast<Bytes>(text.size()) + kEntry;
    return kept_ <= kMostKept;
  }

  void list_options(const PickleValue& dict) {
    for_each(dict, [&](std::string_view key, const PickleValue& value) {
      if (!keeps(key)) return;
      if (!is(value, PickleContainer::dict)) return list_option("", key, value);
      for_each(value, [&](std::string_view inner, const PickleValue& option) {
        if (keeps(key) && keeps(inner)) list_option(key, inner, option);
      });
    });
  }

  void list_option(std::string_view group, std::string_view name, const PickleValue& value) {
    const auto add = [&](auto content) {
      snapshot_.settings->all.push_back(
          {std::string(group), std::string(name), std::move(content)});
    };
    switch (value.kind) {
      case Kind::boolean: return add(value.integer != 0);
      case Kind::integer: return add(value.integer);
      case Kind::unsigned_integer: return add(static_cast<std::uint64_t>(value.integer));
      case Kind::real: return add(value.real);
      case Kind::text: {
        const std::string_view text = heap_.strings.text(value.text());
        if (keeps(text)) add(std::string(text));
        return;
      }
      default: return;
    }
  }

  void take_divisions(const PickleValue& dict) {
    auto& divisions = snapshot_.settings->roundup_power2_divisions.emplace();
    divisions.fill(0);
    for (std::size_t slot = 0; slot < divisions.size(); ++slot) {
      const PickleValue* const value = find(dict, std::to_string(1 << slot));
      if (value != nullptr && value->is(Kind::integer)) divisions[slot] = value->integer;
    }
  }

  static constexpr Bytes kMostKept = MiB;
  const PickleHeap& heap_;
  SnapshotShapes& shapes_;
  Snapshot& snapshot_;
  Bytes kept_ = 0;           // of keys and settings, as text
  std::vector<bool> taken_;  // of the events: by a trace
};

}  // namespace

Result<Snapshot> read_snapshot(ByteStream stream, const std::string& path) {
  constexpr std::size_t kHead = 2;  // an opcode and the protocol
  Snapshot snapshot;
  snapshot.bytes = stream.remaining();
  if (const std::string_view head = stream.peek(kHead); is_pickle(head))
    snapshot.protocol = head[1];
  PickleHeap heap;
  SnapshotShapes shapes(heap, snapshot);
  const Result<PickleValue> root = read_pickle(stream, heap, shapes);
  if (!root) return fail_at(path, "{}", root.error().message);
  if (Status done = Assembler(heap, shapes, snapshot).assemble(*root); !done)
    return fail_at(path, "{}", done.error().message);
  snapshot.strings = std::move(heap.strings);
  return snapshot;
}

Result<Snapshot> read_snapshot(const TextMember& member, TextSource& text) {
  const std::string& name = member.name;
  if (!member.is_packed) {
    auto stream = ByteStream::open(name);
    if (!stream) return tl::unexpected(stream.error());
    return read_snapshot(std::move(*stream), name);
  }
  constexpr Bytes kMostUnpacked = 4 * GiB;
  const auto all = read_all(text, name, kMostUnpacked);
  if (!all) return tl::unexpected(all.error());
  return read_snapshot(ByteStream::of(*all), name);
}

Result<Snapshot> read_snapshot(const std::string& path) {
  std::optional<Snapshot> found;
  const Status visited = visit_texts(path, [&](const TextMember& member, TextSource& text) {
    if (found)
      return Status(fail_at(path, "is an archive of several files, expected one: {}", member.name));
    auto read = read_snapshot(member, text);
    if (!read) return Status(tl::unexpected(read.error()));
    found = std::move(*read);
    return Status();
  });
  if (!visited) return tl::unexpected(visited.error());
  return std::move(*found);
}

}  // namespace foregather::traces
