#include "sim/passes/gather_chain.h"

#include <algorithm>

namespace foregather::sim {
namespace {

bool is_parameter(const Graph& graph, StorageId id) {
  return graph.at(id).cause == Cause::parameter_shard;
}

class ChainFinder {
 public:
  ChainFinder(const Graph& graph, const HostActions& actions) : graph_(graph), actions_(actions) {}

  std::optional<GatherChain> chain(ActionIndex at) {
    chain_ = {};
    reads_kept_ = false;
    chain_.op = actions_.op(at);
    chain_.at = at;
    if (!read_input(at)) return std::nullopt;
    if (!find_output()) return std::nullopt;
    std::sort(chain_.inputs.begin(), chain_.inputs.end());
    find_block();
    return chain_;
  }

 private:
  const Op& op_at(ActionIndex at) const { return graph_.at(actions_.op(at)); }

  // Follows what an op reads back to parameter shards.
  bool read_input(ActionIndex at) {
    const Op& op = op_at(at);
    for (const AccessedTensor& part : graph_.accesses_of(op)) {
      if (part.mode == Access::write) continue;
      const Tensor& tensor = graph_.at(part.tensor);
      if (is_parameter(graph_, tensor.storage) &&
          !actions_.binding_at(at, tensor.storage).has_value()) {
        chain_.shards.push_back({tensor.storage, tensor.offset + part.offset, part.bytes});
        continue;
      }
      // A part that was kept of what was gathered before.
      if (graph_.at(tensor.storage).cause == Cause::unsharded_parameter &&
          !is_written(tensor.storage)) {
        chain_.shards.push_back({tensor.storage, tensor.offset + part.offset, part.bytes});
        reads_kept_ = true;
        continue;
      }
      const auto row = actions_.binding_at(at, tensor.storage);
      if (!row) return false;
      const Lifetime& binding = actions_.bindings[*row];
      if (std::find(chain_.buffers.begin(), chain_.buffers.end(), *row) == chain_.buffers.end())
        chain_.buffers.push_back(*row);
      for (const ActionIndex user : binding.users) {
        if (user >= at) break;
        const Op& filler = op_at(user);
        if (filler.unit != op.unit || actions_.all[user].list != actions_.all[at].list)
          return false;
        if (std::find(chain_.inputs.begin(), chain_.inputs.end(), user) != chain_.inputs.end())
          continue;
        chain_.inputs.push_back(user);
        if (!read_input(user)) return false;
      }
    }
    return true;
  }

  // By the gather.
  bool is_written(StorageId storage) const {
    const auto parts = graph_.accesses_of(op_at(chain_.at));
    return std::any_of(parts.begin(), parts.end(), [&](const AccessedTensor& part) {
      return part.mode != Access::read && graph_.at(part.tensor).storage == storage;
    });
  }

  bool find_output() {
    const Op& op = op_at(chain_.at);
    for (const AccessedTensor& part : graph_.accesses_of(op)) {
      if (part.mode == Access::read) continue;
      const StorageId storage = graph_.at(part.tensor).storage;
      const auto row = actions_.binding_at(chain_.at, storage);
      if (!row) return false;
      if (graph_.at(storage).cause == Cause::unsharded_parameter) {
        chain_.full.push_back(*row);
        continue;
      }
      if (std::find(chain_.buffers.begin(), chain_.buffers.end(), *row) == chain_.buffers.end())
        chain_.buffers.push_back(*row);
      for (const ActionIndex user : actions_.bindings[*row].users) {
        if (user <= chain_.at) continue;
        if (op_at(user).role != Role::copy_out) return false;
        chain_.outputs.push_back(user);
        for (const AccessedTensor& copied : graph_.accesses_of(op_at(user))) {
          if (copied.mode == Access::read) continue;
          const auto full = actions_.binding_at(user, graph_.at(copied.tensor).storage);
          if (!full) return false;
          chain_.full.push_back(*full);
        }
      }
    }
    return !chain_.full.empty() && !chain_.shards.empty();
  }

  bool is_buffer(std::uint32_t storage, ActionIndex at) const {
    const auto holds = [&](std::size_t row) {
      const Lifetime& binding = actions_.bindings[row];
      return binding.storage.row() == storage && binding.begin <= at &&
             (!binding.end || *binding.end >= at);
    };
    return std::any_of(chain_.buffers.begin(), chain_.buffers.end(), holds) ||
           std::any_of(chain_.full.begin(), chain_.full.end(), holds);
  }

