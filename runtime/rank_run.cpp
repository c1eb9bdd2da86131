#include "runtime/rank_run.h"

#include <algorithm>
#include <exception>

#include "runtime/host/numbers.h"

namespace foregather::runtime {

void StartLine::arrive() {
  std::unique_lock lock(mutex_);
  if (--missing_ == 0) all_here_.notify_all();
  all_here_.wait(lock, [&] { return missing_ == 0 || stopped_; });
}

void StartLine::wake() {
  const std::lock_guard lock(mutex_);
  all_here_.notify_all();
}

// Device time as the allocator asks for it. A token is a stream and a position on it.
struct RankRun::Clock final : alloc::EventClock {
  static constexpr int kPositionBits = 48;
  explicit Clock(Device& of) : device(of) {}

  static Mark mark_of(alloc::EventToken token) {
    return {StreamId(token.value >> kPositionBits),
            token.value & ((std::uint64_t{1} << kPositionBits) - 1)};
  }
  alloc::EventToken record(alloc::StreamId stream) override {
    const Mark mark = device.mark(StreamId(stream.row()));
    return {std::uint64_t{stream.row()} << kPositionBits | mark.position};
  }
  bool query(alloc::EventToken token) override { return device.has_happened(mark_of(token)); }
  void synchronize(alloc::EventToken token) override { device.synchronize(mark_of(token)); }

  Device& device;
};

RankRun::RankRun(const Job& job, std::uint32_t rank, Device& device,
                 const alloc::AllocConfig& config, std::uint32_t steps, Recorder& recorder,
                 StartLine& line, RankEvents& events, const std::atomic<bool>& stopped)
    : job_(job),
      graph_(*job.graph),
      program_(graph_.at(graph_.classes[job.class_of[rank]].program)),
      rank_class_(graph_.classes[job.class_of[rank]]),
      rank_(rank),
      device_(device),
      steps_(steps),
      recorder_(recorder),
      line_(line),
      events_(events),
      stopped_(stopped),
      dtype_of_(program_.storages.count, DType::u8),
      threads_(program_.threads.size()),
      clock_(std::make_unique<Clock>(device)),
      memory_(std::make_unique<ledger::ProgramMemory>(graph_, program_, config, device.memory(),
                                                      *clock_, true)),
      slots_(program_.events.count),
      launched_(program_.ops.count) {
  for (auto tensor = graph_.tensors.rbegin(); tensor != graph_.tensors.rend(); ++tensor)
    if (program_.storages.contains(tensor->storage.row()))
      dtype_of_[tensor->storage.row() - program_.storages.first] = tensor->dtype;
}

RankRun::~RankRun() = default;

void RankRun::start() {
  memory_->begin_step(job_.clock->now());
  for (std::uint32_t t = 0; t < threads_.size(); ++t)
    threads_[t].thread = std::thread([this, t] {
      try {
        run(t);
      } catch (const std::exception& error) {
        events_.failed(
            Error{{}, fmt::format("rank {}: {}", job_.ranks[rank_], error.what()), Fault::work});
      }
    });
}

void RankRun::join() {
  for (HostThread& thread : threads_)
    if (thread.thread.joinable()) thread.thread.join();
}

void RankRun::wake() {
  const std::lock_guard lock(mutex_);
  progress_.notify_all();
}

void RankRun::run(std::uint32_t t) {
  for (std::uint32_t step = 0; step <= steps_; ++step) {
    if (!begin_section(step)) return;
    if (step > 0 && rank_class_.start_delay > 0)
      job_.clock->sleep_until(job_.clock->now() + rank_class_.start_delay);
    const auto section = static_cast<Section>(std::min<std::size_t>(step, kSections - 1));
    for (const Action& action : program_.threads[t].actions(section)) {
      if (stopped_ || !perform(t, step, action)) return;
      const std::lock_guard lock(mutex_);
      ++threads_[t].performed;
      if (threads_.size() > 1) progress_.notify_all();
    }
    end_section(step);
  }
}

bool RankRun::begin_section(std::uint32_t step) {
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [&] { return section_ == step || stopped_; });
  return !stopped_;
}

