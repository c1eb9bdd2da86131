// selective-gather: DeepCompile keeps parameters gathered that are worth their bytes (reference:
// DeepCompile §C.6).
#include <algorithm>
#include <map>
#include <set>

#include "core/base/text.h"
#include "core/plan/key_values.h"
#include "sim/memory/host_order.h"
#include "sim/memory/live.h"
#include "sim/passes/compiled_graph.h"
#include "sim/passes/passes.h"
#include "sim/passes/shard_dtype.h"

namespace foregather::sim {
namespace {

/// A parameter's buffer, which each graph that needs it gathers anew.
struct Choice {
  StorageId gathered;
  Bytes bytes = 0;  ///< kept, in the shard's dtype
  Ns time = 0;      ///< of all its gathers in a step
  std::size_t gathers = 0;
};

// What is kept, best first: most time a byte.
std::vector<Choice> chosen(const Graph& graph, const CompiledProgram& program,
                           const CostTable& prices, Bytes available) {
  std::vector<Choice> all;
  std::map<StorageId, std::size_t> rows;
  for (const CompiledGraph& each : program.graphs) {
    std::set<StorageId> freed;
    const auto& actions = graph.programs.front().threads[each.list.thread].actions(Section::body);
    for (std::uint32_t i = each.actions[1].first; i < each.actions[1].end(); ++i)
      if (actions[i].kind == ActionKind::free) freed.insert(StorageId(actions[i].a));
    for (const CompiledNode& node : each.nodes) {
      if (!node.is_gather || !freed.contains(*node.gathered)) continue;  // kept already
      const auto [at, is_new] = rows.try_emplace(*node.gathered, all.size());
      if (is_new) all.push_back({*node.gathered, graph.at(*node.gathered).bytes, 0, 0});
      Choice& choice = all[at->second];
      ++choice.gathers;
      choice.time += prices.prices[graph.at(node.ops.back()).cost.row()].duration;
      if (!is_fused_downcast(graph, node)) continue;
      const auto shard = graph.accesses_of(graph.at(node.ops.front()));
      choice.bytes = graph.at(*node.gathered).bytes / size_of(graph.at(shard[1].tensor).dtype) *
                     size_of(graph.at(shard[0].tensor).dtype);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Choice& a, const Choice& b) {
    return static_cast<double>(a.time) * static_cast<double>(b.bytes) >
           static_cast<double>(b.time) * static_cast<double>(a.bytes);
  });
  std::size_t fit = 0;
  for (Bytes sum = 0; fit < all.size() && sum + all[fit].bytes <= available; ++fit)
    sum += all[fit].bytes;
  all.resize(fit);
  return all;
}

// Each storage is gathered by the first graph of a section that does so, and freed at its end.
class Keeper {
 public:
  Keeper(Rewriter& rewriter, const CompiledProgram& program, const std::set<StorageId>& kept)
      : rewriter_(rewriter), program_(program), kept_(kept) {}

  void keep(Section section) {
    const Program& program = rewriter_.graph().at(program_.program);
    std::set<StorageId> bound;
    std::optional<HostPoint> last;
    for (const HostPoint point : host_order(program, section)) {
      const ActionList list{program_.program, point.thread, section};
      const Action action = rewriter_.actions(list)[point.index];
      if (action.kind == ActionKind::launch) last = point;
      const auto erase = [&] { rewriter_.erase(list, point.index); };
      const bool names = action.kind == ActionKind::alloc || action.kind == ActionKind::free ||
                         action.kind == ActionKind::record_stream;
      if (names && kept_.contains(StorageId(action.a)) &&
          (action.kind != ActionKind::alloc || bound.contains(StorageId(action.a))))
        erase();
      if (action.kind == ActionKind::alloc && kept_.contains(StorageId(action.a)))
        bound.insert(StorageId(action.a));
      if (action.kind != ActionKind::launch) continue;
      const auto gathered = output_of(OpId(action.a));
      if (gathered && !gathered_.insert({section, *gathered}).second) erase();
    }
    if (!last) return;
    const ActionList list{program_.program, last->thread, section};
    for (const StorageId id : bound) {
      rewriter_.insert_after(list, last->index,
                             {ActionKind::record_stream, program_.streams.main, id.row(), 0});
      rewriter_.insert_after(list, last->index, {ActionKind::free, {}, id.row(), 0});
    }
  }

