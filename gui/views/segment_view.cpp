#include "gui/views/segment_view.h"

#include <QHBoxLayout>
#include <QMouseEvent>
#include <QPainter>
#include <QVBoxLayout>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "core/base/csv.h"
#include "core/base/printable.h"
#include "gui/views/eliding_box.h"
#include "gui/views/legend_painter.h"
#include "gui/views/memory_painter.h"

namespace foregather::gui {
namespace {

constexpr double kNotch = 120, kZoom = 0.8, kClickSlack = 3;

}  // namespace

SegmentPlane::SegmentPlane(QWidget* parent) : QWidget(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setAttribute(Qt::WA_OpaquePaintEvent);
  setAccessibleName("Segments");
}

void SegmentPlane::set_map(std::shared_ptr<const Document> document, std::optional<SegmentMap> map,
                           std::size_t pair) {
  document_ = std::move(document);
  map_ = std::move(map);
  pair_ = pair;
  chosen_.reset();
  history_ = {};
  if (map_) place_ = {map_->extent(), 0, all_heights().end};
  changed();
}

void SegmentPlane::set_theme(const Theme& theme) {
  theme_ = theme;
  changed();
}

void SegmentPlane::changed() {
  picture_ = {};
  legend_height_ = paint_legend_of(nullptr, rect());
  update();
}

// Where no cause is known blocks have colours by name.
double SegmentPlane::paint_legend_of(QPainter* painter, const QRectF& area) const {
  if (!map_ || !map_->knows_causes()) return 0;
  ViewState view;
  view.show = {map_->side() == 0, map_->side() == 1};
  return paint_legend(painter, area, {*document_, view, theme_}, LegendOf::causes, pair_);
}

QRectF SegmentPlane::area() const {
  return {0, kRulerHeight, double(width()),
          std::max(1.0, height() - kRulerHeight - legend_height_)};
}

TimeAxis SegmentPlane::axis() const {
  ViewState view;
  view.range = place_.range;
  return axis_of(area(), view);
}

TimeRange SegmentPlane::all_heights() const { return {0, std::max<Bytes>(1, map_->height())}; }

QPointF SegmentPlane::place(Ns time, Bytes height) const {
  return {x_of(area(), axis(), time), y_of(area(), segments(), height)};
}

void SegmentPlane::go_to(SegmentPlace place, bool is_gesture) {
  place.range = clamped(place.range, map_->extent());
  const TimeRange heights = clamped({place.low, place.high}, all_heights());
  place.low = heights.begin;
  place.high = heights.end;
  if (place == place_) return;
  history_.leave(place_, is_gesture);
  place_ = place;
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
  ViewState view;
  view.range = place_.range;
  const Scene scene{*document_, view, theme_};
  paint_ruler(painter, {0, 0, double(width()), kRulerHeight}, scene);
  paint_segments(painter, area(), scene, segments());
  paint_legend_of(&painter, {0, area().bottom(), double(width()), legend_height_});
}

void SegmentPlane::resizeEvent(QResizeEvent*) { changed(); }

void SegmentPlane::zoom_times(double factor, std::optional<double> x) {
  if (!map_) return;
  const double middle = kGutter + (width() - kGutter) / 2;
  SegmentPlace next = place_;
  const Ns around = axis().time(std::max(x.value_or(middle), kGutter) - kGutter);
  next.range = zoomed(next.range, factor, around, map_->extent());
  go_to(next, x.has_value());
}

void SegmentPlane::zoom_heights(double factor, std::optional<double> y) {
  if (!map_) return;
  SegmentPlace next = place_;
  const Bytes around = height_at(area(), segments(), y.value_or(area().center().y()));
  const TimeRange heights = zoomed({next.low, next.high}, factor, around, all_heights());
  next.low = heights.begin;
  next.high = heights.end;
  go_to(next, y.has_value());
}

SegmentPlace SegmentPlane::moved_by(Ns time, Bytes height) const {
  SegmentPlace next = place_;
  next.range = moved(next.range, time, map_->extent());
  const TimeRange heights = moved({next.low, next.high}, height, all_heights());
  next.low = heights.begin;
  next.high = heights.end;
  return next;
}

void SegmentPlane::pan(double share) {
  if (!map_) return;
  SegmentPlace next = place_;
  next.range = panned(next.range, share, map_->extent());
  go_to(next, true);
}

void SegmentPlane::scroll(double share) {
  if (!map_) return;
  const auto step = static_cast<Bytes>(share * static_cast<double>(place_.high - place_.low));
  go_to(moved_by(0, step != 0 ? step : share > 0 ? 1 : -1), true);
}

void SegmentPlane::fit_all() {
  if (map_) go_to({map_->extent(), 0, all_heights().end});
}

void SegmentPlane::fit_chosen() {
  if (!map_ || !chosen_) return;
  const SegmentMap::Block& block = map_->blocks()[*chosen_];
  const Ns time = std::max<Ns>(block.time.length() / 2, 1);
  const Bytes height = std::max<Bytes>(block.bytes / 2, 1);
  go_to({{block.time.begin - time, block.time.end + time},
         block.at - height,
         block.at + block.bytes + height});
}

void SegmentPlane::go_back() {
  if (history_.empty()) return;
  place_ = history_.back();
  changed();
}

void SegmentPlane::choose_none() {
  chosen_.reset();
  changed();
  if (on_choice) on_choice();
}

void SegmentPlane::wheelEvent(QWheelEvent* event) {
  if (!map_) return;
  event->accept();
  const QPoint angle = event->angleDelta();
  const double notches = (angle.y() != 0 ? angle.y() : angle.x()) / kNotch;
  if (event->modifiers() & Qt::ControlModifier)
    return zoom_times(std::pow(kZoom, notches), event->position().x());
  if (event->modifiers() & Qt::ShiftModifier || angle.y() == 0) return pan(-0.1 * notches);
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
  const Bytes by = height_at(area(), segments(), last_.y()) - height_at(area(), segments(), at.y());
  go_to(moved_by(axis().time(last_.x()) - axis().time(at.x()), by), true);
  last_ = at;
}

void SegmentPlane::mouseReleaseEvent(QMouseEvent* event) {
  if (!map_ || has_moved_ || event->position().x() < kGutter) return;
  chosen_ = map_->block_at(axis().time(event->position().x() - kGutter),
                           height_at(area(), segments(), event->position().y()));
  changed();
  if (on_choice) on_choice();
}

SegmentView::SegmentView(QWidget* parent) : QWidget(parent) {
  choice_ = new ElidingBox;
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
  plane_->set_map(nullptr, std::nullopt, 0);
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
  details_->setText("\n");
  plane_->set_map(document_, SegmentMap(document_->session, place % 2, *rank), place / 2);
}

QString SegmentView::csv() const {
  if (!plane_->chosen()) return {};
  std::string out = "name,value\n";
  for (const auto& [what, value] : plane_->map()->details(document_->session, *plane_->chosen()))
    out += csv_cell(what) + "," + csv_cell(value) + "\n";
  return shown(out);
}

void SegmentView::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (!plane_->map()) choose(choice_->currentIndex());
}

}  // namespace foregather::gui