// The last thread ends the section for all and begins the next one.
void RankRun::end_section(std::uint32_t step) {
  std::unique_lock lock(mutex_);
  if (++ended_ < threads_.size()) return;
  recorder_.end_step(rank_, step, job_.clock->now(), launches_,
                     memory_->end_step(job_.clock->now()));
  if (step == 0) {
    for (std::size_t s = 0; s < program_.streams.size(); ++s)
      device_.synchronize(device_.mark(StreamId(s)));
    line_.arrive();
  }
  ended_ = launches_ = 0;
  for (HostThread& thread : threads_) thread.performed = 0;
  if (step < steps_) {
    memory_->begin_step(job_.clock->now());
    recorder_.begin_step(rank_, step + 1, job_.clock->now());
  }
  section_ = step + 1;
  progress_.notify_all();
}

bool RankRun::perform(std::uint32_t t, std::uint32_t step, const Action& action) {
  const foregather::runtime::Clock& clock = *job_.clock;
  switch (action.kind) {
    case ActionKind::launch: return launch(t, step, OpId(action.a));
    case ActionKind::alloc: return alloc(t, step, action);
    case ActionKind::free: {
      const std::lock_guard lock(mutex_);
      memory_->free(action.a, clock.now());
      return true;
    }
    case ActionKind::release: {
      const std::lock_guard lock(mutex_);
      memory_->release(action.a, clock.now());
      return true;
    }
    case ActionKind::record_stream: {
      const std::lock_guard lock(mutex_);
      memory_->record_stream(action.a, action.stream);
      return true;
    }
    case ActionKind::record: {
      const Ns begin = clock.now();
      const std::lock_guard lock(mutex_);
      Event& event = slots_[action.a - program_.events.first];
      event.is_recorded = true;
      event.mark = device_.mark(action.stream);
      event.call = recorder_.call(rank_, t, HostCall::event_record, begin, clock.now());
      return true;
    }
    case ActionKind::wait: {
      const Ns begin = clock.now();
      Event event;
      {
        const std::lock_guard lock(mutex_);
        event = slots_[action.a - program_.events.first];
      }
      if (!event.is_recorded) return true;
      const run::HostCallRow call =
          recorder_.call(rank_, t, HostCall::stream_wait_event, begin, clock.now());
      recorder_.wait(rank_, action.stream, call, event.call, event.mark.stream);
      device_.wait(action.stream, event.mark);
      return true;
    }
    case ActionKind::host_wait_event: {
      Event event;
      {
        const std::lock_guard lock(mutex_);
        event = slots_[action.a - program_.events.first];
      }
      if (event.is_recorded) synchronize(t, HostCall::event_synchronize, {&event.mark, 1});
      return true;
    }
    case ActionKind::host_wait_stream: {
      const Mark mark = device_.mark(action.stream);
      synchronize(t, HostCall::stream_synchronize, {&mark, 1});
      return true;
    }
    case ActionKind::host_wait_device: {
      std::vector<Mark> marks;
      for (std::size_t s = 0; s < program_.streams.size(); ++s)
        marks.push_back(device_.mark(StreamId(s)));
      synchronize(t, HostCall::device_synchronize, marks);
      return true;
    }
    case ActionKind::host_wait_action: {
      const Ns begin = clock.now();
      std::unique_lock lock(mutex_);
      progress_.wait(lock, [&] { return threads_[action.a].performed > action.b || stopped_; });
      recorder_.call(rank_, t, HostCall::thread_wait, begin, clock.now());
      return !stopped_;
    }
    case ActionKind::host_delay: clock.sleep_until(clock.now() + action.a); return true;
    case ActionKind::empty_cache: {
      const std::lock_guard lock(mutex_);
      memory_->empty_cache(clock.now());
      return true;
    }
    case ActionKind::mark: return true;
  }
  return true;
}

void RankRun::synchronize(std::uint32_t t, HostCall kind, std::span<const Mark> marks) {
  const Ns begin = job_.clock->now();
  for (const Mark& mark : marks) device_.synchronize(mark);
  recorder_.call(rank_, t, kind, begin, job_.clock->now());
}

