#include <limits>

#include "core/ir/dump_reader.h"

namespace foregather {
namespace {

using namespace std::string_view_literals;

constexpr std::uint32_t kMostRows = 1U << 31;

}  // namespace

Range DumpReader::rows(char letter, const char* what) {
  const std::uint32_t first = in_.id(letter, what);
  in_.expect('+');
  return {first, static_cast<std::uint32_t>(in_.number(0, kMostRows - first))};
}

void DumpReader::program() {
  static constexpr std::array kKeys{"ops"sv, "storages"sv, "events"sv};
  Program& row = graph_.programs.emplace_back();
  row.name = name_field();
  actions_ = nullptr;
  std::uint32_t seen = 0;
  while (in_.more()) {
    switch (field(kKeys, seen)) {
      case 0: row.ops = rows('o', "op"); break;
      case 1: row.storages = rows('b', "storage"); break;
      case 2: row.events = rows('e', "event"); break;
      default: break;
    }
  }
}

void DumpReader::stream() {
  static constexpr std::array kKeys{"priority"sv};
  if (graph_.programs.empty()) return in_.fail("a stream without a program, expected p0 first");
  if (graph_.programs.back().streams.size() == kMostStreams)
    return in_.fail("more than {} streams in a program", kMostStreams);
  Stream& row = graph_.programs.back().streams.emplace_back();
  row.name = name_field();
  std::uint32_t seen = 0;
  while (in_.more())
    if (field(kKeys, seen) == 0)
      row.priority = static_cast<std::int32_t>(in_.number(
          std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
}

void DumpReader::thread() {
  if (graph_.programs.empty()) return in_.fail("a thread without a program, expected p0 first");
  if (graph_.programs.back().threads.size() == kMostThreads)
    return in_.fail("more than {} threads in a program", kMostThreads);
  graph_.programs.back().threads.emplace_back();
  graph_.programs.back().threads.back().name = name_field();
  actions_ = nullptr;
}

void DumpReader::section() {
  const Section which = in_.more() ? choice("section", Section::body) : Section::init;
  if (graph_.programs.empty() || graph_.programs.back().threads.empty())
    return in_.fail("a section without a thread, expected h0 first");
  actions_ = &graph_.programs.back().threads.back().sections[static_cast<std::size_t>(which)];
  if (!actions_->empty()) in_.fail("section {} is given twice", name(which));
}

void DumpReader::action(std::string_view word) {
  const auto kind = parse<ActionKind>(word);
  if (!kind) {
    std::vector<std::string_view> words{"section", "end"};
    for (std::size_t i = 0; i <= static_cast<std::size_t>(ActionKind::mark); ++i)
      words.push_back(name(static_cast<ActionKind>(i)));
    return in_.fail("'{}' is neither a row nor an action{}", printable(word),
                    did_you_mean(word, words));
  }
  if (actions_ == nullptr) return in_.fail("an action outside a section");
  Action row;
  row.kind = *kind;
  const auto stream = [&] { row.stream = StreamId(word_id('q', "stream")); };
  switch (*kind) {
    case ActionKind::launch: row.a = word_id('o', "op"); break;
    case ActionKind::alloc:
    case ActionKind::record_stream:
      row.a = word_id('b', "storage");
      stream();
      break;
    case ActionKind::free: row.a = word_id('b', "storage"); break;
    case ActionKind::release: row.a = word_id('t', "tensor"); break;
    case ActionKind::record:
      row.a = word_id('e', "event");
      stream();
      break;
    case ActionKind::wait:
      stream();
      row.a = word_id('e', "event");
      break;
    case ActionKind::host_wait_event: row.a = word_id('e', "event"); break;
    case ActionKind::host_wait_stream: stream(); break;
    case ActionKind::host_wait_action:
      row.a = word_id('h', "thread");
      row.b = static_cast<std::uint32_t>(word_number(kMostRows));
      break;
    case ActionKind::host_delay:
      row.a = static_cast<std::uint32_t>(word_number(std::numeric_limits<std::uint32_t>::max()));
      break;
    case ActionKind::mark:
      row.a = static_cast<std::uint32_t>(word_number(0xffff));
      row.b = static_cast<std::uint32_t>(word_choice("phase", Phase::other));
      break;
    case ActionKind::host_wait_device:
    case ActionKind::empty_cache: break;
  }
  actions_->push_back(row);
  ++action_rows_;
}

}  // namespace foregather
