// Pieces of work that threads and other ranks take one by one, and may give back.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

namespace foregather::tasks {

/// Rounds of chunks, numbered from 0: one round after the other. Thread safe.
class ChunkQueue {
 public:
  /// Begins a round; the one before is done.
  void open(std::size_t chunks);
  /// The next chunk of this round; waits while there is none and others work on the last ones,
  /// which they may give back. Nothing: the round is done.
  std::optional<std::size_t> take();
  /// The next chunk of this round or a later one. Nothing: closed.
  std::optional<std::size_t> take_of_any();
  /// Each chunk that was taken ends in one of these.
  void done();
  void give_back(std::size_t chunk);
  /// No round follows.
  void close();

 private:
  std::optional<std::size_t> next();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0, chunks_ = 0;
  std::size_t left_ = 0;            ///< that are not done
  std::vector<std::size_t> again_;  ///< given back
  bool is_closed_ = false;
};

}  // namespace foregather::tasks
