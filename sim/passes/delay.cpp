#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>

#include "core/base/suggest.h"
#include "core/base/text.h"
#include "sim/memory/host_order.h"
#include "sim/memory/slots.h"
#include "sim/passes/arguments.h"
#include "sim/passes/passes.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kDelayForm =
    "expected delay=after-loss:TIME, delay=before-reduction:TIME, delay=before-free:TIME, "
    "delay=rank:N:TIME or delay=scope:PATTERN:TIME with a TIME like 5ms";
constexpr std::string_view kScope = "scope:", kRank = "rank:";

enum class Place : std::uint8_t { after_loss, before_reduction, before_free, rank, scope };

// Where device work of a fixed time goes, and beside which op.
struct Spot {
  ActionList list;
  std::uint32_t position = 0;  ///< before this action
  OpId beside;
};

// Visits the actions of a section in host order.
template <class Visit>
void each_in_host_order(const Graph& graph, ProgramId id, Section section, Visit visit) {
  const Program& program = graph.at(id);
  for (const HostPoint point : host_order(program, section))
    visit(ActionList{id, point.thread, section}, point.index,
          program.threads[point.thread].actions(section)[point.index]);
}

std::vector<Spot> after_loss(const Graph& graph, ProgramId id, Section section) {
  std::map<std::uint16_t, Spot> last;  // by micro-batch
  each_in_host_order(graph, id, section,
                     [&](const ActionList& list, std::uint32_t position, const Action& action) {
                       if (action.kind != ActionKind::launch) return;
                       const Op& op = graph.ops[action.a];
                       if (op.phase == Phase::forward && op.role == Role::compute)
                         last[op.micro_batch] = {list, position + 1, OpId(action.a)};
                     });
  std::vector<Spot> spots;
  spots.reserve(last.size());
  for (const auto& [micro_batch, spot] : last) spots.push_back(spot);
  return spots;
}

// Where a reduction takes two collectives (hybrid sharding), the first.
std::vector<Spot> before_reduction(const Graph& graph, ProgramId id, Section section) {
  std::vector<Spot> spots;
  std::optional<Op> before;
  each_in_host_order(graph, id, section,
                     [&](const ActionList& list, std::uint32_t position, const Action& action) {
                       if (action.kind != ActionKind::launch) return;
                       const Op& op = graph.ops[action.a];
                       if (op.role != Role::reduce) return;
                       const bool goes_on = before && before->unit == op.unit &&
                                            before->kind != op.kind &&
                                            before->micro_batch == op.micro_batch;
                       if (!goes_on) spots.push_back({list, position, OpId(action.a)});
                       before = op;
                     });
  return spots;
}

// Before each run of frees of one unit's unsharded parameters, after the op that used them last.
std::vector<Spot> before_free(const Graph& graph, ProgramId id, Section section) {
  const Program& program = graph.at(id);
  Slots slots(graph, program);
  // What earlier sections left bound.
  for (const Section earlier : {Section::init, Section::first})
    if (earlier < section)
      each_in_host_order(graph, id, earlier,
                         [&](const ActionList&, std::uint32_t, const Action& action) {
                           (void)slots.perform(action);
                         });
  std::vector<OpId> last_use(graph.storages.size());
  std::vector<Spot> spots;
  bool is_in_run = false;  // frees of `run` are going on
  UnitId run;
  each_in_host_order(graph, id, section,
                     [&](const ActionList& list, std::uint32_t position, const Action& action) {
                       if (action.kind == ActionKind::launch) {
                         is_in_run = false;
                         for (const AccessedTensor& part : graph.accesses_of(graph.ops[action.a]))
                           last_use[graph.at(part.tensor).storage.row()] = OpId(action.a);
                       }
                       const auto change = slots.perform(action);
                       if (!change || change->bound) return;
                       const StorageId storage(program.storages.first + change->storage);
                       const Storage& row = graph.at(storage);
                       const OpId user = last_use[storage.row()];
                       if (row.cause != Cause::unsharded_parameter || !user) return;
                       if (is_in_run && run == row.unit) return;
                       is_in_run = true;
                       run = row.unit;
                       spots.push_back({list, position, user});
                     });
  return spots;
}

