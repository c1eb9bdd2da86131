// NVTX ranges and marks, from the calls of the program to rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profiler/raw_file.h"

namespace foregather::profiler {

class Recorder;

/// One event as a call describes it. Borrowed until the call returns.
struct NvtxEvent {
  std::int64_t domain = 0;  ///< 0: the default one
  std::string_view text;
  Cell category, color, unsigned_value, signed_value;
  /// Of the payload extension: schema and bytes.
  std::vector<std::pair<std::uint64_t, std::string_view>> payloads;
};

/// A range becomes one row when it ends: threads keep their own stack of open ones. One that is
/// still open when the process ends has no row. From any thread.
class NvtxRanges {
 public:
  /// Depth of the thread's stack in that domain, from 0.
  int push(const NvtxEvent& event);
  int pop(std::int64_t domain);
  void mark(const NvtxEvent& event);
  std::uint64_t start(const NvtxEvent& event);
  void end(std::uint64_t range);
  void name_thread(std::uint32_t thread, std::string_view name);
  void name_category(std::int64_t domain, std::uint32_t category, std::string_view name);
  std::int64_t create_domain(std::string_view name);

 private:
  struct Open;
  struct Stack;
  static Stack& stack();
  static void write(Recorder& recorder, const Open& open, std::int64_t end, std::int64_t kind,
                    Cell end_thread, std::string_view text);
  static Open opened(Recorder& recorder, const NvtxEvent& event);

  std::atomic<std::uint64_t> next_range_{1};
  std::mutex mutex_;  // of what follows
  struct Started;
  std::unordered_map<std::uint64_t, std::shared_ptr<Started>> started_;
  std::map<std::string, std::int64_t, std::less<>> domains_;
};

}  // namespace foregather::profiler
