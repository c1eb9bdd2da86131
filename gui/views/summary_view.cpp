#include "gui/views/summary_view.h"

#include <QMouseEvent>
#include <QPainter>

#include "gui/models/navigation.h"

namespace foregather::gui {

SummaryView::SummaryView(QWidget* parent) : QWidget(parent) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName("Summary");
}

void SummaryView::set_document(std::shared_ptr<const Document> document) {
  painter_.reset();
  document_ = std::move(document);
  if (document_) painter_.emplace(*document_);
  update();
}

void SummaryView::set_theme(const Theme& theme) {
  theme_ = theme;
  update();
}

void SummaryView::set_message(const QString& message, bool is_error) {
  message_ = message;
  is_error_ = is_error;
  setAccessibleDescription(message);
  update();
}

void SummaryView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  if (painter_) return painter_->paint(painter, rect(), theme_);
  painter.fillRect(rect(), theme_.ground);
  painter.setFont(picture_font(14));
  painter.setPen(is_error_ ? theme_.alarm : theme_.faint);
  painter.drawText(rect().adjusted(40, 40, -40, -40), Qt::AlignCenter | Qt::TextWordWrap, message_);
}

const SummaryPainter::Place* SummaryView::place_at(QPointF point) const {
  if (!painter_) return nullptr;
  for (const SummaryPainter::Place& place : painter_->places())
    if (place.box.contains(point)) return &place;
  return nullptr;
}

void SummaryView::mouseMoveEvent(QMouseEvent* event) {
  setCursor(place_at(event->position()) == nullptr ? Qt::ArrowCursor : Qt::PointingHandCursor);
}

void SummaryView::mousePressEvent(QMouseEvent* event) {
  const SummaryPainter::Place* place = place_at(event->position());
  if (place == nullptr) return;
  if (place->is_badge) {
    if (on_badge) on_badge(painter_->badges()[place->index]);
  } else if (on_jump) {
    const Residuals& residuals = painter_->residuals();
    on_jump(span_of(residuals.row(residuals.shown()[place->index])));
  }
}

}  // namespace foregather::gui
