#include "sim/engine/repeats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace foregather::sim {
namespace {

constexpr std::uint32_t kLeastPeriods = 4;
constexpr std::uint32_t kNoRecord = 0xffffffffU;

// What a wait means: how many records before it the event was recorded; kNoRecord: before the
// section.
class Waits {
 public:
  Waits() = default;
  Waits(const Program& program, std::span<const Action> actions)
      : streams_(static_cast<std::uint32_t>(program.streams.size())) {
    std::vector<std::uint32_t> recorded(program.events.count, kNoRecord);
    std::uint32_t records = 0;
    for (const Action& action : actions) {
      if (action.kind < ActionKind::record) continue;  // most: launches and memory
      switch (action.kind) {
        case ActionKind::record: recorded[action.a - program.events.first] = records++; break;
        case ActionKind::wait:
        case ActionKind::host_wait_event: {
          const std::uint32_t at = recorded[action.a - program.events.first];
          waits_.push_back({static_cast<std::uint32_t>(&action - actions.data()),
                            at == kNoRecord ? kNoRecord : records - at});
          break;
        }
        default: records += records_of(action);
      }
    }
  }
  /// Of the action, a wait.
  std::uint32_t back(std::uint32_t action) const { return from(action)->back; }
  /// Do the waits among `length` actions from `begin` on mean what those of `other` mean, which are
  /// the same actions?
  bool are_like(std::uint32_t begin, const Waits& other, std::uint32_t other_begin,
                std::uint32_t length) const {
    return std::equal(from(begin), from(begin + length), other.from(other_begin),
                      other.from(other_begin + length),
                      [](const Wait& a, const Wait& b) { return a.back == b.back; });
  }
  /// How many events an action records.
  std::uint32_t records_of(const Action& action) const {
    switch (action.kind) {
      case ActionKind::record:
      case ActionKind::host_wait_stream: return 1;
      case ActionKind::host_wait_device: return streams_;
      default: return 0;
    }
  }

 private:
  struct Wait {
    std::uint32_t action = 0;
    std::uint32_t back = 0;
  };
  std::vector<Wait>::const_iterator from(std::uint32_t action) const {
    return std::ranges::lower_bound(waits_, action, {}, &Wait::action);
  }

  std::uint32_t streams_ = 0;
  std::vector<Wait> waits_;  ///< by action
};

// What a section's repeats are found in, and they.
struct Found {
  std::span<const Action> actions;
  Waits waits;
  std::vector<Repeat> repeats;
};

class Finder {
 public:
  /// `before`: of a section that may have some of the same repeats; null: none.
  Finder(const Graph& graph, const Program& program, std::span<const Action> actions,
         const Found* before = nullptr)
      : graph_(graph), actions_(actions), waits_(program, actions), before_(before) {}

  Found find() {
    std::vector<std::uint32_t> latest(graph_.costs.size(), kNoRecord);
    std::vector<Repeat> repeats;
    for (std::uint32_t at = 0; at < actions_.size(); ++at) {
      if (actions_[at].kind != ActionKind::launch) continue;
      const Op& op = graph_.ops[actions_[at].a];
      if (op.kind != OpKind::attention && !op.communicator) continue;
      const std::uint32_t before = std::exchange(latest[op.cost.row()], at);
      if (before == kNoRecord) continue;
      if (!begins_like(before, at)) continue;
      const Repeat* const known = known_from(before);
      Repeat repeat = known != nullptr ? *known : repeat_from(before, at - before);
      repeat.begin = before;
      if (repeat.count < kLeastPeriods) continue;
      at = repeat.begin + repeat.period * repeat.count - 1;
      repeats.push_back(std::move(repeat));
      std::ranges::fill(latest, kNoRecord);
    }
    return {actions_, std::move(waits_), std::move(repeats)};
  }

 private:
  // A few actions tell apart most of what only begins with the same cost.
  bool begins_like(std::uint32_t before, std::uint32_t at) const {
    constexpr std::size_t kMost = 16;
    const auto actions = static_cast<std::uint32_t>(
        std::min<std::size_t>({kMost, at - before, actions_.size() - at}));
    const std::uint32_t ops = actions_[at].a - actions_[before].a;
    for (std::uint32_t i = 0; i < actions; ++i) {
      const Action &a = actions_[before + i], &b = actions_[at + i];
      if (a.kind != b.kind || a.stream != b.stream) return false;
      if (a.kind != ActionKind::launch) continue;
      if (b.a - a.a != ops || graph_.ops[a.a].cost != graph_.ops[b.a].cost) return false;
    }
    return true;
  }

