#include "sim/passes/bucket_rewrite.h"

#include <algorithm>
#include <optional>
#include <set>

namespace foregather::sim {
namespace {

class BucketableFinder {
 public:
  BucketableFinder(const Graph& graph, const HostActions& actions)
      : graph_(graph), actions_(actions) {}

  std::optional<Bucketable> find(ActionIndex at) const {
    Bucketable found;
    found.op = actions_.op(at);
    found.at = at;
    const Op& op = graph_.at(found.op);
    found.is_gather = op.kind == OpKind::all_gather && op.role == Role::gather;
    const bool reduces = op.kind == OpKind::reduce_scatter && op.role == Role::reduce;
    if ((!found.is_gather && !reduces) || !op.unit) return std::nullopt;
    if (!read_accesses(op, found) || !find_lives(found)) return std::nullopt;
    if (!find_issue(found) || !find_wait(found)) return std::nullopt;
    return found;
  }

 private:
  const Action& action(ActionIndex at) const { return actions_.all[at].action; }
  bool is_same_list(ActionIndex a, ActionIndex b) const {
    return actions_.all[a].list == actions_.all[b].list;
  }
  Cause cause(const AccessedTensor& part) const {
    return graph_.at(graph_.at(part.tensor).storage).cause;
  }

  bool read_accesses(const Op& op, Bucketable& found) const {
    const auto parts = graph_.accesses_of(op);
    if (parts.size() != 2) return false;
    for (const AccessedTensor& part : parts) {
      if (part.mode == Access::accumulate) return false;
      (part.mode == Access::read ? found.input : found.output) = part;
    }
    if (!found.input.tensor || !found.output.tensor) return false;
    // Whole ones: a pack is not packed again.
    if (found.is_gather)
      return cause(found.input) == Cause::parameter_shard &&
             cause(found.output) == Cause::unsharded_parameter;
    return cause(found.input) != Cause::communication_buffer;
  }

  bool find_lives(Bucketable& found) const {
    const auto life = [&](const AccessedTensor& part) {
      return actions_.binding_at(found.at, graph_.at(part.tensor).storage);
    };
    const auto output = life(found.output);
    if (!output) return false;
    found.output_life = *output;
    if (found.is_gather) return actions_.bindings[*output].end.has_value();
    const auto input = life(found.input);
    if (!input) return false;
    found.input_life = *input;
    const auto ends = [&](std::size_t row) {
      const Lifetime& binding = actions_.bindings[row];
      return binding.end && binding.by_release;
    };
    return ends(*input) && ends(*output) && actions_.bindings[*input].end > found.at &&
           actions_.bindings[*input].users.back() == found.at;
  }

  // [alloc output] [record caller, wait] launch [record_stream input] record
  bool find_issue(Bucketable& found) const {
    const StreamId stream = graph_.at(found.op).stream;
    const Lifetime& output = actions_.bindings[found.output_life];
    found.caller = action(output.begin).stream;
    found.begin = output.begin;
    if (!is_same_list(found.begin, found.at) || found.caller == stream) return false;
    for (ActionIndex at = found.begin + 1; at < found.at; ++at) {
      const Action& what = action(at);
      const bool orders = (what.kind == ActionKind::record && what.stream == found.caller) ||
                          (what.kind == ActionKind::wait && what.stream == stream);
      if (!orders) return false;
    }
    found.end = found.at + 1;
    while (found.end < actions_.all.size() && is_same_list(found.end, found.at)) {
      const Action& what = action(found.end++);
      if (what.kind == ActionKind::record && what.stream == stream) return true;
      if (what.kind != ActionKind::record_stream) return false;
    }
    return false;
  }

  bool find_wait(Bucketable& found) const {
    const std::uint32_t event = action(found.end - 1).a;
    const Lifetime& output = actions_.bindings[found.output_life];
    for (ActionIndex at = found.end; at < actions_.all.size(); ++at) {
      if (action(at).kind == ActionKind::record && action(at).a == event) return false;
      if (action(at).kind != ActionKind::wait || action(at).a != event) continue;
      found.wait = at;
      const auto later = std::ranges::upper_bound(output.users, found.at);
      return action(at).stream == found.caller && is_same_list(at, found.at) &&
             (later == output.users.end() || *later > at) && output.end > at;
    }
    return false;
  }

