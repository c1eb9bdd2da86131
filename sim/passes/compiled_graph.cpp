#include "sim/passes/compiled_graph.h"

#include <algorithm>
#include <map>
#include <set>

namespace foregather::sim {
namespace {

bool is_border(ActionKind kind) {
  switch (kind) {
    case ActionKind::mark:
    case ActionKind::host_wait_event:
    case ActionKind::host_wait_stream:
    case ActionKind::host_wait_device:
    case ActionKind::host_wait_action:
    case ActionKind::empty_cache: return true;
    default: return false;
  }
}

class GraphFinder {
 public:
  explicit GraphFinder(const Graph& graph) : graph_(graph) {}

  Result<CompiledProgram> find() {
    if (graph_.programs.size() != 1) return fail("ranks run several programs");
    found_.program = ProgramId(0);
    if (Status done = find_streams(); !done) return tl::unexpected(done.error());
    const Program& program = graph_.programs.front();
    for (std::uint32_t thread = 0; thread < program.threads.size(); ++thread) {
      const auto first = runs(program.threads[thread].actions(Section::first));
      const auto body = runs(program.threads[thread].actions(Section::body));
      if (first.size() != body.size()) return fail(kDiffers);
      for (std::size_t i = 0; i < body.size(); ++i) {
        CompiledGraph graph;
        graph.list = {found_.program, thread, Section::body};
        graph.actions = {first[i], body[i]};
        if (launched(thread, Section::first, first[i]) != launched(thread, Section::body, body[i]))
          return fail(kDiffers);
        if (Status done = read(graph); !done) return tl::unexpected(done.error());
        found_.graphs.push_back(std::move(graph));
      }
      for (const Section section : {Section::first, Section::body})
        if (Status done = check_events(program.threads[thread].actions(section),
                                       section == Section::first ? first : body);
            !done)
          return tl::unexpected(done.error());
    }
    if (found_.graphs.empty()) return fail("it gathers nothing in its steps");
    return std::move(found_);
  }

 private:
  static constexpr const char* kDiffers = "its first step launches other ops than the steady one";

  const Op& op(const Action& action) const { return graph_.ops[action.a]; }
  StorageId storage(const AccessedTensor& part) const { return graph_.at(part.tensor).storage; }
  static bool is_gather(const Op& op) { return op.role == Role::gather; }

  std::span<const Action> run_of(const CompiledGraph& graph) const {
    return graph_.programs.front()
        .threads[graph.list.thread]
        .actions(Section::body)
        .subspan(graph.actions[1].first, graph.actions[1].count);
  }

  Status find_streams() {
    std::set<StreamId> gathers, reduces, mains, copies;
    std::set<StorageId> reduced;
    for (const Op& op : graph_.ops) {
      if (is_gather(op)) gathers.insert(op.stream);
      if (op.role == Role::reduce) reduces.insert(op.stream);
      if (op.role == Role::compute) mains.insert(op.stream);
    }
    if (gathers.size() != 1 || mains.size() != 1 || reduces.size() > 1)
      return fail("gathers, reductions and compute have not one stream each");
    found_.streams.gather = *gathers.begin();
    found_.streams.main = *mains.begin();
    if (!reduces.empty()) found_.streams.reduce = *reduces.begin();
    if (found_.streams.gather == found_.streams.main ||
        found_.streams.reduce == found_.streams.main ||
        found_.streams.reduce == found_.streams.gather)
      return fail("gathers, reductions and compute have not one stream each");
    return {};
  }

  std::vector<Range> runs(std::span<const Action> actions) const {
    std::vector<Range> runs;
    std::uint32_t begin = 0;
    bool gathers = false;
    const auto end_run = [&](std::uint32_t end) {
      if (gathers) runs.push_back({begin, end - begin});
      begin = end + 1;
      gathers = false;
    };
    for (std::uint32_t i = 0; i < actions.size(); ++i) {
      if (is_border(actions[i].kind)) end_run(i);
      if (actions[i].kind == ActionKind::launch && is_gather(op(actions[i]))) gathers = true;
    }
    end_run(static_cast<std::uint32_t>(actions.size()));
    return runs;
  }

