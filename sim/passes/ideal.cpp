#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "sim/passes/passes.h"

namespace foregather::sim {
namespace {

/// A pipeline's receives were posted behind what the rank happened to compute before: a delay,
/// unless that is of their own direction.
void post_at_once(Graph& graph) {
  const auto is_receive = [&](const Op& op) {
    return op.kind == OpKind::send_recv &&
           graph.strings.text(graph.at(op.scope).name).ends_with("-recv");
  };
  for (Op& op : graph.ops) {
    if (!is_receive(op)) continue;
    const auto deps = std::span(graph.op_lists).subspan(op.deps.first, op.deps.count);
    const auto kept = std::stable_partition(
        deps.begin(), deps.end(), [&](OpId dep) { return graph.at(dep).phase == op.phase; });
    op.deps.count = static_cast<std::uint32_t>(kept - deps.begin());
  }
}

struct Ideal {
  std::string text;

  Result<PassNote> operator()(PassTarget& target) const {
    std::size_t ops = 0;
    std::vector<bool> has_usual(target.graph.costs.size());
    for (std::size_t row = 0; row < has_usual.size(); ++row) {
      Cost& cost = target.graph.costs[row];
      has_usual[row] = cost.usual_time.has_value();
      if (!cost.usual_time) continue;
      cost.fixed_time = *cost.usual_time;
      cost.launch_lead = cost.lead = cost.lateness = 0;
    }
    for (const Op& op : target.graph.ops) ops += has_usual[op.cost.row()] ? 1 : 0;
    if (ops == 0) return PassNote{text, "the schedule has no recorded durations", false};
    post_at_once(target.graph);
    return PassNote{text, fmt::format("{} ops take what such ops usually take, at once", ops),
                    true};
  }
};

Result<Pass> parse_ideal(const PassArguments& arguments) {
  if (!arguments.argument.empty() || !arguments.options.empty())
    return bad_pass(arguments, "expected ideal without arguments");
  return Pass(Ideal{std::string(arguments.text)});
}

}  // namespace

// The definition is that of the ideal timelines of "Understanding Stragglers in Large Model
// Training Using What-if Analysis".
const PassInfo kIdealPass{
    "ideal", "", "a recorded step without stragglers and without launch delays",
    R"(Every op of a recording takes what ops of its name (and of as many bytes, or threads) usually take
on all recorded ranks: the mean of work, the median of collectives, from the last arrival on; a
collective whose bytes nobody recorded takes what it took. In a timeline of a pipeline that is over all
of its steps, and its receives wait for compute of their own direction alone. An op begins as soon as all
that it waits for has ended: nothing is left of launch latencies, of delays that the recording does not
explain, and of ranks that were not recorded and came late. What the host does in and between its calls
stays. The recorded step less this one is what stragglers and delays cost.

    rank 0  |--gemm--|··wait··|all-reduce|        |--gemm---|all-reduce|
    rank 1  |------gemm------||all-reduce|   ->   |--gemm---|all-reduce|

Idempotent. Schedules that were not recorded have nothing to change.
)",
    &parse_ideal};

}  // namespace foregather::sim
