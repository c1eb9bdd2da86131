// order=fast-free: DeepCompile's list scheduler, applied to each graph of a schedule.
#include "sim/passes/compiled_graph.h"
#include "sim/passes/fast_free.h"
#include "sim/passes/passes.h"

namespace foregather::sim {
namespace {

std::vector<FreeNode> free_nodes(const Graph& graph, const CompiledGraph& compiled,
                                 const CostTable& prices) {
  std::vector<FreeNode> nodes;
  for (const CompiledNode& node : compiled.nodes) {
    FreeNode& each = nodes.emplace_back();
    each.args = node.args;
    each.is_gather = node.is_gather;
    each.is_reduce = node.is_reduce;
    each.is_output = node.is_output;
    for (const OpId op : node.ops) each.time += prices.prices[graph.at(op).cost.row()].duration;
    if (!node.is_gather) continue;
    each.bytes = graph.at(*node.gathered).bytes;
    each.last_use = node.last_use;
    each.name = node_name(graph, node);
  }
  return nodes;
}

struct FastFree {
  std::string text;
  FreeRule rule = FreeRule::since_2026;

  Result<PassNote> operator()(PassTarget& target) const {
    if (!target.context.price)
      return PassNote{text, "the schedule keeps its order: the times of its ops are not known",
                      false};
    Rewriter rewriter(target.graph);
    const auto program = compiled_graphs(rewriter.graph());
    if (!program)
      return PassNote{
          text,
          "the schedule keeps its order, it is none of DeepCompile's: " + program.error().message,
          false, true};
    const CostTable prices = target.context.price(rewriter.graph(), target.prices);
    std::size_t gathers = 0, moved = 0;
    for (const CompiledGraph& graph : program->graphs) {
      const auto order = fast_free_order(free_nodes(rewriter.graph(), graph, prices), rule);
      for (std::size_t i = 0; i < order.size(); ++i) {
        moved += order[i] != i ? 1 : 0;
        gathers += graph.nodes[i].is_gather ? 1 : 0;
      }
      write_compiled_graph(rewriter, *program, graph, order);
    }
    if (moved == 0) return PassNote{text, "the graphs have this order already", false};
    rewriter.flush();
    return settle(target, rewriter,
                  {text,
                   fmt::format("{} gathers of {} graphs in the order that frees them soonest",
                               gathers, program->graphs.size()),
                   true});
  }
};

}  // namespace

Result<Pass> parse_fast_free(const PassArguments& arguments) {
  FastFree pass;
  pass.text = arguments.text;
  for (const auto& [key, value] : arguments.options) {
    if (key != "rule")
      return bad_pass(arguments, "unknown option '{}', expected rule=2025 or rule=2026", key);
    if (value != "2025" && value != "2026")
      return bad_pass(arguments, "rule is '{}', expected 2025 or 2026", value);
    pass.rule = value == "2025" ? FreeRule::until_2026 : FreeRule::since_2026;
  }
  return Pass(pass);
}

}  // namespace foregather::sim
