#include "sim/passes/fusion_parts.h"

#include <algorithm>
#include <map>
#include <set>

namespace foregather::sim {
namespace {

// One launch of a region.
class Apart {
 public:
  Apart(Rewriter& rewriter, const ActionList& list, std::uint32_t position)
      : rewriter_(rewriter),
        list_(list),
        position_(position),
        region_(rewriter.actions(list)[position].a) {
    const auto origins = graph().origins_of(graph().at(region_));
    parts_.assign(origins.begin(), origins.end());
    before_.resize(parts_.size());
    behind_.resize(parts_.size());
  }

  void write() {
    find_uses();
    std::set<StorageId> outside;
    for (const AccessedTensor& access : graph().accesses_of(graph().at(region_)))
      outside.insert(graph().at(access.tensor).storage);
    for (const auto& [storage, use] : uses_)
      if (!outside.contains(storage)) {
        const StreamId stream = graph().at(region_).stream;
        before_[use.first].push_back({ActionKind::alloc, stream, storage.row(), 0});
        behind_[use.last].push_back({ActionKind::free, {}, storage.row(), 0});
      }
    take_allocs();
    take_frees();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      for (const Action& action : before_[i]) insert(action);
      insert({ActionKind::launch, {}, parts_[i].row(), 0});
      for (const Action& action : behind_[i]) insert(action);
    }
    rewriter_.erase(list_, position_);
  }

 private:
  struct Use {
    std::size_t first, last;  ///< parts
  };

  const Graph& graph() const { return rewriter_.graph(); }
  void insert(const Action& action) { rewriter_.insert_before(list_, position_, action); }

  void find_uses() {
    for (std::size_t i = 0; i < parts_.size(); ++i)
      for (const AccessedTensor& part : graph().accesses_of(graph().at(parts_[i])))
        uses_.try_emplace(graph().at(part.tensor).storage, Use{i, i}).first->second.last = i;
  }

  void take_allocs() {
    const std::vector<Action>& all = rewriter_.actions(list_);
    std::set<StorageId> released;  // tensors of it, behind its alloc
    for (std::uint32_t at = position_; at-- > 0;) {
      const Action& action = all[at];
      if (action.kind == ActionKind::release) released.insert(graph().tensors[action.a].storage);
      if (action.kind == ActionKind::alloc) {
        const auto use = uses_.find(StorageId(action.a));
        if (use == uses_.end() || rewriter_.is_erased(list_, at) ||
            released.contains(StorageId(action.a)))
          continue;
        before_[use->second.first].push_back(action);
        rewriter_.erase(list_, at);
      } else if (action.kind != ActionKind::free && action.kind != ActionKind::release &&
                 action.kind != ActionKind::host_delay) {
        return;
      }
    }
  }

  void take_frees() {
    const std::vector<Action>& all = rewriter_.actions(list_);
    for (std::uint32_t at = position_ + 1; at < all.size(); ++at) {
      const Action& action = all[at];
      if (action.kind == ActionKind::free || action.kind == ActionKind::release) {
        const auto use =
            uses_.find(action.kind == ActionKind::free ? StorageId(action.a)
                                                       : graph().tensors[action.a].storage);
        if (use == uses_.end() || rewriter_.is_erased(list_, at)) continue;
        behind_[use->second.last].push_back(action);
        rewriter_.erase(list_, at);
      } else if (action.kind != ActionKind::host_delay) {
        return;
      }
    }
  }

  Rewriter& rewriter_;
  ActionList list_;
  std::uint32_t position_;
  OpId region_;
  std::vector<OpId> parts_;
  std::map<StorageId, Use> uses_;
  std::vector<std::vector<Action>> before_, behind_;  // by part
};

// Who had to come behind a region comes behind its last part; its first part behind what the
// region came behind.
void hand_on_deps(Rewriter& rewriter, const std::vector<OpId>& regions) {
  std::map<OpId, OpId> last;
  for (const OpId region : regions) {
    const auto parts = rewriter.graph().origins_of(rewriter.graph().at(region));
    last.emplace(region, parts.back());
    const OpId first = parts.front();
    const auto deps = rewriter.graph().deps_of(rewriter.graph().at(region));
    rewriter.set_deps(first, std::vector<OpId>(deps.begin(), deps.end()));
    for (const OpId part : std::vector<OpId>(parts.begin() + 1, parts.end()))
      rewriter.set_deps(part, {});
  }
  rewriter.replace_deps([&](OpId dep) {
    const auto found = last.find(dep);
    return found == last.end() ? dep : found->second;
  });
}

}  // namespace

std::vector<bool> launched_ops(const Graph& graph) {
  std::vector<bool> is_launched(graph.ops.size());
  for (const Program& program : graph.programs)
    for (const HostThread& thread : program.threads)
      for (const std::vector<Action>& section : thread.sections)
        for (const Action& action : section)
          if (action.kind == ActionKind::launch) is_launched[action.a] = true;
  return is_launched;
}

bool has_parts(const Graph& graph, const std::vector<bool>& is_launched, OpId op) {
  const auto origins = graph.origins_of(graph.at(op));
  return graph.at(op).kind == OpKind::fused && !origins.empty() &&
         std::ranges::none_of(origins, [&](OpId origin) {
           return is_launched[origin.row()] || graph.at(origin).stream != graph.at(op).stream;
         });
}

std::size_t take_apart(Rewriter& rewriter) {
  const std::vector<bool> is_launched = launched_ops(rewriter.graph());
  std::set<OpId> regions;
  std::size_t in_body = 0;
  for (const Section section : {Section::init, Section::first, Section::body})
    for (const ActionList& list : rewriter.lists(section)) {
      const auto size = static_cast<std::uint32_t>(rewriter.actions(list).size());
      for (std::uint32_t at = 0; at < size; ++at) {
        const Action& action = rewriter.actions(list)[at];
        if (action.kind != ActionKind::launch) continue;
        if (!has_parts(rewriter.graph(), is_launched, OpId(action.a))) continue;
        regions.insert(OpId(action.a));
        in_body += section == Section::body ? 1 : 0;
        Apart(rewriter, list, at).write();
      }
    }
  rewriter.flush();
  hand_on_deps(rewriter, {regions.begin(), regions.end()});
  return in_body;
}

}  // namespace foregather::sim
