#include "gui/views/sweep_view.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

#include "core/base/printable.h"
#include "gui/views/sweep_painter.h"
#include "gui/views/text_fit.h"

namespace foregather::gui {
namespace {

constexpr double kReach = 12;

}  // namespace

SweepView::SweepView(QWidget* parent) : QWidget(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setAttribute(Qt::WA_OpaquePaintEvent);
  setAccessibleName("Sweep");
}

void SweepView::set_plot(std::shared_ptr<const SweepPlot> plot) {
  plot_ = std::move(plot);
  current_.reset();
  dots_ = {};
  update();
}

void SweepView::set_theme(const Theme& theme) {
  theme_ = theme;
  dots_ = {};
  update();
}

QRectF SweepView::plot_area() const {
  return {0, 0, std::max(200.0, width() - kSweepDetails), double(height())};
}

SweepScale SweepView::scale() const { return sweep_scale(*plot_, plot_area()); }

void SweepView::paint(QPainter& painter) const {
  painter.fillRect(rect(), theme_.ground);
  if (!plot_) return;
  paint_sweep(painter, plot_area(), *plot_, theme_);
  paint_choice(painter);
}

void SweepView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  if (!plot_) return painter.fillRect(rect(), theme_.ground);
  const QRectF area = plot_area();
  if (dots_.isNull()) {
    dots_ = QPixmap(area.size().toSize() * devicePixelRatioF());
    dots_.setDevicePixelRatio(devicePixelRatioF());
    QPainter own(&dots_);
    paint_sweep(own, area, *plot_, theme_);
  }
  painter.drawPixmap(0, 0, dots_);
  paint_choice(painter);
}

void SweepView::paint_choice(QPainter& painter) const {
  const QRectF area = plot_area();
  paint_sweep_details(painter, {area.right(), 0, kSweepDetails, double(height())}, *plot_, current_,
                      theme_);
  if (current_) return paint_chosen_dot(painter, area, *plot_, *current_, theme_);
  painter.setFont(picture_font(12));
  painter.setPen(theme_.faint);
  const QRectF line(area.right() + 12, height() - 52, kSweepDetails - 24, 19);
  draw_fitting(painter, line, Qt::AlignLeft | Qt::AlignVCenter,
               "Click a point, or go with the arrows:");
  draw_fitting(painter, line.translated(0, 19), Qt::AlignLeft | Qt::AlignVCenter,
               "Enter shows its schedule");
}

void SweepView::resizeEvent(QResizeEvent*) { dots_ = {}; }

void SweepView::mousePressEvent(QMouseEvent* event) {
  if (!plot_ || event->button() != Qt::LeftButton) return;
  const auto dot = dot_at(*plot_, scale(), event->position().x(), event->position().y(), kReach);
  if (!dot) return;
  go_to(*dot);
  load();
}

void SweepView::mouseMoveEvent(QMouseEvent* event) {
  if (!plot_) return;
  const auto dot = dot_at(*plot_, scale(), event->position().x(), event->position().y(), kReach);
  const QString text =
      dot ? shown(printable(plot_->title(plot_->points()[plot_->dots()[*dot].point]))) : QString();
  QToolTip::showText(event->globalPosition().toPoint(), text, this);
}

void SweepView::keyPressEvent(QKeyEvent* event) {
  if (!plot_ || plot_->dots().empty()) return QWidget::keyPressEvent(event);
  const std::size_t last = plot_->dots().size() - 1;
  switch (event->key()) {
    case Qt::Key_Right: return go_to(current_ ? std::min(*current_ + 1, last) : 0);
    case Qt::Key_Left: return go_to(current_ ? *current_ - std::min<std::size_t>(*current_, 1) : 0);
    case Qt::Key_Home: return go_to(0);
    case Qt::Key_End: return go_to(last);
    case Qt::Key_Up: return go_along_front(-1);
    case Qt::Key_Down: return go_along_front(1);
    case Qt::Key_Return:
    case Qt::Key_Enter: return load();
    default: QWidget::keyPressEvent(event);
  }
}

void SweepView::go_to(std::size_t dot) {
  current_ = dot;
  update();
}

// Upwards is more memory, which is less time.
void SweepView::go_along_front(int by) {
  const auto& front = plot_->front();
  if (!current_) return go_to(front.front());
  const auto at = std::lower_bound(front.begin(), front.end(), *current_) - front.begin();
  const bool is_on = at < std::ssize(front) && front[static_cast<std::size_t>(at)] == *current_;
  const std::ptrdiff_t next = by > 0 && !is_on ? at : at + by;
  go_to(
      front[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(next, 0, std::ssize(front) - 1))]);
}

void SweepView::load() {
  if (current_ && on_load) on_load(*plot_, plot_->points()[plot_->dots()[*current_].point]);
}

}  // namespace foregather::gui
