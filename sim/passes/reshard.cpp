#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "sim/passes/arguments.h"
#include "sim/passes/gather_again.h"
#include "sim/passes/gather_join.h"
#include "sim/passes/limit_all_gathers.h"
#include "sim/passes/passes.h"
#include "sim/passes/reshard_to.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {
namespace {

// The N of a rate limiter that is there.
std::optional<std::size_t> limit_of(const Graph& graph) {
  constexpr std::size_t kMost = 16;
  Rewriter none(graph);
  if (limit_all_gathers(none, {}).changed == 0) return std::nullopt;
  for (std::size_t most = 1; most <= kMost; ++most) {
    Rewriter rewriter(graph);
    if (limit_all_gathers(rewriter, most).changed == 0) return most;
  }
  return 2;
}

using Stage = std::function<void(Rewriter&)>;

// The stages one after the other, without the waits of a rate limiter, which is played anew over
// what they leave; with or without the unshards that find their parameters in place.
PassNote edit(PassTarget& target, std::vector<Stage> stages, const std::function<PassNote()>& note,
              bool leaves_takes = false) {
  if (const auto most = limit_of(target.graph)) {
    stages.insert(stages.begin(), [leaves_takes](Rewriter& rewriter) {
      limit_all_gathers(rewriter, {}, leaves_takes);
    });
    stages.emplace_back([most](Rewriter& rewriter) { limit_all_gathers(rewriter, most); });
  }
  // A rewriter drops waits for what nothing records when it ends, and so those that mark unshards.
  if (leaves_takes)
    stages = {[all = std::move(stages)](Rewriter& rewriter) {
      for (const Stage& stage : all) {
        stage(rewriter);
        rewriter.flush();
      }
    }};
  Graph graph = target.graph;
  for (const Stage& stage : stages) {
    Rewriter rewriter(std::move(graph));
    stage(rewriter);
    auto finished = rewriter.finish();
    if (!finished)
      return {note().pass, std::string(kNoSchedule) + finished.error().message + ")", false};
    graph = std::move(*finished);
  }
  PassNote done = note();
  if (!done.changed) return done;
  Rewriter rewriter(std::move(graph));
  return settle(target, rewriter, std::move(done));
}

PassNote gathered_again_note(const std::string& text, const GatheredAgain& again) {
  if (again.gathers > 0)
    return {text,
            fmt::format("{} gathers of {} added to a step's backward", again.gathers,
                        format_bytes(again.bytes)),
            true};
  if (again.forward == 0) return {text, "the forward has no gathers", false};
  return {text,
          fmt::format("what a step's {} forward gathers unshard does not live to the backward",
                      again.forward),
          false};
}

void set_reshard(Graph& graph, Reshard reshard) {
  for (Unit& unit : graph.units)
    if (unit.reshard != Reshard::never) unit.reshard = reshard;
}

struct Always {
  std::string text;

  Result<PassNote> operator()(PassTarget& target) const {
    GatheredAgain again;
    return edit(target, {[&](Rewriter& rewriter) {
                  again = gather_again(rewriter);
                  if (again.gathers > 0) set_reshard(rewriter.graph(), Reshard::after_forward);
                }},
                [&] { return gathered_again_note(text, again); });
  }
};

struct Never {
  std::string text;

  Result<PassNote> operator()(PassTarget& target) const {
    JoinedGathers joined;
    const auto note = [&] {
      if (joined.dropped == 0)
        return PassNote{text, "no unit is gathered in the forward and again in the backward",
                        false};
      return PassNote{text,
                      fmt::format("{} of a step's gathers dropped, {} no longer gathered",
                                  joined.dropped, format_bytes(joined.bytes)),
                      true};
    };
    return edit(target, {[&](Rewriter& rewriter) {
                  joined = join_gathers(rewriter, {}, JoinedLife::by_unit, is_gathered_again,
                                        /*leaves_takes=*/true);
                  if (joined.dropped > 0) set_reshard(rewriter.graph(), Reshard::after_backward);
                }},
                note, /*leaves_takes=*/true);
  }

  static bool is_gathered_again(const Op& first, const Op& second, const Lifetime& /*kept*/,
                                const Lifetime& /*dropped*/) {
    return first.phase == Phase::forward && second.phase != Phase::forward &&
           first.unit == second.unit;
  }
};

struct ToGroup {
  std::string text;
  std::uint32_t ranks = 0;

