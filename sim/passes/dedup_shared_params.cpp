#include <algorithm>
#include <string>

#include "core/base/text.h"
#include "sim/passes/arguments.h"
#include "sim/passes/gather_join.h"
#include "sim/passes/passes.h"
#include "sim/passes/recorded_gathers.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {
namespace {

bool is_named(const Graph& graph, const Storage& storage, std::string_view name) {
  const std::string_view own = graph.text(storage.name);
  const std::string_view scope = graph.scope_name(storage.scope);
  if (own == name) return true;
  return name.size() == scope.size() + 1 + own.size() && name.starts_with(scope) &&
         name.ends_with(own) && name[scope.size()] == '.';
}

// Shards of program `id` under that name, in order.
std::vector<StorageId> shards_named(const Graph& graph, ProgramId id, std::string_view name) {
  std::vector<StorageId> found;
  const Range rows = graph.at(id).storages;
  for (std::uint32_t row = rows.first; row < rows.end(); ++row)
    if (graph.storages[row].cause == Cause::parameter_shard &&
        is_named(graph, graph.storages[row], name))
      found.emplace_back(row);
  return found;
}

struct Dedup {
  std::string text;
  std::string a, b;  ///< names of the argument; empty: storages that the graph shares

  Result<SameAs> same(const Graph& graph) const {
    SameAs same;
    if (a.empty()) return same;
    for (std::size_t p = 0; p < graph.programs.size(); ++p) {
      const auto first = shards_named(graph, ProgramId(p), a);
      const auto second = shards_named(graph, ProgramId(p), b);
      for (const auto& [shards, name] : {std::pair(&first, &a), std::pair(&second, &b)})
        if (shards->empty())
          return fail_at("--what-if " + text, "no parameter is called '{}'", *name);
      if (first.size() != second.size())
        return fail_at("--what-if " + text, "'{}' names {} parameters and '{}' {}", a, first.size(),
                       b, second.size());
      for (std::size_t i = 0; i < first.size(); ++i)
        if (first[i] != second[i]) same.emplace(second[i], first[i]);
    }
    return same;
  }

  Result<PassNote> of_recorded(PassTarget& target) const {
    if (a.empty())
      return PassNote{text,
                      "a recording does not say which units hold one parameter: name their scopes, "
                      "dedup-shared-params=A:B",
                      false};
    Rewriter rewriter(target.graph);
    const ChangedGathers dropped = drop_recorded_gathers(rewriter, a, b);
    if (dropped.gathers == 0)
      return PassNote{
          text, fmt::format("no all-gather of '{}' follows one of '{}' and its size", b, a), false};
    return settle(target, rewriter,
                  {text,
                   fmt::format("{} recorded gathers dropped, {} no longer gathered",
                               dropped.gathers, format_bytes(dropped.bytes)),
                   true});
  }

  Result<PassNote> operator()(PassTarget& target) const {
    if (is_recorded(target.graph)) return of_recorded(target);
    const auto same_as = same(target.graph);
    if (!same_as) return tl::unexpected(same_as.error());
    Rewriter rewriter(target.graph);
    const auto joined = join_gathers(
        rewriter, *same_as, JoinedLife::by_use,
        [](const Op& first, const Op& second, const Lifetime& kept, const Lifetime& dropped) {
          // A name's own second gather is no other name's.
          return (first.phase == Phase::forward) == (second.phase == Phase::forward) &&
                 first.communicator == second.communicator && kept.storage != dropped.storage;
        });
    if (joined.dropped == 0)
      return PassNote{text, "no two units gather the same shards at one time", false};
    return settle(target, rewriter,
                  {text,
                   fmt::format("{} of a step's gathers dropped, {} no longer gathered",
                               joined.dropped, format_bytes(joined.bytes)),
                   true});
  }
};

Result<Pass> parse_dedup(const PassArguments& arguments) {
  Dedup dedup;
  dedup.text = arguments.text;
  const bool has_argument = arguments.text.find('=') != std::string_view::npos;
  if (!has_argument) return Pass(dedup);
  const auto names = named_value(arguments.argument);
  if (!names || names->name.empty() || names->value.empty() || names->name == names->value ||
      !arguments.options.empty())
    return bad_pass(arguments,
                    "expected dedup-shared-params, or dedup-shared-params=A:B with the names of "
                    "two parameters that are one");
  dedup.a = names->name;
  dedup.b = names->value;
  return Pass(dedup);
}

}  // namespace

// After lightning-thunder PR 602: later names of a parameter map to the first, whose gathered
// tensor they use; the duplicate gather is dead (reference: Thunder §B.2).
const PassInfo kDedupPass{
    "dedup-shared-params", "[=A:B]", "gathers parameters that are one storage under two names once",
    R"(Two units whose gathers read the same shards (or the shards that A and B name, `wte.weight:lm_head.weight`)
hold one weight twice. In each phase of a micro-batch the second gather goes, with its casts, its
copies, its buffers and its events; what used the second copy reads the first one, which lives until
the last of its users. Gradients are reduced as before, each name's, into one sharded gradient.

    before  gather wte |=wte=|free      gather head |=head=|free
    after   gather wte |=wte=========================wte==|free

A gather is kept where it has other parameters too, where the copies differ in size, or where no
stream orders the users of the second behind the first. Idempotent.

In a recorded run A and B are scopes, such as FSDP's units: of each all-gather of A and the next one of B
in the same phase and of the same size, the second goes, with the copies out of its buffer.
)",
    &parse_dedup};

}  // namespace foregather::sim
