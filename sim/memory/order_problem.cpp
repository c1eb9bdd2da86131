#include "sim/memory/order_problem.h"

#include <algorithm>
#include <optional>

#include "core/ir/access_history.h"
#include "sim/memory/host_order.h"
#include "sim/memory/slots.h"

namespace foregather::sim {
namespace {

class OrderWalk {
 public:
  OrderWalk(const Graph& graph, const Program& program, Held held)
      : graph_(graph),
        program_(program),
        held_(held),
        slots_(graph, program),
        old_(program.storages.count, 0),
        current_(program.storages.count),
        histories_(program.storages.count),
        node_of_(program.ops.count) {
    for (const Section section : {Section::init, Section::first})
      for (const HostPoint point : host_order(program, section))
        slots_.perform(program.threads[point.thread].actions(section)[point.index]);
    for (std::uint32_t i = 0; i < old_.size(); ++i) {
      old_[i] = slots_.bound(i) ? 1 : 0;
      if (old_[i] != 0 && held == Held::bound && !storage(i).on_host) begin(i).at_start = true;
    }
  }

  BodyOrder run() {
    for (const HostPoint point : host_order(program_, Section::body))
      perform(program_.threads[point.thread].actions(Section::body)[point.index]);
    // Freed after the last launch: somebody holds it until the end.
    for (const Freed& freed : freed_)
      if (held_ == Held::bound && freed.launches == out_.ops.size())
        problem().storages[freed.life].at_end = true;
    for (const auto& life : current_) {
      if (!life) continue;
      OrderProblem::Storage& row = problem().storages[*life];
      row.at_end = held_ == Held::bound || row.at_start;
    }
    auto& edges = problem().edges;
    std::ranges::sort(edges);
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    problem().nodes = static_cast<std::uint32_t>(out_.ops.size());
    return std::move(out_);
  }

 private:
  struct Freed {
    std::size_t life;
    std::size_t launches;  ///< before
  };

  OrderProblem& problem() { return out_.problem; }
  const Storage& storage(std::uint32_t local) const {
    return graph_.storages[program_.storages.first + local];
  }

  OrderProblem::Storage& begin(std::uint32_t local) {
    current_[local] = problem().storages.size();
    histories_[local].clear();
    out_.storage_of.emplace_back(program_.storages.first + local);
    return problem().storages.emplace_back(OrderProblem::Storage{storage(local).bytes, {}});
  }

  void perform(const Action& action) {
    if (const auto change = slots_.perform(action)) {
      const std::uint32_t local = change->storage;
      if (!change->bound && current_[local]) freed_.push_back({*current_[local], out_.ops.size()});
      current_[local] = {};
      old_[local] = 0;
    }
    if (action.kind == ActionKind::launch) launch(OpId(action.a));
  }

  void launch(OpId id) {
    const Op& op = graph_.at(id);
    const auto node = static_cast<std::uint32_t>(out_.ops.size());
    out_.ops.push_back(id);
    node_of_[id.row() - program_.ops.first] = node;
    for (const OpId dep : graph_.deps_of(op))
      if (const auto before = node_of_[dep.row() - program_.ops.first])
        problem().edges.push_back({*before, node});
    for (const AccessedTensor& access : graph_.accesses_of(op)) touch(access, node);
  }

  void touch(const AccessedTensor& access, std::uint32_t node) {
    const Tensor& tensor = graph_.at(access.tensor);
    const std::uint32_t local = tensor.storage.row() - program_.storages.first;
    if (storage(local).on_host) return;
    const bool writes = access.mode != Access::read;
    if (!current_[local]) {
      OrderProblem::Storage& life = begin(local);
      life.at_start = old_[local] != 0 && access.mode != Access::write;
    }
    OrderProblem::Storage& life = problem().storages[*current_[local]];
    if (life.nodes.empty() || life.nodes.back() != node) life.nodes.push_back(node);
    const Bytes first = tensor.offset + access.offset;
    // Each node on a stream of its own: all conflicts are told.
    const Touch now{first, first + access.bytes, out_.ops[node], StreamId(node), node, writes};
    histories_[local].add(now, life.bytes, [&](const Touch& earlier) {
      problem().edges.push_back({earlier.position, node});
    });
  }

  const Graph& graph_;
  const Program& program_;
  Held held_;
  Slots slots_;
  std::vector<std::uint8_t> old_;                    // bound since before the body
  std::vector<std::optional<std::size_t>> current_;  // life of a storage
  std::vector<AccessHistory> histories_;
  std::vector<std::optional<std::uint32_t>> node_of_;  // by op of the program
  std::vector<Freed> freed_;
  BodyOrder out_;
};

}  // namespace

OrderIndex::OrderIndex(const OrderProblem& problem) : nodes_(problem.nodes) {
  const auto fill = [&](Lists& lists, const auto& for_each) {
    lists.first.assign(nodes_ + 1, 0);
    for_each([&](std::uint32_t node, std::uint32_t) { ++lists.first[node + 1]; });
    for (std::uint32_t node = 0; node < nodes_; ++node) lists.first[node + 1] += lists.first[node];
    lists.items.resize(lists.first[nodes_]);
    std::vector<std::uint32_t> at = lists.first;
    for_each([&](std::uint32_t node, std::uint32_t item) { lists.items[at[node]++] = item; });
  };
  fill(after_, [&](const auto& add) {
    for (const OrderProblem::Edge& edge : problem.edges) add(edge.before, edge.after);
  });
  fill(before_, [&](const auto& add) {
    for (const OrderProblem::Edge& edge : problem.edges) add(edge.after, edge.before);
  });
  fill(touched_, [&](const auto& add) {
    for (std::uint32_t s = 0; s < problem.storages.size(); ++s)
      for (const std::uint32_t node : problem.storages[s].nodes) add(node, s);
  });
}

BodyOrder body_order(const Graph& graph, const Program& program, Held held) {
  return OrderWalk(graph, program, held).run();
}

}  // namespace foregather::sim
