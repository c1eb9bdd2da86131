#include "sim/passes/fusion_merge.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "sim/passes/fusion_live.h"
#include "sim/passes/host_actions.h"

namespace foregather::sim {
namespace {

using Parts = std::vector<OpId>;

bool stands_between(ActionKind kind) {
  return kind == ActionKind::alloc || kind == ActionKind::free || kind == ActionKind::release ||
         kind == ActionKind::record_stream || kind == ActionKind::host_delay;
}

// One section of one program.
class Neighbours {
 public:
  Neighbours(Rewriter& rewriter, ProgramId program, Section section, const MergeRules& rules)
      : rewriter_(rewriter),
        rules_(rules),
        actions_(rewriter.graph(), program, section),
        live_(live_bytes(rewriter.graph(), program, section)) {
    for (const HostThread& thread : rewriter.graph().at(program).threads)
      for (const Action& action : thread.actions(Section::init))
        if (action.kind == ActionKind::alloc) allocated_before_.insert(StorageId(action.a));
    for (const Lifetime& life : actions_.bindings) lives_[life.storage].push_back(&life);
    for (ActionIndex at = 0; at < actions_.all.size(); ++at) {
      const Action& action = actions_.all[at].action;
      if (actions_.is_launch(at)) launch_of_.emplace(actions_.op(at), at);
      if (is_memory(action.kind)) memory_[storage_of(action)].push_back(at);
    }
  }

  // Runs that may become one op, longest first come first served.
  std::vector<Parts> regions(std::optional<Bytes> most) const {
    std::vector<Parts> found;
    for (ActionIndex at = 0; at < actions_.all.size();) {
      const std::vector<ActionIndex> run = run_from(at);
      if (run.empty()) {
        ++at;
        continue;
      }
      const std::size_t size = most ? fitting(run, *most) : run.size();
      if (size > 1) {
        Parts& parts = found.emplace_back();
        for (std::size_t i = 0; i < size; ++i) parts.push_back(actions_.op(run[i]));
      }
      at = run[size - 1] + 1;
    }
    return found;
  }

  bool launches(OpId op) const { return launch_of_.contains(op); }

  // Do these stand together here?
  bool holds(const Parts& parts) const {
    const auto first = launch_of_.find(parts.front());
    if (first == launch_of_.end()) return false;
    const std::vector<ActionIndex> run = run_from(first->second);
    return run.size() >= parts.size() &&
           std::ranges::equal(parts, std::span(run).first(parts.size()), {}, {},
                              [&](ActionIndex at) { return actions_.op(at); });
  }

  // What only these touch, and nothing before or behind them.
  std::set<StorageId> intermediates(const Parts& parts) const {
    const std::set<OpId> inside(parts.begin(), parts.end());
    std::set<StorageId> found;
    for (const OpId part : parts)
      for (const AccessedTensor& access : graph().accesses_of(graph().at(part)))
        if (is_inside(graph().at(access.tensor).storage, inside))
          found.insert(graph().at(access.tensor).storage);
    return found;
  }

  void put(OpId region, const Parts& parts, const std::set<StorageId>& gone) {
    const ActionIndex first = launch_of_.at(parts.front()), last = launch_of_.at(parts.back());
    const PlacedAction& end = actions_.all[last];
    for (ActionIndex at = first; at <= last; ++at) {
      const PlacedAction& placed = actions_.all[at];
      const ActionKind kind = placed.action.kind;
      if (kind == ActionKind::launch) {
        rewriter_.erase(placed.list, placed.position);
      } else if (kind != ActionKind::alloc && kind != ActionKind::host_delay &&
                 !gone.contains(storage_of(placed.action))) {
        rewriter_.erase(placed.list, placed.position);
        freed_.push_back(placed.action);
      }
    }
    rewriter_.insert_before(end.list, end.position, {ActionKind::launch, {}, region.row(), 0});
    for (const Action& action : freed_) rewriter_.insert_after(end.list, end.position, action);
    freed_.clear();
    for (const StorageId storage : gone)
      for (const ActionIndex at : memory_.at(storage))
        rewriter_.erase(actions_.all[at].list, actions_.all[at].position);
  }

 private:
  const Graph& graph() const { return rewriter_.graph(); }
  static bool is_memory(ActionKind kind) {
    return stands_between(kind) && kind != ActionKind::host_delay;
  }
  StorageId storage_of(const Action& action) const {
    return action.kind == ActionKind::release ? graph().tensors[action.a].storage
                                              : StorageId(action.a);
  }
  std::optional<std::size_t> group_of(OpId op) const {
    if (!rules_.group_of) return 0;
    const auto found = rules_.group_of->find(op);
    return found == rules_.group_of->end() ? std::nullopt : std::optional(found->second);
  }

