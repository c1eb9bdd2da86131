#include "core/ir/symbolic_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/ir/names.h"
#include "core/ir/op_key.h"

namespace foregather {
namespace {

// Apart from ops among the keys of one kind of problem.
std::uint32_t storage_key(StorageId id) { return id.row() | 1U << 31; }

}  // namespace

bool ProblemList::is_new(ProblemKind kind, std::uint32_t a, std::uint32_t b) {
  return !is_full() && seen_.insert({std::uint64_t{a} << 32 | b, kind}).second;
}

void ProblemList::add(ProblemKind kind, std::string message) {
  if (!is_full()) problems_.push_back({kind, std::move(message)});
}

TensorFacts::TensorFacts(const Graph& graph)
    : tensors_of_storage(graph.storages.size()), released_binding(graph.tensors.size()) {
  for (const Tensor& tensor : graph.tensors) ++tensors_of_storage[tensor.storage.row()];
}

SymbolicRun::SymbolicRun(const Graph& graph, ProgramId program, TensorFacts& tensors,
                         ProblemList& problems)
    : graph_(graph),
      program_(graph.at(program)),
      tensors_(tensors),
      problems_(problems),
      order_(program_.streams.size(), program_.threads.size()),
      storages_(program_.storages.count),
      reusable_(program_.streams.size()),
      events_(program_.events.count),
      is_recorded_(program_.events.count),
      launched_(program_.ops.count),
      is_dep_(program_.ops.count),
      awaited_(program_.threads.size()),
      cursors_(program_.threads.size()) {
  for (const RankClass& rank_class : graph.classes)
    if (rank_class.program == program && rank_class.ranks.count > 0) {
      rank_ = graph.ranks_of(rank_class.ranks)[0];
      break;
    }
  for (const HostThread& thread : program_.threads)
    for (const auto& section : thread.sections)
      for (const Action& action : section)
        if (action.kind == ActionKind::record)
          is_recorded_[action.a - program_.events.first] = true;
  for (std::uint32_t row = program_.ops.first; row < program_.ops.end(); ++row)
    for (OpId dep : graph.deps_of(graph.ops[row])) {
      is_dep_[dep.row() - program_.ops.first] = true;
      has_deps_ = true;
    }
  if (has_deps_) ends_.resize(program_.ops.count);
}

void SymbolicRun::run() {
  for (const Section section : {Section::init, Section::first, Section::body, Section::body}) {
    if (!perform_section(section) || problems_.is_full()) return;
    if (execution_ == 2)
      for (const StorageState& storage : storages_)
        bound_after_body_.push_back(storage.history != kNone);
    ++execution_;
  }
  compare_bodies();
  report_never_launched();
  is_complete_ = true;
}

// What the threads of a section wait for.
void SymbolicRun::prepare(Section section) {
  const std::size_t threads = program_.threads.size();
  for (Awaited& awaited : awaited_) awaited = {};
  if (has_deps_) launcher_.assign(program_.ops.count, kNone);
  for (std::uint32_t thread = 0; thread < threads; ++thread) {
    cursors_[thread] = 0;
    for (const Action& action : program_.threads[thread].actions(section)) {
      if (action.kind == ActionKind::host_wait_action)
        awaited_[action.a].positions.push_back(action.b);
      if (action.kind == ActionKind::launch && has_deps_)
        launcher_[action.a - program_.ops.first] = thread;
    }
  }
  for (Awaited& awaited : awaited_) {
    std::sort(awaited.positions.begin(), awaited.positions.end());
    awaited.positions.erase(std::unique(awaited.positions.begin(), awaited.positions.end()),
                            awaited.positions.end());
    awaited.clocks.resize(awaited.positions.size());
  }
}

bool SymbolicRun::perform_section(Section section) {
  const auto threads = static_cast<std::uint32_t>(program_.threads.size());
  prepare(section);
  for (bool is_done = false; !is_done && !problems_.is_full();) {
    is_done = true;
    bool has_moved = false;
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      const std::size_t before = cursors_[thread];
      run_thread(thread, section);
      has_moved |= cursors_[thread] != before;
      is_done &= cursors_[thread] == program_.threads[thread].actions(section).size();
    }
    if (!is_done && !has_moved) {
      report_deadlock(section);
      return false;
    }
  }
  if (threads > 0) order_.meet();
  return true;
}

