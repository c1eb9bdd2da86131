#include "sim/passes/registry.h"

#include "core/base/suggest.h"
#include "sim/passes/passes.h"

namespace foregather::sim {
namespace {

constexpr std::string_view kIntroduction =
    R"(# What-if passes

`--what-if PASS[=ARG[,KEY=VALUE]…]` changes a schedule, or its prices, before it is simulated. Passes
apply in the order given, and each works on what the ones before it left. They find structure by shard
group (unit) and role, never by name, so that they work on any source. A pass that finds nothing to do
says so in a warning. What each did is printed, and is `what_if` in `--json`.

This page is made from `sim/passes/registry.h`.
)";

PassArguments split(const std::string& text) {
  PassArguments arguments;
  arguments.text = text;
  const auto end = text.find_first_of("=,");
  if (end == std::string::npos) return arguments;
  std::string_view rest = std::string_view(text).substr(end + 1);
  const auto next = [&rest] {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    return part;
  };
  bool is_first = text[end] == '=';
  while (!rest.empty()) {
    const std::string_view part = next();
    const auto inner = part.find('=');
    if (inner != std::string_view::npos)
      arguments.options.emplace_back(part.substr(0, inner), part.substr(inner + 1));
    else if (is_first)
      arguments.argument = part;
    else
      arguments.options.emplace_back(part, std::string_view());
    is_first = false;
  }
  return arguments;
}

}  // namespace

std::span<const PassInfo* const> passes() { return kPasses; }

Result<Pass> parse_pass(const std::string& text) {
  const PassArguments arguments = split(text);
  const std::string_view name = arguments.text.substr(0, arguments.text.find_first_of("=,"));
  std::vector<std::string_view> names;
  for (const PassInfo* pass : kPasses) {
    if (pass->name == name)
      return pass->parse(arguments).map([&](Pass parsed) {
        parsed.name = pass->name;
        return parsed;
      });
    names.push_back(pass->name);
  }
  return bad_pass(arguments, "unknown pass '{}'{}; known are {}", name, did_you_mean(name, names),
                  fmt::join(names, ", "));
}

Result<std::vector<Pass>> parse_passes(const std::vector<std::string>& texts) {
  std::vector<Pass> parsed;
  for (const std::string& text : texts) {
    auto pass = parse_pass(text);
    if (!pass) return tl::unexpected(pass.error());
    parsed.push_back(std::move(*pass));
  }
  return parsed;
}

Result<std::vector<PassNote>> apply_passes(const std::vector<Pass>& passes, PassTarget& target) {
  std::vector<PassNote> notes;
  for (const Pass& pass : passes) {
    auto note = pass(target);
    if (!note) return tl::unexpected(note.error());
    notes.push_back(std::move(*note));
  }
  return notes;
}

std::string passes_help() {
  std::string text;
  for (const PassInfo* pass : kPasses)
    text += fmt::format("\n{}{}: {}", pass->name, pass->grammar, pass->summary);
  return text;
}

std::string passes_markdown() {
  std::string text(kIntroduction);
  for (const PassInfo* pass : kPasses)
    text += fmt::format("\n## {}\n\n`{}{}` {}.\n\n{}", pass->name, pass->name, pass->grammar,
                        pass->summary, pass->docs);
  return text;
}

}  // namespace foregather::sim
