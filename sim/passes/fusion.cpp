// Regions of ops that are launched as one.
#include <algorithm>
#include <array>
#include <cassert>
#include <map>
#include <optional>

#include "core/base/suggest.h"
#include "core/base/text.h"
#include "core/ir/op_key.h"
#include "sim/memory/live.h"
#include "sim/passes/fusion_groups.h"
#include "sim/passes/fusion_live.h"
#include "sim/passes/fusion_merge.h"
#include "sim/passes/fusion_parts.h"
#include "sim/passes/passes.h"
#include "sim/passes/stretch.h"

namespace foregather::sim {
namespace {

enum class Fusion : std::uint8_t { none, vertical, horizontal, consecutive };
constexpr std::array<std::string_view, 4> kFusions{"none", "vertical", "horizontal", "consecutive"};

// What is launched, by the keys of parts, region by region.
std::vector<std::string> launches_of(const Graph& graph) {
  const std::vector<bool> is_launched = launched_ops(graph);
  std::vector<std::string> all;
  for (std::uint32_t p = 0; p < graph.programs.size(); ++p)
    for (const HostThread& thread : graph.programs[p].threads)
      for (const std::vector<Action>& section : thread.sections)
        for (const Action& action : section) {
          if (action.kind != ActionKind::launch) continue;
          const OpId op(action.a);
          std::string text;
          if (has_parts(graph, is_launched, op))
            for (const OpId part : graph.origins_of(graph.at(op)))
              text += (text.empty() ? "" : " ") + op_key(graph, part, p, 0);
          all.push_back(text.empty() ? op_key(graph, op, p, 0) : text);
        }
  return all;
}

Bytes peak_of(const Graph& graph) {
  Bytes peak = 0;
  for (const LiveMemory& memory : live_memory(graph)) peak = std::max(peak, memory.steady.bytes);
  return peak;
}

std::string peaks(Bytes before, Bytes after) {
  if (before == after) return fmt::format("live peak {} as before", format_bytes(after));
  return fmt::format("live peak {} instead of {}", format_bytes(after), format_bytes(before));
}

std::vector<LiveMemory> most_of(std::vector<LiveMemory> some,
                                const std::vector<LiveMemory>& other) {
  for (std::size_t p = 0; p < some.size(); ++p) {
    some[p].first.bytes = std::max(some[p].first.bytes, other[p].first.bytes);
    some[p].steady.bytes = std::max(some[p].steady.bytes, other[p].steady.bytes);
  }
  return some;
}

// Regions of the ops that can change places, and an order that puts each in one piece.
class RegionGrouping {
 public:
  /// `most`: bytes that no program may exceed, as in MergeRules.
  RegionGrouping(Rewriter& rewriter, Fusion fusion,
                 const std::optional<std::vector<LiveMemory>>& most)
      : rewriter_(rewriter), fusion_(fusion), bounds_(most) {}

  void run() {
    for (std::size_t p = 0; p < graph().programs.size(); ++p)
      for (const Section section : {Section::first, Section::body}) {
        section_ = section;
        if (bounds_)
          most_ =
              section == Section::first ? (*bounds_)[p].first.bytes : (*bounds_)[p].steady.bytes;
        const HostActions actions(graph(), ProgramId(p), section);
        const std::vector<Bytes> live = live_bytes(graph(), ProgramId(p), section);
        for (const Stretch& stretch : stretches(graph(), actions))
          group(actions, stretch, live[stretch.begin]);
      }
    rewriter_.flush();
  }

  const std::map<OpId, std::size_t>& group_of() const { return group_of_; }
  std::size_t refused() const { return refused_; }

 private:
  const Graph& graph() const { return rewriter_.graph(); }

  void group(const HostActions& actions, const Stretch& stretch, Bytes before) {
    std::vector<FusionNode> nodes(stretch.launches.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      nodes[i].needs = stretch.needs[i];
      nodes[i].side = fusion_side(graph(), graph().at(actions.op(stretch.launches[i])));
    }
    std::vector<FusionGroup> groups =
        fusion_ == Fusion::vertical ? vertical_groups(nodes) : horizontal_groups(nodes);
    if (bounds_)
      groups = within_peak(StretchMemory(graph(), actions, stretch, before), nodes, groups);
    const auto pieces = grouped_order(nodes, groups);
    assert(pieces);
    std::vector<std::uint32_t> order;
    for (const FusionGroup& piece : *pieces) order.insert(order.end(), piece.begin(), piece.end());
    if (!std::ranges::is_sorted(order)) reorder(rewriter_, actions, stretch, order);
    for (const FusionGroup& group : groups) {
      for (const std::uint32_t node : group)
        group_of_[actions.op(stretch.launches[node])] = groups_;
      ++groups_;
    }
  }

  // All, or group by group those that leave the peak of the program as it is.
  std::vector<FusionGroup> within_peak(const StretchMemory& memory,
                                       const std::vector<FusionNode>& nodes,
                                       const std::vector<FusionGroup>& groups) {
    const auto all = grouped_order(nodes, groups);
    if (all && memory.peak(*all) <= most_) return groups;
    std::vector<FusionGroup> kept;
    for (const FusionGroup& group : groups) {
      kept.push_back(group);
      const auto order = grouped_order(nodes, kept);
      if (order && memory.peak(*order) <= most_) continue;
      kept.pop_back();
      refused_ += section_ == Section::body ? 1 : 0;
    }
    return kept;
  }

