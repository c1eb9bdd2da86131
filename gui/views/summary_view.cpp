#include "gui/views/summary_view.h"

#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <algorithm>
#include <cmath>

#include "gui/models/navigation.h"

namespace foregather::gui {

SummaryView::SummaryView(QWidget* parent) : QAbstractScrollArea(parent) {
  viewport()->setMouseTracking(true);
  setFrameShape(QFrame::NoFrame);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName("Summary");
}

void SummaryView::set_document(std::shared_ptr<const Document> document) {
  painter_.reset();
  current_.reset();
  document_ = std::move(document);
  if (document_) painter_.emplace(*document_);
  fit();
}

void SummaryView::set_theme(const Theme& theme) {
  theme_ = theme;
  viewport()->update();
}

void SummaryView::set_message(const QString& message, bool is_error) {
  message_ = message;
  is_error_ = is_error;
  setAccessibleDescription(message);
  viewport()->update();
}

// How much there is shows when it is painted.
void SummaryView::fit() {
  height_ = viewport()->height();
  if (painter_) {
    QPixmap nowhere(1, 1);
    QPainter painter(&nowhere);
    height_ = std::max(height_, painter_->paint(painter, viewport()->rect(), theme_));
  }
  verticalScrollBar()->setRange(
      0, std::max(0, static_cast<int>(std::ceil(height_)) - viewport()->height()));
  verticalScrollBar()->setPageStep(viewport()->height());
  verticalScrollBar()->setSingleStep(fontMetrics().lineSpacing());
  viewport()->update();
}

QRectF SummaryView::area() const {
  return {0, -double(verticalScrollBar()->value()), double(viewport()->width()), height_};
}

void SummaryView::resizeEvent(QResizeEvent*) { fit(); }

void SummaryView::paintEvent(QPaintEvent*) {
  QPainter painter(viewport());
  if (painter_) {
    painter_->paint(painter, area(), theme_);
    if (const SummaryPainter::Place* place = current(); place != nullptr && hasFocus()) {
      painter.setPen(QPen(theme_.text, 1, Qt::DotLine));
      painter.setBrush(Qt::NoBrush);
      painter.drawRect(place->box.adjusted(0, 0, -1, -1));
    }
    return;
  }
  painter.fillRect(viewport()->rect(), theme_.ground);
  painter.setFont(picture_font(14));
  painter.setPen(is_error_ ? theme_.alarm : theme_.faint);
  painter.drawText(viewport()->rect().adjusted(40, 40, -40, -40),
                   Qt::AlignCenter | Qt::TextWordWrap, message_);
}

QString SummaryView::csv() const {
  return document_ ? shown(figures_csv(document_->session)) : QString();
}

const SummaryPainter::Place* SummaryView::place_at(QPointF point) const {
  if (!painter_) return nullptr;
  for (const SummaryPainter::Place& place : painter_->places())
    if (place.box.contains(point)) return &place;
  return nullptr;
}

void SummaryView::mouseMoveEvent(QMouseEvent* event) {
  viewport()->setCursor(place_at(event->position()) == nullptr ? Qt::ArrowCursor
                                                               : Qt::PointingHandCursor);
}

void SummaryView::mousePressEvent(QMouseEvent* event) {
  if (const SummaryPainter::Place* place = place_at(event->position()); place != nullptr)
    follow(*place);
}

void SummaryView::keyPressEvent(QKeyEvent* event) {
  if (!painter_ || painter_->places().empty()) return QAbstractScrollArea::keyPressEvent(event);
  const std::size_t last = painter_->places().size() - 1;
  switch (event->key()) {
    case Qt::Key_Down:
    case Qt::Key_Right: return go_to(current_ ? std::min(*current_ + 1, last) : 0);
    case Qt::Key_Up:
    case Qt::Key_Left: return go_to(current_ ? *current_ - std::min<std::size_t>(*current_, 1) : 0);
    case Qt::Key_Home: return go_to(0);
    case Qt::Key_End: return go_to(last);
    case Qt::Key_Space:
    case Qt::Key_Return:
    case Qt::Key_Enter:
      if (const SummaryPainter::Place* place = current(); place != nullptr) follow(*place);
      return;
    default: QAbstractScrollArea::keyPressEvent(event);
  }
}

// Where it is seen.
void SummaryView::go_to(std::size_t place) {
  current_ = place;
  const QRectF box = painter_->places()[place].box;
  const int above = static_cast<int>(std::floor(box.top())),
            below = static_cast<int>(std::ceil(box.bottom())) - viewport()->height();
  QScrollBar* const bar = verticalScrollBar();
  if (above < 0 || below > 0) bar->setValue(bar->value() + (above < 0 ? above : below));
  viewport()->update();
}

const SummaryPainter::Place* SummaryView::current() const {
  if (!painter_ || !current_ || *current_ >= painter_->places().size()) return nullptr;
  return &painter_->places()[*current_];
}

void SummaryView::follow(const SummaryPainter::Place& place) {
  if (place.is_badge) {
    if (on_badge) on_badge(painter_->badges()[place.index]);
  } else if (on_jump) {
    const Residuals& residuals = painter_->residuals();
    on_jump(span_of(residuals.row(residuals.shown()[place.index])));
  }
}

}  // namespace foregather::gui
