// Independent pieces of work over the cores of this machine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace foregather::tasks {

/// Calls `work(i)` for each i below `n`, as many at once as there are cores; in no order. `work`
/// must not throw.
template <class Work>
void in_parallel(std::size_t n, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto go_on = [&] {
    for (std::size_t i = next++; i < n; i = next++) work(i);
  };
  const std::size_t workers =
      std::min<std::size_t>(n, std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < workers; ++i) threads.emplace_back(go_on);
  go_on();
}

}  // namespace foregather::tasks
