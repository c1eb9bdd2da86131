#include "sim/passes/recorded_gathers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace foregather::sim {
namespace {

/// Ops that go, and what those who waited for them wait for instead.
class Drops {
 public:
  explicit Drops(Rewriter& rewriter) : rewriter_(rewriter) {}

  bool contains(OpId op) const { return instead_.contains(op); }
  void drop(OpId op, OpId instead) { instead_.emplace(op, instead); }

  void apply() {
    if (instead_.empty()) return;
    rewriter_.replace_deps([this](OpId op) {
      const auto found = instead_.find(op);
      return found == instead_.end() ? op : found->second;
    });
    for (const auto& [op, instead] : instead_) wait_behind(op, instead);
    for (const Section section : {Section::first, Section::body})
      for (const ActionList& list : rewriter_.lists(section)) {
        const std::vector<Action>& actions = rewriter_.actions(list);
        for (std::uint32_t at = 0; at < actions.size(); ++at)
          if (actions[at].kind == ActionKind::launch && contains(OpId(actions[at].a)))
            rewriter_.erase(list, at);
      }
  }

 private:
  // What came behind `op` on its stream had waited for it by that. Ops are in order of their
  // starts.
  void wait_behind(OpId op, OpId instead) {
    const Graph& graph = rewriter_.graph();
    const StreamId stream = graph.at(op).stream;
    if (graph.at(instead).stream == stream) return;
    const auto program =
        std::find_if(graph.programs.begin(), graph.programs.end(),
                     [&](const Program& each) { return each.ops.contains(op.row()); });
    for (std::uint32_t row = op.row() + 1; row < program->ops.end(); ++row) {
      const OpId next(row);
      if (graph.at(next).stream != stream || contains(next)) continue;
      const auto known = graph.deps_of(graph.at(next));
      std::vector<OpId> deps(known.begin(), known.end());
      if (next == instead || std::find(deps.begin(), deps.end(), instead) != deps.end()) return;
      deps.push_back(instead);
      rewriter_.set_deps(next, deps);
      return;
    }
  }

  Rewriter& rewriter_;
  std::map<OpId, OpId> instead_;
};

bool depends_on(const Graph& graph, const Op& op, OpId on) {
  const auto deps = graph.deps_of(op);
  return std::find(deps.begin(), deps.end(), on) != deps.end();
}

std::vector<OpId> dependents(const Graph& graph, const Program& program, OpId on) {
  std::vector<OpId> found;
  for (std::uint32_t row = on.row() + 1; row < program.ops.end(); ++row)
    if (depends_on(graph, graph.ops[row], on)) found.emplace_back(row);
  return found;
}

}  // namespace

bool is_recorded(const Graph& graph) {
  return graph.storages.empty() && !graph.ops.empty() &&
         std::all_of(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
           return graph.at(op.cost).is_fixed && graph.at(op.cost).kernels == 0;
         });
}

ChangedGathers drop_recorded_gathers(Rewriter& rewriter, std::string_view a, std::string_view b) {
  const Graph& graph = rewriter.graph();
  ChangedGathers changed;
  Drops drops(rewriter);
  for (const Program& program : graph.programs) {
    std::map<Phase, OpId> first;  // the last gather of `a`
    for (std::uint32_t row = program.ops.first; row < program.ops.end(); ++row) {
      const Op& op = graph.ops[row];
      if (op.kind != OpKind::all_gather) continue;
      const std::string_view scope = graph.scope_name(op.scope);
      if (scope == a) first[op.phase] = OpId(row);
      const auto before = first.find(op.phase);
      if (scope != b || before == first.end()) continue;
      const Bytes bytes = graph.at(op.cost).message_bytes;
      const Bytes kept = graph.at(graph.at(before->second).cost).message_bytes;
      if (bytes != 0 && kept != 0 && bytes != kept) continue;
      for (const OpId user : dependents(graph, program, OpId(row)))
        if (graph.at(user).kind == OpKind::copy && graph.at(user).scope == op.scope)
          drops.drop(user, before->second);
      drops.drop(OpId(row), before->second);
      ++changed.gathers;
      changed.bytes += bytes;
    }
  }
  drops.apply();
  return changed;
}

ChangedGathers narrow_recorded_gathers(Rewriter& rewriter) {
  const Graph& graph = rewriter.graph();
  ChangedGathers changed;
  Drops drops(rewriter);
  std::vector<std::pair<OpId, Cost>> narrowed;
  for (const Program& program : graph.programs)
    for (std::uint32_t row = program.ops.first; row < program.ops.end(); ++row) {
      const Op& op = graph.ops[row];
      Cost cost = graph.at(op.cost);
      if (op.kind != OpKind::all_gather || cost.message_bytes == 0 || size_of(cost.dtype) != 4)
        continue;
      const std::vector<OpId> users = dependents(graph, program, OpId(row));
      if (users.size() != 1 || graph.at(users.front()).kind != OpKind::cast) continue;
      const Cost& cast = graph.at(graph.at(users.front()).cost);
      cost.dtype = cast.dtype;
      cost.message_bytes /= 2;
      cost.fixed_time = cost.fixed_time / 2 + cast.fixed_time / std::max(graph.world_size, 1U);
      narrowed.emplace_back(row, cost);
      drops.drop(users.front(), OpId(row));
      ++changed.gathers;
      changed.bytes += cost.message_bytes;
    }
  for (const auto& [op, cost] : narrowed)
    rewriter.graph().ops[op.row()].cost = rewriter.add_cost(cost);
  drops.apply();
  return changed;
}

}  // namespace foregather::sim
