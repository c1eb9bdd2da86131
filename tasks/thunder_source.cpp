#include "tasks/thunder_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/base/file.h"
#include "core/ir/references.h"
#include "traces/thunder_facts.h"

namespace foregather::tasks {

std::string_view thunder_head(std::string_view text) {
  constexpr std::size_t kHead = 65536;
  return text.substr(0, kHead);
}

std::vector<std::string> thunder_warnings(const traces::ThunderFile& file,
                                          const std::string& path) {
  constexpr std::size_t kMostLines = 5;
  std::vector<std::string> warnings;
  for (const traces::ThunderProblem& problem : file.problems) {
    if (warnings.size() == kMostLines) break;
    warnings.push_back(
        fmt::format("{}:{}:{}: not read: {}", path, problem.line, problem.column, problem.what));
  }
  const auto more = file.unparsed_lines - static_cast<std::int64_t>(warnings.size());
  if (more > 0) warnings.push_back(fmt::format("{}: {} more lines were not read", path, more));
  for (const traces::ThunderFunction& function : file.functions)
    if (!function.has_return)
      warnings.push_back(
          fmt::format("{}:{}:1: '{}' ends without a return", path, function.line, function.name));
  return warnings;
}

WorldSets take_world_size(const std::vector<std::string>& sets) {
  constexpr std::string_view kKey = "parallel.world_size=";
  WorldSets taken;
  for (const std::string& set : sets) {
    if (!std::string_view(set).starts_with(kKey)) {
      taken.others.push_back(set);
      continue;
    }
    const char* const end = set.data() + set.size();
    std::uint32_t size = 0;
    const auto [stop, error] = std::from_chars(set.data() + kKey.size(), end, size);
    if (error != std::errc{} || stop != end || size == 0 || size > kMostRanks)
      taken.error =
          Error{"--set " + set, fmt::format("expected 1 to {} ranks", kMostRanks), Fault::input};
    taken.world_size = size;
  }
  return taken;
}

Result<ThunderStep> thunder_step(std::span<const ThunderText> texts,
                                 const traces::ThunderGraphOptions& options) {
  ThunderStep step;
  std::vector<traces::ThunderFile> files;
  files.reserve(texts.size());
  for (const ThunderText& text : texts) {
    auto file = traces::read_thunder(text.text, text.path);
    if (!file) return tl::unexpected(file.error());
    for (std::string& warning : thunder_warnings(*file, text.path))
      step.warnings.push_back(std::move(warning));
    step.estimator_peak = std::max(step.estimator_peak, traces::thunder_facts(*file).peak_bytes);
    files.push_back(std::move(*file));
  }
  std::vector<traces::ThunderPart> parts;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (const auto& part : traces::thunder_parts(files[i], texts[i].path, step.warnings))
      parts.push_back(part);
  // Whichever was named first: the forward comes first.
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return a.phase == Phase::forward && b.phase != Phase::forward;
  });
  if (files.size() == 2 &&
      (parts.size() != 2 || parts[1].phase != Phase::backward || parts[0].phase != Phase::forward))
    return fail_at(texts[1].path, "and {} are not a forward and its backward", texts[0].path);
  auto graph = traces::thunder_graph(parts, options);
  if (!graph) {
    graph.error().place = texts.front().path;
    return tl::unexpected(graph.error());
  }
  for (std::string& warning : graph->warnings) step.warnings.push_back(std::move(warning));
  step.graph = std::move(graph->graph);
  step.argument_bytes = graph->argument_bytes;
  return step;
}

bool are_forward_and_backward(const std::string& first, const std::string& second) {
  constexpr Bytes kLongestTrace = 512 * MiB;
  int backwards = 0;
  for (const std::string& path : {first, second}) {
    const auto text = read_file(path, kLongestTrace);
    if (!text || !traces::is_thunder_trace(thunder_head(*text))) return false;
    const auto file = traces::read_thunder(*text, path);
    if (!file) return false;
    std::vector<std::string> ignored;
    const auto parts = traces::thunder_parts(*file, path, ignored);
    if (parts.size() != 1) return false;
    backwards += parts.front().phase == Phase::backward ? 1 : 0;
  }
  return backwards == 1;
}

}  // namespace foregather::tasks