std::vector<Spot> before_scope(const Graph& graph, ProgramId id, Section section,
                               std::string_view pattern) {
  std::vector<Spot> spots;
  bool is_inside = false;
  each_in_host_order(graph, id, section,
                     [&](const ActionList& list, std::uint32_t position, const Action& action) {
                       if (action.kind != ActionKind::launch) return;
                       const Op& op = graph.ops[action.a];
                       if (op.role != Role::compute) return;
                       const bool matches = matches_scope(pattern, graph.scope_name(op.scope));
                       if (matches && !is_inside) spots.push_back({list, position, OpId(action.a)});
                       is_inside = matches;
                     });
  return spots;
}

// Device work that takes the time and nothing else, as torch.cuda._sleep.
OpId add_delay(Rewriter& rewriter, ProgramId program, OpId beside, CostId cost) {
  Op op;
  const Op& near = rewriter.graph().at(beside);
  op.kind = OpKind::sleep;
  op.phase = near.phase;
  op.micro_batch = near.micro_batch;
  op.scope = near.scope;
  op.unit = near.unit;
  op.stream = near.stream;
  op.cost = cost;
  return rewriter.add_op(program, op, {});
}

struct Delay {
  std::string text;
  Place place = Place::after_loss;
  std::string pattern;
  std::uint32_t rank = 0;
  Ns time = 0;

  Result<PassNote> operator()(PassTarget& target) const {
    return place == Place::rank ? delay_rank(target) : delay_ops(target);
  }

  std::vector<Spot> spots(const Graph& graph, ProgramId program, Section section) const {
    switch (place) {
      case Place::after_loss: return after_loss(graph, program, section);
      case Place::before_reduction: return before_reduction(graph, program, section);
      case Place::before_free: return before_free(graph, program, section);
      default: return before_scope(graph, program, section, pattern);
    }
  }

  Result<PassNote> delay_ops(PassTarget& target) const {
    Rewriter rewriter(std::move(target.graph));
    Cost row;
    row.kind = OpKind::sleep;
    row.is_fixed = true;
    row.fixed_time = time;
    const CostId cost = rewriter.add_cost(row);
    std::size_t places = 0;
    for (std::size_t p = 0; p < rewriter.graph().programs.size(); ++p) {
      // The first and the steady step share ops, also these.
      std::map<std::pair<OpId, std::uint32_t>, OpId> made;
      for (const Section section : {Section::first, Section::body}) {
        std::map<OpId, std::uint32_t> beside;
        const std::vector<Spot> found = spots(rewriter.graph(), ProgramId(p), section);
        if (section == Section::body) places += found.size();
        for (const Spot& spot : found) {
          OpId& op = made[{spot.beside, beside[spot.beside]++}];
          if (!op) op = add_delay(rewriter, ProgramId(p), spot.beside, cost);
          rewriter.insert_before(spot.list, spot.position, {ActionKind::launch, {}, op.row(), 0});
        }
      }
    }
    auto graph = rewriter.finish();
    if (!graph) return tl::unexpected(graph.error());
    target.graph = std::move(*graph);
    if (places == 0) return PassNote{text, "the schedule has no such place", false};
    return PassNote{text,
                    fmt::format("{} of device work in {} place{} of a step", format_time(time),
                                places, places == 1 ? "" : "s"),
                    true};
  }

