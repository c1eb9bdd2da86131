#include "gui/app/main_window.h"

#include <QApplication>
#include <QClipboard>
#include <QCloseEvent>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QLabel>
#include <QLineEdit>
#include <QMimeData>
#include <QStatusBar>
#include <QTabWidget>

#include "core/base/printable.h"
#include "core/base/text.h"
#include "gui/app/load.h"
#include "gui/app/palette.h"
#include "gui/views/details_panel.h"
#include "gui/views/lists.h"
#include "gui/views/picture.h"
#include "gui/views/residual_view.h"
#include "gui/views/segment_view.h"
#include "gui/views/summary_view.h"
#include "gui/views/sweep_view.h"
#include "gui/views/timeline_view.h"
#include "tasks/sweep_rows.h"

namespace foregather::gui {
namespace {

const char* const kWelcome =
    "Open a run database, a recording or a workload: Ctrl+O, or drop files here.\n"
    "Two files lie over each other: first the prediction, then the measurement.\n\n"
    "? shows all keys.";

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
  QApplication::instance()->installEventFilter(this);
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
  const std::size_t ops =
      document_->session.run(0).ops.size() +
      (document_->session.sides() > 1 ? document_->session.run(1).ops.size() : 0);
  message_->setText(gui::shown(format_count(static_cast<std::int64_t>(ops))) +
                    (ops == 1 ? " op" : " ops"));
  setWindowTitle(gui::shown(document_->session.open_run(0).location) + " – Foregather");
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
  const QWidget* const saved = page == segments_ ? &segments_->plane() : page;
  const QSizeF size = page == summary_ ? summary_->whole() : QSizeF(saved->size());
  return save_picture(path, size, devicePixelRatioF(), [&](QPainter& painter) {
    if (page == sweep_) return sweep_->paint(painter);
    if (page == segments_) return segments_->plane().paint(painter);
    if (page == timeline_) return timeline_->paint(painter);
    const Scene scene{*document_, timeline_->view(), theme_};
    if (page == residuals_)
      return paint_picture(painter, size, scene, *residuals_->table().residuals());
    paint_picture(painter, size, scene, PictureOf::summary);
  });
}

// What is in sight.
void MainWindow::copy_table() {
  const QWidget* page = pages_->currentWidget();
  const auto copy = [this](const QString& text, const char* what, const char* lacks) {
    if (text.isEmpty()) return message_->setText(QString("nothing to copy: ") + lacks);
    QApplication::clipboard()->setText(text);
    message_->setText(QString("copied ") + what);
  };
  if (page == sweep_) {
    const SweepPlot& plot = *sweep_->plot();
    std::string text = tasks::csv_header(plot.info());
    for (const run::SweepPoint& point : plot.points()) text += tasks::csv_line(point);
    return copy(gui::shown(text), "the points of the sweep", "");
  }
  if (!document_) return copy({}, "", "nothing is open");
  const bool has_residuals = document_->residuals.all() > 0;
  if (page == segments_) return copy(segments_->csv(), "the allocation", "no allocation is chosen");
  if (page == residuals_ || (page == summary_ && has_residuals))
    return copy(has_residuals ? residuals_->csv() : QString(), "the residuals",
                "there are no residuals");
  if (page == summary_) return copy(summary_->csv(), "the figures", "");
  copy(details_->csv(), "the details", "nothing is selected");
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
