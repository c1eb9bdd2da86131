#include "core/ir/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/ir/collective_order.h"
#include "core/ir/op_key.h"
#include "core/ir/references.h"
#include "core/ir/symbolic_run.h"

namespace foregather {
namespace {

using namespace std::string_view_literals;

constexpr std::array kNames{"bad reference"sv,  "use after free"sv, "double alloc"sv,
                            "double free"sv,    "leak"sv,           "never recorded"sv,
                            "launched twice"sv, "never launched"sv, "collective mismatch"sv,
                            "hazard"sv,         "deadlock"sv};

}  // namespace

std::string_view name(ProblemKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::vector<Problem> validate(const Graph& graph, std::size_t limit) {
  ProblemList problems(limit);
  for (const BadRow& bad : check_references(graph, limit))
    problems.add(ProblemKind::bad_reference, bad.label() + ": " + bad.message);
  std::vector<Problem> bad = problems.take();
  if (!bad.empty()) return bad;

  TensorFacts tensors(graph);
  std::vector<CollectiveLists> collectives(graph.programs.size());
  bool is_complete = true;
  for (std::size_t p = 0; p < graph.programs.size() && !problems.is_full(); ++p) {
    SymbolicRun run(graph, ProgramId(p), tensors, problems);
    run.run();
    is_complete &= run.is_complete();
    for (const Section section : {Section::init, Section::first, Section::body})
      collectives[p][static_cast<std::size_t>(section)] = run.collectives(section);
  }
  if (is_complete) compare_collectives(graph, collectives, problems);
  return problems.take();
}

}  // namespace foregather