  Result<PassNote> delay_rank(PassTarget& target) const {
    Graph& graph = target.graph;
    PassNote note{text, fmt::format("rank {} starts each step {} later", rank, format_time(time)),
                  true};
    for (std::size_t c = 0; c < graph.classes.size(); ++c) {
      const auto ranks = graph.ranks_of(graph.classes[c].ranks);
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) continue;
      if (ranks.size() == 1) {
        graph.classes[c].start_delay += time;
        return note;
      }
      std::vector<std::uint32_t> others(ranks.begin(), ranks.end());
      others.erase(std::find(others.begin(), others.end(), rank));
      const auto list = [&graph](const std::vector<std::uint32_t>& members) {
        const Range range{static_cast<std::uint32_t>(graph.rank_lists.size()),
                          static_cast<std::uint32_t>(members.size())};
        graph.rank_lists.insert(graph.rank_lists.end(), members.begin(), members.end());
        return range;
      };
      RankClass straggler = graph.classes[c];
      straggler.name = graph.strings.intern(fmt::format("rank {}", rank));
      straggler.start_delay += time;
      straggler.ranks = list({rank});
      graph.classes[c].ranks = list(others);
      graph.classes.push_back(straggler);
      return note;
    }
    std::vector<std::uint32_t> known;
    for (const RankClass& each : graph.classes)
      for (const std::uint32_t member : graph.ranks_of(each.ranks)) known.push_back(member);
    std::ranges::sort(known);
    if (known.size() == graph.world_size)
      return fail_at("--what-if " + text, "there is no rank {}, expected one of 0 to {}", rank,
                     graph.world_size - 1);
    constexpr std::size_t kMostListed = 16;
    const bool is_long = known.size() > kMostListed;
    if (is_long) known.resize(kMostListed);
    return fail_at("--what-if " + text, "rank {} was not recorded, expected one of {}{}", rank,
                   fmt::join(known, ", "), is_long ? ", …" : "");
  }
};

Result<Pass> parse_delay(const PassArguments& arguments) {
  const auto parts = named_value(arguments.argument);
  if (!parts || !arguments.options.empty()) return bad_pass(arguments, "{}", kDelayForm);
  Delay delay;
  delay.text = arguments.text;
  const auto time = parse_duration(parts->value);
  if (!time) return bad_pass(arguments, "{}", kDelayForm);
  delay.time = *time;
  if (parts->name == "after-loss") {
    delay.place = Place::after_loss;
  } else if (parts->name == "before-reduction") {
    delay.place = Place::before_reduction;
  } else if (parts->name == "before-free") {
    delay.place = Place::before_free;
  } else if (parts->name.starts_with(kRank)) {
    constexpr std::uint32_t kMostRanks = 1U << 20;
    const auto rank = parse_count(parts->name.substr(kRank.size()), 0, kMostRanks);
    if (!rank) return bad_pass(arguments, "{}", kDelayForm);
    delay.place = Place::rank;
    delay.rank = *rank;
  } else if (parts->name.starts_with(kScope) && parts->name.size() > kScope.size()) {
    delay.place = Place::scope;
    delay.pattern = parts->name.substr(kScope.size());
  } else {
    constexpr std::array kKnown{"after-loss"sv, "before-reduction"sv, "before-free"sv, "rank:N"sv,
                                "scope:PATTERN"sv};
    return bad_pass(arguments, "unknown place '{}'{}; known are {}", parts->name,
                    did_you_mean(parts->name, kKnown), fmt::join(kKnown, ", "));
  }
  return Pass(delay);
}

}  // namespace

// The places are those of the delays in PyTorch's FSDP tests (torch/testing/_internal/
// common_fsdp.py: delay_after_loss_ms, delay_before_reduction_ms, delay_before_free_ms), which
// put torch.cuda._sleep on the current stream.
const PassInfo kDelayPass{
    "delay", "=PLACE:TIME",
    "adds device work of a fixed time after-loss, before-reduction, before-free or before each "
    "visit of scope:PATTERN, or makes rank:N start late",
    R"(TIME is a number with `ns`, `us`, `ms` or `s`. The work runs where `torch.cuda._sleep` would in
PyTorch's own FSDP tests: behind the last forward op of each micro-batch; on the stream of a reduction,
right before it; behind the last use of a unit's unsharded parameters, right before they are freed;
before the first op of each run of ops in matching modules (patterns as in `scale`). It touches no
memory, takes nothing from what runs beside it, and no speed of compute shortens it. `rank:N` gives
the rank a class of its own that starts each step late.

    delay=before-reduction:5ms    compute  |--backward--|-----
                                  reduce                |-5 ms-|reduce-scatter|

Applied twice it delays twice: it is not idempotent.
)",
    &parse_delay};

}  // namespace foregather::sim