  bool is_stream(StreamId stream) const {
    if (stream == op_at(chain_.at).stream) return true;
    return std::any_of(chain_.inputs.begin(), chain_.inputs.end(),
                       [&](ActionIndex input) { return op_at(input).stream == stream; });
  }

  bool belongs(ActionIndex at) const {
    if (actions_.all[at].list != actions_.all[chain_.at].list) return false;
    const Action& action = actions_.all[at].action;
    switch (action.kind) {
      case ActionKind::launch:
        return std::find(chain_.inputs.begin(), chain_.inputs.end(), at) != chain_.inputs.end();
      case ActionKind::alloc:
      case ActionKind::free:
      case ActionKind::record_stream: return is_buffer(action.a, at);
      case ActionKind::record: return is_stream(action.stream) || orders_streams(at);
      default: return false;
    }
  }

  // Only what waits for it right behind it is a stream of the chain.
  bool orders_streams(ActionIndex at) const {
    const Action& record = actions_.all[at].action;
    ActionIndex behind = at + 1;
    while (behind < actions_.all.size() &&
           actions_.all[behind].action.kind == ActionKind::host_wait_event)
      ++behind;
    if (behind >= actions_.all.size()) return false;
    const Action& next = actions_.all[behind].action;
    return next.kind == ActionKind::wait && next.a == record.a && is_stream(next.stream);
  }

  // Waits belong to the block where the event was recorded in it.
  bool is_inner_wait(ActionIndex at) const {
    const Action& wait = actions_.all[at].action;
    if (wait.kind != ActionKind::wait || !is_stream(wait.stream)) return false;
    for (ActionIndex before = at; before-- > 0;) {
      const Action& action = actions_.all[before].action;
      if (action.kind == ActionKind::record && action.a == wait.a) return belongs(before);
      const bool is_passed =
          action.kind == ActionKind::wait || action.kind == ActionKind::host_wait_event;
      if (!belongs(before) && !is_passed) return false;
    }
    return false;
  }

  void find_block() {
    ActionIndex begin = chain_.at;
    const auto go_back = [&] {
      while (begin > 0 && (belongs(begin - 1) || is_inner_wait(begin - 1))) --begin;
      // A record that belongs to what comes before, with its wait outside.
      while (begin < chain_.at && actions_.all[begin].action.kind == ActionKind::record) ++begin;
    };
    go_back();
    if (begin > 0 && actions_.all[begin - 1].action.kind == ActionKind::host_delay &&
        actions_.all[begin - 1].list == actions_.all[chain_.at].list)
      --begin;
    // FSDP1 casts its shard before that.
    if (!chain_.inputs.empty() && *std::ranges::min_element(chain_.inputs) < begin) go_back();
    // Where kept parts are gathered, the waits for their copies.
    while (reads_kept_ && begin > 0 && actions_.all[begin - 1].action.kind == ActionKind::wait &&
           is_stream(actions_.all[begin - 1].action.stream) &&
           actions_.all[begin - 1].list == actions_.all[chain_.at].list)
      --begin;
    ActionIndex end = chain_.at + 1;
    while (end < actions_.all.size() && belongs(end) &&
           actions_.all[end].action.kind != ActionKind::alloc)
      ++end;
    chain_.block_begin = begin;
    chain_.block_end = end;
  }

  const Graph& graph_;
  const HostActions& actions_;
  GatherChain chain_;
  bool reads_kept_ = false;
};

}  // namespace

std::vector<GatherChain> gather_chains(const Graph& graph, const HostActions& actions) {
  std::vector<GatherChain> chains;
  ChainFinder finder(graph, actions);
  for (ActionIndex at = 0; at < actions.all.size(); ++at) {
    if (!actions.is_launch(at)) continue;
    const Op& op = graph.at(actions.op(at));
    if (op.kind != OpKind::all_gather || op.role != Role::gather) continue;
    if (auto chain = finder.chain(at)) chains.push_back(std::move(*chain));
  }
  return chains;
}

}  // namespace foregather::sim
