#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace foregather::runtime {
namespace {

/// Nothing ends for that long, beyond what the longest op takes.
constexpr Ns kStalled = 60 * kSecond;

class Execution final : private DeviceEvents, private RankEvents {
 public:
  Execution(const Graph& graph, const RunOptions& options, Backend& backend,
            run::RecordingSink& sink)
      : graph_(graph), options_(options), backend_(backend), sink_(sink) {
    auto [ranks, class_of] = ranks_of(graph);
    job_.graph = &graph;
    job_.ranks = std::move(ranks);
    job_.class_of = std::move(class_of);
    job_.process = options.process;
    if (job_.process && job_.process->rank < job_.ranks.size()) {
      job_.ranks = {job_.ranks[job_.process->rank]};
      job_.class_of = {job_.class_of[job_.process->rank]};
    }
    job_.capacity = options.capacity;
    job_.link_scale = options.link_scale;
    job_.speeds = options.speeds;
    job_.clock = &clock_;
    job_.events = this;
  }

  Result<RunReport> run() {
    auto devices = backend_.open(job_);
    if (!devices) return tl::unexpected(devices.error());
    recorder_ = std::make_unique<Recorder>(job_, sink_, options_.flush_interval, backend_.name());
    StartLine line(job_.ranks.size(), stopped_);
    line_ = &line;
    RankEvents& events = *this;
    for (std::uint32_t rank = 0; rank < job_.ranks.size(); ++rank)
      ranks_.push_back(std::make_unique<RankRun>(job_, rank, *(*devices)[rank], options_.alloc,
                                                 options_.steps, *recorder_, line, events,
                                                 stopped_));
    std::thread watch;
    try {
      for (const auto& rank : ranks_) rank->start();
      watch = std::thread([this] { watch_progress(); });
    } catch (const std::system_error&) {
      failed(Error{{}, "no more threads can be started: use fewer ranks", Fault::work});
      wake_all();
    }
    for (const auto& rank : ranks_) rank->join();
    backend_.stop();
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      over_.notify_all();
    }
    if (watch.joinable()) watch.join();
    const Status finished = recorder_->finish();
    if (error_) return tl::unexpected(*error_);
    if (!finished) return tl::unexpected(finished.error());
    return report();
  }

 private:
  void done(const OpDone& op) override { recorder_->done(op); }
  void failed(Error error) override {
    const std::lock_guard lock(mutex_);
    if (!error_ && !oom_) error_ = std::move(error);
    stopped_ = true;
  }
  void out_of_memory(const OutOfMemory& failure) override {
    const std::lock_guard lock(mutex_);
    if (!error_ && !oom_) oom_ = failure;
    stopped_ = true;
  }

  void wake_all() {
    backend_.abandon();
    line_->wake();
    for (const auto& rank : ranks_) rank->wake();
  }

  // Wakes whoever waits once the job is to stop: callers of failed() may hold locks.
  void watch_progress() {
    Ns longest = 0;
    for (const Cost& cost : graph_.costs) longest = std::max(longest, cost.fixed_time);
    std::int64_t ops = -1;
    Ns since = clock_.now();
    std::unique_lock lock(mutex_);
    while (!is_over_) {
      over_.wait_for(lock, std::chrono::milliseconds(20), [&] { return is_over_; });
      lock.unlock();
      if (stopped_) {
        wake_all();
      } else if (const std::int64_t now = recorder_->ops(); now != ops) {
        ops = now;
        since = clock_.now();
        if (options_.progress) options_.progress(ops);
      } else if (clock_.now() - since > kStalled + 2 * longest) {
        failed(Error{{},
                     fmt::format("nothing has ended for {} s after {} ops: host threads or ranks "
                                 "wait for each other",
                                 (clock_.now() - since) / kSecond, ops),
                     Fault::work});
      }
      lock.lock();
    }
  }

  RunReport report() const {
    RunReport report;
    report.oom = oom_;
    report.step_time = recorder_->median_step_time();
    report.backend = backend_.report();
    report.ops = recorder_->ops();
    report.steps = options_.steps;
    for (std::uint32_t rank = 0; rank < job_.ranks.size(); ++rank) {
      const auto& steps = recorder_->finished(rank);
      report.steps = std::min(report.steps, static_cast<std::uint32_t>(steps.size()));
      if (steps.empty()) continue;
      RankFigures figures{job_.ranks[rank], steps.front(), steps.back()};
      for (const run::StepInfo& step : steps)
        if (step.kind == run::StepKind::steady) figures.steady = step;
      report.ranks.push_back(figures);
    }
    return report;
  }

  const Graph& graph_;
  RunOptions options_;
  Backend& backend_;
  run::RecordingSink& sink_;
  Clock clock_;
  Job job_;
  std::unique_ptr<Recorder> recorder_;
  StartLine* line_ = nullptr;
  std::vector<std::unique_ptr<RankRun>> ranks_;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::optional<Error> error_;
  std::optional<OutOfMemory> oom_;
};

}  // namespace

Result<RunReport> execute(const Graph& graph, const RunOptions& options, Backend& backend,
                          run::RecordingSink& sink) {
  if (options.process)
    if (const std::size_t ranks = ranks_of(graph).ranks.size();
        options.process->world_size != ranks)
      return fail("the schedule has {} ranks, and {} started {} processes: expected one a rank",
                  ranks, options.process->launcher, options.process->world_size);
  return Execution(graph, options, backend, sink).run();
}

}  // namespace foregather::runtime
