#include "gui/models/search.h"

#include <fmt/format.h>

#include <unordered_map>

#include "gui/models/letters.h"

namespace foregather::gui {
namespace {

class Searching {
 public:
  Searching(run::RunView run, const std::string& lowered) : run_(run) {
    for (std::size_t i = 0; i < run.strings.size(); ++i)
      holds_.push_back(holds_text(run.text_of(StringId(i)), lowered));
    lowered_ = lowered;
  }

  bool has(StringId text) const { return text && holds_[text.row()]; }
  bool is_found(std::size_t op) {
    if (has(run_.ops.source[op])) return true;
    const std::uint64_t scope = run_.ops.scope[op] ? run_.ops.scope[op].row() + 1 : 0;
    const auto phase = static_cast<std::uint64_t>(run_.ops.phase[op]);
    const auto kind = static_cast<std::uint64_t>(run_.ops.kind[op]);
    const auto [known, is_new] = known_.try_emplace(scope << 16U | phase << 8U | kind, false);
    if (is_new)
      known->second = holds_text(fmt::format("{}/{}/{}", run_.text_of(run_.ops.scope[op]),
                                             name(run_.ops.phase[op]), name(run_.ops.kind[op])),
                                 lowered_);
    return known->second;
  }

 private:
  run::RunView run_;
  std::string lowered_;
  std::vector<bool> holds_;
  std::unordered_map<std::uint64_t, bool> known_;  // by scope, phase and kind
};

}  // namespace

std::vector<Span> search(const Session& session, const std::string& text) {
  std::vector<Span> found;
  if (text.empty()) return found;
  for (std::size_t side = 0; side < session.sides(); ++side) {
    run::RunView run = session.run(side);
    Searching searching(run, lowered(text));
    for (std::size_t i = 0; i < run.ops.size(); ++i)
      if (session.is_shown(side, run.ops.step[i]) && searching.is_found(i))
        found.push_back({side, SpanKind::op, static_cast<std::uint32_t>(i)});
    for (std::size_t i = 0; i < run.calls.size(); ++i)
      if (searching.has(run.calls[i].name))
        found.push_back({side, SpanKind::call, static_cast<std::uint32_t>(i)});
  }
  return found;
}

}  // namespace foregather::gui
