#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/base/suggest.h"
#include "sim/passes/compiled_graph.h"
#include "sim/passes/gather_chain.h"
#include "sim/passes/host_actions.h"
#include "sim/passes/passes.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {
namespace {

using namespace std::string_view_literals;

enum class When : std::uint8_t { at_use, after_use_of_previous, before_reduction_of_previous };

// Places of one gather, as indices of actions that its issue would go before.
struct Places {
  ActionIndex at_use = 0;                       ///< right before its stream is waited for
  ActionIndex after_use = 0;                    ///< when its output is unsharded
  std::optional<ActionIndex> before_reduction;  ///< of its unit
};

// The gathers of one section that can be issued elsewhere.
class Issues {
 public:
  Issues(const Graph& graph, const HostActions& actions)
      : graph_(graph), actions_(actions), chains_(gather_chains(graph, actions)) {}

  const std::vector<GatherChain>& chains() const { return chains_; }

  std::optional<Places> places(const GatherChain& chain) const {
    const auto user = first_user(chain);
    if (!user || !is_same_list(*user, chain.at)) return std::nullopt;
    Places places;
    const auto awaited = awaited_at(chain, *user);
    if (!awaited) return std::nullopt;
    places.at_use = awaited->by;
    places.after_use = after_use(chain, *user, awaited->wait);
    places.before_reduction = before_reduction(chain, *user);
    return places;
  }

  // Where the thread's part of the backward begins.
  ActionIndex begin_of_phase(const GatherChain& chain) const {
    const Op& op = graph_.at(chain.op);
    ActionIndex first = chain.at;
    for (ActionIndex at = chain.at; at-- > 0 && is_same_list(at, chain.at);) {
      if (!actions_.is_launch(at)) continue;
      const Op& earlier = graph_.at(actions_.op(at));
      if (earlier.phase != op.phase || earlier.micro_batch != op.micro_batch) break;
      first = at;
    }
    // FSDP1's root has the stream of its gather waited for first.
    const auto is_root_wait = [&](ActionIndex at) {
      const Action& action = actions_.all[at].action;
      return (action.kind == ActionKind::record && action.stream == op.stream) ||
             (action.kind == ActionKind::wait && at > 0 && kind(at - 1) == ActionKind::record &&
              actions_.all[at - 1].action.a == action.a);
    };
    ActionIndex place = region_of(first);
    while (place < first &&
           (kind(place) == ActionKind::host_wait_action || kind(place) == ActionKind::mark ||
            kind(place) == ActionKind::host_delay || is_root_wait(place)) &&
           !begins_block(place))
      ++place;
    return place;
  }

  // Does the host wait for an earlier free before it issues the gather?
  bool is_limited(const GatherChain& chain) const {
    return chain.block_begin > 0 && is_same_list(chain.block_begin - 1, chain.at) &&
           kind(chain.block_begin - 1) == ActionKind::host_wait_event;
  }

  // Is it issued there, but for delays of the host?
  bool is_there(const GatherChain& chain, ActionIndex place) const {
    const auto first = actions_.all.begin();
    const auto only_delays = [&](ActionIndex from, ActionIndex to) {
      return std::all_of(
          first + static_cast<std::ptrdiff_t>(from), first + static_cast<std::ptrdiff_t>(to),
          [](const auto& each) { return each.action.kind == ActionKind::host_delay; });
    };
    if (place < chain.block_begin) return only_delays(place, chain.block_begin);
    return place <= chain.block_end || only_delays(chain.block_end, place);
  }

  // Would the storages that the issue allocates still be bound at its new place?
  bool is_bound_at(const GatherChain& chain, ActionIndex place) const {
    for (ActionIndex at = chain.block_begin; at < chain.block_end; ++at) {
      if (kind(at) != ActionKind::alloc) continue;
      for (const Lifetime& binding : actions_.bindings)
        if (binding.storage.row() == actions_.all[at].action.a && binding.begin < place &&
            binding.begin != at && (!binding.end || *binding.end >= place))
          return true;
    }
    return false;
  }

 private:
  ActionKind kind(ActionIndex at) const { return actions_.all[at].action.kind; }
  bool is_same_list(ActionIndex a, ActionIndex b) const {
    return actions_.all[a].list == actions_.all[b].list;
  }

