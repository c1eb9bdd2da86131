#include "core/ir/collective_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/ir/names.h"
#include "core/ir/op_key.h"

namespace foregather {
namespace {

// Collectives of one program and section, grouped by communicator, in launch order.
class ByCommunicator {
 public:
  ByCommunicator() = default;
  ByCommunicator(const Graph& graph, std::vector<OpId> ops) : graph_(&graph), ops_(std::move(ops)) {
    std::stable_sort(ops_.begin(), ops_.end(),
                     [this](OpId a, OpId b) { return communicator(a) < communicator(b); });
  }
  std::span<const OpId> of(CommunicatorId wanted) const {
    const auto first = std::partition_point(ops_.begin(), ops_.end(),
                                            [&](OpId op) { return communicator(op) < wanted; });
    const auto last = std::partition_point(first, ops_.end(),
                                           [&](OpId op) { return communicator(op) == wanted; });
    return {first, last};
  }

 private:
  CommunicatorId communicator(OpId op) const { return graph_->at(op).communicator; }

  const Graph* graph_ = nullptr;
  std::vector<OpId> ops_;
};

class Comparison {
 public:
  Comparison(const Graph& graph, const std::vector<CollectiveLists>& launched,
             ProblemList& problems)
      : graph_(graph), problems_(problems), in_group_(graph.world_size) {
    for (const CollectiveLists& lists : launched) {
      auto& sections = launched_.emplace_back();
      for (std::size_t s = 0; s < kSections; ++s) sections[s] = ByCommunicator(graph, lists[s]);
    }
  }

  void run() {
    for (std::uint32_t row = 0; row < graph_.communicators.size(); ++row) communicator(row);
  }

 private:
  void communicator(std::uint32_t row) {
    const Group& group = graph_.at(graph_.communicators[row].group);
    for (std::uint32_t rank : graph_.ranks_of(group.ranks)) in_group_[rank] = row + 1;
    const RankClass* expected = nullptr;
    for (const RankClass& rank_class : graph_.classes) {
      const auto ranks = graph_.ranks_of(rank_class.ranks);
      const auto members = std::count_if(ranks.begin(), ranks.end(), [&](std::uint32_t rank) {
        return in_group_[rank] == row + 1;
      });
      const bool is_outside = group.instances == 1 && std::size_t(members) < ranks.size();
      if (is_outside && launches(rank_class, row)) outsider(rank_class, row);
      if (group.instances == 1 && members == 0) continue;
      if (expected == nullptr)
        expected = &rank_class;
      else if (expected->program != rank_class.program)
        compare(*expected, rank_class, row);
    }
  }

  bool launches(const RankClass& rank_class, std::uint32_t row) const {
    const auto& sections = launched_[rank_class.program.row()];
    return std::any_of(sections.begin(), sections.end(), [&](const ByCommunicator& section) {
      return !section.of(CommunicatorId(row)).empty();
    });
  }

  void outsider(const RankClass& rank_class, std::uint32_t row) {
    problems_.add(ProblemKind::collective_mismatch,
                  fmt::format("class {} launches on communicator {}, but not all of its ranks are "
                              "in the group {}",
                              graph_.text(rank_class.name), communicator_name(row),
                              graph_.text(graph_.at(graph_.communicators[row].group).name)));
  }

  void compare(const RankClass& a, const RankClass& b, std::uint32_t row) {
    for (const Section section : {Section::init, Section::first, Section::body}) {
      const auto list = [&](const RankClass& rank_class) {
        return launched_[rank_class.program.row()][static_cast<std::size_t>(section)].of(
            CommunicatorId(row));
      };
      const std::span<const OpId> left = list(a);
      const std::span<const OpId> right = list(b);
      const auto [l, r] = std::mismatch(
          left.begin(), left.end(), right.begin(), right.end(), [this](OpId x, OpId y) {
            return graph_.at(x).kind == graph_.at(y).kind && bytes(x) == bytes(y);
          });
      if (l == left.end() && r == right.end()) continue;
      const auto text = [&](const RankClass& rank_class, std::span<const OpId> ops, auto at) {
        if (at == ops.end()) return std::string("nothing");
        return fmt::format("{} of {} bytes",
                           op_key(graph_, *at, graph_.ranks_of(rank_class.ranks)[0],
                                  section == Section::body ? 1 : 0),
                           bytes(*at));
      };
      problems_.add(
          ProblemKind::collective_mismatch,
          fmt::format("collective {} on communicator {} in {}: class {} launches {}, class {} {}",
                      l - left.begin(), communicator_name(row), name(section), graph_.text(a.name),
                      text(a, left, l), graph_.text(b.name), text(b, right, r)));
      return;
    }
  }

  Bytes bytes(OpId op) const { return graph_.at(graph_.at(op).cost).message_bytes; }
  std::string_view communicator_name(std::uint32_t row) const {
    return graph_.text(graph_.communicators[row].name);
  }

  const Graph& graph_;
  ProblemList& problems_;
  std::vector<std::array<ByCommunicator, kSections>> launched_;
  std::vector<std::uint32_t> in_group_;  ///< by rank: row + 1 of the last communicator that has it
};

}  // namespace

void compare_collectives(const Graph& graph, const std::vector<CollectiveLists>& launched,
                         ProblemList& problems) {
  Comparison(graph, launched, problems).run();
}

}  // namespace foregather