  std::vector<std::uint32_t> launched(std::uint32_t thread, Section section, Range run) const {
    std::vector<std::uint32_t> ops;
    for (const Action& action :
         graph_.programs.front().threads[thread].actions(section).subspan(run.first, run.count))
      if (action.kind == ActionKind::launch) ops.push_back(action.a);
    return ops;
  }

  // The record that a wait is for stands on the same side of a graph's border.
  Status check_events(std::span<const Action> actions, const std::vector<Range>& runs) const {
    std::map<std::uint32_t, std::size_t> recorded;  // event -> run + 1, or 0
    std::size_t next = 0;
    for (std::uint32_t i = 0; i < actions.size(); ++i) {
      while (next < runs.size() && i >= runs[next].end()) ++next;
      const bool inside = next < runs.size() && runs[next].contains(i);
      const std::size_t here = inside ? next + 1 : 0;
      const Action& action = actions[i];
      if (action.kind == ActionKind::record) recorded[action.a] = here;
      const bool waits =
          action.kind == ActionKind::wait || action.kind == ActionKind::host_wait_event;
      if (!waits) continue;
      const auto found = recorded.find(action.a);
      const std::size_t there = found == recorded.end() ? 0 : found->second;
      if (there != here) return fail("streams wait across the borders of its graphs");
    }
    return {};
  }

  Status read(CompiledGraph& graph) {
    const std::span<const Action> run = run_of(graph);
    find_buckets(run);
    std::vector<OpId> lead;
    std::vector<Action> delays;
    std::set<std::uint32_t> allocated;
    for (const Action& action : run) {
      if (action.kind == ActionKind::release) return fail("it releases tensors by counting");
      if (action.kind == ActionKind::alloc && !allocated.insert(action.a).second)
        return fail("a storage is bound twice in a graph");
      if (action.kind == ActionKind::host_delay) delays.push_back(action);
      if (action.kind != ActionKind::launch) continue;
      const OpId id(action.a);
      const Op& op = graph_.at(id);
      if (op.stream == found_.streams.gather && !is_gather(op)) {
        lead.push_back(id);
        continue;
      }
      if (op.stream == found_.streams.reduce) {
        if (Status done = add_to_flush(graph, id); !done) return done;
        continue;
      }
      CompiledNode node;
      node.ops = std::move(lead);
      lead.clear();
      node.ops.push_back(id);
      node.delays = std::move(delays);
      delays.clear();
      node.is_gather = is_gather(op);
      if (!node.is_gather && node.ops.size() > 1) return fail("its gathers copy parameters out");
      if (op.stream != found_.streams.main && !node.is_gather) {
        node.is_reduce = op.role == Role::copy_in && writes_bucket(op);
        if (!node.is_reduce) return fail("an op is on a stream of its own");
        if (found_.streams.copy && *found_.streams.copy != op.stream)
          return fail("gradients are copied on several streams");
        found_.streams.copy = op.stream;
      }
      if (Status done = add(graph, std::move(node)); !done) return done;
    }
    if (!lead.empty()) return fail("its gathers copy parameters out");
    if (graph.targets.size() != graph.reduces.size()) return fail("gradients are not all reduced");
    find_outputs(graph, run);
    return {};
  }

  // Storages that the ops on the stream of reductions touch: no hazards of nodes.
  void find_buckets(std::span<const Action> run) {
    apart_.clear();
    buckets_.clear();
    last_.clear();
    readers_.clear();
    std::map<StorageId, bool> only_gathers;
    for (const Action& action : run) {
      if (action.kind != ActionKind::launch) continue;
      const bool reduces = op(action).stream == found_.streams.reduce;
      const bool gathers = op(action).stream == found_.streams.gather;
      for (const AccessedTensor& part : graph_.accesses_of(op(action))) {
        if (reduces) apart_.insert(storage(part));
        if (op(action).role == Role::pre_scale && reduces) buckets_.insert(storage(part));
        auto [at, is_new] = only_gathers.try_emplace(storage(part), true);
        at->second = at->second && gathers;
      }
    }
    for (const auto& [id, only] : only_gathers)
      if (only) apart_.insert(id);
  }

  bool writes_bucket(const Op& op) const {
    const auto parts = graph_.accesses_of(op);
    return std::any_of(parts.begin(), parts.end(), [&](const AccessedTensor& part) {
      return part.mode == Access::write && buckets_.contains(storage(part));
    });
  }

