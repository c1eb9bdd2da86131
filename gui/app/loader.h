// Reading in the background.
#pragma once

#include <QObject>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gui/views/ruler_painter.h"

namespace foregather::gui {

/// Reads one run, or makes a document of runs, on a thread of its own; what comes of it is handed
/// to the thread of `owner`. One work at a time: another start cancels the last one. A canceled
/// work hands over nothing; what it reads is finished and dropped. Destruction waits for that.
class Loader {
 public:
  explicit Loader(QObject* owner) : owner_(owner) {}
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  /// Progress in words, between 0 and 100.
  using Progress = std::function<void(int percent, const std::string& what)>;
  using Done = std::function<void(Result<std::shared_ptr<const Document>>, std::vector<OpenRun>)>;

  /// Reads the files that are not among `known`, and makes a document of the runs `shown` (indices
  /// of `locations`; one or two).
  void start(std::vector<std::string> locations, std::vector<OpenRun> known,
             std::vector<std::size_t> shown, Progress progress, Done done);
  void cancel();
  bool is_running() const { return ticket_ != nullptr; }

 private:
  // Shared with the thread: false once its work is canceled.
  using Ticket = std::shared_ptr<std::atomic<bool>>;
  void hand_over(const Ticket& ticket, std::function<void()> what);

  QObject* owner_;
  Ticket ticket_;
  std::vector<std::jthread> threads_;
};

}  // namespace foregather::gui
