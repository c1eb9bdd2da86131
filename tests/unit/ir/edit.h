// Ways to break a schedule.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/validate.h"

namespace foregather::test {

using ActionTest = std::function<bool(const Graph&, const Action&)>;

/// The first storage of that name (and scope, if one is given).
StorageId storage_named(const Graph& graph, std::string_view name, std::string_view scope = {});

/// An action of that kind on that storage, event, tensor or op.
ActionTest action(ActionKind kind, std::uint32_t a);
/// A launch of an op of that kind.
ActionTest launch_of(OpKind kind);

/// Replaces matching actions by harmless ones, so that positions stay. All programs, all threads.
void drop(Graph& graph, const ActionTest& test,
          std::initializer_list<Section> sections = {Section::first, Section::body});
/// Repeats the first matching action of the first thread that has one, right behind it.
void repeat(Graph& graph, const ActionTest& test, Section section = Section::body);

/// The kinds of problems, each once, in order of their first message.
std::vector<ProblemKind> kinds_of(const std::vector<Problem>& problems);
/// All messages, for INFO.
std::string text_of(const std::vector<Problem>& problems);
/// Is one of that kind with that text in its message among them?
bool has(const std::vector<Problem>& problems, ProblemKind kind, std::string_view text);

}  // namespace foregather::test
