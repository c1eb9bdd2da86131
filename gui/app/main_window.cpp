#include "gui/app/main_window.h"

#include <QApplication>
#include <QClipboard>
#include <QCloseEvent>
#include <QComboBox>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QMimeData>
#include <QProgressBar>
#include <QPushButton>
#include <QStatusBar>
#include <QTabWidget>
#include <algorithm>

#include "core/base/printable.h"
#include "core/base/text.h"
#include "gui/app/load.h"
#include "gui/app/palette.h"
#include "gui/views/details_panel.h"
#include "gui/views/lists.h"
#include "gui/views/picture.h"
#include "gui/views/recent_list.h"
#include "gui/views/residual_view.h"
#include "gui/views/segment_view.h"
#include "gui/views/summary_view.h"
#include "gui/views/sweep_view.h"
#include "gui/views/timeline_view.h"
#include "tasks/any_run.h"
#include "tasks/sweep_rows.h"

namespace foregather::gui {
namespace {

const char* const kWelcome =
    "Open a run database, a recording or a workload: Ctrl+O, or drop files here.\n"
    "Two files lie over each other: first the prediction, then the measurement.\n\n"
    "? shows all keys.";

// Its last `names` folders and file.
std::string_view last_of(std::string_view path, int names) {
  std::size_t slash = path.size();
  for (; names > 0 && slash != path.npos && slash > 0; --names) slash = path.rfind('/', slash - 1);
  return names > 0 || slash == path.npos ? path : path.substr(slash + 1);
}

// As much of each path as tells it from the others.
std::vector<std::string> short_paths(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    int parts = 1;
    const auto is_alike = [&](const std::string& other) {
      return last_of(other, parts) == last_of(path, parts);
    };
    while (last_of(path, parts) != path && std::count_if(paths.begin(), paths.end(), is_alike) > 1)
      ++parts;
    names.emplace_back(last_of(path, parts));
  }
  return names;
}

}  // namespace

MainWindow::MainWindow()
    : post_(post_to(this)),
      loader_(std::make_unique<Loader>(load_run, post_)),
      resimulation_(std::make_unique<LatestJob>()),
      reading_(std::make_unique<LatestJob>()) {
  setWindowTitle("Foregather");
  setAcceptDrops(true);
  resize(1280, 720);
  build();
  bind_commands();
  set_dark(system_is_dark());
  summary_->set_message(kWelcome, false);
}

MainWindow::~MainWindow() = default;

void MainWindow::set_dark(bool dark) {
  theme_ = dark ? Theme::night() : Theme::light();
  use_palette(theme_);
  summary_->set_theme(theme_);
  timeline_->set_theme(theme_);
  residuals_->set_theme(theme_);
  sweep_->set_theme(theme_);
  segments_->set_theme(theme_);
}

