// What the window is made of, and which command does what.
#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QProgressBar>
#include <QPushButton>
#include <QShortcut>
#include <QStatusBar>
#include <QTabWidget>
#include <QTableView>
#include <QToolBar>
#include <QToolButton>
#include <algorithm>
#include <vector>

#include "gui/app/main_window.h"
#include "gui/views/details_panel.h"
#include "gui/views/eliding_box.h"
#include "gui/views/lists.h"
#include "gui/views/residual_view.h"
#include "gui/views/segment_view.h"
#include "gui/views/summary_view.h"
#include "gui/views/sweep_view.h"
#include "gui/views/timeline_view.h"
#include "gui/views/what_if_panel.h"

namespace foregather::gui {

void MainWindow::build() {
  summary_ = new SummaryView;
  timeline_ = new TimelineView;
  residuals_ = new ResidualView;
  sweep_ = new SweepView;
  segments_ = new SegmentView;
  details_ = new DetailsPanel;
  pages_ = new QTabWidget;
  pages_->setDocumentMode(true);
  pages_->addTab(summary_, "Summary");
  pages_->addTab(timeline_, "Timeline");
  pages_->addTab(residuals_, "Residuals");
  pages_->setTabVisible(pages_->addTab(sweep_, "Sweep"), false);
  pages_->setTabVisible(pages_->addTab(segments_, "Segments"), false);
  setCentralWidget(pages_);
  connect(
      pages_, &QTabWidget::tabBarClicked, this, [this] { focus_page(); }, Qt::QueuedConnection);

  auto* dock = new QDockWidget("Details");
  dock->setObjectName("details");
  dock->setWidget(details_);
  dock->setMinimumWidth(380);
  dock->setFeatures(QDockWidget::DockWidgetMovable);
  addDockWidget(Qt::RightDockWidgetArea, dock);
  knobs_ = new WhatIfPanel;
  knobs_dock_ = new QDockWidget("What if");
  knobs_dock_->setObjectName("what-if");
  knobs_dock_->setWidget(knobs_);
  knobs_dock_->setFeatures(QDockWidget::DockWidgetMovable);
  addDockWidget(Qt::RightDockWidgetArea, knobs_dock_);
  tabifyDockWidget(dock, knobs_dock_);
  dock->raise();
  setTabPosition(Qt::RightDockWidgetArea, QTabWidget::North);
  for (QDockWidget* each : {dock, knobs_dock_}) each->hide();
  front_dock_ = dock;
  connect(this, &QMainWindow::tabifiedDockWidgetActivated, this,
          [this](QDockWidget* activated) { front_dock_ = activated; });
  // Hiding one activates the other.
  connect(pages_, &QTabWidget::currentChanged, this, [this, dock, front = front_dock_]() mutable {
    const bool is_there = pages_->currentWidget() == timeline_;
    if (!is_there && !dock->isHidden()) front = front_dock_;
    for (QDockWidget* each : {dock, knobs_dock_}) each->setVisible(is_there);
    if (is_there) front->raise();
  });

  auto* bar = addToolBar("Runs and search");
  bar->setObjectName("runs");
  bar->setMovable(false);
  auto* open_files = new QToolButton;
  open_files->setText("Open…");
  open_files->setPopupMode(QToolButton::MenuButtonPopup);
  open_files->setMenu(recent_ = new QMenu(this));
  recent_->setToolTipsVisible(true);
  bar->addWidget(open_files);
  connect(open_files, &QToolButton::clicked, this, [this] { run(CommandId::open_files); });
  connect(recent_, &QMenu::aboutToShow, this, [this] { fill_recent(); });
  for (std::size_t side = 0; side < 2; ++side) {
    boxes_[side] = new ElidingBox;
    boxes_[side]->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    boxes_[side]->setMinimumContentsLength(20);
    boxes_[side]->setAccessibleName(side == 0 ? "Run above" : "Run below");
    box_actions_[side] = bar->addWidget(boxes_[side]);
    connect(boxes_[side], &QComboBox::currentIndexChanged, this, [this, side](int index) {
      shown_[side] = boxes_[side]->itemData(index).toInt();
      load();
    });
  }
  search_ = new QLineEdit;
  search_->setPlaceholderText("Search ops ( / )");
  search_->setClearButtonEnabled(true);
  search_->setMaximumWidth(320);
  search_count_ = new QLabel;
  connect(search_, &QLineEdit::returnPressed, this, [this] {
    const bool back = QApplication::keyboardModifiers() & Qt::ShiftModifier;
    run(back ? CommandId::previous_result : CommandId::next_result);
  });
  bar->addWidget(search_);
  bar->addWidget(search_count_);

  message_ = new QLabel;
  progress_ = new QProgressBar;
  progress_->setMaximumWidth(180);
  progress_->setVisible(false);
  cancel_ = new QPushButton("Cancel");
  cancel_->setVisible(false);
  difference_ = new QLabel;
  statusBar()->addWidget(message_, 1);
  statusBar()->addPermanentWidget(difference_);
  statusBar()->addPermanentWidget(progress_);
  statusBar()->addPermanentWidget(cancel_);

  connect(cancel_, &QPushButton::clicked, this, [this] { cancel_loading(); });
  summary_->on_jump = residuals_->on_jump = [this](const Span& span) { jump(span); };
  summary_->on_badge = [this](const Badge& badge) {
    list_dialog(this, shown(badge.text), badge.lines)->show();
  };
  sweep_->on_load = [this](const SweepPlot& plot, const run::SweepPoint& point) {
    show_point(plot, point);
  };
  timeline_->on_selection = [this] { show_selection(); };
  timeline_->on_memory = [this](std::size_t pair, Ns time) {
    details_->show_holders(*document_, pair, time);
  };
  show_selection();
  fill_boxes();
}

// Its keys work at once.
void MainWindow::focus_page() {
  QWidget* const page = pages_->currentWidget();
  if (page == segments_)
    segments_->plane().setFocus();
  else if (page == residuals_)
    residuals_->rows().setFocus();
  else
    page->setFocus();
}

void MainWindow::bind(CommandId command, std::function<void()> what) {
  handlers_[command] = std::move(what);
  const CommandInfo& about = info(command);
  // Letters move what is looked at; in a line of text they are letters. Enter is the focused
  // widget's.
  std::vector<QWidget*> homes{this};
  if (about.group == "Moving") homes = {timeline_, &segments_->plane()};
  if (about.group == "Selecting" || command == CommandId::next_result ||
      command == CommandId::previous_result)
    homes = {timeline_};
  if (command == CommandId::clear_selection) homes.push_back(&segments_->plane());
  if (command == CommandId::go_back) homes.push_back(&residuals_->rows());
  for (QWidget* home : homes)
    for (const QString& keys : shown(about.keys).split("; ")) {
      auto* shortcut = new QShortcut(QKeySequence(keys), home);
      shortcut->setContext(home == this ? Qt::WindowShortcut : Qt::WidgetWithChildrenShortcut);
      connect(shortcut, &QShortcut::activated, this, [this, command] { run(command); });
    }
}

// To Qt Ctrl+E is the end of a line of text, and Ctrl+K deletes what is behind the cursor.
bool MainWindow::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() != QEvent::ShortcutOverride) return false;
  const auto* widget = qobject_cast<QWidget*>(watched);
  const QKeyCombination keys = static_cast<QKeyEvent*>(event)->keyCombination();
  if (widget == nullptr || widget->window() != this ||
      !(keys.keyboardModifiers() & Qt::ControlModifier))
    return false;
  const auto own = findChildren<QShortcut*>(Qt::FindDirectChildrenOnly);
  if (std::ranges::none_of(
          own, [&](const QShortcut* each) { return each->key() == QKeySequence(keys); }))
    return false;
  event->ignore();
  return true;
}