  std::optional<ActionIndex> first_user(const GatherChain& chain) const {
    if (!chain.outputs.empty())
      return *std::min_element(chain.outputs.begin(), chain.outputs.end());
    std::optional<ActionIndex> first;
    for (const std::size_t row : chain.full)
      for (const ActionIndex user : actions_.bindings[row].users)
        if (user > chain.at && (!first || user < *first)) first = user;
    return first;
  }

  // The first action since the launch before `at`.
  ActionIndex region_of(ActionIndex at) const {
    ActionIndex begin = at;
    while (begin > 0 && is_same_list(begin - 1, at) && !actions_.is_launch(begin - 1)) --begin;
    return begin;
  }

  struct Awaited {
    ActionIndex by = 0;    ///< before this it must be issued
    ActionIndex wait = 0;  ///< of the stream that uses it
  };

  std::optional<ActionIndex> wait_for(std::uint32_t event, ActionIndex from,
                                      ActionIndex user) const {
    const StreamId stream = graph_.at(actions_.op(user)).stream;
    for (ActionIndex at = from; at < user; ++at)
      if (const Action& wait = actions_.all[at].action; wait.kind == ActionKind::wait &&
                                                        wait.a == event && wait.stream == stream &&
                                                        is_same_list(at, user))
        return at;
    return std::nullopt;
  }

  // A wait for an event that was recorded behind the gather; or the last record behind all gathers
  // so far that the use waits for. What the unit computes first need not read its parameters.
  std::optional<Awaited> awaited_at(const GatherChain& chain, ActionIndex user) const {
    const StreamId stream = graph_.at(chain.op).stream;
    const auto is_record = [&](ActionIndex at) {
      return kind(at) == ActionKind::record && actions_.all[at].action.stream == stream;
    };
    for (ActionIndex at = chain.at + 1; at < chain.block_end; ++at)
      if (is_record(at))
        if (const auto wait = wait_for(actions_.all[at].action.a, chain.block_end, user))
          return Awaited{*wait, *wait};
    for (ActionIndex at = user; at-- > chain.block_end;)
      if (is_record(at))
        if (const auto wait = wait_for(actions_.all[at].action.a, at, user))
          return Awaited{at, *wait};
    return std::nullopt;
  }

  bool begins_block(ActionIndex at) const {
    return std::any_of(chains_.begin(), chains_.end(),
                       [at](const GatherChain& chain) { return chain.block_begin == at; });
  }

  ActionIndex after_use(const GatherChain& chain, ActionIndex user, ActionIndex waited) const {
    const auto is_passed = [this](ActionIndex at) {
      return kind(at) == ActionKind::host_delay || kind(at) == ActionKind::record ||
             kind(at) == ActionKind::wait || kind(at) == ActionKind::free ||
             kind(at) == ActionKind::record_stream;
    };
    ActionIndex at = waited + 1;
    if (chain.outputs.empty()) {
      for (ActionIndex wait = at; wait < user && !actions_.is_launch(wait); ++wait)
        if (kind(wait) == ActionKind::wait) at = wait + 1;
      return at;
    }
    at = *std::max_element(chain.outputs.begin(), chain.outputs.end()) + 1;
    while (at < actions_.all.size() && is_same_list(at, user) && is_passed(at) && !begins_block(at))
      ++at;
    return at;
  }

  // Behind the frees of the unit's parameters, if they are freed; otherwise before what its
  // reduction begins with.
  std::optional<ActionIndex> before_reduction(const GatherChain& chain, ActionIndex user) const {
    ActionIndex freed = 0;
    for (const std::size_t row : chain.full)
      if (const auto end = actions_.bindings[row].end; end && is_same_list(*end, user))
        freed = std::max(freed, *end + 1);
    if (freed > user) {
      while (freed < actions_.all.size() && kind(freed) == ActionKind::record) ++freed;
      return freed;
    }
    const UnitId unit = graph_.at(chain.op).unit;
    const auto is_input = [this](ActionIndex at) {
      return std::any_of(chains_.begin(), chains_.end(), [at](const GatherChain& other) {
        return other.at == at ||
               std::find(other.inputs.begin(), other.inputs.end(), at) != other.inputs.end();
      });
    };
    for (ActionIndex at = user + 1; at < actions_.all.size(); ++at) {
      if (!actions_.is_launch(at) || !is_same_list(at, user)) continue;
      const Op& op = graph_.at(actions_.op(at));
      const bool reduces = op.role == Role::copy_in || op.role == Role::pre_scale ||
                           op.role == Role::cast || op.role == Role::reduce;
      if (op.unit != unit || !reduces || is_input(at)) continue;
      return region_of(at);
    }
    return std::nullopt;
  }

