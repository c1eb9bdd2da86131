#include "core/rebuild/matched_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace foregather::rebuild {
namespace {

struct Launched {
  std::uint32_t op = 0;
  OpKind kind = OpKind::other;
  Bytes bytes = 0;
  std::optional<std::int64_t> sequence;
};

/// What one rank launched of a group on one stream.
struct List {
  std::uint32_t recording = 0;
  std::uint32_t size = 0;      ///< of the group
  std::uint32_t position = 0;  ///< of the first launch
  std::vector<Launched> collectives;
};

/// Of one group: by recording, then by the first launch.
using Lists = std::vector<List>;

bool is_point_to_point(std::string_view name) {
  return name.find("send") != std::string_view::npos || name.find("recv") != std::string_view::npos;
}

class Collecting {
 public:
  explicit Collecting(MatchedCollectives& matched) : matched_(matched) {}

  void add(const RankTimeline& rank, std::uint32_t recording) {
    // By group and the recording's stream, which may be several of the timeline's: those of one run
    // one after another but for what a kernel does ahead of the end of the one before it.
    std::map<std::pair<std::string, std::uint32_t>, List> lists;
    const run::Recording& from = *rank.recording;
    for (std::uint32_t i = 0; i < rank.timeline.ops.size(); ++i) {
      const RecordedOp& op = rank.timeline.ops[i];
      Launched launched;
      launched.op = i;
      launched.kind = rank.labels.of(op).kind;
      if (!is_collective(launched.kind)) continue;
      std::string group = "?";
      std::uint32_t size = from.world_size.value_or(0);
      if (const run::CollectiveRow described = rank.labels.collective(op)) {
        const run::RecordedCollective& of = from.collectives[described.row()];
        if (of.group && !from.text(of.group).empty()) group = from.text(of.group);
        if (of.ranks && !from.text(of.ranks).empty())
          group += fmt::format(" {}", from.text(of.ranks));
        if (of.group_size > 0) size = of.group_size;
        launched.bytes = message_bytes(from, of);
        launched.sequence = of.sequence;
        if (size > 2 && is_point_to_point(from.text(of.name))) {
          ++matched_.counts[group].unmatched;
          continue;
        }
      }
      const auto [list, is_new] =
          lists.try_emplace({std::move(group), from.activities.lane[op.activity.row()].row()});
      if (is_new) list->second = {recording, size, op.position, {}};
      list->second.position = std::min(list->second.position, op.position);
      list->second.collectives.push_back(launched);
    }
    for (auto& [key, list] : lists) groups_[key.first].push_back(std::move(list));
  }

  void run() {
    for (auto& [name, lists] : groups_) {
      std::sort(lists.begin(), lists.end(), [](const List& a, const List& b) {
        return std::pair(a.recording, a.position) < std::pair(b.recording, b.position);
      });
      std::vector<std::vector<List*>> streams;
      std::size_t stream = 0;
      for (std::size_t i = 0; i < lists.size(); ++i) {
        stream = i > 0 && lists[i].recording == lists[i - 1].recording ? stream + 1 : 0;
        if (stream == streams.size()) streams.emplace_back();
        streams[stream].push_back(&lists[i]);
      }
      for (const auto& members : streams) match(name, members);
    }
  }

 private:
  void match(const std::string& name, const std::vector<List*>& members) {
    std::int64_t ops = 0;
    for (const List* member : members) ops += std::ssize(member->collectives);
    CollectiveChain chain;
    chain.group = name;
    for (const List* member : members) {
      chain.recordings.push_back(member->recording);
      chain.size = std::max(chain.size, member->size);
    }
    chain.size = std::max<std::uint32_t>(chain.size, static_cast<std::uint32_t>(members.size()));
    if (members.size() > 1) {
      const bool numbered = std::all_of(members.begin(), members.end(), [](const List* member) {
        return std::all_of(member->collectives.begin(), member->collectives.end(),
                           [](const Launched& one) { return one.sequence; });
      });
      if (numbered)
        by_sequence(members, chain);
      else if (agree(members))
        by_order(members, chain);
    }
    CollectiveCount& count = matched_.counts[name];
    count.matched += std::ssize(chain.ops);
    count.unmatched += ops - std::ssize(chain.ops);
    if (!chain.ops.empty()) matched_.chains.push_back(std::move(chain));
  }

  static bool agree(const std::vector<List*>& members) {
    const auto& first = members.front()->collectives;
    return std::all_of(members.begin(), members.end(), [&](const List* member) {
      return std::equal(first.begin(), first.end(), member->collectives.begin(),
                        member->collectives.end(), [](const Launched& a, const Launched& b) {
                          return a.kind == b.kind &&
                                 (a.bytes == b.bytes || a.kind == OpKind::all_to_all);
                        });
    });
  }

  static void by_order(const std::vector<List*>& members, CollectiveChain& chain) {
    for (std::size_t i = 0; i < members.front()->collectives.size(); ++i)
      for (const List* member : members) chain.ops.push_back(member->collectives[i].op);
  }

  // Those that all ranks have, as long as all have them in one order.
  static void by_sequence(const std::vector<List*>& members, CollectiveChain& chain) {
    using Key = std::tuple<std::int64_t, std::uint32_t, OpKind>;
    struct Found {
      Key key;
      std::uint32_t member = 0, op = 0;
    };
    std::vector<Found> all;
    for (std::uint32_t m = 0; m < members.size(); ++m) {
      std::map<std::int64_t, std::uint32_t> seen;
      for (const Launched& one : members[m]->collectives)
        all.push_back({{*one.sequence, seen[*one.sequence]++, one.kind}, m, one.op});
    }
    std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
      return std::tie(a.key, a.member) < std::tie(b.key, b.member);
    });
    std::vector<std::uint32_t> last(members.size());
    for (std::size_t i = 0; i + members.size() <= all.size();) {
      std::size_t end = i;
      bool in_order = true;
      for (; end < all.size() && all[end].key == all[i].key; ++end)
        in_order = in_order && (chain.ops.empty() || all[end].op > last[all[end].member]);
      if (end - i == members.size() && in_order)
        for (std::size_t k = i; k < end; ++k) chain.ops.push_back(last[all[k].member] = all[k].op);
      i = end;
    }
  }

  MatchedCollectives& matched_;
  std::map<std::string, Lists> groups_;
};

}  // namespace

MatchedCollectives match_collectives(const RankTimelines& ranks) {
  MatchedCollectives matched;
  Collecting collecting(matched);
  for (std::uint32_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] != nullptr) collecting.add(*ranks[i], i);
  collecting.run();
  return matched;
}

}  // namespace foregather::rebuild