 private:
  std::optional<StorageId> output_of(OpId op) const {
    const Graph& graph = rewriter_.graph();
    if (graph.at(op).role != Role::gather) return std::nullopt;
    for (const AccessedTensor& part : graph.accesses_of(graph.at(op)))
      if (part.mode == Access::write && kept_.contains(graph.at(part.tensor).storage))
        return graph.at(part.tensor).storage;
    return std::nullopt;
  }

  Rewriter& rewriter_;
  const CompiledProgram& program_;
  const std::set<StorageId>& kept_;
  std::set<std::pair<Section, StorageId>> gathered_;
};

struct SelectiveGather {
  std::string text;
  std::optional<Bytes> budget;

  Result<PassNote> operator()(PassTarget& target) const {
    if (!target.context.price || (!budget && target.context.device_memory == 0))
      return PassNote{text, "the times of gathers, or the device's memory, are not known", false};
    Rewriter rewriter(target.graph);
    auto program = compiled_graphs(rewriter.graph());
    if (!program)
      return PassNote{text, "the schedule is none of DeepCompile's: " + program.error().message,
                      false};
    const CostTable prices = target.context.price(target.graph, target.prices);
    const Bytes available = budget ? *budget
                                   : target.context.device_memory / 10 * 9 -
                                         live_memory(target.graph).front().steady.bytes;
    const auto choices = chosen(target.graph, *program, prices, available);
    if (choices.empty())
      return PassNote{text,
                      fmt::format("no parameter that is gathered and freed fits into {}",
                                  format_bytes(std::max<Bytes>(available, 0))),
                      false};
    std::set<StorageId> kept;
    Bytes bytes = 0;
    std::size_t dropped = 0;
    for (const Choice& choice : choices) {
      kept.insert(choice.gathered);
      bytes += choice.bytes;
      dropped += choice.gathers - 1;
    }
    // Kept in the shard's dtype: a fused gather is taken back.
    Widener widener(rewriter, *program);
    std::set<StorageId> full;
    for (const CompiledGraph& graph : program->graphs)
      for (const CompiledNode& node : graph.nodes) {
        if (!node.is_gather || !kept.contains(*node.gathered)) continue;
        if (is_fused_downcast(rewriter.graph(), node)) widener.widen(graph, node);
        const AccessedTensor output =
            rewriter.graph().accesses_of(rewriter.graph().at(node.ops.back())).back();
        full.insert(rewriter.graph().at(output.tensor).storage);
      }
    rewriter.flush();
    Keeper keeper(rewriter, *program, full);
    keeper.keep(Section::first);
    keeper.keep(Section::body);
    rewriter.flush();
    std::string did =
        fmt::format("{} parameters stay gathered, {} of {}, {} gathers less", choices.size(),
                    format_bytes(bytes), format_bytes(available), dropped);
    if (widener.bytes_more() > 0) did += "; in the shard's dtype, cast at each use";
    return settle(target, rewriter, {text, did, true});
  }
};

Result<Pass> parse_selective_gather(const PassArguments& arguments) {
  SelectiveGather pass;
  pass.text = arguments.text;
  if (!arguments.options.empty()) return bad_pass(arguments, "expected selective-gather[=BYTES]");
  if (!arguments.argument.empty()) {
    constexpr Bytes kMost = Bytes{1} << 50;
    const auto bytes = plan::to_bytes({std::string(arguments.argument), true}, 1, kMost);
    if (!bytes) return bad_pass(arguments, "{}", bytes.error().message);
    pass.budget = *bytes;
  }
  return Pass(pass);
}

}  // namespace

const PassInfo kSelectiveGatherPass{
    "selective-gather", "[=BYTES]",
    "keeps the parameters gathered between forward and backward that cost most time a byte",
    R"(DeepCompile's pass, for graphs of the strategy `deepcompile`: parameters are sorted by the time of all
their gathers in a step over their bytes, and stay gathered, from their first gather in a step to its
end, while the sum fits; the first that does not fit ends the list. Without BYTES the sum may be what is
left of 0.9 of the device's memory above the peak of live bytes. They are gathered anew in each step:
the optimizer changes them.

    before   gather |=forward=| free … gather |=backward=| free | optimizer
    after    gather |=forward=| …             |=backward=|      | optimizer | free

Parameters are kept in the shard's dtype: a fused downcast (`fuse-downcast`) is taken back, and each use
casts. After `order=fast-free` and `prefetch=budget`, as in DeepCompile. Gathers that go take their op
keys with them. Not idempotent: what is kept is no candidate any more, and the next ones may fit.
)",
    &parse_selective_gather};

}  // namespace foregather::sim
