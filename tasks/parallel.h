// Independent pieces of work over the cores of this machine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace foregather::tasks {

/// As many threads as there are cores.
inline std::size_t usual_threads() { return std::max(1U, std::thread::hardware_concurrency()); }

/// Calls `work(i, thread)` for each i below `n` on `threads` threads, numbered from 0; each takes
/// the next i when it is free. Where no more threads can be started, fewer do the same. What `work`
/// throws first ends the others after their piece, and is thrown here.
template <class Work>
void in_parallel(std::size_t n, std::size_t threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> has_thrown{false};
  std::exception_ptr thrown;
  const auto go_on = [&](std::size_t thread) {
    try {
      for (std::size_t i = next++; i < n && !has_thrown; i = next++) work(i, thread);
    } catch (...) {
      if (!has_thrown.exchange(true)) thrown = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::size_t thread = 1; thread < std::min(n, threads); ++thread)
        others.emplace_back(go_on, thread);
    } catch (const std::system_error&) {
    }
    go_on(0);
  }
  if (has_thrown) std::rethrow_exception(thrown);
}

/// Calls `work(i)` for each i below `n`, as many at once as there are cores; in no order.
template <class Work>
void in_parallel(std::size_t n, const Work& work) {
  in_parallel(n, usual_threads(), [&](std::size_t i, std::size_t) { work(i); });
}

}  // namespace foregather::tasks
