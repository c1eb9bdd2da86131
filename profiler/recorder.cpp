#include "profiler/recorder.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>

namespace foregather::profiler {
namespace {

constexpr auto kRest = std::chrono::milliseconds(50);

std::atomic<Recorder*> g_recorder{nullptr};
std::atomic<bool> g_is_over{false};  // refused, or finished
Recorder* g_last = nullptr;          // with those before it: what is never freed stays within reach
// A fork waits for both: a child must not be born while SQLite or a start holds locks.
std::mutex g_starting, g_writing;

std::int64_t clock_ns(clockid_t clock) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  timespec time{};
  ::clock_gettime(clock, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

void say(const std::string& text) {
  const std::string line = "foregather: " + text + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void before_fork() {
  g_starting.lock();
  g_writing.lock();
}
void after_fork_in_parent() {
  g_writing.unlock();
  g_starting.unlock();
}
// The parent's recording goes on in the parent alone; here another begins with the next event.
void after_fork_in_child() {
  new (&g_writing) std::mutex;
  new (&g_starting) std::mutex;
  g_recorder.store(nullptr, std::memory_order_release);
}

// Why files of this process should not go there; empty: they may.
std::string refusal(const std::string& directory) {
  struct stat status {};
  if (::lstat(directory.c_str(), &status) != 0) return std::strerror(errno);
  if (!S_ISDIR(status.st_mode)) return "is no directory";
  if (status.st_uid != ::geteuid()) return "belongs to another user";
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "can be written by others";
  return {};
}

}  // namespace

Recorder* Recorder::instance() {
  Recorder* const recorder = g_recorder.load(std::memory_order_acquire);
  if (recorder != nullptr || g_is_over.load(std::memory_order_acquire)) return recorder;
  return start();
}

Recorder* Recorder::start() {
  const std::lock_guard lock(g_starting);
  if (Recorder* const other = g_recorder.load(std::memory_order_acquire)) return other;
  if (g_is_over.load(std::memory_order_acquire)) return nullptr;
  auto settings = settings_from_environment();
  if (!settings) {
    g_is_over.store(true, std::memory_order_release);
    return nullptr;
  }
  auto* const recorder = new Recorder(std::move(*settings), identify(), clock_ns(CLOCK_REALTIME));
  if (const std::string error = recorder->open(); !error.empty()) {
    say("this process is not recorded: " + error);
    g_is_over.store(true, std::memory_order_release);
    delete recorder;
    return nullptr;
  }
  static bool is_registered = false;  // children inherit the handlers
  if (!std::exchange(is_registered, true)) {
    ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    std::atexit(Recorder::finish);
  }
  recorder->before_ = std::exchange(g_last, recorder);
  g_recorder.store(recorder, std::memory_order_release);
  return recorder;
}

std::string Recorder::open() {
  if (const std::string reason = refusal(settings_.directory); !reason.empty())
    return settings_.directory + " " + reason;
  const std::string path = settings_.directory + "/" + raw_file_name(identity_);
  std::string error;
  keep_off_foreign_files();
  file_ = RawFile::create(path, epoch_, error);
  if (!file_) return path + ": " + error;
  const std::string status = path + ".status";
  status_ =
      OwnFile(::open(status.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_WRONLY, 0600));
  file_->run("INSERT INTO FOREGATHER_PROCESS VALUES (?, ?, ?, ?, ?, ?, ?, 0, NULL, 0)",
             identity_.pid, identity_.parent, identity_.rank, identity_.local_rank,
             identity_.world_size, std::string_view(identity_.host),
             std::string_view(identity_.command));
  file_->run("INSERT INTO PROCESSES VALUES (?, ?, ?)", identity_.pid << 24U, identity_.pid,
             std::string_view(identity_.name));
  flush(false);
  // No signal of the process is to run on the writer's thread.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  writer_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {};
}

std::int64_t Recorder::now() const { return clock_ns(CLOCK_REALTIME) - epoch_; }

std::int64_t Recorder::global_tid() const {
  static thread_local std::int64_t thread = 0, of = 0;
  if (of != identity_.pid) {  // a forked thread has another id
    thread = ::syscall(SYS_gettid);
    of = identity_.pid;
  }
  return identity_.pid << 24U | (thread & 0xffffff);
}

void Recorder::add(const HostEvent& event, std::int64_t time) {
  if (!window_.contains(time)) {
    outside_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  events_.add(event);
  if (events_.is_crowded()) wake();
}

void Recorder::add_payload(std::int64_t event, std::uint64_t schema, std::string_view bytes) {
  const Cell cells[] = {event, static_cast<std::int64_t>(schema)};
  add({RawTable::nvtx_payload, cells, bytes, 0});
}

void Recorder::later(std::function<void(RawFile&)> write) {
  const std::lock_guard lock(mutex_);
  later_.push_back(std::move(write));
}

void Recorder::tell(const std::string& text) {
  say(text);
  later([this, text](RawFile& file) {
    file.run("INSERT INTO DIAGNOSTIC_EVENT VALUES (?, 0, 0, 2, ?, ?)", now(),
             std::string_view(text), identity_.pid << 24U);
  });
}

void Recorder::count(const std::string& reason) {
  later([reason](RawFile& file) { file.count(reason); });
}

void Recorder::run() {
  std::int64_t next_flush = clock_ns(CLOCK_MONOTONIC) + kFlushInterval;
  for (bool is_stopping = false; !is_stopping;) {
    {
      std::unique_lock lock(mutex_);
      DeviceSource* const device = device_.load(std::memory_order_acquire);
      if (!is_stopping_ && !events_.is_crowded() && (device == nullptr || !device->is_crowded()))
        work_.wait_for(lock, kRest);
      is_stopping = is_stopping_;
    }
    {
      const std::lock_guard lock(g_writing);
      write_events();
    }
    const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
    if (now < next_flush && !is_stopping) continue;
    next_flush = now + kFlushInterval;
    // Outside the lock: CUPTI may wait for a thread that forks.
    if (DeviceSource* const device = device_.load(std::memory_order_acquire);
        device != nullptr && !is_stopping) {
      device->flush(false);
      // What began in time may end later, and is lost where its kind is off before.
      if (window_.is_over(this->now() - kFlushInterval) || is_full_) device->stop();
    }
    const std::lock_guard lock(g_writing);
    flush(is_stopping);
  }
}

void Recorder::write_events() {
  std::vector<std::function<void(RawFile&)>> rare;
  {
    const std::lock_guard lock(mutex_);
    rare.swap(later_);
  }
  for (const auto& write : rare) write(*file_);
  std::array<Cell, kMostColumns> cells;
  events_.take([&](const HostEvent& event) {
    if (is_full_) return file_->count("file_is_full");
    if (event.table == RawTable::nvtx_payload)
      return file_->run("INSERT INTO FOREGATHER_NVTX_PAYLOAD VALUES (?, ?, ?)", event.cells[0],
                        event.cells[1], RawFile::Blob{event.text});
    std::copy(event.cells.begin(), event.cells.end(), cells.begin());
    if (!event.text.empty()) cells[event.text_column] = file_->text(event.text);
    file_->add(event.table, cells.data(), event.cells.size());
  });
  if (DeviceSource* const device = device_.load(std::memory_order_acquire)) device->write(*file_);
}

void Recorder::flush(bool is_last) {
  if (is_last) write_events();
  DeviceSource* const device = device_.load(std::memory_order_acquire);
  file_->add(RawTable::clock, {clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_MONOTONIC),
                               device != nullptr ? device->clock() : Cell()});
  const std::int64_t dropped = events_.dropped(), outside = outside_.load();
  file_->count("too_fast", dropped - std::exchange(told_dropped_, dropped));
  file_->leave_out(outside - std::exchange(told_outside_, outside));
  file_->run("UPDATE FOREGATHER_PROCESS SET ended = ?, finished = ?", now(),
             std::int64_t{is_last ? 1 : 0});
  if (is_last)
    file_->finish();
  else
    file_->commit();
  if (settings_.max_bytes && !is_full_ && file_->bytes() >= *settings_.max_bytes) {
    is_full_ = true;
    say("the recording of process " + std::to_string(identity_.pid) +
        " has reached its size limit, nothing later is in it");
  }
  write_status();
}

void Recorder::write_status() {
  const int descriptor = status_.descriptor();
  if (descriptor < 0) return;
  const RecordingStatus status{file_->rows(), file_->dropped(), file_->bytes()};
  [[maybe_unused]] const ssize_t written = ::pwrite(descriptor, &status, sizeof status, 0);
}

void Recorder::stop() {
  if (DeviceSource* const device = device_.load(std::memory_order_acquire)) device->flush(true);
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  work_.notify_one();
  writer_.join();
}

void Recorder::finish() {
  g_is_over.store(true, std::memory_order_release);
  if (Recorder* const recorder = g_recorder.exchange(nullptr, std::memory_order_acq_rel))
    recorder->stop();
}

}  // namespace foregather::profiler
