// Writes a Graph row by row. Producers (lowerings, readers) use it; consumers never do.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/ir/graph.h"

namespace foregather {

/// What an op needs beyond its cost; see Op for the fields.
struct OpSpec {
  OpKind kind = OpKind::other;
  Role role = Role::compute;
  Phase phase = Phase::other;
  std::uint16_t micro_batch = 0;
  ScopeId scope;
  UnitId unit;
  StreamId stream;
  CommunicatorId communicator;
  CostId cost;
};

/// Appends to one graph. Programs are built one after the other: begin_program … end_program, in
/// between storages, ops and events belong to it. Not thread safe.
class GraphBuilder {
 public:
  GraphBuilder();

  GroupId group(std::string_view name, std::span<const std::uint32_t> ranks, std::uint32_t nodes,
                std::uint32_t instances = 1);
  CommunicatorId communicator(std::string_view name, GroupId group);
  /// The scope of that path, made on first use.
  ScopeId scope(std::string_view path);
  UnitId unit(const Unit& unit);
  /// The row of that cost, made on first use.
  CostId cost(const Cost& cost);

  ProgramId begin_program(std::string_view name);
  void end_program();
  StreamId stream(std::string_view name, std::int32_t priority = 0);
  /// Index of a new host thread of the current program.
  std::uint32_t thread(std::string_view name);
  EventId event();
  StorageId storage(const Storage& storage);
  TensorId tensor(StorageId storage, DType dtype, std::span<const std::int64_t> shape,
                  Bytes offset = 0);
  /// A tensor of one dimension.
  TensorId flat(StorageId storage, DType dtype, std::int64_t elements, Bytes offset = 0);
  /// A tensor of bytes that covers the whole storage.
  TensorId whole(StorageId storage);

  /// An op of the current program. A collective gets its communicator's next sequence number.
  OpId op(const OpSpec& spec, std::span<const AccessedTensor> accesses = {});
  OpId op(const OpSpec& spec, std::span<const AccessedTensor> accesses, std::span<const OpId> deps,
          std::span<const OpId> origins = {});

  /// Where the action methods below append.
  void select(std::uint32_t thread, Section section);
  /// Index of the next action in the selected list.
  std::uint32_t position() const { return static_cast<std::uint32_t>(actions_->size()); }
  void act(const Action& action) { actions_->push_back(action); }
  void launch(OpId op) { act({ActionKind::launch, {}, op.row(), 0}); }
  void alloc(StorageId storage, StreamId stream) {
    act({ActionKind::alloc, stream, storage.row(), 0});
  }
  void free(StorageId storage) { act({ActionKind::free, {}, storage.row(), 0}); }
  void release(TensorId tensor) { act({ActionKind::release, {}, tensor.row(), 0}); }
  void record_stream(StorageId storage, StreamId stream) {
    act({ActionKind::record_stream, stream, storage.row(), 0});
  }
  void record(EventId event, StreamId stream) { act({ActionKind::record, stream, event.row(), 0}); }
  void wait(StreamId stream, EventId event) { act({ActionKind::wait, stream, event.row(), 0}); }
  void host_wait(EventId event) { act({ActionKind::host_wait_event, {}, event.row(), 0}); }
  void host_wait_stream(StreamId stream) { act({ActionKind::host_wait_stream, stream, 0, 0}); }
  void host_wait_device() { act({ActionKind::host_wait_device, {}, 0, 0}); }
  void empty_cache() { act({ActionKind::empty_cache, {}, 0, 0}); }
  void host_wait_action(std::uint32_t thread, std::uint32_t position) {
    act({ActionKind::host_wait_action, {}, thread, position});
  }
  void host_delay(Ns time);
  void mark(std::uint16_t micro_batch, Phase phase) {
    act({ActionKind::mark, {}, micro_batch, static_cast<std::uint32_t>(phase)});
  }

  void rank_class(const RankClass& rank_class, std::span<const std::uint32_t> ranks);

  Graph& graph() { return graph_; }
  /// Assigns ordinals and gives the graph away. The builder is empty afterwards.
  Graph finish();

 private:
  Range ranks(std::span<const std::uint32_t> ranks);

  Graph graph_;
  std::vector<ScopeId> scopes_;  ///< by string, as far as scopes go
  std::unordered_multimap<std::size_t, CostId> costs_;
  std::unordered_map<std::uint32_t, std::uint32_t> sequences_;
  std::vector<Action>* actions_ = nullptr;
  std::uint32_t events_ = 0;
};

}  // namespace foregather
