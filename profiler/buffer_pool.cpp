#include "profiler/buffer_pool.h"

#include <cstdlib>

namespace foregather::profiler {

std::uint8_t* BufferPool::take() {
  constexpr std::size_t kAlignment = 64;
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    std::uint8_t* const buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  if (made_ == kBuffers) return nullptr;
  auto* const buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBytes));
  made_ += buffer != nullptr ? 1 : 0;
  return buffer;
}

void BufferPool::put_full(std::uint8_t* buffer, std::size_t valid) {
  const std::lock_guard lock(mutex_);
  full_.push_back({buffer, valid});
}

std::optional<BufferPool::Full> BufferPool::take_full() {
  const std::lock_guard lock(mutex_);
  if (full_.empty()) return std::nullopt;
  const Full oldest = full_.front();
  full_.erase(full_.begin());
  return oldest;
}

void BufferPool::give_back(std::uint8_t* buffer) {
  const std::lock_guard lock(mutex_);
  free_.push_back(buffer);
}

bool BufferPool::is_crowded() const {
  const std::lock_guard lock(mutex_);
  return !full_.empty();
}

}  // namespace foregather::profiler
