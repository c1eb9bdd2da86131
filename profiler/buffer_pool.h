// Buffers that CUPTI fills, on their way to the writer and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace foregather::profiler {

/// At most 16 of 2 MiB, made when first needed and never freed: CUDA 13 gives each thread of a
/// program a buffer. From any thread; the lock is held for a few instructions, never across a call
/// of CUPTI.
class BufferPool {
 public:
  static constexpr std::size_t kBytes = std::size_t{2} << 20U, kBuffers = 16;

  struct Full {
    std::uint8_t* buffer = nullptr;
    std::size_t valid = 0;
  };

  /// Null: all are in use.
  std::uint8_t* take();
  void put_full(std::uint8_t* buffer, std::size_t valid);
  /// In the order in which they came.
  std::optional<Full> take_full();
  void give_back(std::uint8_t* buffer);
  /// Should the writer come before its time?
  bool is_crowded() const;

 private:
  mutable std::mutex mutex_;
  std::size_t made_ = 0;
  std::vector<std::uint8_t*> free_;
  std::vector<Full> full_;  // the oldest first
};

}  // namespace foregather::profiler
