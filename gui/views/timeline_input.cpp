// What the pointer does to the timeline.
#include <QHelpEvent>
#include <QMouseEvent>
#include <QToolTip>
#include <QWheelEvent>
#include <cmath>

#include "core/base/text.h"
#include "gui/models/details.h"
#include "gui/views/timeline_view.h"

namespace foregather::gui {
namespace {

constexpr double kClick = 3;         // pixels within which a drag is a click
constexpr double kWheelNotch = 120;  // Qt's eighths of a degree of one notch
constexpr double kZoomOfNotch = 0.8;

}  // namespace

void TimelineView::mousePressEvent(QMouseEvent* event) {
  if (!document_) return;
  pressed_ = last_ = event->position();
  has_moved_ = false;
  if (minimap_area().contains(pressed_))
    drag_ = Drag::minimap;
  else if (event->button() == Qt::MiddleButton)
    drag_ = Drag::zoom;
  else if (event->button() == Qt::LeftButton)
    drag_ = event->modifiers() & Qt::ShiftModifier ? Drag::pan : Drag::range;
  if (drag_ == Drag::minimap) mouseMoveEvent(event);
}

void TimelineView::mouseMoveEvent(QMouseEvent* event) {
  if (!document_) return;
  const QPointF at = event->position();
  has_moved_ = has_moved_ || std::abs(at.x() - pressed_.x()) > kClick;
  const Ns moved_by = time_at(last_.x()) - time_at(at.x());
  last_ = at;
  switch (drag_) {
    case Drag::none: return;
    case Drag::pan:
      return show_range(moved(view_.range, moved_by, document_->session.extent()), true);
    case Drag::zoom: return update();
    case Drag::minimap: {
      ViewState all;
      all.range = document_->session.extent();
      const Ns middle = axis_of(minimap_area(), all).time(at.x() - kGutter);
      const Ns by = middle - view_.range.begin - view_.range.length() / 2;
      return show_range(moved(view_.range, by, all.range), true);
    }
    case Drag::range:
      if (!has_moved_) return;
      const Ns a = time_at(std::max(pressed_.x(), kGutter)), b = time_at(std::max(at.x(), kGutter));
      view_.selection = TimeRange{std::min(a, b), std::max(std::max(a, b), std::min(a, b) + 1)};
      view_.selected_lanes = lanes_between(pressed_.y(), at.y());
      view_.selected.reset();
      is_painted_ = false;
      update();
  }
}

void TimelineView::mouseReleaseEvent(QMouseEvent* event) {
  if (document_) mouseMoveEvent(event);  // the last one may lie elsewhere
  const Drag drag = std::exchange(drag_, Drag::none);
  if (!document_) return;
  const QPointF at = event->position();
  if (drag == Drag::zoom && has_moved_) {
    const Ns a = time_at(std::max(pressed_.x(), kGutter)), b = time_at(std::max(at.x(), kGutter));
    return show_range(clamped({std::min(a, b), std::max(a, b)}, document_->session.extent()));
  }
  if (drag != Drag::range) return;
  if (has_moved_) return select_range(view_.selection, view_.selected_lanes);
  if (memory_area().contains(at) && at.x() >= kGutter) {
    change([&](ViewState& view) { view.cursor = time_at(at.x()); });
    if (on_memory) on_memory(memory_pair(), *view_.cursor);
    return;
  }
  view_.selection.reset();
  select(span_under(at));
}

void TimelineView::mouseDoubleClickEvent(QMouseEvent* event) {
  const auto span = span_under(event->position());
  if (!span) return;
  select(span);
  fit_selection();
}

void TimelineView::wheelEvent(QWheelEvent* event) {
  if (!document_) return;
  const QPoint angle = event->angleDelta();
  const double notches = (angle.y() != 0 ? angle.y() : angle.x()) / kWheelNotch;
  event->accept();
  if (event->modifiers() & Qt::ControlModifier)
    return zoom(std::pow(kZoomOfNotch, notches), event->position().x());
  if (event->modifiers() & Qt::ShiftModifier) return pan(-0.1 * notches);
  if (angle.x() != 0) pan(-0.1 * angle.x() / kWheelNotch);  // touch pads go both ways at once
  if (angle.y() != 0) set_scroll(view_.scroll - 48 * notches);
}

bool TimelineView::event(QEvent* event) {
  if (event->type() == QEvent::NativeGesture) {
    const auto* gesture = static_cast<QNativeGestureEvent*>(event);
    if (gesture->gestureType() != Qt::ZoomNativeGesture) return QWidget::event(event);
    if (document_) zoom(std::exp(-gesture->value()), gesture->position().x());
    return true;
  }
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const auto span = span_under(help->pos());
  if (!span) {
    QToolTip::showText(help->globalPos(), name_under(help->pos()), this);  // none hides it
    return true;
  }
  const TimeRange range = range_of(document_->session, *span);
  QToolTip::showText(help->globalPos(),
                     shown(full_name(document_->session, *span)) + "\n" +
                         shown(format_time(range.length())) + " from " +
                         shown(format_position(range.begin)),
                     this);
  return true;
}

}  // namespace foregather::gui