  Status add_to_flush(CompiledGraph& graph, OpId id) {
    const Op& op = graph_.at(id);
    // What another pass put there may touch nothing (delay).
    if (graph_.accesses_of(op).empty()) return fail("reductions have another shape");
    if (op.role == Role::pre_scale) {
      graph.flushes.push_back({id, {}});
      const TensorId bucket = graph_.accesses_of(op).front().tensor;
      if (std::find(graph.buckets.begin(), graph.buckets.end(), bucket) == graph.buckets.end())
        graph.buckets.push_back(bucket);
      return {};
    }
    if (graph.flushes.empty()) return fail("reductions have another shape");
    if (op.role == Role::reduce) {
      if (graph.flushes.back().reduce) return fail("reductions have another shape");
      graph.flushes.back().reduce = id;
      for (const AccessedTensor& part : graph_.accesses_of(op))
        if (part.mode == Access::write) graph.targets.push_back({part, {}});
      return {};
    }
    const StorageId from = storage(graph_.accesses_of(op).front());
    for (auto target = graph.targets.rbegin(); target != graph.targets.rend(); ++target) {
      if (storage(target->received) != from) continue;
      target->finish = id;
      return {};
    }
    return fail("reductions have another shape");
  }

  Status add(CompiledGraph& graph, CompiledNode node) {
    const auto row = static_cast<std::uint32_t>(graph.nodes.size());
    const auto follow = [&](std::uint32_t arg) {
      if (arg != row && std::find(node.args.begin(), node.args.end(), arg) == node.args.end())
        node.args.push_back(arg);
    };
    for (const OpId id : node.ops)
      for (const AccessedTensor& part : graph_.accesses_of(graph_.at(id))) {
        const StorageId at = storage(part);
        if (std::find(node.touched.begin(), node.touched.end(), at) == node.touched.end())
          node.touched.push_back(at);
        if (apart_.contains(at) || buckets_.contains(at)) continue;
        if (const auto before = last_.find(at); before != last_.end()) follow(before->second);
        if (part.mode == Access::read) {
          readers_[at].push_back(row);
          continue;
        }
        for (const std::uint32_t reader : readers_[at]) follow(reader);
        readers_[at].clear();
        last_[at] = row;
        if (node.is_gather && id == node.ops.back()) {
          if (node.gathered) return fail("a gather fills several buffers");
          node.gathered = at;
        }
      }
    if (node.is_gather && !node.gathered) return fail("a gather fills no buffer of its own");
    if (node.is_reduce) graph.reduces.push_back(row);
    graph.nodes.push_back(std::move(node));
    return {};
  }

  void find_outputs(CompiledGraph& graph, std::span<const Action> run) const {
    std::set<std::uint32_t> freed;
    for (const Action& action : run)
      if (action.kind == ActionKind::free) freed.insert(action.a);
    for (const auto& [id, node] : last_)
      if (!freed.contains(id.row()) && !graph.nodes[node].is_reduce && !graph.nodes[node].is_gather)
        graph.nodes[node].is_output = true;
    std::map<StorageId, std::uint32_t> last_touch;
    for (std::uint32_t n = 0; n < graph.nodes.size(); ++n)
      for (const StorageId at : graph.nodes[n].touched) last_touch[at] = n;
    for (CompiledNode& node : graph.nodes)
      if (node.gathered) node.last_use = last_touch[*node.gathered];
  }

  const Graph& graph_;
  CompiledProgram found_;
  std::set<StorageId> apart_, buckets_;
  std::map<StorageId, std::uint32_t> last_;  // writer
  std::map<StorageId, std::vector<std::uint32_t>> readers_;
};

}  // namespace

Result<CompiledProgram> compiled_graphs(const Graph& graph) { return GraphFinder(graph).find(); }

std::string node_name(const Graph& graph, const CompiledNode& node) {
  const Op& op = graph.at(node.ops.back());
  std::string name(graph.scope_name(op.scope));
  if (node.gathered) name += "." + std::string(graph.text(graph.at(*node.gathered).name));
  return name;
}

}  // namespace foregather::sim
