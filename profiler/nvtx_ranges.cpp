#include "profiler/nvtx_ranges.h"

#include <algorithm>

#include "profiler/recorder.h"

namespace foregather::profiler {
namespace {

constexpr std::size_t kMostStarted = 65536, kMostOpen = 4096;
constexpr std::size_t kNvtxText = 8;

std::atomic<std::int64_t> g_next_event{0};

}  // namespace

struct NvtxRanges::Open {
  std::int64_t start = 0, domain = 0, thread = 0;
  Cell category, color, unsigned_value, signed_value;
  Cell event;  ///< its id, if it has a payload
  std::uint32_t text_at = 0, text_size = 0;
  bool is_trigger = false;
};

/// The open ranges of one thread; their texts one behind the other.
struct NvtxRanges::Stack {
  std::vector<Open> open;
  std::string texts;
  int lost = 0;  ///< pushed beyond kMostOpen
};

struct NvtxRanges::Started {
  Open open;
  std::string text;
};

NvtxRanges::Stack& NvtxRanges::stack() {
  static thread_local Stack stack;
  return stack;
}

NvtxRanges::Open NvtxRanges::opened(Recorder& recorder, const NvtxEvent& event) {
  Open open;
  open.start = recorder.now();
  open.domain = event.domain;
  open.thread = recorder.global_tid();
  open.category = event.category;
  open.color = event.color;
  open.unsigned_value = event.unsigned_value;
  open.signed_value = event.signed_value;
  if (!event.payloads.empty()) open.event = ++g_next_event;
  open.is_trigger = recorder.window().is_trigger(event.text);
  if (open.is_trigger) recorder.window().opened(open.start);
  for (const auto& [schema, bytes] : event.payloads)
    recorder.add_payload(*open.event, schema, bytes);
  return open;
}

void NvtxRanges::write(Recorder& recorder, const Open& open, std::int64_t end, std::int64_t kind,
                       Cell end_thread, std::string_view text) {
  const Cell cells[] = {open.start,
                        kind == kNvtxMark ? Cell() : Cell(end),
                        kind,
                        Cell(),
                        open.category,
                        open.color,
                        open.thread,
                        end_thread,
                        Cell(),
                        open.domain,
                        open.unsigned_value,
                        open.signed_value,
                        open.event};
  recorder.add({RawTable::nvtx, cells, text, kNvtxText}, open.start);
  if (open.is_trigger) recorder.window().closed(end);
}

int NvtxRanges::push(const NvtxEvent& event) {
  Recorder* const recorder = Recorder::instance();
  if (recorder == nullptr) return 0;
  Stack& mine = stack();
  if (mine.open.size() == kMostOpen) {
    ++mine.lost;
    recorder->count("nvtx_ranges_too_deep");
    return static_cast<int>(kMostOpen);
  }
  Open open = opened(*recorder, event);
  const std::string_view text = event.text.substr(0, HostEvents::kLongestText);
  open.text_at = static_cast<std::uint32_t>(mine.texts.size());
  open.text_size = static_cast<std::uint32_t>(text.size());
  mine.texts += text;
  mine.open.push_back(open);
  return static_cast<int>(
             std::count_if(mine.open.begin(), mine.open.end(),
                           [&](const Open& one) { return one.domain == event.domain; })) -
         1;
}

int NvtxRanges::pop(std::int64_t domain) {
  constexpr int kNone = -2;  // NVTX_NO_PUSH_POP_TRACKING
  Recorder* const recorder = Recorder::instance();
  if (recorder == nullptr) return kNone;
  Stack& mine = stack();
  if (mine.lost > 0) return mine.lost--, static_cast<int>(kMostOpen);
  const auto last = std::find_if(mine.open.rbegin(), mine.open.rend(),
                                 [&](const Open& open) { return open.domain == domain; });
  if (last == mine.open.rend()) {
    recorder->count("nvtx_pop_without_push");
    return kNone;
  }
  write(*recorder, *last, recorder->now(), kNvtxPushPop, Cell(),
        std::string_view(mine.texts).substr(last->text_at, last->text_size));
  mine.open.erase(std::next(last).base());
  mine.texts.resize(mine.open.empty() ? 0 : mine.open.back().text_at + mine.open.back().text_size);
  return static_cast<int>(std::count_if(mine.open.begin(), mine.open.end(),
                                        [&](const Open& one) { return one.domain == domain; }));
}

void NvtxRanges::mark(const NvtxEvent& event) {
  Recorder* const recorder = Recorder::instance();
  if (recorder == nullptr) return;
  Open open = opened(*recorder, event);
  write(*recorder, open, open.start, kNvtxMark, Cell(), event.text);
}

std::uint64_t NvtxRanges::start(const NvtxEvent& event) {
  Recorder* const recorder = Recorder::instance();
  const std::uint64_t id = next_range_.fetch_add(1, std::memory_order_relaxed);
  if (recorder == nullptr) return id;
  const Open open = opened(*recorder, event);
  const std::lock_guard lock(mutex_);
  if (started_.size() == kMostStarted) {
    recorder->count("nvtx_ranges_too_many");
    return id;
  }
  started_.emplace(id, std::make_shared<Started>(Started{open, std::string(event.text)}));
  return id;
}

void NvtxRanges::end(std::uint64_t range) {
  Recorder* const recorder = Recorder::instance();
  if (recorder == nullptr) return;
  std::shared_ptr<Started> started;
  {
    const std::lock_guard lock(mutex_);
    const auto found = started_.find(range);
    if (found != started_.end()) {
      started = std::move(found->second);
      started_.erase(found);
    }
  }
  if (started == nullptr) return recorder->count("nvtx_end_without_start");
  write(*recorder, started->open, recorder->now(), kNvtxStartEnd, recorder->global_tid(),
        started->text);
}

void NvtxRanges::name_thread(std::uint32_t thread, std::string_view name) {
  Recorder* const recorder = Recorder::instance();
  if (recorder == nullptr) return;
  const Cell cells[] = {Cell(), Cell(), recorder->identity().pid << 24U | (thread & 0xffffffU)};
  recorder->add({RawTable::thread_name, cells, name, 0});
}

void NvtxRanges::name_category(std::int64_t domain, std::uint32_t category, std::string_view name) {
  Recorder* const recorder = Recorder::instance();
  if (recorder == nullptr) return;
  const Cell cells[] = {
      recorder->now(), Cell(), kNvtxCategory, Cell(), category, Cell(), recorder->global_tid(),
      Cell(),          Cell(), domain,        Cell(), Cell(),   Cell()};
  recorder->add({RawTable::nvtx, cells, name, kNvtxText});
}

std::int64_t NvtxRanges::create_domain(std::string_view name) {
  std::int64_t domain = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] =
        domains_.try_emplace(std::string(name), static_cast<std::int64_t>(domains_.size()) + 1);
    domain = known->second;
    if (!is_new) return domain;
  }
  if (Recorder* const recorder = Recorder::instance()) {
    const Cell cells[] = {recorder->now(),
                          Cell(),
                          kNvtxDomainCreate,
                          Cell(),
                          Cell(),
                          Cell(),
                          recorder->global_tid(),
                          Cell(),
                          Cell(),
                          domain,
                          Cell(),
                          Cell(),
                          Cell()};
    recorder->add({RawTable::nvtx, cells, name, kNvtxText});
  }
  return domain;
}

}  // namespace foregather::profiler
