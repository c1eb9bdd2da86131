// prefetch=budget: DeepCompile's prefetch pass (reference: DeepCompile §C.5).
#include <algorithm>
#include <deque>

#include "core/base/text.h"
#include "sim/memory/live.h"
#include "sim/passes/compiled_graph.h"
#include "sim/passes/passes.h"
#include "sim/passes/shard_dtype.h"

namespace foregather::sim {
namespace {

constexpr Bytes kMostBuffered = 4'000'000'000;  // MAX_BUFFERED_SIZE
constexpr Bytes kMostFused = 1'000'000'000;     // MAX_FUSE_SIZE

/// The time of an all-gather by the size of its output, as DeepCompile measures it at start: bf16,
/// powers of two elements, between them and beyond linear; 0 for nothing.
class GatherTimes {
 public:
  GatherTimes(const PassTarget& target, GroupId group) {
    Graph probe;
    probe.strings = target.graph.strings;
    probe.rank_lists = target.graph.rank_lists;
    probe.groups = target.graph.groups;
    probe.communicators = target.graph.communicators;
    probe.world_size = target.graph.world_size;
    constexpr int kPowers = 30;
    for (int power = 1; power <= kPowers; ++power) {
      Cost cost;
      cost.kind = OpKind::all_gather;
      cost.dtype = DType::bf16;
      cost.group = group;
      cost.message_bytes = (Bytes{1} << power) * size_of(cost.dtype);
      cost.bytes_written = cost.message_bytes;
      probe.costs.push_back(cost);
    }
    PriceChanges changes = target.prices;
    changes.costs.clear();
    const CostTable table = target.context.price(probe, changes);
    for (int i = 0; i < kPowers; ++i)
      points_.push_back({probe.costs[static_cast<std::size_t>(i)].message_bytes,
                         table.prices[static_cast<std::size_t>(i)].duration});
  }

  double operator()(Bytes bytes) const {
    if (bytes == 0) return 0;
    std::size_t right = 1;
    while (right + 1 < points_.size() && points_[right].bytes < bytes) ++right;
    const Point& a = points_[right - 1];
    const Point& b = points_[right];
    const double slope =
        static_cast<double>(b.time - a.time) / static_cast<double>(b.bytes - a.bytes);
    return static_cast<double>(a.time) + slope * static_cast<double>(bytes - a.bytes);
  }

 private:
  struct Point {
    Bytes bytes = 0;
    Ns time = 0;
  };
  std::vector<Point> points_;
};

using Rows = std::vector<std::uint32_t>;

/// The gathers of a graph, in groups, and the node behind which each is issued.
struct IssuedGroup {
  Rows gathers;  ///< in the order of the graph
  std::optional<std::uint32_t> behind;
};

/// Walks the graph in reverse. `sizes` and `live`, by node: bytes of a gather, bytes held at its
/// launch.
std::vector<IssuedGroup> prefetch_groups(const CompiledGraph& graph,
                                         const std::vector<Bytes>& sizes,
                                         const std::vector<Bytes>& live, Bytes budget,
                                         const GatherTimes& times) {
  std::vector<IssuedGroup> issued;
  std::deque<Rows> closed;
  Rows pending;
  Bytes collected = 0;
  const auto bytes_of = [&](const Rows& rows) {
    Bytes bytes = 0;
    for (const std::uint32_t row : rows) bytes += sizes[row];
    return bytes;
  };
  const auto issue = [&](Rows rows, std::optional<std::uint32_t> behind) {
    collected -= bytes_of(rows);
    std::reverse(rows.begin(), rows.end());
    issued.push_back({std::move(rows), behind});
  };
  for (auto n = static_cast<std::uint32_t>(graph.nodes.size()); n-- > 0;) {
    const Bytes before = n > 0 ? live[n - 1] : 0;
    while (before + collected > budget || collected > kMostBuffered) {
      if (closed.empty()) {
        if (pending.empty()) break;
        closed.push_back(std::move(pending));
        pending.clear();
      }
      issue(std::move(closed.front()), n);
      closed.pop_front();
    }
    if (!graph.nodes[n].is_gather) continue;
    const Bytes so_far = bytes_of(pending);
    constexpr double kFuse = 1.2;
    const bool fuses =
        times(so_far + sizes[n]) < kFuse * std::max(times(so_far), times(sizes[n])) &&
        so_far + sizes[n] < kMostFused;
    if (!pending.empty() && !fuses) {
      closed.push_back(std::move(pending));
      pending.clear();
    }
    pending.push_back(n);
    collected += sizes[n];
  }
  if (!pending.empty()) closed.push_back(std::move(pending));
  for (Rows& rows : closed) issue(std::move(rows), std::nullopt);
  std::reverse(issued.begin(), issued.end());
  return issued;
}

/// The nodes with the gathers where their groups are issued.
Rows order_of(const CompiledGraph& graph, const std::vector<IssuedGroup>& groups) {
  Rows order;
  std::vector<Rows> behind(graph.nodes.size());
  for (const IssuedGroup& group : groups) {
    Rows& rows = group.behind ? behind[*group.behind] : order;
    rows.insert(rows.end(), group.gathers.begin(), group.gathers.end());
  }
  for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (!graph.nodes[n].is_gather) order.push_back(n);
    order.insert(order.end(), behind[n].begin(), behind[n].end());
  }
  return order;
}

struct PrefetchBudget {
  std::string text;
  std::optional<bool> in_shard_dtype;

