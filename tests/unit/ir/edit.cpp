#include "tests/unit/ir/edit.h"

#include <algorithm>
#include <stdexcept>

namespace foregather::test {

StorageId storage_named(const Graph& graph, std::string_view name, std::string_view scope) {
  for (std::size_t row = 0; row < graph.storages.size(); ++row) {
    const Storage& storage = graph.storages[row];
    if (graph.text(storage.name) == name &&
        (scope.empty() || graph.scope_name(storage.scope) == scope))
      return StorageId(row);
  }
  throw std::logic_error("no storage of that name");
}

ActionTest action(ActionKind kind, std::uint32_t a) {
  return [=](const Graph&, const Action& action) { return action.kind == kind && action.a == a; };
}

ActionTest launch_of(OpKind kind) {
  return [=](const Graph& graph, const Action& action) {
    return action.kind == ActionKind::launch && graph.ops[action.a].kind == kind;
  };
}

void drop(Graph& graph, const ActionTest& test, std::initializer_list<Section> sections) {
  bool has_dropped = false;
  for (Program& program : graph.programs)
    for (HostThread& thread : program.threads)
      for (const Section section : sections)
        for (Action& each : thread.sections[static_cast<std::size_t>(section)]) {
          if (!test(graph, each)) continue;
          each = {};
          has_dropped = true;
        }
  if (!has_dropped) throw std::logic_error("nothing to drop");
}

void repeat(Graph& graph, const ActionTest& test, Section section) {
  for (Program& program : graph.programs)
    for (HostThread& thread : program.threads) {
      auto& actions = thread.sections[static_cast<std::size_t>(section)];
      const auto found = std::find_if(actions.begin(), actions.end(),
                                      [&](const Action& each) { return test(graph, each); });
      if (found == actions.end()) continue;
      const Action copy = *found;
      actions.insert(found + 1, copy);
      return;
    }
  throw std::logic_error("nothing to repeat");
}

std::vector<ProblemKind> kinds_of(const std::vector<Problem>& problems) {
  std::vector<ProblemKind> kinds;
  for (const Problem& problem : problems)
    if (std::find(kinds.begin(), kinds.end(), problem.kind) == kinds.end())
      kinds.push_back(problem.kind);
  return kinds;
}

std::string text_of(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems)
    text += std::string(name(problem.kind)) + ": " + problem.message + "\n";
  return text;
}

bool has(const std::vector<Problem>& problems, ProblemKind kind, std::string_view text) {
  return std::any_of(problems.begin(), problems.end(), [&](const Problem& problem) {
    return problem.kind == kind && problem.message.find(text) != std::string::npos;
  });
}

}  // namespace foregather::test