void SymbolicRun::run_thread(std::uint32_t thread, Section section) {
  const std::span<const Action> actions = program_.threads[thread].actions(section);
  Awaited& awaited = awaited_[thread];
  for (std::size_t& cursor = cursors_[thread]; cursor < actions.size(); ++cursor) {
    if (!perform(thread, actions[cursor], section)) return;
    order_.act(thread);
    if (awaited.next < awaited.positions.size() && awaited.positions[awaited.next] == cursor)
      order_.save_host(thread, awaited.clocks[awaited.next++]);
  }
}

// False if the thread has to wait.
bool SymbolicRun::perform(std::uint32_t thread, const Action& action, Section section) {
  switch (action.kind) {
    case ActionKind::launch: return launch(thread, OpId(action.a), section);
    case ActionKind::alloc: alloc(StorageId(action.a), action.stream); return true;
    case ActionKind::free: free(thread, StorageId(action.a)); return true;
    case ActionKind::release: release(thread, TensorId(action.a)); return true;
    case ActionKind::record_stream: record_stream(StorageId(action.a), action.stream); return true;
    case ActionKind::record:
      order_.record(thread, action.stream, events_[action.a - program_.events.first]);
      return true;
    case ActionKind::wait:
      check_recorded(EventId(action.a));
      if (const auto saved = events_[action.a - program_.events.first])
        order_.stream_learns(action.stream, saved);
      return true;
    case ActionKind::host_wait_event:
      check_recorded(EventId(action.a));
      if (const auto saved = events_[action.a - program_.events.first])
        order_.host_learns(thread, saved);
      return true;
    case ActionKind::host_wait_stream:
      order_.host_learns_stream(thread, action.stream);
      return true;
    case ActionKind::host_wait_device: order_.host_learns_all(thread); return true;
    case ActionKind::host_wait_action: {
      if (cursors_[action.a] <= action.b) return false;
      const Awaited& awaited = awaited_[action.a];
      const auto found =
          std::lower_bound(awaited.positions.begin(), awaited.positions.end(), action.b);
      order_.host_learns(
          thread, awaited.clocks[static_cast<std::size_t>(found - awaited.positions.begin())]);
      return true;
    }
    case ActionKind::host_delay:
    case ActionKind::empty_cache:
    case ActionKind::mark: return true;
  }
  return true;
}

void SymbolicRun::report_deadlock(Section section) {
  for (std::uint32_t thread = 0; thread < program_.threads.size(); ++thread) {
    const std::span<const Action> actions = program_.threads[thread].actions(section);
    if (cursors_[thread] == actions.size()) continue;
    const Action& action = actions[cursors_[thread]];
    std::string what;
    if (action.kind == ActionKind::host_wait_action)
      what = fmt::format("action {} of {}", action.b, thread_text(action.a));
    else
      what = fmt::format("the deps of {}", op_text(OpId(action.a)));
    problems_.add(ProblemKind::deadlock,
                  fmt::format("{} waits for ever at action {} of {} for {}", thread_text(thread),
                              cursors_[thread], name(section), what));
  }
}

