// Which files are open, which of them are shown, and what is said of those that cannot be read.
#include <QComboBox>
#include <QFileDialog>
#include <QLabel>
#include <QMenu>
#include <QProgressBar>
#include <QPushButton>
#include <QTabWidget>
#include <algorithm>

#include "core/base/printable.h"
#include "gui/app/main_window.h"
#include "gui/views/lists.h"
#include "gui/views/recent_list.h"
#include "gui/views/short_paths.h"
#include "gui/views/summary_view.h"
#include "tasks/any_run.h"

namespace foregather::gui {

void MainWindow::open(const std::vector<std::string>& all) {
  std::vector<std::string> files;
  for (const std::string& file : all)
    if (SweepPlot::is_sweep(file))
      open_sweep(file);
    else
      files.push_back(file);
  std::vector<std::string> found;
  std::vector<Error> unread;
  for (const std::string& file : files)
    if (const auto runs = tasks::runs_in({file})) {
      found.insert(found.end(), runs->begin(), runs->end());
      for (const std::string& location : *runs) asked_.emplace_back(location, file);
    } else {
      unread.push_back(runs.error());
    }
  if (found.empty()) return unread.empty() ? void() : say(unread);
  unread_.insert(unread_.end(), unread.begin(), unread.end());
  choose_shown(found);
  load(found);
}

// One is shown alone, two together; of more that follow the first one takes the second's place.
void MainWindow::choose_shown(const std::vector<std::string>& opened) {
  if (!is_loading()) {
    opening_.clear();
    before_.clear();
    for (const int index : shown_)
      if (index >= 0 && index < std::ssize(locations_))
        before_.push_back(locations_[static_cast<std::size_t>(index)]);
  }
  opening_.insert(opening_.end(), opened.begin(), opened.end());
  std::optional<int> another;
  for (const std::string& location : opened) {
    const auto known = std::find(locations_.begin(), locations_.end(), location);
    const auto index = static_cast<int>(known - locations_.begin());
    if (known == locations_.end()) locations_.push_back(location);
    if (!another && index != shown_[0] && index != shown_[1]) another = index;
  }
  if (another) shown_[1] = *another;
}

void MainWindow::load(const std::vector<std::string>& anew) {
  std::vector<std::size_t> shown;
  for (const int index : shown_)
    if (index >= 0) shown.push_back(static_cast<std::size_t>(index));
  progress_->setVisible(true);
  cancel_->setVisible(true);
  progress_->setRange(0, 0);
  std::vector<OpenRun> known = runs_;
  std::erase_if(known, [&](const OpenRun& run) {
    return std::find(anew.begin(), anew.end(), run.location) != anew.end();
  });
  loader_->start(
      locations_, std::move(known), std::move(shown),
      [this](std::optional<int> percent, const std::string& what) {
        progress_->setMaximum(percent ? 100 : 0);  // 0: busy
        progress_->setValue(percent.value_or(0));
        message_->setText(gui::shown(printable(what)));
      },
      [this](Loader::Loaded loaded) { take(std::move(loaded)); });
}

void MainWindow::take(Loader::Loaded loaded) {
  progress_->setVisible(false);
  cancel_->setVisible(false);
  runs_ = std::move(loaded.runs);
  unread_.insert(unread_.end(), loaded.unread.begin(), loaded.unread.end());
  if (!loaded.document) return fail(loaded.document.error());
  std::vector<std::string> files;
  for (const auto& [location, file] : std::exchange(asked_, {}))
    if (run_at(location) != nullptr) files.push_back(file);
  remember_files(files);
  if (unread_.empty()) return set_document(std::move(*loaded.document));
  // Others take the place of what cannot be read, which may be those that are shown already.
  forget_unread();
  const std::vector<Error> unread = std::exchange(unread_, {});
  if (!is_chosen(document_.get())) {
    if (is_chosen(loaded.document->get()))
      set_document(std::move(*loaded.document));
    else
      load();
  }
  say(unread);
}

// Does it show what is chosen, as that was read last?
bool MainWindow::is_chosen(const Document* document) const {
  const auto chosen = static_cast<std::size_t>(shown_[1] >= 0 ? 2 : 1);
  if (document == nullptr || document->session.sides() != chosen) return false;
  for (std::size_t side = 0; side < chosen; ++side)
    if (std::none_of(runs_.begin(), runs_.end(), [&](const OpenRun& run) {
          return run.location == locations_[static_cast<std::size_t>(shown_[side])] &&
                 run.run == document->session.open_run(side).run;
        }))
      return false;
  return true;
}

// What was not read is not open. What else was opened with it takes its place, else what was shown
// before.
void MainWindow::forget_unread() {
  std::vector<std::string> wanted;
  for (const int index : shown_)
    if (index >= 0 && index < std::ssize(locations_))
      wanted.push_back(locations_[static_cast<std::size_t>(index)]);
  const bool are_two = wanted.size() > 1;
  wanted.insert(wanted.end(), opening_.begin(), opening_.end());
  wanted.insert(wanted.end(), before_.begin(), before_.end());
  std::erase_if(locations_, [&](const std::string& location) {
    return std::none_of(runs_.begin(), runs_.end(),
                        [&](const OpenRun& run) { return run.location == location; });
  });
  std::vector<int> chosen;
  for (const std::string& location : wanted) {
    const auto found = std::find(locations_.begin(), locations_.end(), location);
    const auto index = static_cast<int>(found - locations_.begin());
    if (found != locations_.end() && std::find(chosen.begin(), chosen.end(), index) == chosen.end())
      chosen.push_back(index);
  }
  shown_ = {chosen.empty() ? 0 : chosen[0], are_two && chosen.size() > 1 ? chosen[1] : -1};
  fill_boxes();
}

void MainWindow::cancel_loading() {
  loader_->cancel();
  unread_.clear();
  asked_.clear();
  progress_->setVisible(false);
  cancel_->setVisible(false);
  message_->setText("canceled");
  forget_unread();
}

// What is open, and what is being read, stays.
void MainWindow::say(const std::vector<Error>& errors) {
  std::vector<std::string> lines;
  for (const Error& error : errors) lines.push_back(printable(error.text()));
  message_->setText(gui::shown(lines.front()));
  if (document_ || is_loading()) return list_dialog(this, "Cannot be opened", lines)->show();
  summary_->set_message(message_->text(), true);
  pages_->setCurrentWidget(summary_);
}

// Nothing can be shown of what was opened: it is not open.
void MainWindow::fail(const Error& error) {
  std::vector<Error> errors = std::exchange(unread_, {});
  if (std::ranges::none_of(errors, [&](const Error& e) { return e.text() == error.text(); }))
    errors.push_back(error);
  const auto is_in = [](const std::vector<std::string>& locations, const OpenRun& run) {
    return std::ranges::find(locations, run.location) != locations.end();
  };
  std::erase_if(runs_,
                [&](const OpenRun& run) { return is_in(opening_, run) && !is_in(before_, run); });
  cancel_loading();
  say(errors);
}

void MainWindow::fill_boxes() {
  const std::vector<std::string> names = short_paths(locations_);
  for (std::size_t side = 0; side < 2; ++side) {
    const QSignalBlocker quiet(boxes_[side]);
    boxes_[side]->clear();
    if (side == 1) boxes_[side]->addItem("nothing below", -1);
    for (std::size_t i = 0; i < locations_.size(); ++i) {
      boxes_[side]->addItem(gui::shown(printable(names[i])), static_cast<int>(i));
      boxes_[side]->setItemData(static_cast<int>(i + side), gui::shown(printable(locations_[i])),
                                Qt::ToolTipRole);
    }
    boxes_[side]->setCurrentIndex(boxes_[side]->findData(shown_[side]));
    box_actions_[side]->setVisible(!locations_.empty());
  }
}

void MainWindow::fill_recent() {
  recent_->clear();
  for (const std::string& file : recent_files()) {
    auto* action = recent_->addAction(fontMetrics().elidedText(
        gui::shown(printable(file)).replace('&', "&&"), Qt::ElideMiddle, width() / 2));
    connect(action, &QAction::triggered, this, [this, file] { open({file}); });
  }
  if (recent_->isEmpty()) recent_->addAction("nothing was opened yet")->setEnabled(false);
}

void MainWindow::open_dialog() {
  const QStringList files = QFileDialog::getOpenFileNames(this, "Open runs or recordings");
  std::vector<std::string> names;
  for (const QString& file : files) names.push_back(file.toStdString());
  if (!names.empty()) open(names);
}

}  // namespace foregather::gui
