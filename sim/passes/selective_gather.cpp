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

/// A parameter, which each graph that needs it gathers anew.
struct Choice {
  std::vector<StorageId> gathered;  ///< where; several if some of its gathers are fused
  Bytes bytes = 0;                  ///< kept, in the shard's dtype
  Ns time = 0;                      ///< of all its gathers in a step
  std::size_t gathers = 0;
};

/// The place of a shard.
using Shard = std::pair<StorageId, Bytes>;

std::optional<Shard> shard_of(const Graph& graph, const CompiledNode& node) {
  const auto accesses = graph.accesses_of(graph.at(node.ops.front()));
  if (accesses.empty() || accesses.front().mode != Access::read) return std::nullopt;
  const Tensor& tensor = graph.at(accesses.front().tensor);
  return Shard(tensor.storage, tensor.offset + accesses.front().offset);
}

// The shard that is gathered into each storage; nothing where it is none, or several.
std::map<StorageId, std::optional<Shard>> shards_of(const Graph& graph,
                                                    const CompiledProgram& program) {
  std::map<StorageId, std::optional<Shard>> shards;
  for (const CompiledGraph& each : program.graphs)
    for (const CompiledNode& node : each.nodes) {
      if (!node.is_gather) continue;
      const auto shard = shard_of(graph, node);
      const auto [known, is_new] = shards.try_emplace(*node.gathered, shard);
      if (!is_new && known->second != shard) known->second.reset();
    }
  return shards;
}

// What is kept, best first: most time a byte.
std::vector<Choice> chosen(const Graph& graph, const CompiledProgram& program,
                           const CostTable& prices, Bytes available) {
  std::vector<Choice> all;
  std::map<Shard, std::size_t> rows;
  const auto shards = shards_of(graph, program);
  for (const CompiledGraph& each : program.graphs) {
    std::set<StorageId> freed;
    const auto& actions = graph.programs.front().threads[each.list.thread].actions(Section::body);
    for (std::uint32_t i = each.actions[1].first; i < each.actions[1].end(); ++i)
      if (actions[i].kind == ActionKind::free) freed.insert(StorageId(actions[i].a));
    for (const CompiledNode& node : each.nodes) {
      if (!node.is_gather || !freed.contains(*node.gathered)) continue;  // kept already
      const std::optional<Shard>& shard = shards.at(*node.gathered);
      if (!shard) continue;
      const auto [at, is_new] = rows.try_emplace(*shard, all.size());
      if (is_new) all.emplace_back();
      Choice& choice = all[at->second];
      ++choice.gathers;
      choice.time += prices.prices[graph.at(node.ops.back()).cost.row()].duration;
      if (std::ranges::find(choice.gathered, *node.gathered) == choice.gathered.end())
        choice.gathered.push_back(*node.gathered);
      Bytes bytes = graph.at(*node.gathered).bytes;
      if (is_fused_downcast(graph, node)) {
        const auto cast = graph.accesses_of(graph.at(node.ops.front()));
        bytes = bytes / size_of(graph.at(cast[1].tensor).dtype) *
                size_of(graph.at(cast[0].tensor).dtype);
      }
      choice.bytes = std::max(choice.bytes, bytes);
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

/// By a storage that a parameter is gathered into: the one where it is kept.
using KeptIn = std::map<StorageId, StorageId>;

// Each storage is gathered by the first graph of a section that does so, and freed at its end.
class Keeper {
 public:
  Keeper(Rewriter& rewriter, const CompiledProgram& program, const KeptIn& kept)
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
      if (const auto kept = kept_.find(StorageId(action.a)); names && kept != kept_.end()) {
        if (action.kind == ActionKind::alloc && bound.insert(kept->second).second)
          rewriter_.replace(list, point.index,
                            {ActionKind::alloc, action.stream, kept->second.row(), 0});
        else
          erase();
      }
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
  const KeptIn& kept_;
  std::set<std::pair<Section, StorageId>> gathered_;
};

// Of each list the largest storage holds what the others did.
KeptIn join(Graph& graph, const std::vector<std::vector<StorageId>>& lists) {
  KeptIn kept;
  for (const std::vector<StorageId>& list : lists) {
    const StorageId into =
        *std::ranges::max_element(list, {}, [&](StorageId id) { return graph.at(id).bytes; });
    for (const StorageId id : list) kept.emplace(id, into);
  }
  for (Tensor& tensor : graph.tensors)
    if (const auto found = kept.find(tensor.storage); found != kept.end())
      tensor.storage = found->second;
  return kept;
}

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
    std::map<StorageId, std::size_t> chosen_by;
    Bytes bytes = 0;
    std::size_t dropped = 0;
    for (std::size_t c = 0; c < choices.size(); ++c) {
      const Choice& choice = choices[c];
      for (const StorageId gathered : choice.gathered) chosen_by.emplace(gathered, c);
      bytes += choice.bytes;
      dropped += choice.gathers - 1;
    }
    // Kept in the shard's dtype: a fused gather is taken back.
    Widener widener(rewriter, *program);
    std::vector<std::vector<StorageId>> full(choices.size());
    for (const CompiledGraph& graph : program->graphs)
      for (const CompiledNode& node : graph.nodes) {
        if (!node.is_gather) continue;
        const auto choice = chosen_by.find(*node.gathered);
        if (choice == chosen_by.end()) continue;
        if (is_fused_downcast(rewriter.graph(), node)) widener.widen(graph, node);
        const AccessedTensor output =
            rewriter.graph().accesses_of(rewriter.graph().at(node.ops.back())).back();
        full[choice->second].push_back(rewriter.graph().at(output.tensor).storage);
      }
    rewriter.flush();
    const KeptIn kept = join(rewriter.graph(), full);
    Keeper keeper(rewriter, *program, kept);
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