bool SymbolicRun::launch(std::uint32_t thread, OpId id, Section section) {
  const Op& op = graph_.at(id);
  if (op.deps.count > 0 && !deps_launched(thread, id, op)) return false;
  std::uint32_t& launched = launched_[id.row() - program_.ops.first];
  if (launched == execution_ + 1 && problems_.is_new(ProblemKind::launched_twice, id.row()))
    problems_.add(ProblemKind::launched_twice,
                  fmt::format("{} is launched twice in {}", op_text(id), name(section)));
  launched = execution_ + 1;
  if (op.communicator) collective(thread, id, op, section);
  const std::uint32_t position = order_.launch(thread, op.stream);
  for (const AccessedTensor& part : graph_.accesses_of(op)) access(id, op, part, position);
  if (op.communicator) order_.save_stream(op.stream, communicators_[op.communicator].end);
  if (is_dep_[id.row() - program_.ops.first])
    order_.save_stream(op.stream, ends_[id.row() - program_.ops.first]);
  return true;
}

// Orders the op after its deps. False while another thread has yet to launch one of them.
bool SymbolicRun::deps_launched(std::uint32_t thread, OpId id, const Op& op) {
  const auto index = [&](OpId dep) { return dep.row() - program_.ops.first; };
  for (OpId dep : graph_.deps_of(op)) {
    if (launched_[index(dep)] == execution_ + 1) continue;
    const std::uint32_t launcher = launcher_[index(dep)];
    if (launcher != thread && launcher != kNone) return false;
    if (problems_.is_new(ProblemKind::deadlock, id.row(), dep.row()))
      problems_.add(ProblemKind::deadlock,
                    fmt::format("{} depends on {}, which {}", op_text(id), op_text(dep),
                                launcher == kNone ? "this section does not launch"
                                                  : "the same thread launches later"));
  }
  for (OpId dep : graph_.deps_of(op))
    if (const auto end = ends_[index(dep)]) order_.stream_learns(op.stream, end);
  return true;
}

void SymbolicRun::collective(std::uint32_t thread, OpId id, const Op& op, Section section) {
  if (execution_ < kSections) collectives_[static_cast<std::size_t>(section)].push_back(id);
  CommunicatorState& queue = communicators_[op.communicator];
  if (queue.end != 0) order_.stream_learns(op.stream, queue.end);
  if (queue.execution == execution_) {
    const std::string_view communicator = graph_.text(graph_.at(op.communicator).name);
    if (graph_.at(queue.last).sequence >= op.sequence &&
        problems_.is_new(ProblemKind::collective_mismatch, id.row(), queue.last.row()))
      problems_.add(ProblemKind::collective_mismatch,
                    fmt::format("{} is launched after {} on communicator {}, expected increasing "
                                "sequence numbers",
                                op_text(id), op_text(queue.last), communicator));
    if (!order_.host_follows(thread, queue.thread, queue.performed) &&
        problems_.is_new(ProblemKind::collective_mismatch, id.row(), queue.last.row()))
      problems_.add(ProblemKind::collective_mismatch,
                    fmt::format("{} by {} and {} by {} are launched on communicator {} in no order",
                                op_text(queue.last), thread_text(queue.thread), op_text(id),
                                thread_text(thread), communicator));
  }
  queue.last = id;
  queue.thread = thread;
  queue.performed = order_.performed(thread) + 1;
  queue.execution = execution_;
}