  const Graph& graph_;
  const HostActions& actions_;
};

class BucketWriter {
 public:
  BucketWriter(Rewriter& rewriter, ProgramId program, const HostActions& actions,
               const std::vector<Bucketable>& members, BucketRows& rows)
      : rewriter_(rewriter),
        program_(program),
        actions_(actions),
        members_(members),
        caller_(members.front().caller),
        stream_(op(members.front()).stream) {
    for (const Bucketable& member : members) {
      ids_.push_back(member.op);
      input_bytes_ += member.input.bytes;
      output_bytes_ += member.output.bytes;
    }
    first_wait_ = std::ranges::min(members, {}, &Bucketable::wait).wait;
    const auto [buffers, is_new] = rows.buffers.try_emplace(ids_);
    buffers_ = &buffers->second;
    ops_ = &rows.ops[ids_];
    whole_ = &rows.reduced[ids_];
    if (is_new) add_rows();
  }

  void gather() {
    for (const Bucketable& member : members_) {
      erase(member.begin, member.end);
      erase(member.wait, member.wait + 1);
    }
    const ActionIndex place = members_.front().begin;
    const EventId done = issue(place);
    const ActionIndex behind = first_wait_;
    insert(behind, {ActionKind::wait, caller_, done.row(), 0});
    for (const Bucketable& member : members_)
      insert(behind, action(actions_.bindings[member.output_life].begin));
    insert(behind, {ActionKind::launch, {}, (*ops_)[2].row(), 0});
    insert(behind, {ActionKind::free, {}, (*buffers_)[1].row(), 0});
  }

  void reduce() {
    for (const Bucketable& member : members_) {
      erase(member.begin, member.end);
      erase(member.wait, member.wait + 1);
    }
    const EventId done = issue(members_.back().begin);
    insert(first_wait_, {ActionKind::wait, caller_, done.row(), 0});
    insert(first_wait_, {ActionKind::release, {}, whole_->row(), 0});
    // The gradients are the donors of shapes.
    for (const Bucketable& member : members_) {
      const Lifetime& gradient = actions_.bindings[member.input_life];
      for (ActionIndex at = member.end; at <= *gradient.end; ++at) {
        if (action(at).kind != ActionKind::release || *gradient.end >= first_wait_) continue;
        if (graph().at(TensorId(action(at).a)).storage != gradient.storage) continue;
        insert(first_wait_, action(at));
        erase(at, at + 1);
      }
    }
  }

 private:
  const Graph& graph() const { return rewriter_.graph(); }
  const Op& op(const Bucketable& member) const { return graph().at(member.op); }
  const Action& action(ActionIndex at) const { return actions_.all[at].action; }
  void insert(ActionIndex before, const Action& what) {
    rewriter_.insert_before(actions_.all[before].list, actions_.all[before].position, what);
  }
  void erase(ActionIndex begin, ActionIndex end) {
    for (ActionIndex at = begin; at < end; ++at)
      rewriter_.erase(actions_.all[at].list, actions_.all[at].position);
  }

  // Packs and sends; the event behind the collective.
  EventId issue(ActionIndex place) {
    const StorageId packed = (*buffers_)[0];
    insert(place, {ActionKind::alloc, caller_, packed.row(), 0});
    insert(place, {ActionKind::launch, {}, (*ops_)[0].row(), 0});
    insert(place, {ActionKind::alloc, caller_, (*buffers_)[1].row(), 0});
    const EventId ready = rewriter_.add_event(program_), done = rewriter_.add_event(program_);
    insert(place, {ActionKind::record, caller_, ready.row(), 0});
    insert(place, {ActionKind::wait, stream_, ready.row(), 0});
    insert(place, {ActionKind::launch, {}, (*ops_)[1].row(), 0});
    insert(place, {ActionKind::record_stream, stream_, packed.row(), 0});
    insert(place, {ActionKind::record, stream_, done.row(), 0});
    insert(place, {ActionKind::free, {}, packed.row(), 0});
    return done;
  }

  // --- rows ---

  TensorId buffer(const Storage& like, Bytes bytes, Cause cause, std::string_view name) {
    Storage storage = like;
    storage.bytes = bytes;
    storage.cause = cause;
    storage.name = rewriter_.graph().strings.intern(name);
    const StorageId id = rewriter_.add_storage(program_, storage);
    buffers_->push_back(id);
    Graph& graph = rewriter_.graph();
    const DType dtype = graph.at(members_.front().input.tensor).dtype;
    const Tensor tensor{id, 0, {static_cast<std::uint32_t>(graph.dims.size()), 1}, dtype};
    graph.dims.push_back(bytes / size_of(dtype));
    return rewriter_.add_tensor(tensor);
  }

