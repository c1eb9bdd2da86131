#include "tasks/chakra_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "tasks/chakra_rank.h"
#include "tasks/parallel.h"
#include "traces/text_source.h"

namespace foregather::tasks {
namespace {

using traces::ChakraTrace;

struct RankTrace {
  std::string name;  // of the file or member
  std::size_t trace = 0;
};

bool have_same_bytes(const std::string& a, const std::string& b) {
  std::error_code error;
  const auto size = std::filesystem::file_size(a, error);
  if (error || size != std::filesystem::file_size(b, error) || error) return false;
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  std::ifstream first(a, std::ios::binary), second(b, std::ios::binary);
  std::string one(kPiece, '\0'), other(kPiece, '\0');
  for (std::uintmax_t left = size; left > 0;) {
    const auto n = static_cast<std::size_t>(std::min<std::uintmax_t>(left, kPiece));
    const auto length = static_cast<std::streamsize>(n);
    if (!first.read(one.data(), length) || !second.read(other.data(), length)) return false;
    if (std::string_view(one).substr(0, n) != std::string_view(other).substr(0, n)) return false;
    left -= n;
  }
  return true;
}

/// By path: the first one with the same bytes, or itself. Traces of equal ranks are read once.
std::vector<std::size_t> first_with_same_bytes(const std::vector<std::string>& paths) {
  std::vector<std::size_t> first(paths.size()), distinct;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto same = std::find_if(distinct.begin(), distinct.end(), [&](std::size_t known) {
      return have_same_bytes(paths[known], paths[i]);
    });
    first[i] = same == distinct.end() ? i : *same;
    if (same == distinct.end()) distinct.push_back(i);
  }
  return first;
}

Result<std::vector<ChakraTrace>> read_path(const std::string& path) {
  std::vector<ChakraTrace> traces;
  const Status status =
      traces::visit_texts(path, [&](const traces::TextMember& member, traces::TextSource& text) {
        auto trace = traces::read_chakra(text, member.name);
        if (!trace) return Status(tl::unexpected(trace.error()));
        traces.push_back(std::move(*trace));
        return Status();
      });
  if (!status) return tl::unexpected(status.error());
  return traces;
}

bool are_equal(const ChakraTrace& a, const ChakraTrace& b) {
  if (a.nodes != b.nodes || a.groups != b.groups || a.groups_used.size() != b.groups_used.size())
    return false;
  for (std::size_t i = 0; i < a.groups_used.size(); ++i)
    if (a.groups_used.text(StringId(i)) != b.groups_used.text(StringId(i))) return false;
  return true;
}

std::vector<std::uint32_t> ranks_of(const std::vector<RankTrace>& traces,
                                    std::vector<std::string>& warnings) {
  std::vector<std::uint32_t> ranks;
  std::set<std::uint32_t> seen;
  for (const RankTrace& trace : traces) {
    const auto rank = chakra_rank(trace.name);
    if (rank && seen.insert(*rank).second) ranks.push_back(*rank);
  }
  if (ranks.size() == traces.size()) return ranks;
  if (traces.size() > 1)
    warnings.push_back(
        "the names of the traces do not number the ranks: they are numbered in the order given");
  ranks.clear();
  for (std::uint32_t rank = 0; rank < traces.size(); ++rank) ranks.push_back(rank);
  return ranks;
}

}  // namespace

bool is_chakra(const std::string& path) {
  const auto head = traces::format_head(path);
  return head && (traces::is_chakra_et(*head) || traces::is_chakra_json(*head));
}

Result<traces::ChakraGraph> chakra_step(const std::vector<std::string>& paths,
                                        const traces::ChakraGraphOptions& options) {
  const std::vector<std::size_t> first = first_with_same_bytes(paths);
  std::vector<Result<std::vector<ChakraTrace>>> read(paths.size(), std::vector<ChakraTrace>());
  in_parallel(paths.size(), [&](std::size_t i) {
    if (first[i] == i) read[i] = read_path(paths[i]);
  });

  std::vector<const ChakraTrace*> distinct;
  std::vector<RankTrace> ranks;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto& traces = read[first[i]];
    if (!traces) return tl::unexpected(traces.error());
    for (const ChakraTrace& trace : *traces) {
      const auto same = std::find_if(
          distinct.begin(), distinct.end(),
          [&](const ChakraTrace* known) { return known == &trace || are_equal(*known, trace); });
      const std::size_t row = static_cast<std::size_t>(same - distinct.begin());
      if (same == distinct.end()) distinct.push_back(&trace);
      ranks.push_back({first[i] == i ? trace.source : paths[i], row});
    }
  }
  std::vector<std::string> warnings;
  const std::vector<std::uint32_t> numbers = ranks_of(ranks, warnings);
  std::vector<traces::ChakraClass> classes(distinct.size());
  for (std::size_t i = 0; i < distinct.size(); ++i) classes[i].trace = distinct[i];
  for (std::size_t i = 0; i < ranks.size(); ++i)
    classes[ranks[i].trace].ranks.push_back(numbers[i]);
  for (traces::ChakraClass& rank_class : classes)
    std::sort(rank_class.ranks.begin(), rank_class.ranks.end());
  std::sort(classes.begin(), classes.end(),
            [](const auto& a, const auto& b) { return a.ranks.front() < b.ranks.front(); });
  auto step = traces::chakra_graph(classes, options);
  if (step) step->warnings.insert(step->warnings.begin(), warnings.begin(), warnings.end());
  return step;
}

}  // namespace foregather::tasks
