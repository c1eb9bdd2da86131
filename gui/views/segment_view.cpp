#include "gui/views/segment_view.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QVBoxLayout>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "core/base/printable.h"

namespace foregather::gui {
namespace {

constexpr double kNotch = 120, kZoom = 0.8, kStep = 0.15, kClickSlack = 3;

}  // namespace

SegmentPlane::SegmentPlane(QWidget* parent) : QWidget(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setAttribute(Qt::WA_OpaquePaintEvent);
  setAccessibleName("Segments");
}

void SegmentPlane::set_map(std::shared_ptr<const Document> document,
                           std::optional<SegmentMap> map) {
  document_ = std::move(document);
  map_ = std::move(map);
  fit();
}

void SegmentPlane::fit() {
  chosen_.reset();
  if (map_) {
    view_.range = map_->extent();
    low_ = 0;
    high_ = std::max<Bytes>(1, map_->height());
  }
  changed();
}

void SegmentPlane::set_theme(const Theme& theme) {
  theme_ = theme;
  changed();
}

void SegmentPlane::changed() {
  picture_ = {};
  update();
}

QRectF SegmentPlane::area() const {
  return {0, kRulerHeight, double(width()), std::max(1.0, height() - kRulerHeight)};
}

QPointF SegmentPlane::place(Ns time, Bytes height) const {
  return {x_of(area(), axis_of(area(), view_), time), y_of(area(), segments(), height)};
}

void SegmentPlane::show_range(TimeRange range) {
  if (!map_) return;
  view_.range = clamped(range, map_->extent());
  changed();
}

void SegmentPlane::paintEvent(QPaintEvent*) {
  if (picture_.isNull()) {
    picture_ = QPixmap(size() * devicePixelRatioF());
    picture_.setDevicePixelRatio(devicePixelRatioF());
    QPainter own(&picture_);
    paint(own);
  }
  QPainter(this).drawPixmap(0, 0, picture_);
}

void SegmentPlane::paint(QPainter& painter) const {
  painter.fillRect(rect(), theme_.ground);
  if (!map_) return;
  const Scene scene{*document_, view_, theme_};
  paint_ruler(painter, {0, 0, double(width()), kRulerHeight}, scene);
  paint_segments(painter, area(), scene, segments());
}

void SegmentPlane::resizeEvent(QResizeEvent*) { changed(); }

void SegmentPlane::zoom_times(double factor, double x) {
  const Ns around = axis_of(area(), view_).time(std::max(x, kGutter) - kGutter);
  show_range(zoomed(view_.range, factor, around, map_->extent()));
}

void SegmentPlane::zoom_heights(double factor, double y) {
  const TimeRange heights = zoomed({low_, high_}, factor, height_at(area(), segments(), y),
                                   {0, std::max<Bytes>(1, map_->height())});
  low_ = heights.begin;
  high_ = heights.end;
  changed();
}

void SegmentPlane::move_heights(Bytes by) {
  const TimeRange heights = moved({low_, high_}, by, {0, std::max<Bytes>(1, map_->height())});
  low_ = heights.begin;
  high_ = heights.end;
  changed();
}

void SegmentPlane::wheelEvent(QWheelEvent* event) {
  if (!map_) return;
  event->accept();
  const QPoint angle = event->angleDelta();
  const double notches = (angle.y() != 0 ? angle.y() : angle.x()) / kNotch;
  if (event->modifiers() & Qt::ControlModifier)
    return zoom_times(std::pow(kZoom, notches), event->position().x());
  if (event->modifiers() & Qt::ShiftModifier || angle.y() == 0)
    return show_range(panned(view_.range, -0.1 * notches, map_->extent()));
  zoom_heights(std::pow(kZoom, notches), event->position().y());
}

void SegmentPlane::mousePressEvent(QMouseEvent* event) {
  pressed_ = last_ = event->position();
  has_moved_ = false;
}

void SegmentPlane::mouseMoveEvent(QMouseEvent* event) {
  if (!map_ || !(event->buttons() & Qt::LeftButton)) return;
  const QPointF at = event->position();
  has_moved_ = has_moved_ || (at - pressed_).manhattanLength() > kClickSlack;
  if (!has_moved_) return;
  const TimeAxis axis = axis_of(area(), view_);
  const Bytes by = height_at(area(), segments(), last_.y()) - height_at(area(), segments(), at.y());
  show_range(moved(view_.range, axis.time(last_.x()) - axis.time(at.x()), map_->extent()));
  move_heights(by);
  last_ = at;
}

void SegmentPlane::mouseReleaseEvent(QMouseEvent* event) {
  if (!map_ || has_moved_ || event->position().x() < kGutter) return;
  chosen_ = map_->block_at(axis_of(area(), view_).time(event->position().x() - kGutter),
                           height_at(area(), segments(), event->position().y()));
  changed();
  if (on_choice) on_choice();
}

void SegmentPlane::keyPressEvent(QKeyEvent* event) {
  if (!map_) return QWidget::keyPressEvent(event);
  const double middle = kGutter + (width() - kGutter) / 2;
  const Bytes step =
      std::max<Bytes>(1, static_cast<Bytes>(kStep * static_cast<double>(high_ - low_)));
  switch (event->key()) {
    case Qt::Key_W: return zoom_times(kZoom, middle);
    case Qt::Key_S: return zoom_times(1 / kZoom, middle);
    case Qt::Key_A:
    case Qt::Key_Left: return show_range(panned(view_.range, -kStep, map_->extent()));
    case Qt::Key_D:
    case Qt::Key_Right: return show_range(panned(view_.range, kStep, map_->extent()));
    case Qt::Key_Up: return move_heights(step);
    case Qt::Key_Down: return move_heights(-step);
    case Qt::Key_PageUp: return zoom_heights(kZoom, area().center().y());
    case Qt::Key_PageDown: return zoom_heights(1 / kZoom, area().center().y());
    case Qt::Key_F:
    case Qt::Key_Home: return fit();
    default: QWidget::keyPressEvent(event);
  }
}

SegmentView::SegmentView(QWidget* parent) : QWidget(parent) {
  choice_ = new QComboBox;
  choice_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  choice_->setMinimumContentsLength(30);
  choice_->setAccessibleName("Rank");
  plane_ = new SegmentPlane;
  details_ = new QLabel;
  details_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  details_->setMinimumHeight(2 * fontMetrics().lineSpacing());
  details_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  auto* line = new QHBoxLayout;
  line->addWidget(choice_);
  line->addStretch(1);
  auto* all = new QVBoxLayout(this);
  all->addLayout(line);
  all->addWidget(plane_, 1);
  all->addWidget(details_);
  connect(choice_, &QComboBox::currentIndexChanged, this, [this](int index) { choose(index); });
  plane_->on_choice = [this] {
    QStringList parts;
    if (plane_->chosen())
      for (const auto& [what, value] :
           plane_->map()->details(document_->session, *plane_->chosen()))
        parts << shown(what) + ": " + shown(printable(value));
    // Two lines: who, and how much and when.
    const auto half = std::min<qsizetype>(parts.size(), 3);
    details_->setText(parts.mid(0, half).join("    ") + "\n" + parts.mid(half).join("    "));
  };
}

void SegmentView::set_document(std::shared_ptr<const Document> document) {
  document_ = std::move(document);
  plane_->set_map(nullptr, std::nullopt);
  details_->setText("\n");
  const QSignalBlocker quiet(choice_);
  choice_->clear();
  if (!document_) return;
  const Session& session = document_->session;
  for (std::size_t p = 0; p < session.pairs().size(); ++p)
    for (std::size_t side = 0; side < session.sides(); ++side) {
      const auto& rank = session.pairs()[p].sides[side];
      if (!rank || !has_addresses(session.run(side), rank->rank_class)) continue;
      choice_->addItem(QString("%1: %2, rank %3")
                           .arg(QChar(session.letter(side)))
                           .arg(shown(printable(session.run(side).about.name)))
                           .arg(rank->rank),
                       static_cast<int>(2 * p + side));
    }
  if (isVisible()) choose(choice_->currentIndex());
}

void SegmentView::choose(int index) {
  if (index < 0) return;
  const auto place = static_cast<std::size_t>(choice_->itemData(index).toInt());
  const auto& rank = document_->session.pairs()[place / 2].sides[place % 2];
  plane_->set_map(document_, SegmentMap(document_->session, place % 2, *rank));
}

void SegmentView::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (!plane_->map()) choose(choice_->currentIndex());
}

}  // namespace foregather::gui
