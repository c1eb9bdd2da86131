#include "core/ir/builder.h"

#include "core/ir/op_key.h"

#include <cassert>
#include <limits>

namespace foregather {
namespace {

std::size_t hash_of(const Cost& cost) {
  std::size_t hash = 0;
  const auto mix = [&hash](std::int64_t value) {
    hash = (hash ^ static_cast<std::size_t>(value)) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  };
  for (std::int64_t value :
       {std::int64_t{static_cast<int>(cost.kind)}, std::int64_t{static_cast<int>(cost.dtype)},
        cost.flops, cost.bytes_read, cost.bytes_written, cost.m, cost.n, cost.k, cost.batch,
        cost.message_bytes, std::int64_t{cost.group.row()}, cost.fixed_time, cost.launch_lead,
        cost.lead, cost.lateness, cost.usual_time.value_or(-1), std::int64_t{cost.kernels},
        std::int64_t{cost.host_ops}})
    mix(value);
  return hash;
}

}  // namespace

GraphBuilder::GraphBuilder() = default;

Range GraphBuilder::ranks(std::span<const std::uint32_t> ranks) {
  const Range range{static_cast<std::uint32_t>(graph_.rank_lists.size()),
                    static_cast<std::uint32_t>(ranks.size())};
  graph_.rank_lists.insert(graph_.rank_lists.end(), ranks.begin(), ranks.end());
  return range;
}

GroupId GraphBuilder::group(std::string_view name, std::span<const std::uint32_t> members,
                            std::uint32_t nodes, std::uint32_t instances) {
  graph_.groups.push_back({graph_.strings.intern(name), ranks(members), instances, nodes});
  return GroupId(graph_.groups.size() - 1);
}

CommunicatorId GraphBuilder::communicator(std::string_view name, GroupId group) {
  graph_.communicators.push_back({graph_.strings.intern(name), group});
  return CommunicatorId(graph_.communicators.size() - 1);
}

ScopeId GraphBuilder::scope(std::string_view path) {
  const StringId id = graph_.strings.intern(path);
  if (scopes_.size() <= id.row()) scopes_.resize(2 * graph_.strings.size());
  ScopeId& scope = scopes_[id.row()];
  if (!scope) {
    scope = ScopeId(graph_.scopes.size());
    graph_.scopes.push_back({id});
  }
  return scope;
}

UnitId GraphBuilder::unit(const Unit& unit) {
  graph_.units.push_back(unit);
  return UnitId(graph_.units.size() - 1);
}

CostId GraphBuilder::cost(const Cost& cost) {
  const std::size_t hash = hash_of(cost);
  const auto [first, last] = costs_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (graph_.at(it->second) == cost) return it->second;
  const CostId id(graph_.costs.size());
  graph_.costs.push_back(cost);
  costs_.emplace(hash, id);
  return id;
}

ProgramId GraphBuilder::begin_program(std::string_view name) {
  Program program;
  program.name = graph_.strings.intern(name);
  program.ops.first = static_cast<std::uint32_t>(graph_.ops.size());
  program.storages.first = static_cast<std::uint32_t>(graph_.storages.size());
  program.events.first = events_;
  graph_.programs.push_back(std::move(program));
  sequences_.clear();
  actions_ = nullptr;
  return ProgramId(graph_.programs.size() - 1);
}

void GraphBuilder::end_program() {
  Program& program = graph_.programs.back();
  program.ops.count = static_cast<std::uint32_t>(graph_.ops.size()) - program.ops.first;
  program.storages.count =
      static_cast<std::uint32_t>(graph_.storages.size()) - program.storages.first;
  program.events.count = events_ - program.events.first;
}

StreamId GraphBuilder::stream(std::string_view name, std::int32_t priority) {
  std::vector<Stream>& streams = graph_.programs.back().streams;
  streams.push_back({graph_.strings.intern(name), priority});
  return StreamId(streams.size() - 1);
}

std::uint32_t GraphBuilder::thread(std::string_view name) {
  std::vector<HostThread>& threads = graph_.programs.back().threads;
  threads.push_back({graph_.strings.intern(name), {}});
  return static_cast<std::uint32_t>(threads.size() - 1);
}

EventId GraphBuilder::event() { return EventId(events_++); }

StorageId GraphBuilder::storage(const Storage& storage) {
  graph_.storages.push_back(storage);
  return StorageId(graph_.storages.size() - 1);
}

TensorId GraphBuilder::tensor(StorageId storage, DType dtype, std::span<const std::int64_t> shape,
                              Bytes offset) {
  const Range dims{static_cast<std::uint32_t>(graph_.dims.size()),
                   static_cast<std::uint32_t>(shape.size())};
  for (const std::int64_t extent : shape) graph_.dims.push_back(extent);
  graph_.tensors.push_back({storage, offset, dims, dtype});
  return TensorId(graph_.tensors.size() - 1);
}

TensorId GraphBuilder::flat(StorageId storage, DType dtype, std::int64_t elements, Bytes offset) {
  const Range dims{static_cast<std::uint32_t>(graph_.dims.size()), 1};
  graph_.dims.push_back(elements);
  graph_.tensors.push_back({storage, offset, dims, dtype});
  return TensorId(graph_.tensors.size() - 1);
}

TensorId GraphBuilder::whole(StorageId storage) {
  return flat(storage, DType::u8, graph_.at(storage).bytes);
}

OpId GraphBuilder::op(const OpSpec& spec, std::span<const AccessedTensor> accesses) {
  const Range range{static_cast<std::uint32_t>(graph_.accesses.size()),
                    static_cast<std::uint32_t>(accesses.size())};
  for (const AccessedTensor& access : accesses) graph_.accesses.push_back(access);  // few
  const Range none{static_cast<std::uint32_t>(graph_.op_lists.size()), 0};
  graph_.ops.push_back({.kind = spec.kind,
                        .role = spec.role,
                        .phase = spec.phase,
                        .micro_batch = spec.micro_batch,
                        .ordinal = 0,
                        .scope = spec.scope,
                        .unit = spec.unit,
                        .stream = spec.stream,
                        .communicator = spec.communicator,
                        .sequence = spec.communicator ? sequences_[spec.communicator.row()]++ : 0,
                        .cost = spec.cost,
                        .accesses = range,
                        .deps = none,
                        .origins = none});
  return OpId(graph_.ops.size() - 1);
}

OpId GraphBuilder::op(const OpSpec& spec, std::span<const AccessedTensor> accesses,
                      std::span<const OpId> deps, std::span<const OpId> origins) {
  const OpId id = op(spec, accesses);
  std::vector<OpId>& lists = graph_.op_lists;
  graph_.ops.back().deps.count = static_cast<std::uint32_t>(deps.size());
  lists.insert(lists.end(), deps.begin(), deps.end());
  graph_.ops.back().origins = {static_cast<std::uint32_t>(lists.size()),
                               static_cast<std::uint32_t>(origins.size())};
  lists.insert(lists.end(), origins.begin(), origins.end());
  return id;
}

void GraphBuilder::select(std::uint32_t thread, Section section) {
  actions_ = &graph_.programs.back().threads[thread].sections[static_cast<std::size_t>(section)];
}

void GraphBuilder::host_delay(Ns time) {
  constexpr Ns kMost = std::numeric_limits<std::uint32_t>::max();
  for (; time > kMost; time -= kMost)
    act({ActionKind::host_delay, {}, static_cast<std::uint32_t>(kMost), 0});
  if (time > 0) act({ActionKind::host_delay, {}, static_cast<std::uint32_t>(time), 0});
}

void GraphBuilder::rank_class(const RankClass& rank_class, std::span<const std::uint32_t> members) {
  graph_.classes.push_back(rank_class);
  graph_.classes.back().ranks = ranks(members);
}

Graph GraphBuilder::finish() {
  assign_ordinals(graph_);
  Graph done = std::move(graph_);
  *this = GraphBuilder();
  return done;
}

}  // namespace foregather
