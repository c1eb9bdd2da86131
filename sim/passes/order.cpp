// The order of ops: least memory, depth first, by a list scheduler, or as it is.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "core/base/suggest.h"
#include "core/base/text.h"
#include "sim/memory/live.h"
#include "sim/memory/order_problem.h"
#include "sim/passes/list_orders.h"
#include "sim/passes/memory_order.h"
#include "sim/passes/order_writer.h"
#include "sim/passes/passes.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {
namespace {

// Why a schedule cannot be put into another order; nothing if it can.
std::optional<std::string> obstacle(const Graph& graph) {
  if (graph.programs.size() != 1) return "ranks run several programs, which must agree";
  const Program& program = graph.programs.front();
  const HostThread* busy = nullptr;
  for (const HostThread& thread : program.threads) {
    if (thread.actions(Section::body).empty() && thread.actions(Section::first).empty()) continue;
    if (busy != nullptr) return "its ops are launched by several host threads";
    busy = &thread;
  }
  if (busy == nullptr) return "it launches nothing";
  const auto launched = [&](Section section) {
    std::vector<std::uint32_t> ops;
    for (const Action& action : busy->actions(section))
      if (action.kind == ActionKind::launch) ops.push_back(action.a);
    return ops;
  };
  if (launched(Section::first) != launched(Section::body))
    return "its first step launches other ops than the steady one";
  const auto actions = busy->actions(Section::body);
  const auto last = std::find_if(actions.rbegin(), actions.rend(), [](const Action& action) {
    return action.kind == ActionKind::launch;
  });
  for (auto at = last; at != actions.rend(); ++at) switch (at->kind) {
      case ActionKind::host_wait_event:
      case ActionKind::host_wait_stream:
      case ActionKind::host_wait_device:
      case ActionKind::host_wait_action:
      case ActionKind::empty_cache: return "the host waits for the device between its ops";
      default: break;
    }
  return std::nullopt;
}

// A slot that is bound twice keeps the order of its two lives.
void keep_slots_apart(BodyOrder& order) {
  std::map<std::uint32_t, std::size_t> life_of;
  for (std::size_t life = 0; life < order.storage_of.size(); ++life) {
    const auto [before, is_new] = life_of.try_emplace(order.storage_of[life].row(), life);
    if (is_new) continue;
    for (const std::uint32_t earlier : order.problem.storages[before->second].nodes)
      for (const std::uint32_t later : order.problem.storages[life].nodes)
        if (earlier < later) order.problem.edges.push_back({earlier, later});
    before->second = life;
  }
}

struct Chosen {
  std::vector<std::uint32_t> nodes;  ///< in their new order; empty: as it is
  std::string about;                 ///< why that is best, or why nothing is done
};

// What `order=NAME` takes. `choose` gets a schedule that can be put into another order, its ops
// with what they need of each other, and the live bytes of the given order.
struct OrderChoice {
  std::string_view name;
  Chosen (*choose)(const Graph& graph, const BodyOrder& body, Bytes before);
};

Chosen as_given(const Graph&, const BodyOrder& body, Bytes before) {
  return {{},
          fmt::format("{} ops in program order, which holds {}", body.problem.nodes,
                      format_bytes(before))};
}

Chosen depth_first(const Graph&, const BodyOrder& body, Bytes) {
  return {depth_first_order(body.problem), "depth first"};
}

Chosen by_list(const Graph&, const BodyOrder& body, Bytes) {
  return {least_left_order(body.problem), "each the one that leaves the fewest bytes"};
}

Chosen least_memory(const Graph&, const BodyOrder& body, Bytes before) {
  MemoryOrder least = least_memory_order(body.problem);
  const std::string proof = least.is_least() ? "proved the least"
                                             : fmt::format("at most {} above the least",
                                                           format_bytes(least.peak - least.bound));
  if (least.peak >= before)
    return {
        {},
        fmt::format("no order of its ops needs less than {} ({})", format_bytes(before), proof)};
  return {std::move(least.order), proof};
}

constexpr std::array<OrderChoice, 4> kChoices{{{"program", &as_given},
                                               {"depth-first", &depth_first},
                                               {"memory", &least_memory},
                                               {"list", &by_list}}};

struct Reorder {
  std::string text;
  const OrderChoice* choice;

