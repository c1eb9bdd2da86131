#include "sim/passes/order_writer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace foregather::sim {
namespace {

// Writes a section anew in the order of `nodes`.
class OrderWriter {
 public:
  OrderWriter(Rewriter& rewriter, const ActionList& list, const BodyOrder& body,
              const std::vector<std::uint32_t>& nodes)
      : rewriter_(rewriter),
        list_(list),
        body_(body),
        nodes_(nodes),
        index_(body.problem),
        program_(rewriter.graph().at(list.program)),
        place_(body.ops.size(), kNone),
        ready_(body.ops.size()),
        last_on_(program_.streams.size(), kNone),
        synced_(program_.streams.size(), std::vector<std::uint32_t>(program_.streams.size(), 0)) {
    survey();
    find_lives();
  }

  void write() {
    for (const std::uint32_t node : nodes_) op(node);
    // What comes after the step, or frees what it leaves, finds all streams behind each other.
    for (std::uint32_t stream = 0; stream < last_on_.size(); ++stream)
      for (const std::uint32_t last : last_on_)
        if (last != kNone && last_on_[stream] != kNone) wait_behind(stream, last);
    for (const Action& action : tail_) add(action);
    const auto size = static_cast<std::uint32_t>(rewriter_.actions(list_).size());
    for (std::uint32_t i = 0; i < size; ++i) rewriter_.erase(list_, i);
    for (const Action& action : written_) rewriter_.insert_before(list_, 0, action);
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  void add(const Action& action) { written_.push_back(action); }
  const Op& op_of(std::uint32_t node) const { return rewriter_.graph().at(body_.ops[node]); }
  std::uint32_t stream_of(std::uint32_t node) const { return op_of(node).stream.row(); }

  // What stands around the launches now.
  void survey() {
    const Graph& graph = rewriter_.graph();
    std::vector<Action> delays;
    std::vector<std::size_t> allocs(program_.streams.size());
    std::set<std::uint32_t> touched;
    for (const StorageId storage : body_.storage_of) touched.insert(storage.row());
    for (const Action& action : rewriter_.actions(list_)) switch (action.kind) {
        case ActionKind::launch:
          delays_[action.a] = std::move(delays);
          delays.clear();
          tail_.clear();
          break;
        case ActionKind::host_delay: delays.push_back(action); break;
        case ActionKind::alloc:
          allocs_[action.a] = action;
          ++allocs[action.stream.row()];
          if (!touched.contains(action.a)) add(action);
          break;
        case ActionKind::free:
          freed_.push_back(action.a);
          tail_.push_back(action);
          break;
        case ActionKind::release: {
          const std::uint32_t storage = graph.tensors[action.a].storage.row();
          freed_.push_back(storage);
          tail_.push_back({ActionKind::free, {}, storage, 0});
          break;
        }
        case ActionKind::record_stream: recorded_[action.a].insert(action.stream.row()); break;
        case ActionKind::mark:
        case ActionKind::record:
        case ActionKind::wait: break;
        default: tail_.push_back(action);
      }
    tail_.insert(tail_.end(), delays.begin(), delays.end());
    main_ = static_cast<std::uint32_t>(std::ranges::max_element(allocs) - allocs.begin());
  }

  // Which lives begin and end with which node in the new order.
  void find_lives() {
    std::vector<std::uint32_t> at(nodes_.size());
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) at[nodes_[i]] = i;
    std::set<std::uint32_t> freed(freed_.begin(), freed_.end());
    std::set<std::uint32_t> ended;
    begins_.resize(nodes_.size());
    ends_.resize(nodes_.size());
    for (std::size_t life = 0; life < body_.storage_of.size(); ++life) {
      const OrderProblem::Storage& storage = body_.problem.storages[life];
      const std::uint32_t row = body_.storage_of[life].row();
      if (storage.nodes.empty()) continue;
      const auto by_place = [&](std::uint32_t node) { return at[node]; };
      if (!storage.at_start)
        begins_[*std::ranges::min_element(storage.nodes, {}, by_place)].push_back(row);
      if (storage.at_end || !freed.contains(row)) continue;
      ends_[*std::ranges::max_element(storage.nodes, {}, by_place)].push_back(life);
      ended.insert(row);
    }
    std::set<std::uint32_t> left;  // each storage is freed once at the end
    std::erase_if(tail_, [&](const Action& action) {
      return action.kind == ActionKind::free &&
             (ended.contains(action.a) || !left.insert(action.a).second);
    });
    for (const std::uint32_t storage : freed_)
      if (!ended.contains(storage) && left.insert(storage).second)
        tail_.push_back({ActionKind::free, {}, storage, 0});
  }