void SymbolicRun::access(OpId id, const Op& op, const AccessedTensor& part,
                         std::uint32_t position) {
  const Tensor& tensor = graph_.at(part.tensor);
  StorageState& storage = state(tensor.storage);
  const bool is_released = tensors_.released_binding[part.tensor.row()] == storage.binding;
  if (storage.history == kNone || is_released) {
    if (problems_.is_new(ProblemKind::use_after_free, id.row(), part.tensor.row()))
      problems_.add(ProblemKind::use_after_free,
                    fmt::format("{} touches tensor t{} of {}, which {}", op_text(id),
                                part.tensor.row(), storage_text(tensor.storage),
                                storage.history != kNone ? "was released"
                                : storage.binding == 0   ? "is not allocated yet"
                                                         : "is freed"));
    return;
  }
  if (part.bytes == 0) return;
  Touch touch;
  touch.begin = tensor.offset + part.offset;
  touch.end = touch.begin + part.bytes;
  touch.op = id;
  touch.stream = op.stream;
  touch.position = position;
  touch.writes = part.mode != Access::read;
  const Bytes size = graph_.at(tensor.storage).bytes;
  histories_[storage.history].touches.add(touch, size, [&](const Touch& earlier) {
    if (order_.stream_knows(op.stream, earlier.stream, earlier.position)) return;
    if (!problems_.is_new(ProblemKind::hazard, id.row(), earlier.op.row())) return;
    problems_.add(ProblemKind::hazard,
                  fmt::format("{} on {} and {} on {} touch bytes of {} in no order, {}",
                              op_text(earlier.op), stream_text(earlier.stream), op_text(id),
                              stream_text(op.stream), storage_text(tensor.storage),
                              !touch.writes    ? "the first one writing"
                              : earlier.writes ? "both writing"
                                               : "the second one writing"));
  });
  if (op.stream != storage.owner && !order_.stream_knows(op.stream, storage.owner, storage.born) &&
      problems_.is_new(ProblemKind::hazard, id.row(), storage_key(tensor.storage)))
    problems_.add(
        ProblemKind::hazard,
        fmt::format("{} on {} touches {} before what {} did with the memory until its last free",
                    op_text(id), stream_text(op.stream), storage_text(tensor.storage),
                    stream_text(storage.owner)));
}

void SymbolicRun::alloc(StorageId id, StreamId stream) {
  StorageState& storage = state(id);
  if (storage.history != kNone) {
    // Only init is not a step.
    const bool is_leak = storage.bound_in != execution_ && storage.bound_in != 0;
    const ProblemKind kind = is_leak ? ProblemKind::leak : ProblemKind::double_alloc;
    if (problems_.is_new(kind, id.row()))
      problems_.add(kind, fmt::format("{} is allocated while {} is held", storage_text(id),
                                      is_leak ? "its binding of the step before" : "a binding"));
    histories_[storage.history].touches.clear();
  } else if (free_histories_.empty()) {
    storage.history = static_cast<std::uint32_t>(histories_.size());
    histories_.emplace_back();
  } else {
    storage.history = free_histories_.back();
    free_histories_.pop_back();
  }
  histories_[storage.history].recorded.clear();
  storage.owner = stream;
  ++storage.binding;
  storage.live_tensors = tensors_.tensors_of_storage[id.row()];
  storage.bound_in = execution_;
  storage.born = graph_.at(id).on_host ? 0 : reusable_[stream.row()];
}

void SymbolicRun::free(std::uint32_t thread, StorageId id) {
  if (state(id).history != kNone) return unbind(thread, id);
  if (problems_.is_new(ProblemKind::double_free, id.row()))
    problems_.add(ProblemKind::double_free,
                  fmt::format("{} is freed while it is not bound", storage_text(id)));
}

void SymbolicRun::release(std::uint32_t thread, TensorId id) {
  const StorageId owner = graph_.at(id).storage;
  StorageState& storage = state(owner);
  std::uint32_t& released = tensors_.released_binding[id.row()];
  if (storage.history == kNone || released == storage.binding) {
    if (problems_.is_new(ProblemKind::double_free, owner.row(), id.row() + 1))
      problems_.add(ProblemKind::double_free,
                    fmt::format("tensor t{} of {} is released while it is not live", id.row(),
                                storage_text(owner)));
    return;
  }
  released = storage.binding;
  if (--storage.live_tensors == 0) unbind(thread, owner);
}

