#include <algorithm>
#include <map>
#include <set>

#include "sim/passes/compiled_graph.h"

namespace foregather::sim {
namespace {

class GraphWriter {
 public:
  GraphWriter(Rewriter& rewriter, const CompiledProgram& program, const CompiledGraph& graph,
              std::span<const std::uint32_t> order, const std::vector<bool>& prefetched)
      : rewriter_(rewriter),
        program_(program),
        streams_(program.streams),
        graph_(graph),
        order_(order),
        prefetched_(prefetched),
        ready_(graph.nodes.size()) {
    survey();
    find_lives();
  }

  void write() {
    join_ = rewriter_.add_event(program_.program);
    for (std::size_t b = 0; b < graph_.buckets.size(); ++b)
      flushed_.push_back(rewriter_.add_event(program_.program));
    for (const Action& action : head_) add(action);
    for (const std::uint32_t node : order_) write(node);
    flush();
    for (const Action& action : tail_) add(action);
    for (std::size_t s = 0; s < graph_.actions.size(); ++s) {
      const ActionList list{graph_.list.program, graph_.list.thread,
                            s == 0 ? Section::first : Section::body};
      const Range run = graph_.actions[s];
      for (std::uint32_t i = run.first; i < run.end(); ++i) rewriter_.erase(list, i);
      for (const Action& action : written_) rewriter_.insert_before(list, run.first, action);
    }
  }

 private:
  const Graph& graph() const { return rewriter_.graph(); }
  StorageId storage(const AccessedTensor& part) const { return graph().at(part.tensor).storage; }
  void add(const Action& action) { written_.push_back(action); }

  bool is_bucket(StorageId id) const {
    return std::any_of(graph_.buckets.begin(), graph_.buckets.end(),
                       [&](TensorId bucket) { return graph().at(bucket).storage == id; });
  }

  // What stands around the launches now.
  void survey() {
    const ActionList list{graph_.list.program, graph_.list.thread, Section::body};
    const std::vector<Action>& actions = rewriter_.actions(list);
    const Range run = graph_.actions[1];
    for (std::uint32_t i = run.first; i < run.end(); ++i) switch (actions[i].kind) {
        case ActionKind::alloc: allocs_[StorageId(actions[i].a)] = actions[i]; break;
        case ActionKind::free: frees_.insert(StorageId(actions[i].a)); break;
        case ActionKind::record_stream:
          recorded_[StorageId(actions[i].a)].insert(actions[i].stream);
          break;
        default: break;
      }
  }

  // Which storages begin and end with which node in the new order.
  void find_lives() {
    begins_.resize(graph_.nodes.size());
    ends_.resize(graph_.nodes.size());
    std::map<StorageId, std::uint32_t> last;
    std::set<StorageId> seen;
    for (const std::uint32_t n : order_)
      for (const StorageId id : graph_.nodes[n].touched) {
        last[id] = n;
        if (seen.insert(id).second && allocs_.contains(id) && !is_bucket(id))
          begins_[n].push_back(id);
      }
    for (const auto& [id, node] : last)
      if (frees_.contains(id) && !is_bucket(id)) ends_[node].push_back(id);
    std::set<StorageId> received;
    for (const ReduceTarget& target : graph_.targets) received.insert(storage(target.received));
    for (const auto& [id, action] : allocs_)
      if (!seen.contains(id) && !received.contains(id) && !is_bucket(id)) head_.push_back(action);
    for (const StorageId id : frees_)
      if (!seen.contains(id) && !received.contains(id))
        tail_.push_back({ActionKind::free, {}, id.row(), 0});
  }

  void follow(StreamId waiting, StreamId other) {
    add({ActionKind::record, other, join_.row(), 0});
    add({ActionKind::wait, waiting, join_.row(), 0});
  }

  void write(std::uint32_t n) {
    const CompiledNode& node = graph_.nodes[n];
    const bool is_prefetched = !prefetched_.empty() && prefetched_[n];
    if (node.is_reduce) make_room(n);
    for (const StorageId id : begins_[n]) {
      Action alloc = allocs_.at(id);
      if (is_prefetched && id == node.gathered) alloc.stream = streams_.main;
      streams_of_[id] = alloc.stream;
      add(alloc);
    }
    for (const Action& delay : node.delays) add(delay);
    if (node.is_gather)
      follow(streams_.gather, streams_.main);
    else if (node.is_reduce)
      follow(*streams_.copy, streams_.main);
    else
      await_gathers(node);
    for (const OpId op : node.ops) add({ActionKind::launch, {}, op.row(), 0});
    if (node.is_gather) {
      ready_[n] = rewriter_.add_event(program_.program);
      add({ActionKind::record, streams_.gather, ready_[n]->row(), 0});
    }
    for (const StorageId id : ends_[n]) {
      if (node.is_reduce)
        pending_frees_.push_back(id);
      else
        free(id);
    }
  }

  void await_gathers(const CompiledNode& node) {
    for (const std::uint32_t arg : node.args) {
      if (!ready_[arg]) continue;
      add({ActionKind::wait, streams_.main, ready_[arg]->row(), 0});
      ready_[arg].reset();
    }
  }

  void free(StorageId id) {
    if (const auto recorded = recorded_.find(id); recorded != recorded_.end())
      for (const StreamId stream : recorded->second)
        if (const auto own = streams_of_.find(id);
            own == streams_of_.end() || own->second != stream)
          add({ActionKind::record_stream, stream, id.row(), 0});
    add({ActionKind::free, {}, id.row(), 0});
  }