  const Graph& graph_;
  const HostActions& actions_;
  std::vector<GatherChain> chains_;
};

struct Moves {
  std::size_t gathers = 0;  ///< of the steady step
  std::size_t moved = 0;
  bool limited = false;
};

void move_section(Rewriter& rewriter, ProgramId program, Section section, bool forward, When when,
                  Moves& moves) {
  const HostActions actions(rewriter.graph(), program, section);
  const Issues issues(rewriter.graph(), actions);
  const std::size_t counts = section == Section::body ? 1 : 0;
  const auto is_meant = [&](const GatherChain& chain) {
    return (rewriter.graph().at(chain.op).phase == Phase::forward) == forward;
  };
  const std::vector<GatherChain>& chains = issues.chains();
  if (std::any_of(chains.begin(), chains.end(), [&](const GatherChain& chain) {
        return is_meant(chain) && issues.is_limited(chain);
      })) {
    moves.limited = true;
    return;
  }
  // In the order of their uses.
  struct Movable {
    const GatherChain* chain;
    Places places;
  };
  std::vector<Movable> movable;
  for (const GatherChain& chain : chains) {
    if (!is_meant(chain)) continue;
    moves.gathers += counts;
    if (const auto places = issues.places(chain)) movable.push_back({&chain, *places});
  }
  std::stable_sort(movable.begin(), movable.end(), [](const Movable& a, const Movable& b) {
    return a.places.at_use < b.places.at_use;
  });
  for (std::size_t i = 0; i < movable.size(); ++i) {
    const auto& [chain, own] = movable[i];
    const Op& op = rewriter.graph().at(chain->op);
    // The last one before that is used elsewhere: some are used together.
    const Movable* before = nullptr;
    for (std::size_t j = i; j-- > 0 && before == nullptr;)
      if (movable[j].places.after_use <= own.at_use) before = &movable[j];
    if (before != nullptr &&
        (rewriter.graph().at(before->chain->op).micro_batch != op.micro_batch ||
         actions.all[before->chain->at].list != actions.all[chain->at].list))
      before = nullptr;
    ActionIndex place = own.at_use;
    if (before == nullptr && !forward && when == When::after_use_of_previous)
      place = issues.begin_of_phase(*chain);
    if (before != nullptr && when == When::after_use_of_previous) place = before->places.after_use;
    if (before != nullptr && when == When::before_reduction_of_previous)
      place = before->places.before_reduction.value_or(place);
    if (issues.is_there(*chain, place)) continue;
    if (forward && place > chain->block_begin) continue;
    if (place > own.at_use || issues.is_bound_at(*chain, place)) continue;
    if (actions.all[place].list != actions.all[chain->at].list) continue;
    for (ActionIndex at = chain->block_begin; at < chain->block_end; ++at)
      rewriter.move(actions.all[at].list, actions.all[at].position, actions.all[place].position);
    moves.moved += counts;
  }
}

struct MoveGathers {
  std::string text;
  bool forward = false;
  When when = When::at_use;