  void op(std::uint32_t node) {
    const Op& op = op_of(node);
    const auto mark = std::pair(op.micro_batch, op.phase);
    if (marked_ != mark) {
      marked_ = mark;
      add({ActionKind::mark, {}, op.micro_batch, static_cast<std::uint32_t>(op.phase)});
    }
    for (const std::uint32_t storage : begins_[node])
      if (const auto alloc = allocs_.find(storage); alloc != allocs_.end()) add(alloc->second);
    for (const Action& delay : delays_[body_.ops[node].row()]) add(delay);
    wait_for_others(node);
    add({ActionKind::launch, {}, body_.ops[node].row(), 0});
    place_[node] = ++launched_;
    last_on_[stream_of(node)] = node;
    const bool is_awaited = std::ranges::any_of(index_.after(node), [&](std::uint32_t later) {
      return stream_of(later) != stream_of(node);
    });
    if (is_awaited) record_after(node);
    for (const std::size_t life : ends_[node]) free(life);
  }

  void record_after(std::uint32_t node) {
    if (ready_[node]) return;
    ready_[node] = rewriter_.add_event(list_.program);
    add({ActionKind::record, StreamId(stream_of(node)), ready_[node]->row(), 0});
  }

  void wait(std::uint32_t stream, std::uint32_t node) {
    const std::uint32_t other = stream_of(node);
    if (other == stream || synced_[stream][other] >= place_[node]) return;
    synced_[stream][other] = place_[node];
    add({ActionKind::wait, StreamId(stream), ready_[node]->row(), 0});
  }

  // For what it reads; on a side stream also for what the main one did before, as an asynchronous
  // collective does.
  void wait_for_others(std::uint32_t node) {
    const std::uint32_t stream = stream_of(node);
    for (const std::uint32_t before : index_.before(node))
      if (stream_of(before) != stream) wait(stream, before);
    if (stream == main_ || last_on_[main_] == kNone) return;
    if (synced_[stream][main_] >= place_[last_on_[main_]]) return;
    record_after(last_on_[main_]);
    wait(stream, last_on_[main_]);
  }

  // As wait(), for a node whose event may not be recorded yet.
  void wait_behind(std::uint32_t stream, std::uint32_t node) {
    const std::uint32_t other = stream_of(node);
    if (other == stream || synced_[stream][other] >= place_[node]) return;
    record_after(node);
    wait(stream, node);
  }

  // Streams that used it beside its own are recorded, where they were, or waited for.
  void free(std::size_t life) {
    const std::uint32_t storage = body_.storage_of[life].row();
    const auto recorded = recorded_.find(storage);
    if (recorded != recorded_.end()) {
      for (const std::uint32_t stream : recorded->second)
        add({ActionKind::record_stream, StreamId(stream), storage, 0});
    } else if (const auto alloc = allocs_.find(storage); alloc != allocs_.end()) {
      for (const std::uint32_t node : body_.problem.storages[life].nodes)
        wait_behind(alloc->second.stream.row(), node);
    }
    add({ActionKind::free, {}, storage, 0});
  }

  Rewriter& rewriter_;
  ActionList list_;
  const BodyOrder& body_;
  const std::vector<std::uint32_t>& nodes_;
  OrderIndex index_;
  const Program program_;
  std::map<std::uint32_t, Action> allocs_;                     // by storage
  std::map<std::uint32_t, std::set<std::uint32_t>> recorded_;  // by storage
  std::map<std::uint32_t, std::vector<Action>> delays_;        // by op
  std::vector<std::uint32_t> freed_;                           // storages, in order
  std::vector<Action> tail_;                                   // after the last launch
  std::vector<std::vector<std::size_t>> ends_;                 // lives, by node
  std::vector<std::vector<std::uint32_t>> begins_;             // storages, by node
  std::vector<Action> written_;
  std::uint32_t main_ = 0;  // stream that memory is allocated for
  std::optional<std::pair<std::uint16_t, Phase>> marked_;
  std::vector<std::uint32_t> place_;  // by node: its number, from 1
  std::uint32_t launched_ = 0;
  std::vector<std::optional<EventId>> ready_;       // by node: recorded after it
  std::vector<std::uint32_t> last_on_;              // node, by stream
  std::vector<std::vector<std::uint32_t>> synced_;  // stream × stream: place waited for
};

}  // namespace

void write_order(Rewriter& rewriter, const ActionList& list, const BodyOrder& body,
                 const std::vector<std::uint32_t>& nodes) {
  OrderWriter(rewriter, list, body, nodes).write();
}

}  // namespace foregather::sim
