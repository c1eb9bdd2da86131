#include "gui/models/latest_job.h"

#include <utility>

namespace foregather::gui {

LatestJob::LatestJob() : thread_([this] { work(); }) {}

LatestJob::~LatestJob() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void LatestJob::start(Job job) {
  {
    const std::lock_guard lock(mutex_);
    next_ = std::move(job);
  }
  wake_.notify_one();
}

bool LatestJob::is_busy() const {
  const std::lock_guard lock(mutex_);
  return is_running_ || next_ != nullptr;
}

void LatestJob::work() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      is_running_ = false;
      wake_.wait(lock, [this] { return is_closing_ || next_ != nullptr; });
      if (is_closing_) return;
      job = std::exchange(next_, nullptr);
      is_running_ = true;
    }
    job();
  }
}

}  // namespace foregather::gui
