// The recording of one process: who writes what its threads and its devices report.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "profiler/host_events.h"
#include "profiler/identity.h"
#include "profiler/own_files.h"
#include "profiler/raw_file.h"
#include "profiler/recorded_window.h"
#include "profiler/settings.h"

namespace foregather::profiler {

/// What records device work. Called by the writer's thread, but for the last flush.
class DeviceSource {
 public:
  virtual ~DeviceSource() = default;
  /// Hands over what is complete; `all`: what is not, too, once, at the end.
  virtual void flush(bool all) = 0;
  /// Writes what was handed over.
  virtual void write(RawFile& file) = 0;
  virtual bool is_crowded() const = 0;
  /// Its clock, to be kept beside others; empty: it has none.
  virtual Cell clock() const = 0;
  /// Nothing later will be recorded.
  virtual void stop() = 0;
};

/// What a recording shows while it runs: the content of "FILE.status", rewritten at each flush.
struct RecordingStatus {
  std::int64_t records = 0, dropped = 0, bytes = 0;
};

/// Begins when a process first has something to say and ends with it. One thread writes: every
/// 50 ms or when there is much it takes what has come, every second it commits. Memory is bounded
/// (BufferPool, HostEvents, texts, SQLite's cache: 64 MB in all); what comes faster is dropped and
/// counted. A process that is forked records into a file of its own. Never freed: threads may
/// report until the process is gone.
class Recorder {
 public:
  static constexpr std::int64_t kFlushInterval = 1'000'000'000;

  /// The recording of this process; null: there is none, or it is over. From any thread.
  static Recorder* instance();
  /// Ends it, if there is one. At the end of the process.
  static void finish();

  const Settings& settings() const { return settings_; }
  const Identity& identity() const { return identity_; }
  RecordedWindow& window() { return window_; }
  /// Nanoseconds of CLOCK_REALTIME since the recording began.
  std::int64_t now() const;
  /// Process and thread of the caller, as rows name them.
  std::int64_t global_tid() const;

  /// A row; its time is the first cell, and outside the window it is left out.
  void add(const HostEvent& event, std::int64_t time);
  /// A row that counts whatever the window.
  void add(const HostEvent& event) { events_.add(event); }
  /// The payload of an NVTX event, by its id; cut after 4 KiB.
  void add_payload(std::int64_t event, std::uint64_t schema, std::string_view bytes);
  /// Something that a person should know: into the recording, and a line on standard error.
  void tell(const std::string& text);
  void count(const std::string& reason);
  /// Runs on the writer's thread: rows of rare kinds.
  void later(std::function<void(RawFile&)> write);

  /// Takes over the source, which lives from then on.
  void set_device(DeviceSource* device) { device_.store(device, std::memory_order_release); }
  /// True once: whoever asks first looks for a source.
  bool wants_device() { return !is_device_tried_.exchange(true); }
  void wake() { work_.notify_one(); }

 private:
  Recorder(Settings settings, Identity identity, std::int64_t epoch)
      : settings_(std::move(settings)),
        identity_(std::move(identity)),
        epoch_(epoch),
        window_(settings_) {}

  static Recorder* start();
  std::string open();  // what failed; empty: nothing
  void run();
  void write_events();
  void flush(bool is_last);
  void write_status();
  void stop();

  const Settings settings_;
  const Identity identity_;
  const std::int64_t epoch_;
  RecordedWindow window_;
  HostEvents events_;
  std::atomic<DeviceSource*> device_{nullptr};
  std::atomic<bool> is_device_tried_{false};
  std::atomic<std::int64_t> outside_{0};

  Recorder* before_ = nullptr;  // of the process that this one was forked from
  std::unique_ptr<RawFile> file_;
  OwnFile status_;
  std::int64_t told_dropped_ = 0, told_outside_ = 0;
  bool is_full_ = false;
  std::thread writer_;
  std::mutex mutex_;  // of what follows
  std::condition_variable work_;
  bool is_stopping_ = false;
  std::vector<std::function<void(RawFile&)>> later_;
};

}  // namespace foregather::profiler