void MainWindow::run(CommandId command) {
  if (const auto found = handlers_.find(command); found != handlers_.end()) found->second();
}

void MainWindow::bind_commands() {
  using Id = CommandId;
  bind(Id::open_files, [this] { open_dialog(); });
  bind(Id::open_recent, [this] {
    fill_recent();
    recent_->popup(mapToGlobal(QPoint(8, 32)));
  });
  bind(Id::export_picture, [this] { export_dialog(); });
  bind(Id::copy_table, [this] { copy_table(); });
  bind(Id::close_window, [this] { close(); });
  bind(Id::show_summary, [this] {
    pages_->setCurrentWidget(summary_);
    focus_page();
  });
  bind(Id::show_timeline, [this] {
    pages_->setCurrentWidget(timeline_);
    timeline_->setFocus();
  });
  bind(Id::show_residuals, [this] {
    pages_->setCurrentWidget(residuals_);
    focus_page();
  });
  bind(Id::show_sweep, [this] {
    if (sweep_->plot()) pages_->setCurrentWidget(sweep_);
  });
  bind(Id::show_segments, [this] {
    if (!segments_->has_maps()) return;
    pages_->setCurrentWidget(segments_);
    segments_->plane().setFocus();
  });
  const auto bind_view = [this](Id command, std::function<void(ViewState&)> how) {
    bind(command, [this, how = std::move(how)] {
      pages_->setCurrentWidget(timeline_);  // where it is seen
      timeline_->change(how);
    });
  };
  bind_view(Id::cycle_sides, [this](ViewState& view) {
    if (!document_ || document_->session.sides() < 2) return;
    // Both, the first alone, the second alone.
    view.show = view.show[0] && view.show[1] ? std::array{true, false}
                : view.show[0]               ? std::array{false, true}
                                             : std::array{true, true};
  });
  bind_view(Id::toggle_overlay, [](ViewState& view) { view.overlay = !view.overlay; });
  bind_view(Id::toggle_causes, [](ViewState& view) { view.by_cause = !view.by_cause; });
  bind_view(Id::toggle_path, [](ViewState& view) { view.path = !view.path; });
  bind(Id::toggle_memory, [this] {
    pages_->setCurrentWidget(timeline_);
    timeline_->set_shows_memory(!timeline_->shows_memory());
  });
  bind(Id::toggle_theme, [this] { set_dark(!theme_.dark); });
  bind(Id::search, [this] { start_search(); });
  bind(Id::next_result, [this] { step_result(1); });
  bind(Id::previous_result, [this] { step_result(-1); });
  bind(Id::palette,
       [this] { palette_dialog(this, [this](CommandId chosen) { run(chosen); })->show(); });
  bind(Id::help, [this] { help_dialog(this)->show(); });
  bind_moving();
  bind_selecting();
  bind_what_if();
}

