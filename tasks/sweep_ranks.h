// A sweep over the ranks of a job: rank 0 has the database and hands out points, the others
// predict.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/base/result.h"
#include "runtime/job.h"
#include "tasks/sweep_grid.h"

namespace foregather::tasks {

/// Two ranks that say the same work on the same points.
std::string sweep_tag(const SweepGrid& grid);

/// Rank 0's side: takes connections, each on a thread of its own.
class SweepServer {
 public:
  /// `serve` hands out work until there is no more (true) or the rank is lost (false).
  SweepServer(const runtime::ProcessJob& job, std::string tag,
              std::function<bool(runtime::RankLink&)> serve);
  /// As finish(), without warnings.
  ~SweepServer();

  /// There is no more work: waits a few seconds for ranks that have not come yet, so that they hear
  /// of it. Warnings: ranks that were lost or never came.
  std::vector<std::string> finish();

 private:
  void take_links();

  const runtime::ProcessJob& job_;
  std::string tag_;
  std::function<bool(runtime::RankLink&)> serve_;
  std::mutex mutex_;                     // of what follows
  std::set<std::uint32_t> came_, lost_;  // ranks
  std::vector<std::thread> serving_;
  std::atomic<bool> is_ending_ = false;
  std::thread taking_;
};

/// The side of the other ranks: predicts on `threads` threads what rank 0 asks for, until it has
/// all. Errors: rank 0 cannot be reached within a minute, or went away.
Status work_for_rank_0(const SweepGrid& grid, const runtime::ProcessJob& job, std::size_t threads);

/// Rank 0's request for points, and the answer. False: the rank is gone.
bool ask(runtime::RankLink& link, const std::vector<std::int64_t>& indices,
         std::vector<run::SweepPoint>& points);

}  // namespace foregather::tasks