void MainWindow::open(const std::vector<std::string>& all) {
  remember_files(all);
  std::vector<std::string> files;
  for (const std::string& file : all)
    if (SweepPlot::is_sweep(file))
      open_sweep(file);
    else
      files.push_back(file);
  std::vector<std::string> found;
  std::vector<Error> unread;
  for (const std::string& file : files)
    if (const auto runs = tasks::runs_in({file}))
      found.insert(found.end(), runs->begin(), runs->end());
    else
      unread.push_back(runs.error());
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
  progress_->setValue(0);
  std::vector<OpenRun> known = runs_;
  std::erase_if(known, [&](const OpenRun& run) {
    return std::find(anew.begin(), anew.end(), run.location) != anew.end();
  });
  loader_->start(
      locations_, std::move(known), std::move(shown),
      [this](int percent, const std::string& what) {
        progress_->setValue(percent);
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

void MainWindow::fail(const Error& error) {
  cancel_loading();
  say({error});
}

void MainWindow::set_document(std::shared_ptr<const Document> document) {
  show_document(std::move(document), false);
  fill_boxes();
  reset_what_if();
}

void MainWindow::show_document(std::shared_ptr<const Document> document, bool keep_view) {
  results_.clear();
  result_.reset();
  residual_.reset();
  searched_.clear();
  search_count_->clear();
  // Views let go of the old document before it may go.
  const std::shared_ptr<const Document> old = std::exchange(document_, std::move(document));
  summary_->set_document(document_);
  residuals_->set_document(document_);
  segments_->set_document(document_);
  pages_->setTabVisible(pages_->indexOf(segments_), segments_->has_maps());
  if (keep_view)
    timeline_->replace_document(document_);
  else
    timeline_->set_document(document_);
  message_->setText(
      gui::shown(format_count(static_cast<std::int64_t>(
          document_->session.run(0).ops.size() +
          (document_->session.sides() > 1 ? document_->session.run(1).ops.size() : 0)))) +
      " ops");
  setWindowTitle(gui::shown(document_->session.open_run(0).location) + " – Foregather");
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

void MainWindow::show_selection() { details_->show_selection(document_.get(), timeline_->view()); }

void MainWindow::jump(const Span& span) {
  pages_->setCurrentWidget(timeline_);
  timeline_->setFocus();
  timeline_->jump_to(span);
}

// In the order of the table, whatever it is sorted by.
void MainWindow::step_residual(int by) {
  const auto& residuals = residuals_->table().residuals();
  if (!residuals || residuals->shown().empty()) return;
  const auto count = static_cast<std::ptrdiff_t>(residuals->shown().size());
  const std::ptrdiff_t at =
      residual_ ? static_cast<std::ptrdiff_t>(*residual_) + by : (by > 0 ? 0 : count - 1);
  residual_ = static_cast<std::size_t>((at + count) % count);
  jump(span_of(residuals->row(residuals->shown()[*residual_])));
}

void MainWindow::start_search() {
  pages_->setCurrentWidget(timeline_);
  search_->setFocus();
  search_->selectAll();
}

void MainWindow::step_result(int by) {
  if (!document_) return;
  const std::string text = search_->text().toStdString();
  if (text != searched_) {
    results_ = search(document_->session, text);
    searched_ = text;
    result_.reset();
  }
  if (results_.empty()) {
    search_count_->setText(text.empty() ? "" : "nothing found");
    return;
  }
  const auto count = static_cast<std::ptrdiff_t>(results_.size());
  const std::ptrdiff_t at =
      result_ ? static_cast<std::ptrdiff_t>(*result_) + by : (by > 0 ? 0 : count - 1);
  result_ = static_cast<std::size_t>((at + count) % count);
  search_count_->setText(QString("%1 of %2").arg(*result_ + 1).arg(count));
  jump(results_[*result_]);
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

void MainWindow::export_dialog() {
  if (!document_ && pages_->currentWidget() != sweep_) return;
  const QString file = QFileDialog::getSaveFileName(this, "Save the picture", "picture.png",
                                                    "Pictures (*.png *.svg)");
  if (file.isEmpty()) return;
  const Status saved = save_page(file.toStdString());
  message_->setText(saved ? "saved " + file : gui::shown(printable(saved.error().text())));
}

Status MainWindow::save_page(const std::string& path) const {
  const QWidget* const page = pages_->currentWidget();
  if (page == sweep_)
    return save_picture(path, sweep_->size(), devicePixelRatioF(),
                        [&](QPainter& painter) { sweep_->paint(painter); });
  if (page == segments_)
    return save_picture(path, segments_->plane().size(), devicePixelRatioF(),
                        [&](QPainter& painter) { segments_->plane().paint(painter); });
  const PictureOf what = page == summary_     ? PictureOf::summary
                         : page == residuals_ ? PictureOf::residuals
                                              : PictureOf::timeline;
  return save_picture(path, timeline_->size(), devicePixelRatioF(), [&](QPainter& painter) {
    paint_picture(painter, timeline_->size(), {*document_, timeline_->view(), theme_}, what);
  });
}

void MainWindow::copy_table() {
  const QWidget* page = pages_->currentWidget();
  if (page == sweep_) {
    const SweepPlot& plot = *sweep_->plot();
    std::string text = tasks::csv_header(plot.info());
    for (const run::SweepPoint& point : plot.points()) text += tasks::csv_line(point);
    QApplication::clipboard()->setText(gui::shown(text));
    message_->setText("copied the points of the sweep");
    return;
  }
  const bool is_residuals =
      page == residuals_ || (page == summary_ && document_ && document_->session.sides() > 1);
  QApplication::clipboard()->setText(is_residuals ? residuals_->csv() : details_->csv());
  message_->setText(is_residuals ? "copied the residuals" : "copied the details");
}

QString MainWindow::status() const { return message_->text(); }
QString MainWindow::difference() const { return difference_->text(); }

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  std::vector<std::string> files;
  for (const QUrl& url : event->mimeData()->urls())
    if (url.isLocalFile()) files.push_back(url.toLocalFile().toStdString());
  if (!files.empty()) open(files);
}

void MainWindow::closeEvent(QCloseEvent* event) {
  loader_->cancel();
  event->accept();
}

}  // namespace foregather::gui