  // A repeat of the section before that is also one from `begin` on: all the same up to what ended
  // it there.
  const Repeat* known_from(std::uint32_t begin) const {
    if (before_ == nullptr) return nullptr;
    const std::span<const Action> there = before_->actions;
    for (const Repeat& repeat : before_->repeats) {
      if (there[repeat.begin].a != actions_[begin].a) continue;
      const std::uint32_t with_next = repeat.period * (repeat.count + 1);
      const auto left = static_cast<std::uint32_t>(there.size()) - repeat.begin;
      const std::uint32_t length = std::min(with_next, left);
      const std::span<const Action> here = actions_.subspan(begin);
      const bool ends_alike = length == with_next || here.size() == length;
      const bool is_same =
          here.size() >= length && ends_alike &&
          std::memcmp(here.data(), &there[repeat.begin], length * sizeof(Action)) == 0 &&
          waits_.are_like(begin, before_->waits, repeat.begin, length);
      return is_same ? &repeat : nullptr;
    }
    return nullptr;
  }

  Repeat repeat_from(std::uint32_t begin, std::uint32_t period) const {
    Repeat repeat;
    repeat.begin = begin;
    repeat.period = period;
    repeat.count = 1;
    std::uint32_t least = kNoRecord, most = 0;
    for (std::uint32_t i = begin; i < begin + period; ++i) {
      repeat.records += waits_.records_of(actions_[i]);
      if (actions_[i].kind != ActionKind::launch) continue;
      least = std::min(least, actions_[i].a);
      most = std::max(most, actions_[i].a);
      ++repeat.ops;
    }
    if (most - least + 1 != repeat.ops) return repeat;
    repeat.count = 1 + alike_from(repeat) / period;
    repeat.rows = {least, repeat.ops * repeat.count};
    if (repeat.count >= kLeastPeriods) describe_events(repeat);
    return repeat;
  }

  void describe_events(Repeat& repeat) const {
    std::uint32_t records = 0;
    for (std::uint32_t i = repeat.begin; i < repeat.begin + repeat.period; ++i) {
      const ActionKind kind = actions_[i].kind;
      if (kind == ActionKind::record) repeat.recorded.emplace_back(i - repeat.begin, records);
      records += waits_.records_of(actions_[i]);
      if (kind != ActionKind::wait && kind != ActionKind::host_wait_event) continue;
      const std::uint32_t back = waits_.back(i + repeat.period);
      if (back == kNoRecord || back != waits_.back(i))
        repeat.outside.push_back(i - repeat.begin);
      else
        repeat.back = std::max(repeat.back, back);
    }
  }

  // One word, to compare at once.
  static std::uint64_t kind_and_stream(const Action& action) {
    return std::bit_cast<std::array<std::uint64_t, 2>>(action)[0];
  }

  // How many actions are like those a period after them.
  std::uint32_t alike_from(const Repeat& repeat) const {
    const Action* const first = &actions_[repeat.begin];
    const Action* before = first;
    for (const Action& now : actions_.subspan(repeat.begin + repeat.period)) {
      if (kind_and_stream(*before) != kind_and_stream(now)) break;
      const bool is_any = now.kind == ActionKind::alloc || now.kind == ActionKind::free;
      if (!is_any && !is_like(*before, now, repeat)) break;
      ++before;
    }
    return static_cast<std::uint32_t>(before - first);
  }

  // Two of a kind and a stream, a period apart; all between them are like those a period before.
  bool is_like(const Action& a, const Action& b, const Repeat& repeat) const {
    switch (a.kind) {
      case ActionKind::launch: {
        const Op &x = graph_.ops[a.a], &y = graph_.ops[b.a];
        return b.a == a.a + repeat.ops && x.cost == y.cost && x.communicator == y.communicator &&
               x.deps.count == 0 && y.deps.count == 0;
      }
      case ActionKind::wait:
      case ActionKind::host_wait_event: {
        const std::uint32_t x = waits_.back(index_of(a)), y = waits_.back(index_of(b));
        return x == y || (x != kNoRecord && y == x + repeat.records);
      }
      case ActionKind::host_delay: return a.a == b.a;
      case ActionKind::host_wait_action:
      case ActionKind::empty_cache: return false;
      default: return true;
    }
  }
  std::uint32_t index_of(const Action& action) const {
    return static_cast<std::uint32_t>(&action - actions_.data());
  }

  const Graph& graph_;
  std::span<const Action> actions_;
  Waits waits_;
  const Found* before_;
};

}  // namespace

ProgramRepeats find_repeats(const Graph& graph, const Program& program) {
  ProgramRepeats all(program.threads.size());
  for (std::size_t thread = 0; thread < all.size(); ++thread) {
    Found before;  // a steady step mostly repeats what the first one does
    for (std::size_t section = 0; section < kSections; ++section) {
      const std::span<const Action> actions = program.threads[thread].sections[section];
      Found found = Finder(graph, program, actions, &before).find();
      all[thread][section] = found.repeats;
      before = std::move(found);
    }
  }
  return all;
}

std::vector<Repeat> find_repeats(const Graph& graph, const Program& program,
                                 std::span<const Action> actions) {
  return Finder(graph, program, actions).find().repeats;
}

}  // namespace foregather::sim
