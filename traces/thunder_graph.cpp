#include "traces/thunder_graph.h"

#include <algorithm>

#include "core/ir/references.h"
#include "traces/thunder_lowering.h"
#include "traces/thunder_shapes.h"

namespace foregather::traces {
namespace {

bool is_prologue(const ThunderFunction& function) {
  return function.name == "prologue" || function.name == "epilogue";
}

bool has_collectives(const ThunderPart& part) {
  const ThunderFunction& function = part.file->functions[part.function];
  for (std::uint32_t row = function.statements.first; row < function.statements.end(); ++row) {
    const ThunderStatement& statement = part.file->statements[row];
    const ThunderValue* const call = part.file->call_of(statement);
    if (call != nullptr && statement.depth == 0 &&
        thunder_symbol(call->text).act == ThunderAct::collective)
      return true;
  }
  return false;
}

std::uint32_t world_size(std::span<const ThunderPart> parts, const ThunderGraphOptions& options,
                         std::vector<std::string>& warnings) {
  std::int64_t shown = 0;
  for (const ThunderPart& part : parts) {
    const std::int64_t here = shown_world_size(*part.file, part.file->functions[part.function]);
    if (shown == 0) shown = here;
    if (here != 0 && here != shown)
      warnings.push_back(fmt::format("{}: shows {} ranks where another trace shows {}: {} it is",
                                     part.path, here, shown, shown));
  }
  if (shown > 0) {
    if (options.world_size && *options.world_size != shown)
      warnings.push_back(fmt::format("the shapes show {} ranks: parallel.world_size={} is ignored",
                                     shown, *options.world_size));
    return static_cast<std::uint32_t>(shown);
  }
  if (options.world_size) return *options.world_size;
  if (std::none_of(parts.begin(), parts.end(), has_collectives)) return 1;
  const std::uint32_t assumed = std::max(options.gpus_per_node, 1U);
  warnings.push_back(
      fmt::format("nothing in the trace shows how many ranks there are: {} assumed, "
                  "--set parallel.world_size=N says otherwise",
                  assumed));
  return assumed;
}

bool is_of_cpu(std::span<const ThunderPart> parts) {
  for (const ThunderPart& part : parts)
    for (const ThunderTensorType& type : part.file->types)
      if (!type.on_host) return false;
  return true;
}

}  // namespace

bool is_thunder_backward(const ThunderFile& file, const ThunderFunction& function) {
  if (function.name.find("backward") != std::string_view::npos) return true;
  return !function.parameters.empty() &&
         file.text(function.parameters.front().name) == "saved_for_backward";
}

std::vector<ThunderPart> thunder_parts(const ThunderFile& file, const std::string& path,
                                       std::vector<std::string>& warnings) {
  std::vector<ThunderPart> parts;
  const auto part = [&](std::size_t row) {
    const bool backward = is_thunder_backward(file, file.functions[row]);
    return ThunderPart{&file, static_cast<std::uint32_t>(row),
                       backward ? Phase::backward : Phase::forward, path};
  };
  std::optional<std::size_t> forward, backward, any;
  for (std::size_t row = 0; row < file.functions.size(); ++row) {
    if (file.functions[row].statements.count == 0 && file.functions.size() > 1) continue;
    any = row;
    if (is_prologue(file.functions[row])) continue;
    (is_thunder_backward(file, file.functions[row]) ? backward : forward) = row;
  }
  // Of several stages of one function, the last is what runs.
  if (forward) parts.push_back(part(*forward));
  if (backward) parts.push_back(part(*backward));
  if (parts.empty()) parts.push_back(part(any.value_or(0)));
  const std::size_t left = file.functions.size() - parts.size();
  if (left > 0) {
    std::string taken;
    for (const ThunderPart& one : parts)
      taken += fmt::format("{}'{}' of line {}", taken.empty() ? "" : " and ",
                           file.functions[one.function].name, file.functions[one.function].line);
    warnings.push_back(
        fmt::format("{}: has {} traces, {} taken", path, file.functions.size(), taken));
  }
  return parts;
}

Result<ThunderGraph> thunder_graph(std::span<const ThunderPart> parts,
                                   const ThunderGraphOptions& options) {
  ThunderGraph result;
  if (parts.empty()) return fail("no trace, expected at least one");
  const std::uint32_t ranks = world_size(parts, options, result.warnings);
  if (ranks == 0 || ranks > kMostRanks)
    return fail("a world of {} ranks, expected 1 to {}", ranks, kMostRanks);
  const bool on_host = is_of_cpu(parts);
  GraphBuilder builder;
  ThunderLowering lowering(builder, options, ranks, on_host);
  for (const ThunderPart& part : parts) lowering.part(part);
  lowering.finish();
  for (std::string& warning : lowering.take_warnings())
    result.warnings.push_back(std::move(warning));
  bool has_types = false;
  for (const ThunderPart& part : parts) has_types |= !part.file->types.empty();
  if (on_host && has_types)
    result.warnings.push_back("the trace is one of the CPU: its tensors are taken as the GPU's");
  result.argument_bytes = lowering.held_bytes();
  result.graph = builder.finish();
  return result;
}

}  // namespace foregather::traces
