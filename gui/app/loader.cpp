#include "gui/app/loader.h"

#include <QMetaObject>
#include <algorithm>

#include "gui/app/load.h"

namespace foregather::gui {

Loader::~Loader() { cancel(); }

void Loader::cancel() {
  if (ticket_) *ticket_ = false;
  ticket_.reset();
}

// On the owner's thread, unless it was canceled there before.
void Loader::hand_over(const Ticket& ticket, std::function<void()> what) {
  QMetaObject::invokeMethod(
      owner_,
      [ticket, what = std::move(what)] {
        if (*ticket) what();
      },
      Qt::QueuedConnection);
}

void Loader::start(std::vector<std::string> locations, std::vector<OpenRun> known,
                   std::vector<std::size_t> shown, Progress progress, Done done) {
  cancel();
  ticket_ = std::make_shared<std::atomic<bool>>(true);
  threads_.emplace_back([this, ticket = ticket_, locations = std::move(locations),
                         runs = std::move(known), shown = std::move(shown),
                         progress = std::move(progress), done = std::move(done)]() mutable {
    const auto finish = [&](Result<std::shared_ptr<const Document>> document) {
      hand_over(ticket, [this, done, document = std::move(document), runs]() mutable {
        ticket_.reset();
        done(std::move(document), std::move(runs));
      });
    };
    for (std::size_t i = 0; i < locations.size() && *ticket; ++i) {
      const bool is_known = std::any_of(runs.begin(), runs.end(), [&](const OpenRun& run) {
        return run.location == locations[i];
      });
      if (is_known) continue;
      const int percent = static_cast<int>(90 * i / locations.size());
      hand_over(ticket,
                [progress, percent, what = "reading " + locations[i]] { progress(percent, what); });
      auto run = load_run(locations[i]);
      if (!run) return finish(tl::unexpected(run.error()));
      runs.push_back(std::move(*run));
    }
    if (!*ticket) return;
    hand_over(ticket, [progress] { progress(90, "laying out"); });
    std::vector<OpenRun> chosen;
    for (const std::size_t index : shown)
      for (const OpenRun& run : runs)
        if (run.location == locations[index]) {
          chosen.push_back(run);
          break;
        }
    finish(Document::open(std::move(chosen)));
  });
}

}  // namespace foregather::gui
