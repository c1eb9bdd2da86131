#include "tasks/what_if.h"

#include <array>
#include <charconv>
#include <cmath>

#include "core/base/suggest.h"

namespace foregather::tasks {
namespace {

using namespace std::string_view_literals;

constexpr std::array kPasses{"scale"sv};
constexpr std::string_view kScaleForm =
    "expected scale=links:F, scale=compute:F or scale=KIND:F with F from 1e-6 to 1e6";

tl::unexpected<Error> bad(const std::string& text, std::string_view what) {
  return fail_at("--what-if " + text, "{}", what);
}

Result<double> parse_factor(const std::string& text, std::string_view number) {
  double factor = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), factor);
  if (error != std::errc() || end != number.data() + number.size()) return bad(text, kScaleForm);
  if (!(factor >= 1e-6 && factor <= 1e6)) return bad(text, kScaleForm);
  return factor;
}

Status add_scale(WhatIf& what_if, const std::string& text, std::string_view argument) {
  const auto colon = argument.find(':');
  if (colon == std::string_view::npos) return bad(text, kScaleForm);
  const std::string_view what = argument.substr(0, colon);
  const auto factor = parse_factor(text, argument.substr(colon + 1));
  if (!factor) return tl::unexpected(factor.error());
  if (what == "links") {
    what_if.links *= *factor;
  } else if (what == "compute") {
    what_if.compute *= *factor;
  } else if (const auto kind = parse<OpKind>(what)) {
    what_if.kinds.push_back({*kind, *factor});
  } else {
    std::vector<std::string_view> known{"links", "compute"};
    for (std::size_t i = 0; i <= static_cast<std::size_t>(OpKind::other); ++i)
      known.push_back(name(static_cast<OpKind>(i)));
    return fail_at("--what-if " + text, "unknown target '{}'{}; known are {}", what,
                   did_you_mean(what, known), fmt::join(known, ", "));
  }
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

void scale_kinds(const WhatIf& what_if, const Graph& graph, sim::CostTable& table) {
  for (const WhatIf::KindSpeed& scaled : what_if.kinds)
    for (std::size_t row = 0; row < graph.costs.size(); ++row) {
      if (graph.costs[row].kind != scaled.kind) continue;
      Ns& duration = table.prices[row].duration;
      duration = static_cast<Ns>(static_cast<double>(duration) / scaled.speed);
    }
}

}  // namespace foregather::tasks