  Result<PassNote> operator()(PassTarget& target) const {
    ReshardedTo resharded;
    const auto note = [&] {
      if (resharded.gathers == 0)
        return PassNote{text,
                        fmt::format("no unit is gathered in the forward and again over more than "
                                    "{} ranks in the backward",
                                    ranks),
                        false};
      return PassNote{text,
                      fmt::format("{} of a step's backward gathers over {} ranks, {} kept for them",
                                  resharded.gathers, ranks, format_bytes(resharded.kept)),
                      true};
    };
    PassNote done = edit(target,
                         {[](Rewriter& rewriter) { gather_again(rewriter); },
                          [&](Rewriter& rewriter) {
                            resharded = reshard_to(rewriter, ranks);
                            if (resharded.gathers > 0)
                              set_reshard(rewriter.graph(), Reshard::after_forward);
                          }},
                         note);
    if (resharded.indivisible) {
      const std::string& unit = resharded.indivisible->first;
      return fail_at("--what-if " + text, "{} is sharded over {} ranks, which {} does not divide",
                     unit.empty() ? "the root" : "'" + unit + "'", resharded.indivisible->second,
                     ranks);
    }
    return done;
  }
};

Result<Pass> parse_reshard(const PassArguments& arguments) {
  constexpr std::uint32_t kMost = 1'000'000;
  const std::string text(arguments.text);
  if (arguments.options.empty()) {
    if (arguments.argument == "always") return Pass(Always{text});
    if (arguments.argument == "never") return Pass(Never{text});
    if (const auto ranks = parse_count(arguments.argument, 2, kMost))
      return Pass(ToGroup{text, *ranks});
  }
  return bad_pass(arguments,
                  "expected reshard=always, reshard=never or reshard=N with N from 2, the ranks "
                  "that keep the parameters between them");
}

Result<Pass> parse_rematerialize(const PassArguments& arguments) {
  if (arguments.text.find_first_of("=,") != std::string_view::npos)
    return bad_pass(arguments, "takes no argument");
  return Pass(Always{std::string(arguments.text)});
}

}  // namespace

// FSDP2's reshard_after_forward (reference: PyTorch §C.5).
const PassInfo kReshardPass{
    "reshard", "=always|never|N",
    "frees parameters after the forward and gathers them again, or keeps them, whole or in N parts",
    R"(`always` frees what a gather of the forward unsharded behind its last use there, and gathers it again
right before its first use in the backward (`prefetch=` moves that), or where the unit's backward begins
if that uses none of it; every unit, the root as well, as FSDP2's
`reshard_after_forward=True` does (its default leaves the root). `never` drops the second gather with
its casts, copies and buffers; the first copy lives until the backward frees it. N does as `always`, but
each rank keeps an N-th of the parameters after the forward (a copy), and the backward gathers over groups
of N ranks next to each other; N must divide the shard group. Streams, buffers and delays of the host
are those that the forward's gather has.

    always   ag1 |fwd 1|free  ag2 |fwd 2|free       ag2 |bwd 2|free  ag1 |bwd 1|free
    never    ag1 |fwd 1|      ag2 |fwd 2|               |bwd 2|free      |bwd 1|free
    N = 2    ag1 |fwd 1|keep½ ag2 |fwd 2|keep½      ag½2 |bwd 2|free ag½1 |bwd 1|free

A rate limiter is played anew, with its N. `always` after `reshard=N` finds nothing to do: the parameters
are gathered again already. Idempotent.
)",
    &parse_reshard};

// thunder/core/rematerialization.py: rematerialize_all_gather (reference: Thunder §B.8).
const PassInfo kRematerializePass{
    "rematerialize-all-gather", "",
    "gathers parameters that the forward saves for the backward again there (Thunder's ZeRO-3)",
    R"(What turns Thunder's ZeRO-2 into its ZeRO-3: where the backward uses a parameter that the forward
gathered, a new gather and its wait come right before the first such use, later uses read that, the full
parameter is freed behind its last use of the forward, and only the shard is saved. Thunder then runs
`sort-communication` and `in-flight=3`. The same rewriting as `reshard=always`.

    before  ag1 wait1 lin1 ag2 wait2 lin2               dx2 dw2     dx1 dw1
    after   ag1 wait1 lin1 ag2 wait2 lin2 free2 ag2 wait2 dx2 dw2 free2 …

Idempotent.
)",
    &parse_rematerialize};

}  // namespace foregather::sim