  Rewriter& rewriter_;
  Fusion fusion_;
  const std::optional<std::vector<LiveMemory>>& bounds_;
  Section section_ = Section::body;
  Bytes most_ = 0;
  std::map<OpId, std::size_t> group_of_;
  std::size_t groups_ = 0;
  std::size_t refused_ = 0;
};

struct Fuse {
  std::string text;
  Fusion fusion;
  bool within_peak;

  Result<PassNote> operator()(PassTarget& target) const {
    PassNote note{text, "", false};
    Rewriter rewriter(target.graph);
    const std::size_t apart = take_apart(rewriter);
    PassTarget result{target.graph, {}};
    if (apart > 0) {
      note = settle(result, rewriter, {text, "", true});
      if (!note.changed) return note;
    }
    const Bytes given = peak_of(target.graph), parted = peak_of(result.graph);
    const Bytes most = std::max(given, parted);
    if (fusion == Fusion::none) {
      if (apart == 0) {
        note.did = "no fused op says what it was made of";
        return note;
      }
      note.did = fmt::format("{} region{} taken apart; {}", apart, apart == 1 ? "" : "s",
                             peaks(given, parted));
      note.changed = true;
      target.graph = std::move(result.graph);
      return note;
    }
    std::size_t refused = 0;
    Rewriter merging(result.graph);
    MergeRules rules;
    if (within_peak) rules.most = most_of(live_memory(target.graph), live_memory(result.graph));
    if (fusion != Fusion::consecutive) {
      RegionGrouping grouping(merging, fusion, rules.most);
      grouping.run();
      rules.group_of = grouping.group_of();
      refused = grouping.refused();
    }
    const std::size_t regions = merge_neighbours(merging, rules);
    const std::string refusal =
        refused == 0 ? ""
                     : fmt::format(
                           ", {} more would raise the live peak of {} (memory=ignore merges "
                           "them, too)",
                           refused, format_bytes(most));
    note = settle(result, merging, {text, "", true});
    if (!note.changed) return note;
    const Bytes peak = peak_of(result.graph);
    if (within_peak && peak > given)
      return PassNote{text,
                      fmt::format("left as it is: the live peak would be {} instead of {}",
                                  format_bytes(peak), format_bytes(given)),
                      false};
    note.did = fmt::format("{} region{}{}", regions, regions == 1 ? "" : "s", refusal);
    note.changed = launches_of(result.graph) != launches_of(target.graph);
    if (!note.changed) {
      note.did = fmt::format("nothing to merge or to take apart: {}", note.did);
      return note;
    }
    note.did += "; " + peaks(given, peak);
    target.graph = std::move(result.graph);
    return note;
  }
};

Result<Pass> parse_fusion(const PassArguments& arguments) {
  bool within_peak = true;
  for (const auto& [key, value] : arguments.options) {
    if (key != "memory")
      return bad_pass(arguments, "unknown option '{}', expected memory=peak or memory=ignore", key);
    if (value != "peak" && value != "ignore")
      return bad_pass(arguments, "memory={}: expected memory=peak or memory=ignore", value);
    within_peak = value == "peak";
  }
  const auto found = std::ranges::find(kFusions, arguments.argument);
  if (found == kFusions.end())
    return bad_pass(arguments, "expected fusion={}{}", fmt::join(kFusions, "|"),
                    did_you_mean(arguments.argument, kFusions));
  const auto fusion = static_cast<Fusion>(found - kFusions.begin());
  if (fusion == Fusion::none && !arguments.options.empty())
    return bad_pass(arguments, "fusion=none takes no options");
  return Pass(Fuse{std::string(arguments.text), fusion, within_peak});
}

}  // namespace

const PassInfo kFusionPass{
    "fusion", "=none|vertical|horizontal|consecutive[,memory=peak|ignore]",
    "takes fused regions apart, or merges ops into regions",
    R"(Elementwise work, norms, copies, casts and reductions of one stream and phase become one op: it
reads its inputs and writes its outputs, all of which are in memory at once, and what only it touches
is not allocated. Regions that are there are taken apart first, where they say what they were made of
(Thunder's traces print it; a mask that one sub-symbol reads is part of that one, as in relu): `none`
does no more. Then `consecutive` merges neighbours, in their order (Thunder's default since 2025);
`vertical` an op and one that uses what it makes (dataflow_merge); `horizontal` all that are ready at
one time (horizontal_merge). Between two barriers of a host thread (marks, host waits, events,
collectives, other streams), regions come where their inputs are there, other ops stay in their order.

    vertical     a1 b1 a2 b2 -> (a1 b1) (a2 b2)      horizontal    a1 b1 a2 b2 -> (a1 a2) (b1 b2)
    before  |-a1-|-b1-|-a2-|-b2-|                    after   |--a1 a2--|--b1 b2--|

What would raise the live peak, of the schedule as it is or of its parts, is not merged, unless
`memory=ignore`: N independent paths of issue 1337 take 3 tensors one by one, 2N in horizontal regions. FLOPs stay, and
the keys of parts as origins; a region has the scope and phase of its first part. Idempotent, but for `vertical` and `horizontal`
within the peak: they may lower it, and then refuse what they merged below the one before.
)",
    &parse_fusion};

}  // namespace foregather::sim