void RankRun::bind(const Op& op, std::vector<BoundAccess>& accesses) const {
  accesses.clear();
  for (const AccessedTensor& access : graph_.accesses_of(op)) {
    const Tensor& tensor = graph_.at(access.tensor);
    const auto place = memory_->place(tensor.storage.row());
    BoundAccess& bound = accesses.emplace_back();
    bound.tensor = access.tensor;
    bound.mode = access.mode;
    bound.dtype = tensor.dtype;
    bound.bytes = access.bytes;
    if (place.bytes > 0)
      bound.data = reinterpret_cast<std::byte*>(place.address + tensor.offset + access.offset);
  }
}

// Deps are launched in the same section, perhaps by another thread.
bool RankRun::find_deps(std::uint32_t step, const Op& op, std::vector<Mark>& deps) {
  deps.clear();
  if (op.deps.count == 0) return true;
  std::unique_lock lock(mutex_);
  for (const OpId dep : graph_.deps_of(op)) {
    const Launched& launched = launched_[dep.row() - program_.ops.first];
    progress_.wait(lock, [&] { return launched.step == step + 1 || stopped_; });
    if (stopped_) return false;
    deps.push_back(launched.mark);
  }
  return true;
}

bool RankRun::launch(std::uint32_t t, std::uint32_t step, OpId id) {
  const Op& op = graph_.at(id);
  HostThread& thread = threads_[t];
  const Ns begin = job_.clock->now();
  if (!find_deps(step, op, thread.deps)) return false;
  {
    const std::lock_guard lock(mutex_);
    bind(op, thread.accesses);
    memory_->launched(id.row());
    ++launches_;
  }
  const Ns issued = job_.clock->now();
  const run::HostCallRow call = recorder_.call(rank_, t, HostCall::launch, begin, issued);
  const Mark mark = device_.launch({id, step, issued, call, thread.accesses, thread.deps});
  const std::lock_guard lock(mutex_);
  launched_[id.row() - program_.ops.first] = {step + 1, mark};
  return true;
}

bool RankRun::alloc(std::uint32_t t, std::uint32_t step, const Action& action) {
  const std::lock_guard lock(mutex_);
  if (memory_->alloc(action.a, action.stream, job_.clock->now())) {
    if (step == 0) fill(action.a, action.stream);
    return true;
  }
  if (stopped_) return false;
  OutOfMemory failure{rank_, StorageId(action.a), graph_.storages[action.a].bytes, {}, step <= 1};
  const auto section = static_cast<Section>(std::min<std::size_t>(step, kSections - 1));
  const auto actions = program_.threads[t].actions(section).subspan(threads_[t].performed);
  const auto next = std::ranges::find(actions, ActionKind::launch, &Action::kind);
  if (next != actions.end()) failure.next = OpId(next->a);
  if (failure.next) memory_->launched(failure.next->row());
  recorder_.out_of_memory(rank_, failure.storage, failure.next, job_.clock->now());
  recorder_.end_step(rank_, step, job_.clock->now(), launches_,
                     memory_->end_step(job_.clock->now()));
  events_.out_of_memory(failure);
  return false;
}

// What a job finds before its first step: values that tell storage, rank and element. By name: a
// what-if may number storages anew.
void RankRun::fill(std::uint32_t storage, StreamId stream) {
  const auto place = memory_->place(storage);
  if (place.bytes == 0) return;
  const Storage& row = graph_.storages[storage];
  std::uint64_t name = 0;
  for (const std::string_view text : {graph_.text(row.name), graph_.scope_name(row.scope)})
    for (const char letter : text)
      name = (name ^ static_cast<unsigned char>(letter)) * 0x100000001B3ULL + 1;
  device_.fill(stream, reinterpret_cast<std::byte*>(place.address), row.bytes,
               dtype_of_[storage - program_.storages.first], seed_of(name, job_.ranks[rank_], 0));
}

}  // namespace foregather::runtime
