#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/suggest.h"
#include "core/ir/op_key.h"
#include "sim/cost/rounding.h"
#include "sim/passes/arguments.h"
#include "sim/passes/passes.h"

namespace foregather::sim {
namespace {

constexpr std::string_view kScaleForm =
    "expected scale=links:F, scale=compute:F, scale=host:F, scale=KIND:F, scale=scope:PATTERN:F or "
    "scale=op:PATTERN:F with F from 1e-6 to 1e6";
constexpr std::string_view kScopeWord = "scope:", kOpWord = "op:";

std::optional<double> parse_factor(std::string_view text) {
  double factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(factor >= kSlowest && factor <= kFastest)) return std::nullopt;
  return factor;
}

bool has_kind(const Graph& graph, OpKind kind) {
  for (const Op& op : graph.ops)
    if (graph.at(op.cost).kind == kind) return true;
  return false;
}

bool has_collectives(const Graph& graph) {
  return std::ranges::any_of(graph.ops, [](const Op& op) { return is_collective(op.kind); });
}

double& speed_of(PriceChanges& prices, OpKind kind) {
  for (PriceChanges::KindSpeed& known : prices.kinds)
    if (known.kind == kind) return known.speed;
  return prices.kinds.emplace_back(PriceChanges::KindSpeed{kind, 1.0}).speed;
}

/// Actions that the delays of a graph may become more: 52 days of the host's work.
constexpr std::size_t kMostParts = std::size_t{1} << 20;

// Divides the delays of a list. An action holds 4.3 s, so a longer delay becomes several. Returns
// where each action is now, of several the last; nothing: more of them than `parts` are left.
std::optional<std::vector<std::uint32_t>> divide_delays(std::vector<Action>& actions, double speed,
                                                        std::size_t& parts) {
  constexpr Ns kMost = std::numeric_limits<std::uint32_t>::max();
  std::vector<Action> divided;
  divided.reserve(actions.size());
  std::vector<std::uint32_t> places;
  places.reserve(actions.size());
  for (Action action : actions) {
    if (action.kind == ActionKind::host_delay) {
      Ns time = round_ns(static_cast<double>(action.a) / speed);
      for (; time > kMost; time -= kMost, --parts) {
        if (parts == 0) return std::nullopt;
        divided.push_back({ActionKind::host_delay, {}, static_cast<std::uint32_t>(kMost), 0});
      }
      action.a = static_cast<std::uint32_t>(time);
    }
    places.push_back(static_cast<std::uint32_t>(divided.size()));
    divided.push_back(action);
  }
  actions = std::move(divided);
  return places;
}

// False: they would be too long, and the graph is unspecified.
bool divide_host_delays(Graph& graph, double speed) {
  std::size_t parts = kMostParts;
  for (Program& program : graph.programs) {
    for (std::size_t section = 0; section < kSections; ++section) {
      std::vector<std::vector<std::uint32_t>> places;  // by thread
      for (HostThread& thread : program.threads) {
        auto moved = divide_delays(thread.sections[section], speed, parts);
        if (!moved) return false;
        places.push_back(std::move(*moved));
      }
      for (HostThread& thread : program.threads)
        for (Action& action : thread.sections[section])
          if (action.kind == ActionKind::host_wait_action) action.b = places[action.a][action.b];
    }
  }
  return true;
}

// The op's key without rank and step, which its program does not have.
std::string key_in_program(const Graph& graph, OpId op) {
  const std::string key = op_key(graph, op, 0, 0);
  return key.substr(key.find("/m") + 1);
}

// Matching ops get cost rows of their own. Returns how many these are.
template <class Matches>
std::size_t scale_ops(PassTarget& target, double factor, double& fastest, const Matches& matches) {
  Graph& graph = target.graph;
  std::map<CostId, double> speeds;
  for (const PriceChanges::CostSpeed& known : target.prices.costs)
    speeds.emplace(known.cost, known.speed);
  std::map<CostId, CostId> fresh;
  std::size_t ops = 0;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (!matches(OpId(i))) continue;
    Op& op = graph.ops[i];
    ++ops;
    const auto [found, is_new] = fresh.try_emplace(op.cost, CostId(graph.costs.size()));
    if (is_new) {
      const Cost row = graph.at(op.cost);
      graph.costs.push_back(row);
      const auto before = speeds.find(op.cost);
      const double speed = factor * (before == speeds.end() ? 1.0 : before->second);
      fastest = std::max({fastest, speed, 1 / speed});
      target.prices.costs.push_back({found->second, speed});
    }
    op.cost = found->second;
  }
  return ops;
}