  // --- buckets ---

  // The bucket's part that a gradient gets.
  void make_room(std::uint32_t n) {
    const Op& op = graph().at(graph_.nodes[n].ops.back());
    std::vector<AccessedTensor> accesses;
    for (const AccessedTensor& part : graph().accesses_of(op)) accesses.push_back(part);
    const auto into = std::find_if(accesses.begin(), accesses.end(),
                                   [&](const auto& part) { return part.mode == Access::write; });
    if (!has_buckets_)
      for (const auto& [id, alloc] : allocs_)
        if (is_bucket(id)) add(alloc);
    has_buckets_ = true;
    const TensorId bucket = graph_.buckets[bucket_];
    if (used_ > 0 && used_ + into->bytes > graph().at(graph().at(bucket).storage).bytes) flush();
    if (used_ == 0 && flushes_ >= graph_.buckets.size())
      add({ActionKind::wait, streams_.main, flushed_[bucket_].row(), 0});
    into->tensor = graph_.buckets[bucket_];
    into->offset = used_;
    used_ += into->bytes;
    rewriter_.set_accesses(graph_.nodes[n].ops.back(), accesses);
    pending_.push_back(n);
  }

  const ReduceTarget& target(std::uint32_t n) const {
    const auto at = std::find(graph_.reduces.begin(), graph_.reduces.end(), n);
    return graph_.targets[static_cast<std::size_t>(at - graph_.reduces.begin())];
  }

  // Costs that stay the same keep their row.
  void set_cost(OpId op, const Cost& cost) {
    if (graph().at(graph().at(op).cost) == cost) return;
    const CostId id = rewriter_.add_cost(cost);
    rewriter_.graph().ops[op.row()].cost = id;
  }

  OpId row_of(OpId CompiledGraph::Flush::*member) {
    if (flushes_ < graph_.flushes.size()) return graph_.flushes[flushes_].*member;
    Op op = graph().at(graph_.flushes.back().*member);
    op.deps = op.origins = {};
    return rewriter_.add_op(program_.program, op, {});
  }

  void flush() {
    if (pending_.empty()) return;
    const OpId scale = row_of(&CompiledGraph::Flush::scale);
    const OpId reduce = row_of(&CompiledGraph::Flush::reduce);
    const TensorId bucket = graph_.buckets[bucket_];
    Cost cost = graph().at(graph().at(scale).cost);
    cost.bytes_read = cost.bytes_written = used_;
    set_cost(scale, cost);
    cost = graph().at(graph().at(reduce).cost);
    const bool is_alone = cost.message_bytes == 0;
    const Bytes ranks = is_alone ? 1 : graph().at(cost.group).ranks.count;
    cost.bytes_read = used_;
    cost.bytes_written = used_ / ranks;
    if (!is_alone) cost.message_bytes = used_;
    set_cost(reduce, cost);
    rewriter_.set_accesses(scale, std::array{AccessedTensor{bucket, Access::accumulate, 0, used_}});
    std::vector<AccessedTensor> accesses{{bucket, Access::read, 0, used_}};
    for (const std::uint32_t n : pending_) accesses.push_back(target(n).received);
    rewriter_.set_accesses(reduce, accesses);

    follow(*streams_.reduce, *streams_.copy);
    add({ActionKind::launch, {}, scale.row(), 0});
    for (const std::uint32_t n : pending_)
      if (const auto alloc = allocs_.find(storage(target(n).received)); alloc != allocs_.end())
        add(alloc->second);
    add({ActionKind::launch, {}, reduce.row(), 0});
    for (const std::uint32_t n : pending_) {
      if (target(n).finish) add({ActionKind::launch, {}, target(n).finish->row(), 0});
      if (frees_.contains(storage(target(n).received)))
        add({ActionKind::free, {}, storage(target(n).received).row(), 0});
    }
    add({ActionKind::record, *streams_.reduce, flushed_[bucket_].row(), 0});
    follow(streams_.main, *streams_.copy);
    for (const StorageId id : pending_frees_) free(id);
    pending_.clear();
    pending_frees_.clear();
    used_ = 0;
    ++flushes_;
    bucket_ = (bucket_ + 1) % graph_.buckets.size();
  }

  Rewriter& rewriter_;
  const CompiledProgram& program_;
  const CompiledStreams& streams_;
  const CompiledGraph& graph_;
  std::span<const std::uint32_t> order_;
  const std::vector<bool>& prefetched_;
  std::map<StorageId, Action> allocs_;
  std::map<StorageId, StreamId> streams_of_;
  std::map<StorageId, std::set<StreamId>> recorded_;
  std::set<StorageId> frees_;
  std::vector<std::vector<StorageId>> begins_, ends_;  // by node
  std::vector<Action> head_, tail_, written_;
  std::vector<std::optional<EventId>> ready_;  // by node: gathered, and not yet waited for
  EventId join_;
  std::vector<EventId> flushed_;  // by bucket
  bool has_buckets_ = false;
  std::size_t bucket_ = 0, flushes_ = 0;
  Bytes used_ = 0;
  std::vector<std::uint32_t> pending_;
  std::vector<StorageId> pending_frees_;
};

}  // namespace

void write_compiled_graph(Rewriter& rewriter, const CompiledProgram& program,
                          const CompiledGraph& graph, std::span<const std::uint32_t> order,
                          const std::vector<bool>& prefetched) {
  GraphWriter(rewriter, program, graph, order, prefetched).write();
}

}  // namespace foregather::sim
