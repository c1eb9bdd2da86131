#include "tasks/chunk_queue.h"

namespace foregather::tasks {

void ChunkQueue::open(std::size_t chunks) {
  const std::lock_guard lock(mutex_);
  next_ = 0;
  chunks_ = left_ = chunks;
  changed_.notify_all();
}

std::optional<std::size_t> ChunkQueue::next() {
  if (!again_.empty()) {
    const std::size_t chunk = again_.back();
    again_.pop_back();
    return chunk;
  }
  if (next_ == chunks_) return std::nullopt;
  return next_++;
}

std::optional<std::size_t> ChunkQueue::take() {
  std::unique_lock lock(mutex_);
  while (left_ > 0) {
    if (const auto chunk = next()) return chunk;
    changed_.wait(lock);
  }
  return std::nullopt;
}

std::optional<std::size_t> ChunkQueue::take_of_any() {
  std::unique_lock lock(mutex_);
  while (!is_closed_) {
    if (const auto chunk = next()) return chunk;
    changed_.wait(lock);
  }
  return std::nullopt;
}

void ChunkQueue::done() {
  const std::lock_guard lock(mutex_);
  if (--left_ == 0) changed_.notify_all();
}

void ChunkQueue::give_back(std::size_t chunk) {
  const std::lock_guard lock(mutex_);
  again_.push_back(chunk);
  changed_.notify_all();
}

void ChunkQueue::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

}  // namespace foregather::tasks