struct Scale {
  std::string text;
  std::string what;
  std::optional<OpKind> kind;
  double factor = 1;

  Result<PassNote> operator()(PassTarget& target) const {
    PassNote note{text, fmt::format("{} {:g} times as fast", what, factor), true};
    double speed = 1;
    if (what == "links") {
      if (!has_collectives(target.graph)) {
        note.changed = false;
        note.did = "the schedule has no collective";
      }
      speed = target.prices.links *= factor;
    } else if (what == "compute") {
      speed = target.prices.compute *= factor;
    } else if (what == "host") {
      speed = target.prices.host *= factor;
      if (!divide_host_delays(target.graph, factor))
        return fail_at("--what-if " + text,
                       "the host would work for more than 52 days, expected a greater factor");
    } else if (kind) {
      if (!has_kind(target.graph, *kind)) {
        note.changed = false;
        note.did = "the schedule has no such op";
      }
      speed = speed_of(target.prices, *kind) *= factor;
    } else {
      const bool by_scope = what.starts_with(kScopeWord);
      const std::string pattern = what.substr(by_scope ? kScopeWord.size() : kOpWord.size());
      const Graph& graph = target.graph;
      const std::size_t ops = scale_ops(target, factor, speed, [&](OpId op) {
        return matches_scope(pattern, by_scope ? std::string(graph.scope_name(graph.at(op).scope))
                                               : key_in_program(graph, op));
      });
      note.changed = ops != 0;
      note.did = ops == 0 ? fmt::format("no op has such a {}", by_scope ? "scope" : "key")
                          : fmt::format("{} ops of {} {:g} times as fast", ops, pattern, factor);
    }
    if (!(speed >= kSlowest && speed <= kFastest))
      return fail_at("--what-if " + text, "together a factor of {:g}, expected 1e-6 to 1e6", speed);
    return note;
  }
};

Result<Pass> parse_scale(const PassArguments& arguments) {
  const auto parts = named_value(arguments.argument);
  if (!parts || !arguments.options.empty()) return bad_pass(arguments, "{}", kScaleForm);
  Scale scale;
  scale.text = arguments.text;
  scale.what = parts->name;
  const auto factor = parse_factor(parts->value);
  if (!factor) return bad_pass(arguments, "{}", kScaleForm);
  scale.factor = *factor;
  if (parts->name == "links" || parts->name == "compute" || parts->name == "host")
    return Pass(scale);
  for (const std::string_view prefix : {kScopeWord, kOpWord})
    if (parts->name.starts_with(prefix) && parts->name.size() > prefix.size()) return Pass(scale);
  scale.kind = parse<OpKind>(parts->name);
  if (scale.kind) return Pass(scale);
  std::vector<std::string_view> known{"links", "compute", "host", "scope:PATTERN", "op:PATTERN"};
  for (std::size_t i = 0; i <= static_cast<std::size_t>(kLastOpKind); ++i)
    known.push_back(name(static_cast<OpKind>(i)));
  return bad_pass(arguments, "unknown target '{}'{}; known are {}", parts->name,
                  did_you_mean(parts->name, known), fmt::join(known, ", "));
}

}  // namespace

const PassInfo kScalePass{
    "scale", "=KIND:FACTOR",
    "makes links, compute, host, one kind of op, scope:PATTERN or op:PATTERN FACTOR times as fast",
    R"(`links` multiplies the bandwidth of every link before collectives are priced, `compute` the speed
of all device work that is no collective. `host` divides what launches, allocator calls, events and
the framework's own delays take of the host; `cudaMalloc` and `cudaFree` stay, but in a recording,
whose calls are all the host's time where they do not wait for the device. A kind (`gemm`,
`all_gather`, …) or `scope:PATTERN` divides durations after they are priced, so that it also scales
times that a recording gives. A pattern is a module path with everything below it
(`scope:model.layers.3`), or has `*` and `?`. `op:PATTERN` does the same to the ops whose key matches,
without rank and step: `op:m0/layers.3.attn/backward/gemm/2` is one op of each rank, and
`op:*all_reduce/*#7:1e6` takes the eighth all-reduce of a communicator away but for its launch and for
ranks that wait in it. Factors with one target multiply.

    scale=gemm:2      before  |--gemm--|-norm-|        after  |gemm|-norm-|

The graph keeps its ops. Applied twice it scales twice: it is not idempotent.
)",
    &parse_scale};

}  // namespace foregather::sim
