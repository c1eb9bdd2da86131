#include "gui/models/loader.h"

#include <algorithm>

#include "core/base/interrupt.h"

namespace foregather::gui {

Loader::~Loader() { cancel(); }

void Loader::cancel() {
  if (ticket_) *ticket_ = true;
  ticket_.reset();
}

// On the owner's thread, unless it was canceled there before.
void Loader::hand_over(const Ticket& ticket, std::function<void()> what) {
  post_([ticket, what = std::move(what)] {
    if (!*ticket) what();
  });
}

void Loader::start(std::vector<std::string> locations, std::vector<OpenRun> known,
                   std::vector<std::size_t> shown, Progress progress, Done done) {
  cancel();
  ticket_ = std::make_shared<std::atomic<bool>>(false);
  threads_.emplace_back([this, ticket = ticket_, locations = std::move(locations),
                         runs = std::move(known), shown = std::move(shown),
                         progress = std::move(progress), done = std::move(done)]() mutable {
    const Interruptible scope(*ticket);
    Loaded loaded{tl::unexpected(Error{}), std::move(runs), {}};
    const auto find = [&](const std::string& location) {
      return std::find_if(loaded.runs.begin(), loaded.runs.end(),
                          [&](const OpenRun& run) { return run.location == location; });
    };
    const auto is_known = [&](const std::string& each) { return find(each) != loaded.runs.end(); };
    const auto to_read = std::ssize(locations) - std::ranges::count_if(locations, is_known);
    std::ptrdiff_t read = 0;
    for (std::size_t i = 0; i < locations.size() && !*ticket; ++i) {
      if (is_known(locations[i])) continue;
      std::optional<int> percent;
      if (to_read > 1) percent = static_cast<int>(90 * read++ / to_read);
      hand_over(ticket,
                [progress, percent, what = "reading " + locations[i]] { progress(percent, what); });
      auto run = read_(locations[i]);
      if (run)
        loaded.runs.push_back(std::move(*run));
      else
        loaded.unread.push_back(std::move(run.error()));
    }
    if (*ticket) return;
    hand_over(ticket, [progress] { progress(90, "laying out"); });
    std::vector<OpenRun> chosen;
    for (const std::size_t index : shown)
      if (const auto run = find(locations[index]); run != loaded.runs.end()) chosen.push_back(*run);
    if (chosen.empty() && !loaded.runs.empty()) chosen.push_back(loaded.runs.front());
    if (chosen.empty())
      loaded.document = tl::unexpected(loaded.unread.front());
    else
      loaded.document = Document::open(std::move(chosen));
    hand_over(ticket, [this, done, loaded = std::move(loaded)]() mutable {
      ticket_.reset();
      done(std::move(loaded));
    });
  });
}

}  // namespace foregather::gui