// Of the page that is shown.
void MainWindow::bind_moving() {
  using Id = CommandId;
  constexpr double kZoom = 0.7, kPan = 0.15, kScroll = 0.4;
  const auto bind_both = [this](Id command, std::function<void(TimelineView&)> timeline,
                                std::function<void(SegmentPlane&)> segments) {
    bind(command, [this, timeline = std::move(timeline), segments = std::move(segments)] {
      if (pages_->currentWidget() == segments_)
        segments(segments_->plane());
      else
        timeline(*timeline_);
    });
  };
  const auto zoom = [&](Id command, double factor) {
    bind_both(
        command, [factor](TimelineView& view) { view.zoom(factor); },
        [factor](SegmentPlane& plane) { plane.zoom_times(factor); });
  };
  const auto pan = [&](Id command, double share) {
    bind_both(
        command, [share](TimelineView& view) { view.pan(share); },
        [share](SegmentPlane& plane) { plane.pan(share); });
  };
  const auto scroll = [&](Id command, double share) {
    bind_both(
        command, [share](TimelineView& view) { view.scroll(share); },
        [share](SegmentPlane& plane) { plane.scroll(-share); });
  };
  const auto zoom_heights = [&](Id command, double factor) {
    bind_both(
        command, [](TimelineView&) {},
        [factor](SegmentPlane& plane) { plane.zoom_heights(factor); });
  };
  zoom(Id::zoom_in, kZoom);
  zoom(Id::zoom_out, 1 / kZoom);
  pan(Id::pan_left, -kPan);
  pan(Id::pan_right, kPan);
  scroll(Id::scroll_up, -kScroll);
  scroll(Id::scroll_down, kScroll);
  zoom_heights(Id::zoom_heights_in, kZoom);
  zoom_heights(Id::zoom_heights_out, 1 / kZoom);
  bind_both(Id::fit_selection, &TimelineView::fit_selection, &SegmentPlane::fit_chosen);
  bind_both(
      Id::fit_all,
      [this](TimelineView& view) {
        if (document_) view.show_range(document_->session.extent());
      },
      &SegmentPlane::fit_all);
  bind(Id::go_back, [this] {
    const QWidget* const page = pages_->currentWidget();
    if (page == residuals_)
      residuals_->go_back();
    else if (page == segments_)
      segments_->plane().go_back();
    else
      timeline_->go_back();
  });
}

void MainWindow::bind_selecting() {
  using Id = CommandId;
  const auto with_selected = [this](auto&& what) {
    return [this, what] {
      const auto& selected = timeline_->view().selected;
      if (!document_ || !selected) return;
      if (const std::optional<Span> to = what(*document_, *selected)) timeline_->jump_to(*to);
    };
  };
  bind(Id::next_residual, [this] { step_residual(1); });
  bind(Id::previous_residual, [this] { step_residual(-1); });
  bind(Id::next_neighbour, with_selected([](const Document& document, const Span& span) {
         return neighbour(document, span, true);
       }));
  bind(Id::previous_neighbour, with_selected([](const Document& document, const Span& span) {
         return neighbour(document, span, false);
       }));
  bind(Id::follow_back, with_selected([](const Document& document, const Span& span) {
         return followed(document, span, false);
       }));
  bind(Id::follow_forward, with_selected([](const Document& document, const Span& span) {
         return followed(document, span, true);
       }));
  bind(Id::select_all, [this] { timeline_->select_visible(); });
  bind(Id::range_of_selection, [this] {
    const auto& selected = timeline_->view().selected;
    if (!document_ || !selected) return;
    const auto place = document_->place_of(*selected);
    TimeRange range = range_of(document_->session, *selected);
    range.end = std::max(range.end, range.begin + 1);
    if (place) timeline_->select_range(range, {place->lane});
  });
  bind(Id::clear_selection, [this] {
    if (pages_->currentWidget() == segments_) return segments_->plane().choose_none();
    timeline_->change([](ViewState& view) {
      view.selection.reset();
      view.cursor.reset();
    });
    timeline_->select(std::nullopt);
  });
  bind(Id::mark, [this] { timeline_->toggle_mark(); });
  bind(Id::pin_lane, [this] { timeline_->toggle_pin(); });
  bind(Id::lane_up, [this] { timeline_->move_lane(-1); });
  bind(Id::lane_down, [this] { timeline_->move_lane(1); });
}

}  // namespace foregather::gui