  // Launches from `at` on that may be one op.
  std::vector<ActionIndex> run_from(ActionIndex at) const {
    std::vector<ActionIndex> run;
    if (!actions_.is_launch(at)) return run;
    const auto side = fusion_side(graph(), graph().at(actions_.op(at)));
    const auto group = group_of(actions_.op(at));
    if (!side || !group) return run;
    std::set<StorageId> freed;
    for (ActionIndex next = at; next < actions_.all.size(); ++next) {
      const PlacedAction& placed = actions_.all[next];
      if (placed.list != actions_.all[at].list) break;
      const ActionKind kind = placed.action.kind;
      if (kind == ActionKind::launch) {
        const OpId op = actions_.op(next);
        if (fusion_side(graph(), graph().at(op)) != side || group_of(op) != group) break;
        run.push_back(next);
      } else if (!stands_between(kind)) {
        break;
      } else if (kind == ActionKind::free || kind == ActionKind::release) {
        freed.insert(storage_of(placed.action));
      } else if (kind == ActionKind::alloc && freed.contains(StorageId(placed.action.a))) {
        break;  // two lives of one slot
      }
    }
    return run;
  }

  // The longest part of a run, from its front, whose region needs no more than `peak`.
  std::size_t fitting(const std::vector<ActionIndex>& run, Bytes peak) const {
    Bytes during = live_[run.front()];
    std::map<const Lifetime*, std::size_t> seen;
    std::size_t best = 1;
    std::set<OpId> inside;
    for (std::size_t i = 0; i < run.size(); ++i) {
      if (i > 0)
        for (ActionIndex at = run[i - 1] + 1; at < run[i]; ++at)
          if (actions_.all[at].action.kind == ActionKind::alloc)
            during += bytes(StorageId(actions_.all[at].action.a));
      inside.insert(actions_.op(run[i]));
      std::set<StorageId> touched;
      for (const AccessedTensor& access : graph().accesses_of(graph().at(actions_.op(run[i]))))
        touched.insert(graph().at(access.tensor).storage);
      for (const StorageId storage : touched)
        if (is_inside(storage, inside)) during -= bytes(storage);
      if (during <= peak) best = i + 1;
    }
    return best;
  }

  Bytes bytes(StorageId storage) const {
    return graph().at(storage).on_host ? 0 : graph().at(storage).bytes;
  }

  // Is a storage made, used and freed by these ops alone? What nothing uses is an output.
  bool is_inside(StorageId storage, const std::set<OpId>& ops) const {
    const auto found = lives_.find(storage);
    if (found == lives_.end() || found->second.size() != 1 || allocated_before_.contains(storage))
      return false;
    const Lifetime& life = *found->second.front();
    if (!life.end || life.users.size() < 2 || graph().at(storage).on_host) return false;
    const Op& first = graph().at(actions_.op(life.users.front()));
    if (actions_.all[life.begin].action.stream != first.stream) return false;
    for (const AccessedTensor& access : graph().accesses_of(first)) {
      if (graph().at(access.tensor).storage != storage) continue;
      if (access.mode != Access::write) return false;
      break;
    }
    return std::ranges::all_of(life.users,
                               [&](ActionIndex at) { return ops.contains(actions_.op(at)); });
  }

