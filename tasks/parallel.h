// Independent pieces of work over the cores of this machine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace foregather::tasks {

/// As many threads as there are cores.
inline std::size_t usual_threads() { return std::max(1U, std::thread::hardware_concurrency()); }

/// Calls `work(i, thread)` for each i below `n` on `threads` threads, numbered from 0; each takes
/// the next i when it is free. `work` must not throw.
template <class Work>
void in_parallel(std::size_t n, std::size_t threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto go_on = [&](std::size_t thread) {
    for (std::size_t i = next++; i < n; i = next++) work(i, thread);
  };
  std::vector<std::jthread> others;
  for (std::size_t thread = 1; thread < std::min(n, threads); ++thread)
    others.emplace_back(go_on, thread);
  go_on(0);
}

/// Calls `work(i)` for each i below `n`, as many at once as there are cores; in no order. `work`
/// must not throw.
template <class Work>
void in_parallel(std::size_t n, const Work& work) {
  in_parallel(n, usual_threads(), [&](std::size_t i, std::size_t) { work(i); });
}

}  // namespace foregather::tasks
