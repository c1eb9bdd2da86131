// Thunder traces as texts, and the schedules that they become.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "sim/memory/live.h"
#include "traces/thunder_graph.h"

namespace foregather::test {

/// The graph of one or two texts; keeps what it has views into.
struct Lowered {
  std::vector<std::string> texts;
  std::vector<traces::ThunderFile> files;
  traces::ThunderGraph result;

  explicit Lowered(std::vector<std::string> contents, traces::ThunderGraphOptions options = {})
      : texts(std::move(contents)) {
    for (const std::string& text : texts) {
      auto file = traces::read_thunder(text, "t.txt");
      REQUIRE(file);
      files.push_back(std::move(*file));
    }
    std::vector<traces::ThunderPart> parts;
    for (const traces::ThunderFile& file : files)
      for (const traces::ThunderPart& part : traces::thunder_parts(file, "t.txt", result.warnings))
        parts.push_back(part);
    auto graph = traces::thunder_graph(parts, options);
    REQUIRE(graph);
    result = std::move(*graph);
    const auto problems = validate(result.graph, 1);
    INFO((problems.empty() ? "" : problems.front().message));
    REQUIRE(problems.empty());
  }

  const Graph& graph() const { return result.graph; }
  Bytes live_peak() const { return sim::live_memory(graph()).front().steady.bytes; }
  /// Kind of collective: count and bytes.
  std::map<std::string, std::pair<int, Bytes>> collectives() const {
    std::map<std::string, std::pair<int, Bytes>> all;
    for (const Op& op : graph().ops) {
      if (!is_collective(op.kind)) continue;
      auto& [count, bytes] = all[std::string(name(op.kind))];
      ++count;
      bytes += graph().at(op.cost).message_bytes;
    }
    return all;
  }
  int ops_of(OpKind kind) const {
    return static_cast<int>(std::count_if(graph().ops.begin(), graph().ops.end(),
                                          [&](const Op& op) { return op.kind == kind; }));
  }
};

inline std::string head(const std::string& parameters) {
  return "@torch.no_grad()\n@no_autocast\ndef computation(" + parameters + "):\n";
}

}  // namespace foregather::test