  Rewriter& rewriter_;
  const MergeRules& rules_;
  HostActions actions_;
  std::vector<Bytes> live_;
  std::map<StorageId, std::vector<const Lifetime*>> lives_;
  std::set<StorageId> allocated_before_;
  std::map<OpId, ActionIndex> launch_of_;
  std::map<StorageId, std::vector<ActionIndex>> memory_;  // what allocates and frees it
  std::vector<Action> freed_;
};

// What a region does as a whole.
OpId add_region(Rewriter& rewriter, ProgramId program, const Parts& parts,
                const std::set<StorageId>& gone) {
  const Graph& graph = rewriter.graph();
  Op op = graph.at(parts.front());
  Cost cost = graph.at(op.cost);
  op.kind = cost.kind = OpKind::fused;
  op.origins = {};
  cost.flops = cost.bytes_read = cost.bytes_written = cost.fixed_time = 0;
  cost.m = cost.n = cost.k = cost.batch = 0;
  cost.kernels = 1;
  cost.host_ops = 1;
  std::vector<AccessedTensor> accesses;
  std::set<StorageId> written;
  std::vector<OpId> deps;
  for (const OpId part : parts) {
    const Op& row = graph.at(part);
    const Cost& one = graph.at(row.cost);
    cost.flops += one.flops;
    cost.fixed_time += one.fixed_time;
    if (row.unit != op.unit) op.unit = {};
    if (row.role != op.role) op.role = Role::compute;
    for (const OpId dep : graph.deps_of(row))
      if (std::ranges::find(parts, dep) == parts.end() &&
          std::ranges::find(deps, dep) == deps.end())
        deps.push_back(dep);
    for (const AccessedTensor& access : graph.accesses_of(row)) {
      const StorageId storage = graph.at(access.tensor).storage;
      const bool reads_own = access.mode == Access::read && written.contains(storage);
      if (gone.contains(storage) || reads_own ||
          std::ranges::find(accesses, access) != accesses.end())
        continue;
      accesses.push_back(access);
      if (access.mode != Access::write) cost.bytes_read += access.bytes;
      if (access.mode != Access::read) cost.bytes_written += access.bytes;
    }
    for (const AccessedTensor& access : graph.accesses_of(row))
      if (access.mode == Access::write) written.insert(graph.at(access.tensor).storage);
  }
  op.cost = rewriter.add_cost(cost);
  const OpId region = rewriter.add_op(program, op, accesses);
  rewriter.set_origins(region, parts);
  rewriter.set_deps(region, deps);
  return region;
}

}  // namespace

std::optional<std::uint32_t> fusion_side(const Graph& graph, const Op& op) {
  switch (op.kind) {
    case OpKind::norm:
    case OpKind::elementwise:
    case OpKind::softmax:
    case OpKind::reduction:
    case OpKind::copy:
    case OpKind::cast:
    case OpKind::fill: break;
    default: return std::nullopt;
  }
  const bool is_work = op.role == Role::compute || (op.role == Role::cast && !op.unit);
  if (!is_work || op.phase == Phase::optimizer || op.communicator || op.origins.count > 0)
    return std::nullopt;
  const bool is_fixed = graph.at(op.cost).is_fixed;
  return (std::uint32_t{op.micro_batch} << 16U) | (op.stream.row() % 4096 << 4U) |
         (static_cast<std::uint32_t>(op.phase) << 1U) | (is_fixed ? 1U : 0U);
}

std::size_t merge_neighbours(Rewriter& rewriter, const MergeRules& rules) {
  std::size_t regions = 0;
  std::map<OpId, OpId> region_of;
  const auto most = [&](std::size_t program, Section section) -> std::optional<Bytes> {
    if (!rules.most) return std::nullopt;
    const LiveMemory& memory = (*rules.most)[program];
    return section == Section::first ? memory.first.bytes : memory.steady.bytes;
  };
  for (std::size_t p = 0; p < rewriter.graph().programs.size(); ++p) {
    const ProgramId program(p);
    Neighbours first(rewriter, program, Section::first, rules);
    Neighbours body(rewriter, program, Section::body, rules);
    const auto merge = [&](Neighbours& here, Neighbours& other, const Parts& parts) {
      const bool in_other = other.holds(parts);
      const auto is_there = [&](OpId op) { return other.launches(op) || region_of.contains(op); };
      if (!in_other && std::ranges::any_of(parts, is_there)) return false;
      std::set<StorageId> gone = here.intermediates(parts);
      if (in_other) {
        const std::set<StorageId> there = other.intermediates(parts);
        std::erase_if(gone, [&](StorageId storage) { return !there.contains(storage); });
      }
      const OpId region = add_region(rewriter, program, parts, gone);
      here.put(region, parts, gone);
      if (in_other) other.put(region, parts, gone);
      for (const OpId part : parts) region_of.emplace(part, region);
      return true;
    };
    for (const Parts& parts : body.regions(most(p, Section::body)))
      regions += merge(body, first, parts) ? 1 : 0;
    // Ops of the first step alone.
    for (const Parts& parts : first.regions(most(p, Section::first)))
      if (std::ranges::none_of(parts, [&](OpId op) { return body.launches(op); }))
        merge(first, body, parts);
  }
  rewriter.flush();
  for (const auto& [part, region] : region_of) rewriter.set_deps(part, {});
  if (!region_of.empty())
    rewriter.replace_deps([&](OpId dep) {
      const auto found = region_of.find(dep);
      return found == region_of.end() ? dep : found->second;
    });
  return regions;
}

}  // namespace foregather::sim
