// Work in the background of which only the newest matters.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace foregather::gui {

/// Runs jobs one at a time, on a thread of its own. A job that is given while another runs waits
/// for it; one that waits already gives way to it. So the newest always runs, however fast they
/// come. Start it from one thread.
class LatestJob {
 public:
  using Job = std::function<void()>;
  LatestJob();
  /// Waits for the job that runs; one that waits is dropped.
  ~LatestJob();
  LatestJob(const LatestJob&) = delete;
  LatestJob& operator=(const LatestJob&) = delete;

  void start(Job job);
  bool is_busy() const;  ///< one runs or waits

 private:
  void work();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Job next_;
  bool is_running_ = false, is_closing_ = false;
  std::thread thread_;  ///< uses all the others
};

}  // namespace foregather::gui
