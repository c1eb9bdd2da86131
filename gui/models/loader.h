// Reading in the background.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gui/models/document.h"
#include "gui/models/inbox.h"

namespace foregather::gui {

/// Reads one run, or makes a document of runs, on a thread of its own; what comes of it is posted.
/// One work at a time: another start cancels the last one. A canceled work hands over nothing, and
/// gives up reading (core/base/interrupt.h). Destruction waits for that.
class Loader {
 public:
  using Read = std::function<Result<OpenRun>(const std::string& location)>;
  Loader(Read read, Post post) : read_(std::move(read)), post_(std::move(post)) {}
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  /// Progress in words, between 0 and 100; absent while the only file is read.
  using Progress = std::function<void(std::optional<int> percent, const std::string& what)>;
  struct Loaded {
    Result<std::shared_ptr<const Document>> document;
    std::vector<OpenRun> runs;  ///< known ones and those read now
    std::vector<Error>
        unread;  ///< a file that cannot be read does not keep others from being shown
  };
  using Done = std::function<void(Loaded)>;

  /// Reads the files that are not among `known`, and makes a document of the runs `shown` (indices
  /// of `locations`; one or two); of the first one that could be read where none of these could.
  void start(std::vector<std::string> locations, std::vector<OpenRun> known,
             std::vector<std::size_t> shown, Progress progress, Done done);
  void cancel();
  bool is_running() const { return ticket_ != nullptr; }

 private:
  // Shared with the thread: true once its work is canceled.
  using Ticket = std::shared_ptr<std::atomic<bool>>;
  void hand_over(const Ticket& ticket, std::function<void()> what);

  Read read_;
  Post post_;
  Ticket ticket_;
  std::vector<std::jthread> threads_;
};

}  // namespace foregather::gui
