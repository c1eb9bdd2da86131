#include <charconv>
#include <map>
#include <optional>
#include <string>

#include "core/base/suggest.h"
#include "sim/cost/rounding.h"
#include "sim/passes/arguments.h"
#include "sim/passes/passes.h"

namespace foregather::sim {
namespace {

constexpr std::string_view kForm =
    "expected scale=links:F, scale=compute:F, scale=host:F, scale=KIND:F or scale=scope:PATTERN:F "
    "with F from 1e-6 to 1e6";
constexpr std::string_view kScope = "scope:";

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

double& speed_of(PriceChanges& prices, OpKind kind) {
  for (PriceChanges::KindSpeed& known : prices.kinds)
    if (known.kind == kind) return known.speed;
  return prices.kinds.emplace_back(PriceChanges::KindSpeed{kind, 1.0}).speed;
}

void shorten_host_delays(Graph& graph, double speed) {
  for (Program& program : graph.programs)
    for (HostThread& thread : program.threads)
      for (std::vector<Action>& section : thread.sections)
        for (Action& action : section)
          if (action.kind == ActionKind::host_delay)
            action.a = static_cast<std::uint32_t>(
                std::min(static_cast<double>(0xffffffffU),
                         static_cast<double>(round_ns(static_cast<double>(action.a) / speed))));
}

// Ops of matching scopes get cost rows of their own. Returns the ops.
std::size_t scale_scope(PassTarget& target, std::string_view pattern, double factor,
                        double& fastest) {
  Graph& graph = target.graph;
  std::map<CostId, double> speeds;
  for (const PriceChanges::CostSpeed& known : target.prices.costs)
    speeds.emplace(known.cost, known.speed);
  std::map<CostId, CostId> fresh;
  std::size_t ops = 0;
  for (Op& op : graph.ops) {
    if (!matches_scope(pattern, graph.scope_name(op.scope))) continue;
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
      speed = target.prices.links *= factor;
    } else if (what == "compute") {
      speed = target.prices.compute *= factor;
    } else if (what == "host") {
      speed = target.prices.host *= factor;
      shorten_host_delays(target.graph, factor);
    } else if (kind) {
      if (!has_kind(target.graph, *kind)) {
        note.changed = false;
        note.did = "the schedule has no such op";
      }
      speed = speed_of(target.prices, *kind) *= factor;
    } else {
      const std::string pattern = what.substr(kScope.size());
      const std::size_t ops = scale_scope(target, pattern, factor, speed);
      note.changed = ops != 0;
      note.did = ops == 0 ? "no op has such a scope"
                          : fmt::format("{} ops of {} {:g} times as fast", ops, pattern, factor);
    }
    if (!(speed >= kSlowest && speed <= kFastest))
      return fail_at("--what-if " + text, "together a factor of {:g}, expected 1e-6 to 1e6", speed);
    return note;
  }
};

Result<Pass> parse_scale(const PassArguments& arguments) {
  const auto parts = named_value(arguments.argument);
  if (!parts || !arguments.options.empty()) return bad_pass(arguments, "{}", kForm);
  Scale scale;
  scale.text = arguments.text;
  scale.what = parts->name;
  const auto factor = parse_factor(parts->value);
  if (!factor) return bad_pass(arguments, "{}", kForm);
  scale.factor = *factor;
  if (parts->name == "links" || parts->name == "compute" || parts->name == "host")
    return Pass(scale);
  if (parts->name.starts_with(kScope) && parts->name.size() > kScope.size()) return Pass(scale);
  scale.kind = parse<OpKind>(parts->name);
  if (scale.kind) return Pass(scale);
  std::vector<std::string_view> known{"links", "compute", "host", "scope:PATTERN"};
  for (std::size_t i = 0; i <= static_cast<std::size_t>(OpKind::other); ++i)
    known.push_back(name(static_cast<OpKind>(i)));
  return bad_pass(arguments, "unknown target '{}'{}; known are {}", parts->name,
                  did_you_mean(parts->name, known), fmt::join(known, ", "));
}

}  // namespace

const PassInfo kScalePass{
    "scale", "=KIND:FACTOR",
    "makes links, compute, host, one kind of op or scope:PATTERN FACTOR times as fast",
    R"(`links` multiplies the bandwidth of every link before collectives are priced, `compute` the speed
of all device work that is no collective. `host` divides what launches, allocator calls, events and
the framework's own delays take of the host; `cudaMalloc` and `cudaFree` stay. A kind (`gemm`,
`all_gather`, …) or `scope:PATTERN` divides durations after they are priced, so that it also scales
times that a recording gives. A pattern is a module path with everything below it
(`scope:model.layers.3`), or has `*` and `?`. Factors with one target multiply.

    scale=gemm:2      before  |--gemm--|-norm-|        after  |gemm|-norm-|

The graph keeps its ops. Applied twice it scales twice: it is not idempotent.
)",
    &parse_scale};

}  // namespace foregather::sim