  Result<PassNote> operator()(PassTarget& target) const {
    PassNote note{text, "", false};
    if (const auto reason = obstacle(target.graph)) {
      note.did = "the schedule keeps its order: " + *reason;
      return note;
    }
    const Program& program = target.graph.programs.front();
    BodyOrder body = body_order(target.graph, program, Held::bound);
    keep_slots_apart(body);
    const Bytes before = live_memory(target.graph).front().steady.bytes;
    Chosen chosen = choice->choose(target.graph, body, before);
    if (chosen.nodes.empty() || std::ranges::is_sorted(chosen.nodes)) {
      note.did = chosen.nodes.empty() ? std::move(chosen.about)
                                      : fmt::format("its {} ops are in this order already ({})",
                                                    body.problem.nodes, chosen.about);
      return note;
    }
    Rewriter rewriter(target.graph);
    for (const Section section : {Section::first, Section::body})
      for (const ActionList& list : rewriter.lists(section))
        write_order(rewriter, list, body, chosen.nodes);
    rewriter.flush();
    note.changed = true;
    note.did = fmt::format("{} ops in an order that holds {} instead of {}, {}", body.problem.nodes,
                           format_bytes(peak_of(body.problem, chosen.nodes)), format_bytes(before),
                           chosen.about);
    return settle(target, rewriter, std::move(note));
  }
};

constexpr std::string_view kFastFree = "fast-free";

Result<Pass> parse_order(const PassArguments& arguments) {
  if (arguments.argument == kFastFree) return parse_fast_free(arguments);
  std::vector<std::string_view> names;
  for (const OrderChoice& choice : kChoices) {
    names.push_back(choice.name);
    if (choice.name == arguments.argument && arguments.options.empty())
      return Pass(Reorder{std::string(arguments.text), &choice});
  }
  names.push_back(kFastFree);
  return bad_pass(arguments, "expected order=NAME, where NAME is one of {}{}",
                  fmt::join(names, ", "), did_you_mean(arguments.argument, names));
}

}  // namespace

const PassInfo kOrderPass{
    "order", "=program|depth-first|memory|list|fast-free[,rule=2025|2026]",
    "puts the ops in the order that needs the least memory, or another one",
    R"(Each op still follows what it depends on: the ops that made, or last used, the bytes that it
touches, and its explicit dependencies. Among all such orders `memory` takes one of least live bytes:
exactly where a best-first search over sets of finished ops ends in time, else the best of list
schedulers and a beam search, with the gap to a lower bound; never more than the given order. It says
which, and by how much. `depth-first` runs next what uses the bytes made last; `list`, as DeepCompile's
list_schedule, what leaves the fewest bytes behind: both may need more than the given order, and say
what they need. `program` changes nothing and says what the given order holds. A storage is allocated
before its first op and freed after its last one; streams wait for each other where an op needs
another's, and side streams for all that the main one did before. Schedules of several host threads or
programs, as those that are made of workloads, keep their order.

    order=memory      before  a1 a2 a3 b1 b2 b3 c1 c2 c3      after  a1 b1 c1 a2 b2 c2 a3 b3 c3

Op keys and FLOPs stay. Idempotent.

`fast-free` is the list scheduler that DeepCompile applies to each forward and backward graph. Again and
again it takes, among the gathers whose last use needs the fewest further gathers, the one that can be
freed alone, with the fewest gathers on its way, the least gathered bytes, the least device time up to
its last use (the pass prices them), and puts it with all that leads to its last use next; where none can
be freed alone, it puts the gather alone that needs the least bytes of others. Reductions and outputs
follow as soon as no gather is missing for them. `rule=2025` is the code until 2026-05-29: the first
choice by device time alone, the second by bytes alone; `2026` is the default. Before `fuse-downcast` the
last use of a gather is its cast, so all gathers and casts are cheap to free and come first; after it the
last use is a matmul, and gathers come between the compute:

    order=fast-free    unfused  g1 c1 g2 c2 g3 c3 mm1 mm2 mm3      fused  g1 mm1 g2 mm2 g3 mm3

It needs graphs of the strategy `deepcompile`, whose plan has it unless `parallel.deepcompile_passes`
says none or a `--what-if order=…` that does something is given; gradient buckets are filled and flushed in the new order.
Not always idempotent: which use of a parameter is its last one depends on the order.
)",
    &parse_order};

}  // namespace foregather::sim