  Result<PassNote> operator()(PassTarget& target) const {
    if (!target.context.price || target.context.device_memory == 0)
      return PassNote{text, "the times of gathers, or the device's memory, are not known", false};
    Rewriter rewriter(target.graph);
    auto program = compiled_graphs(rewriter.graph());
    if (!program)
      return PassNote{text, "the schedule is none of DeepCompile's: " + program.error().message,
                      false};
    // The profile is of the graphs as they are.
    const std::vector<Bytes> live = live_at_launch(target.graph);
    const CostTable prices = target.context.price(target.graph, target.prices);
    const bool shards = in_shard_dtype.value_or(target.prefetches_shards);
    std::vector<Bytes> sizes(target.graph.ops.size());
    Widener widener(rewriter, *program);
    std::size_t widened = 0, gathers = 0, moved = 0, groups = 0;
    for (const CompiledGraph& graph : program->graphs)
      for (const CompiledNode& node : graph.nodes) {
        if (!node.is_gather) continue;
        sizes[node.ops.back().row()] = rewriter.graph().at(*node.gathered).bytes;
        ++gathers;
        if (!shards || !is_fused_downcast(rewriter.graph(), node)) continue;
        widener.widen(graph, node);
        ++widened;
      }
    if (widened > 0) {
      rewriter.flush();
      program = compiled_graphs(rewriter.graph());
      if (!program) return tl::unexpected(program.error());
    }
    const Bytes budget = target.context.device_memory / 10 * 9;
    for (const CompiledGraph& graph : program->graphs) {
      std::vector<Bytes> bytes, held;
      std::vector<bool> prefetched;
      const GatherTimes times(target, group_of(rewriter.graph(), graph));
      for (const CompiledNode& node : graph.nodes) {
        const std::size_t op = node.ops.back().row();
        bytes.push_back(op < sizes.size() ? sizes[op] : 0);
        held.push_back(op < live.size() && live[op] != 0 ? live[op]
                       : held.empty()                    ? 0
                                                         : held.back());
        prefetched.push_back(node.is_gather);
      }
      const auto issued = prefetch_groups(graph, bytes, held, budget, times);
      groups += issued.size();
      const Rows order = order_of(graph, issued);
      for (std::size_t i = 0; i < order.size(); ++i)
        moved += graph.nodes[order[i]].is_gather && order[i] != i ? 1 : 0;
      write_compiled_graph(rewriter, *program, graph, order, prefetched);
    }
    if (moved == 0 && widened == 0) return PassNote{text, "no gather can be issued earlier", false};
    rewriter.flush();
    std::string did = fmt::format("{} gathers issued ahead in {} groups", gathers, groups);
    if (widened > 0)
      did += fmt::format(
          "; {} of them send the shard's dtype though their downcast was fused (DeepSpeed's "
          "prefetch "
          "passes no dtype): {} more gathered, and a full-size cast at the use of each",
          widened, format_bytes(widener.bytes_more()));
    return settle(target, rewriter, {text, did, true});
  }

  static GroupId group_of(const Graph& graph, const CompiledGraph& compiled) {
    for (const CompiledNode& node : compiled.nodes)
      if (node.is_gather) return graph.at(graph.at(node.ops.back()).cost).group;
    return {};
  }
};

}  // namespace

Result<Pass> parse_prefetch_budget(const PassArguments& arguments) {
  PrefetchBudget pass;
  pass.text = arguments.text;
  for (const auto& [key, value] : arguments.options) {
    if (key != "prefetch_dtype")
      return bad_pass(arguments, "unknown option '{}', known is prefetch_dtype", key);
    if (value != "shard" && value != "target")
      return bad_pass(arguments, "prefetch_dtype is '{}', expected target or shard", value);
    pass.in_shard_dtype = value == "shard";
  }
  return Pass(pass);
}

}  // namespace foregather::sim
