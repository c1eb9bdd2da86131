#include "tasks/what_if.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/base/suggest.h"
#include "sim/cost/rounding.h"

namespace foregather::tasks {
namespace {

using namespace std::string_view_literals;

constexpr std::array kPasses{"scale"sv};
constexpr double kSlowest = 1e-6, kFastest = 1e6;
constexpr std::string_view kScaleForm =
    "expected scale=links:F, scale=compute:F or scale=KIND:F with F from 1e-6 to 1e6";

tl::unexpected<Error> bad(const std::string& text, std::string_view what) {
  return fail_at("--what-if " + text, "{}", what);
}

Result<double> parse_factor(const std::string& text, std::string_view number) {
  double factor = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), factor);
  if (error != std::errc() || end != number.data() + number.size()) return bad(text, kScaleForm);
  if (!(factor >= kSlowest && factor <= kFastest)) return bad(text, kScaleForm);
  return factor;
}

double& speed_of(WhatIf& what_if, OpKind kind) {
  for (WhatIf::KindSpeed& known : what_if.kinds)
    if (known.kind == kind) return known.speed;
  return what_if.kinds.emplace_back(WhatIf::KindSpeed{kind, 1.0}).speed;
}

Status add_scale(WhatIf& what_if, const std::string& text, std::string_view argument) {
  const auto colon = argument.find(':');
  if (colon == std::string_view::npos) return bad(text, kScaleForm);
  const std::string_view what = argument.substr(0, colon);
  const auto factor = parse_factor(text, argument.substr(colon + 1));
  if (!factor) return tl::unexpected(factor.error());
  double* speed = nullptr;
  if (what == "links") {
    speed = &what_if.links;
  } else if (what == "compute") {
    speed = &what_if.compute;
  } else if (const auto kind = parse<OpKind>(what)) {
    speed = &speed_of(what_if, *kind);
  } else {
    std::vector<std::string_view> known{"links", "compute"};
    for (std::size_t i = 0; i <= static_cast<std::size_t>(OpKind::other); ++i)
      known.push_back(name(static_cast<OpKind>(i)));
    return fail_at("--what-if " + text, "unknown target '{}'{}; known are {}", what,
                   did_you_mean(what, known), fmt::join(known, ", "));
  }
  *speed *= *factor;
  if (!(*speed >= kSlowest && *speed <= kFastest))
    return fail_at("--what-if " + text, "together a factor of {:g}, expected 1e-6 to 1e6", *speed);
  return {};
}

}  // namespace

Result<WhatIf> parse_what_if(const std::vector<std::string>& passes) {
  WhatIf what_if;
  for (const std::string& text : passes) {
    const auto equals = text.find('=');
    const std::string_view pass = std::string_view(text).substr(0, equals);
    if (pass != "scale")
      return fail_at("--what-if " + text, "unknown pass '{}'{}; known are {}", pass,
                     did_you_mean(pass, kPasses), fmt::join(kPasses, ", "));
    const std::string_view argument = equals == std::string::npos
                                          ? std::string_view()
                                          : std::string_view(text).substr(equals + 1);
    if (const Status added = add_scale(what_if, text, argument); !added)
      return tl::unexpected(added.error());
    what_if.texts.push_back(text);
  }
  return what_if;
}

std::vector<std::string> scale_kinds(const WhatIf& what_if, const Graph& graph,
                                     sim::CostTable& table) {
  std::vector<std::string> warnings;
  for (const WhatIf::KindSpeed& scaled : what_if.kinds) {
    bool found = false;
    for (std::size_t row = 0; row < graph.costs.size(); ++row) {
      if (graph.costs[row].kind != scaled.kind) continue;
      found = true;
      sim::Price& price = table.prices[row];
      price.duration = sim::round_ns(static_cast<double>(price.duration) / scaled.speed);
      // The same bytes in another time: the share of bandwidth changes, the SMs stay.
      for (const sim::Resource resource :
           {sim::Resource::hbm, sim::Resource::intra_link, sim::Resource::inter_link}) {
        std::uint16_t& share = price.demand[static_cast<std::size_t>(resource)];
        share = static_cast<std::uint16_t>(
            std::min<double>(sim::kWhole, static_cast<double>(share) * scaled.speed));
      }
    }
    if (!found)
      warnings.push_back(
          fmt::format("--what-if scale={}: the schedule has no such op", name(scaled.kind)));
  }
  return warnings;
}

}  // namespace foregather::tasks