  OpId copy(Role role, Bytes bytes, const std::vector<AccessedTensor>& parts) {
    Op row = op(members_.front());
    row.kind = OpKind::copy;
    row.role = role;
    row.stream = caller_;
    row.communicator = {};
    row.sequence = 0;
    row.deps = row.origins = {};
    row.unit = unit_;
    Cost cost;
    cost.kind = OpKind::copy;
    cost.dtype = graph().at(members_.front().input.tensor).dtype;
    cost.bytes_read = cost.bytes_written = bytes;
    row.cost = rewriter_.add_cost(cost);
    return rewriter_.add_op(program_, row, parts);
  }

  OpId collective(TensorId from, TensorId to) {
    Op row = op(members_.front());
    Cost cost = graph().at(row.cost);
    cost.message_bytes = cost.bytes_read = cost.bytes_written = 0;
    for (const Bucketable& member : members_) {
      const Cost& own = graph().at(op(member).cost);
      cost.message_bytes += own.message_bytes;
      cost.bytes_read += own.bytes_read;
      cost.bytes_written += own.bytes_written;
    }
    row.cost = rewriter_.add_cost(cost);
    row.deps = {};
    row.unit = unit_;
    const std::vector<AccessedTensor> parts{{from, Access::read, 0, input_bytes_},
                                            {to, Access::write, 0, output_bytes_}};
    const OpId id = rewriter_.add_op(program_, row, parts);
    rewriter_.set_origins(id, ids_);
    return id;
  }

  void add_rows() {
    const bool gathers = members_.front().is_gather;
    Unit unit = graph().at(op(members_.front()).unit);
    unit.parameters = unit.padded_elements = 0;
    std::vector<AccessedTensor> packs, unpacks;
    for (const Bucketable& member : members_) {
      const Unit& own = graph().at(op(member).unit);
      unit.parameters += own.parameters;
      unit.padded_elements += own.padded_elements;
      packs.push_back(member.input);
      unpacks.push_back(member.output);
    }
    unit_ = UnitId(graph().units.size());
    rewriter_.graph().units.push_back(unit);
    const Storage like = graph().at(graph().at(members_.front().output.tensor).storage);
    const TensorId packed =
        buffer(like, input_bytes_, Cause::communication_buffer, "packed bucket");
    packs.push_back({packed, Access::write, 0, input_bytes_});
    const OpId pack = copy(Role::copy_in, input_bytes_, packs);
    const TensorId result =
        gathers ? buffer(like, output_bytes_, Cause::communication_buffer, "gathered bucket")
                : buffer(like, output_bytes_, like.cause, "reduced bucket");
    *ops_ = {pack, collective(packed, result)};
    if (gathers) {
      unpacks.insert(unpacks.begin(), {result, Access::read, 0, output_bytes_});
      ops_->push_back(copy(Role::copy_out, output_bytes_, unpacks));
      return;
    }
    *whole_ = result;
    view_results(graph().at(result).storage);
  }

  // The results of reductions become views of one.
  void view_results(StorageId reduced) {
    Bytes offset = 0;
    for (const Bucketable& member : members_) {
      const StorageId own = graph().at(member.output.tensor).storage;
      for (Tensor& tensor : rewriter_.graph().tensors)
        if (tensor.storage == own) {
          tensor.storage = reduced;
          tensor.offset += offset;
        }
      offset += member.output.bytes;
    }
  }

  Rewriter& rewriter_;
  ProgramId program_;
  const HostActions& actions_;
  const std::vector<Bucketable>& members_;
  StreamId caller_, stream_;
  std::vector<OpId> ids_;
  Bytes input_bytes_ = 0, output_bytes_ = 0;
  ActionIndex first_wait_ = 0;
  UnitId unit_;
  std::vector<StorageId>* buffers_ = nullptr;  // packed, result
  std::vector<OpId>* ops_ = nullptr;
  TensorId* whole_ = nullptr;
};

}  // namespace

std::vector<Bucketable> bucketables(const Graph& graph, const HostActions& actions) {
  const BucketableFinder finder(graph, actions);
  std::vector<Bucketable> all;
  for (ActionIndex at = 0; at < actions.all.size(); ++at)
    if (actions.is_launch(at))
      if (auto found = finder.find(at)) all.push_back(*found);
  return all;
}

void rewrite_bucket(Rewriter& rewriter, ProgramId program, const HostActions& actions,
                    const std::vector<Bucketable>& members, BucketRows& rows) {
  BucketWriter writer(rewriter, program, actions, members, rows);
  if (members.front().is_gather)
    writer.gather();
  else
    writer.reduce();
}

}  // namespace foregather::sim
