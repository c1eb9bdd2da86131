// Performs a program without times. Internal to core/ir: the second half of validate().
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/ir/access_history.h"
#include "core/ir/device_order.h"
#include "core/ir/graph.h"
#include "core/ir/validate.h"

namespace foregather {

/// Collects problems up to a limit, each pair of rows once.
class ProblemList {
 public:
  explicit ProblemList(std::size_t limit) : limit_(limit) {}

  bool is_full() const { return problems_.size() >= limit_; }
  /// Is this the first problem of that kind about rows a and b? Ask before making the message.
  bool is_new(ProblemKind kind, std::uint32_t a, std::uint32_t b = 0);
  void add(ProblemKind kind, std::string message);
  std::vector<Problem> take() { return std::move(problems_); }

 private:
  struct Key {
    std::uint64_t rows;
    ProblemKind kind;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return (key.rows ^ static_cast<std::uint64_t>(key.kind) << 60) * 0x9E3779B97F4A7C15U;
    }
  };
  std::size_t limit_;
  std::vector<Problem> problems_;
  std::unordered_set<Key, Hash> seen_;
};

/// Facts about tensors that the runs of all programs share.
struct TensorFacts {
  explicit TensorFacts(const Graph& graph);
  std::vector<std::uint32_t> tensors_of_storage;  ///< by StorageId: how many
  std::vector<std::uint32_t> released_binding;    ///< by TensorId: binding that it was released in
};

/// Performs init, first, body and body of one program whose references hold.
///
/// Host threads take turns: each runs until it has to wait, for a host_wait_action or for a dep
/// that another thread launches. Waits for events order what comes after them but stop nobody, as
/// an event that was never recorded is over. What depends on the order of unordered threads is
/// checked in this one interleaving only, but for launches on a communicator, which must be
/// ordered. Linear in actions and accesses, times streams.
class SymbolicRun {
 public:
  SymbolicRun(const Graph& graph, ProgramId program, TensorFacts& tensors, ProblemList& problems);
  void run();

  /// Was every section performed to its end?
  bool is_complete() const { return is_complete_; }
  /// Collectives in launch order.
  const std::vector<OpId>& collectives(Section section) const {
    return collectives_[static_cast<std::size_t>(section)];
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  struct StorageState {
    std::uint32_t history = kNone;  ///< of the current binding; kNone: not bound
    StreamId owner;
    std::uint32_t binding = 0;  ///< counts allocs
    std::uint32_t live_tensors = 0;
    std::uint32_t bound_in = 0;  ///< execution
    std::uint32_t born = 0;      ///< the memory may be in use by the owner's ops up to this one
  };
  struct History {
    AccessHistory touches;
    std::vector<StreamId> recorded;
  };
  struct CommunicatorState {
    DeviceOrder::Saved end = 0;  ///< clock of the last collective
    OpId last;
    std::uint32_t thread = 0;  ///< that launched it, and as which of its actions
    std::uint32_t performed = 0;
    std::uint32_t execution = kNone;
  };
  /// Actions of a thread that others wait for, sorted, and the thread's clock after each.
  struct Awaited {
    std::vector<std::uint32_t> positions;
    std::vector<DeviceOrder::Saved> clocks;
    std::size_t next = 0;
  };

  void prepare(Section section);
  bool perform_section(Section section);
  void run_thread(std::uint32_t thread, Section section);
  bool perform(std::uint32_t thread, const Action& action, Section section);
  void report_deadlock(Section section);

  bool launch(std::uint32_t thread, OpId id, Section section);
  bool deps_launched(std::uint32_t thread, OpId id, const Op& op);
  void collective(std::uint32_t thread, OpId id, const Op& op, Section section);
  void access(OpId id, const Op& op, const AccessedTensor& part, std::uint32_t position);

  void alloc(StorageId id, StreamId stream);
  void free(std::uint32_t thread, StorageId id);
  void release(std::uint32_t thread, TensorId id);
  void unbind(std::uint32_t thread, StorageId id);
  void record_stream(StorageId id, StreamId stream);
  void check_recorded(EventId id);
  void compare_bodies();
  void report_never_launched();

  StorageState& state(StorageId id) { return storages_[id.row() - program_.storages.first]; }
  std::string op_text(OpId id) const;
  std::string storage_text(StorageId id) const;
  std::string stream_text(StreamId id) const;
  std::string thread_text(std::uint32_t thread) const;

  const Graph& graph_;
  const Program& program_;
  TensorFacts& tensors_;
  ProblemList& problems_;
  DeviceOrder order_;
  std::uint32_t rank_ = 0;       ///< for messages: one that runs this program
  std::uint32_t execution_ = 0;  ///< 0 init, 1 first, 2 and 3 body

  std::vector<StorageState> storages_;
  std::vector<History> histories_;
  std::vector<std::uint32_t> free_histories_;
  std::vector<std::uint32_t> reusable_;  ///< by stream: its position at the last free that it owns
  std::vector<bool> bound_after_body_;
  std::vector<DeviceOrder::Saved> events_;
  std::vector<bool> is_recorded_;         ///< by event: somewhere in the program
  std::vector<std::uint32_t> launcher_;   ///< by op: the thread that launches it in this section
  std::vector<std::uint32_t> launched_;   ///< by op: execution + 1, 0 never
  std::vector<DeviceOrder::Saved> ends_;  ///< by op: its clock, where another op has it as dep
  std::vector<bool> is_dep_;
  bool has_deps_ = false;
  bool is_complete_ = false;
  std::unordered_map<CommunicatorId, CommunicatorState> communicators_;
  std::vector<Awaited> awaited_;
  std::vector<std::size_t> cursors_;
  std::array<std::vector<OpId>, kSections> collectives_;
};

}  // namespace foregather