  Result<PassNote> operator()(PassTarget& target) const {
    Rewriter rewriter(target.graph);
    if (compiled_graphs(rewriter.graph()))
      return PassNote{text, "gathers are nodes of compiled graphs, which prefetch=budget moves",
                      false};
    Moves moves;
    for (std::size_t p = 0; p < rewriter.graph().programs.size(); ++p)
      for (const Section section : {Section::first, Section::body})
        move_section(rewriter, ProgramId(p), section, forward, when, moves);
    const std::string_view phase = forward ? "forward" : "backward";
    if (moves.moved > 0)
      return settle(
          target, rewriter,
          {text,
           fmt::format("{} of {} {} gathers of a step moved", moves.moved, moves.gathers, phase),
           true});
    if (moves.limited)
      return PassNote{
          text,
          "the gathers wait for a rate limiter; limit-all-gathers=none before this pass "
          "takes it away",
          false};
    return PassNote{text,
                    moves.gathers == 0
                        ? fmt::format("the {} has no gathers", phase)
                        : fmt::format("the {} {} gathers are there already", moves.gathers, phase),
                    false};
  }
};

Result<Pass> parse_prefetch(const PassArguments& arguments) {
  constexpr std::array kValues{"none"sv, "backward-pre"sv, "backward-post"sv, "budget"sv};
  if (arguments.argument == kValues.back()) return parse_prefetch_budget(arguments);
  const auto found = std::find(kValues.begin(), kValues.end(), arguments.argument);
  if (found == kValues.end() || !arguments.options.empty())
    return bad_pass(arguments,
                    "expected prefetch=none, prefetch=backward-pre, prefetch=backward-post or "
                    "prefetch=budget{}",
                    did_you_mean(arguments.argument, kValues));
  constexpr std::array kWhen{When::at_use, When::after_use_of_previous,
                             When::before_reduction_of_previous};
  return Pass(MoveGathers{std::string(arguments.text), false,
                          kWhen[static_cast<std::size_t>(found - kValues.begin())]});
}

Result<Pass> parse_forward_prefetch(const PassArguments& arguments) {
  if (arguments.text.find_first_of("=,") != std::string_view::npos)
    return bad_pass(arguments, "forward-prefetch takes no argument");
  return Pass(MoveGathers{std::string(arguments.text), true, When::after_use_of_previous});
}

}  // namespace

// PyTorch PR 70235 (reference: PyTorch §B.4 and C.4).
const PassInfo kPrefetchPass{
    "prefetch", "=none|backward-pre|backward-post|budget[,prefetch_dtype=target|shard]",
    "issues the backward's all-gathers at their use, or one unit ahead: before or after the "
    "computation of the unit before; or, DeepCompile's, as far ahead as memory allows",
    R"(Moves what the host does to issue a gather (its delay, allocations, casts, copies, events), in the
host's order, between the units of one backward: `none` right before the compute stream waits for it;
`backward-pre` when the unit before is unsharded, so that the gather overlaps that unit's backward, for
one more unsharded unit of memory; `backward-post` when the unit before is freed, before its gradient
is reduced. The first gather of a backward is issued when the backward begins (`backward-pre`; lowered
with `train.loss_in_call = false`, or with a unit of the head, it comes behind that of the loss), or stays
at its use.

    none           gather 2 |==backward 2==|reduce 2| gather 1 |==backward 1==|
    backward-pre   gather 2 gather 1 |==backward 2==|reduce 2|==backward 1==|

Collectives of a communicator get new sequence numbers where their order changed. A gather that waits
for a rate limiter stays: `limit-all-gathers=none` first. Idempotent.

`budget` is DeepCompile's prefetch pass, for graphs of the strategy `deepcompile` in their final order.
It walks each graph backwards and collects its gathers into groups (a gather joins while the group takes
less than 1.2 × the longer of the two alone, and stays below 1 GB); where what the schedule holds and all
collected bytes exceed 0.9 of the device's memory, or these alone 4 GB, the oldest group is issued behind
that op; what is left is issued at the head of the graph. Buffers then belong to the compute stream's
pool; the gathers of a group, one NCCL group there, stay ops of their own here.

    before   gather 1 |==1==| gather 2 |==2==|             all exposed
    after    gather 1 gather 2 |==1==|==2==|               overlapped, as far as the budget goes

DeepSpeed's prefetch passes no dtype: with `prefetch_dtype=shard` (here, or of a `fuse-downcast` before)
a parameter whose gather was fused with its downcast is gathered in the shard's dtype after all, a
full-size cast copies it at its use, and both stay until its release; the note says how many bytes that
costs. Idempotent only with a budget that holds all gathers at the head.
)",
    &parse_prefetch};

const PassInfo kForwardPrefetchPass{
    "forward-prefetch", "", "issues the forward's all-gathers one unit ahead",
    R"(As `prefetch=backward-pre`, for the forward: each gather is issued when the unit before is
unsharded, before that unit's computation. It helps where the host is late: otherwise the gather of the
next unit is behind this unit's computation in the host's order only, not on the device.

    before   gather 1 |==forward 1==| gather 2 |==forward 2==|
    after    gather 1 gather 2 |==forward 1==|==forward 2==|

Idempotent.
)",
    &parse_forward_prefetch};

}  // namespace foregather::sim