// The block goes back to its owner's pool at once, so that the owner's next work may overwrite it:
// foreign touches must be over by then, as far as the owner or the freeing thread knows.
void SymbolicRun::unbind(std::uint32_t thread, StorageId id) {
  StorageState& storage = state(id);
  History& history = histories_[storage.history];
  const StreamId owner = storage.owner;
  history.touches.each([&](const Touch& touch) {
    if (touch.stream == owner || graph_.at(id).on_host) return;
    if (std::find(history.recorded.begin(), history.recorded.end(), touch.stream) !=
        history.recorded.end())
      return;
    if (order_.stream_knows(owner, touch.stream, touch.position) ||
        order_.host_knows(thread, touch.stream, touch.position))
      return;
    if (problems_.is_new(ProblemKind::hazard, touch.op.row(), storage_key(id)))
      problems_.add(ProblemKind::hazard,
                    fmt::format("{} of {} is freed while {} on {} may still use it: neither "
                                "record_stream nor a wait",
                                storage_text(id), stream_text(owner), op_text(touch.op),
                                stream_text(touch.stream)));
  });
  history.touches.clear();
  free_histories_.push_back(storage.history);
  storage.history = kNone;
  reusable_[owner.row()] = order_.position(owner);
}

void SymbolicRun::record_stream(StorageId id, StreamId stream) {
  const StorageState& storage = state(id);
  if (storage.history != kNone) {
    std::vector<StreamId>& recorded = histories_[storage.history].recorded;
    if (std::find(recorded.begin(), recorded.end(), stream) == recorded.end())
      recorded.push_back(stream);
  } else if (problems_.is_new(ProblemKind::use_after_free, id.row(), 0)) {
    problems_.add(ProblemKind::use_after_free,
                  fmt::format("{} is recorded on {} while it is not bound", storage_text(id),
                              stream_text(stream)));
  }
}

void SymbolicRun::check_recorded(EventId id) {
  if (!is_recorded_[id.row() - program_.events.first] &&
      problems_.is_new(ProblemKind::never_recorded, id.row()))
    problems_.add(ProblemKind::never_recorded,
                  fmt::format("event e{} of program {} is waited for but never recorded", id.row(),
                              graph_.text(program_.name)));
}

void SymbolicRun::compare_bodies() {
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    const bool is_bound = storages_[i].history != kNone;
    const StorageId id(program_.storages.first + i);
    if (is_bound != bound_after_body_[i] && problems_.is_new(ProblemKind::leak, id.row()))
      problems_.add(ProblemKind::leak,
                    fmt::format("{} is {} after one body and {} after the next", storage_text(id),
                                is_bound ? "free" : "bound", is_bound ? "bound" : "free"));
  }
}

// Ops that were fused into others remain as their origins.
void SymbolicRun::report_never_launched() {
  std::vector<bool> is_origin(program_.ops.count);
  for (std::uint32_t i = 0; i < program_.ops.count; ++i)
    if (launched_[i] != 0)
      for (OpId origin : graph_.origins_of(graph_.ops[program_.ops.first + i]))
        is_origin[origin.row() - program_.ops.first] = true;
  for (std::uint32_t i = 0; i < program_.ops.count && !problems_.is_full(); ++i)
    if (launched_[i] == 0 && !is_origin[i])
      problems_.add(ProblemKind::never_launched,
                    fmt::format("{} is never launched", op_text(OpId(program_.ops.first + i))));
}

std::string SymbolicRun::op_text(OpId id) const {
  return fmt::format("{} (o{})", op_key(graph_, id, rank_, execution_ == 0 ? 0 : execution_ - 1),
                     id.row());
}

std::string SymbolicRun::storage_text(StorageId id) const {
  const Storage& storage = graph_.at(id);
  const std::string_view scope = graph_.scope_name(storage.scope);
  return fmt::format("storage b{} ({}{}{})", id.row(), scope, scope.empty() ? "" : "/",
                     graph_.text(storage.name));
}

std::string SymbolicRun::stream_text(StreamId id) const {
  return fmt::format("stream {}", graph_.text(program_.streams[id.row()].name));
}

std::string SymbolicRun::thread_text(std::uint32_t thread) const {
  return fmt::format("thread h{} ({})", thread, graph_.text(program_.threads[thread].name));
}

}  // namespace foregather
