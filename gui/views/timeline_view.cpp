#include "gui/views/timeline_view.h"

#include <QElapsedTimer>
#include <algorithm>

#include "gui/views/fills.h"
#include "gui/views/legend_painter.h"
#include "gui/views/memory_painter.h"

namespace foregather::gui {
namespace {

constexpr double kMinimap = 22, kMemory = 150;

}  // namespace

TimelineView::TimelineView(QWidget* parent) : QWidget(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setAttribute(Qt::WA_OpaquePaintEvent);
  setMinimumSize(400, 200);
  setAccessibleName("Timeline");
}

void TimelineView::set_document(std::shared_ptr<const Document> document) {
  document_ = std::move(document);
  view_ = document_ ? first_view(document_->session, document_->lanes) : ViewState();
  history_ = {};
  painter_ = {};
  minimap_ = {};
  drag_ = Drag::none;
  refresh();
  if (on_selection) on_selection();
}

void TimelineView::replace_document(std::shared_ptr<const Document> document) {
  if (!document_ || !document) return set_document(std::move(document));
  const std::shared_ptr<const Document> old = document_;
  view_ = continued_view(view_, *old, *document);
  if (!have_same_lanes(*old, *document)) history_ = {};
  document_ = std::move(document);
  minimap_ = {};
  painter_ = {};
  drag_ = Drag::none;
  refresh();
  if (on_selection) on_selection();
}

void TimelineView::set_theme(const Theme& theme) {
  theme_ = theme;
  minimap_ = {};
  refresh();
}

void TimelineView::set_shows_memory(bool shown) {
  shows_memory_ = shown;
  refresh();
}

void TimelineView::refresh() {
  rows_ = document_ ? gui::layout(document_->lanes, view_) : TimelineLayout();
  legend_height_ = 0;
  if (document_) {
    const Scene scene{*document_, view_, theme_};
    const QRectF line(0, 0, width(), height());
    legend_height_ = paint_legend(nullptr, line, scene, LegendOf::timeline, 0);
    if (memory_height() > 0)
      legend_height_ +=
          paint_legend(nullptr, line, scene, view_.by_cause ? LegendOf::causes : LegendOf::curves,
                       memory_pair());
  }
  set_scroll(view_.scroll);
  is_painted_ = false;
  update();
}

void TimelineView::set_scroll(double scroll) {
  view_.scroll = std::clamp(scroll, 0.0, std::max(0.0, rows_.height - lanes_area().height()));
  is_painted_ = false;
  update();
}

QRectF TimelineView::minimap_area() const { return {0, 0, double(width()), kMinimap}; }
QRectF TimelineView::ruler_area() const { return {0, kMinimap, double(width()), kRulerHeight}; }
QRectF TimelineView::lanes_area() const {
  const double top = kMinimap + kRulerHeight;
  return {0, top, double(width()),
          std::max(1.0, height() - top - memory_height() - legend_height_)};
}
QRectF TimelineView::memory_area() const {
  return {0, height() - legend_height_ - memory_height(), double(width()), memory_height()};
}
QRectF TimelineView::legend_area() const {
  return {0, height() - legend_height_, double(width()), legend_height_};
}
double TimelineView::memory_height() const {
  if (!shows_memory_ || !document_ || !document_->has_memory()) return 0;
  const bool is_stacked_twice = view_.by_cause && document_->session.sides() > 1;
  return std::min(is_stacked_twice ? 2 * kMemory : kMemory, height() * 0.4);
}

std::size_t TimelineView::memory_pair() const {
  const auto has = [&](std::size_t pair) {
    return std::any_of(document_->memory[pair].begin(), document_->memory[pair].end(),
                       [](const auto& rank) { return rank && !rank->empty(); });
  };
  if (view_.selected)
    if (const auto place = document_->place_of(*view_.selected);
        place && has(document_->lanes[place->lane].pair))
      return document_->lanes[place->lane].pair;
  for (std::size_t pair = 0; pair < document_->memory.size(); ++pair)
    if (has(pair)) return pair;
  return 0;
}

void TimelineView::paint(QPainter& painter) {
  if (!document_) return painter.fillRect(rect(), theme_.ground);
  const Scene scene{*document_, view_, theme_};
  paint_minimap(painter);
  paint_ruler(painter, ruler_area(), scene);
  painter_.paint(painter, lanes_area(), scene, rows_);
  if (memory_height() > 0) paint_memory(painter, memory_area(), scene, memory_pair());
  paint_marks(painter);
  painter.fillRect(legend_area(), theme_.ground);
  paint_legends(painter);
}

void TimelineView::repaint_lanes() {
  QElapsedTimer timer;
  timer.start();
  const double ratio = devicePixelRatioF();
  // Kept from picture to picture: fresh memory costs more than what is painted into it.
  if (lanes_.size() != size() * ratio) lanes_ = QPixmap(size() * ratio);
  lanes_.setDevicePixelRatio(ratio);
  QPainter painter(&lanes_);
  paint(painter);
  painter.end();
  is_painted_ = true;
  frame_ms_ = static_cast<double>(timer.nsecsElapsed()) / 1e6;
}

// All of time.
QPixmap TimelineView::minimap_picture() const {
  ViewState all = view_;
  all.range = document_->session.extent();
  const QRectF area = minimap_area();
  const TimeAxis axis = axis_of(area, all);
  QPixmap picture(area.size().toSize() * devicePixelRatioF());
  picture.setDevicePixelRatio(devicePixelRatioF());
  picture.fill(theme_.band);
  QPainter painter(&picture);
  for (const Lane& lane : document_->lanes)
    for (std::size_t side = 0; side < 2; ++side) {
      if (lane.is_host || lane.sides[side].tracks.empty()) continue;
      Fills fills(painter, area.top() + 3 + 9 * static_cast<double>(side), 7);
      lane.sides[side].tracks[0].cells(all.range, 2 * axis.pixel(), [&](const Track::Cell& cell) {
        fills.add(x_of(area, axis, cell.begin), x_of(area, axis, cell.end),
                  theme_.side[side].rgb());
      });
    }
  return picture;
}

// With the part that is shown.
void TimelineView::paint_minimap(QPainter& painter) {
  const QRectF area = minimap_area();
  if (minimap_.size() != area.size().toSize() * devicePixelRatioF()) minimap_ = minimap_picture();
  ViewState all;
  all.range = document_->session.extent();
  const TimeAxis axis = axis_of(area, all);
  painter.drawPixmap(area.topLeft(), minimap_);
  const double left = x_of(area, axis, view_.range.begin),
               right = x_of(area, axis, view_.range.end);
  painter.fillRect(
      QRectF(area.left() + kGutter, area.top(), left - area.left() - kGutter, kMinimap),
      theme_.selection);
  painter.fillRect(QRectF(right, area.top(), area.right() - right, kMinimap), theme_.selection);
  painter.setPen(theme_.text);
  painter.setBrush(Qt::NoBrush);
  painter.drawRect(QRectF(left, area.top(), std::max(2.0, right - left) - 1, kMinimap - 1));
}

void TimelineView::paint_legends(QPainter& painter) {
  const Scene scene{*document_, view_, theme_};
  QRectF area = legend_area();
  if (memory_height() > 0)
    area.setTop(area.top() + paint_legend(&painter, area, scene,
                                          view_.by_cause ? LegendOf::causes : LegendOf::curves,
                                          memory_pair()));
  paint_legend(&painter, area, scene, LegendOf::timeline, 0);
}

void TimelineView::paint_marks(QPainter& painter) {
  const TimeAxis axis = axis_of(ruler_area(), view_);
  for (const Span& mark : view_.marks) {
    const TimeRange range = range_of(document_->session, mark);
    if (range.begin < view_.range.begin || range.begin > view_.range.end) continue;
    const double x = x_of(ruler_area(), axis, range.begin), y = ruler_area().bottom();
    painter.setPen(QPen(theme_.alarm, 1));
    painter.drawLine(QPointF(x, y), QPointF(x, lanes_area().bottom()));
    painter.setBrush(theme_.alarm);
    painter.drawPolygon(QPolygonF({QPointF(x, y), QPointF(x - 5, y - 8), QPointF(x + 5, y - 8)}));
  }
}

void TimelineView::paintEvent(QPaintEvent*) {
  if (!is_painted_) repaint_lanes();
  QPainter painter(this);
  painter.drawPixmap(0, 0, lanes_);
  if (!document_) return;
  if (drag_ == Drag::zoom && has_moved_) {
    const QRectF box(QPointF(std::min(pressed_.x(), last_.x()), lanes_area().top()),
                     QPointF(std::max(pressed_.x(), last_.x()), lanes_area().bottom()));
    painter.fillRect(box, theme_.selection);
  }
  if (shows_frame_time_) {
    painter.setFont(picture_font(11));
    painter.setPen(theme_.alarm);
    painter.drawText(ruler_area().adjusted(0, 0, -8, -4), Qt::AlignRight | Qt::AlignBottom,
                     QString("%1 ms").arg(frame_ms_, 0, 'f', 1));
  }
}

void TimelineView::resizeEvent(QResizeEvent*) { refresh(); }

Ns TimelineView::time_at(double x) const { return axis_of(lanes_area(), view_).time(x - kGutter); }

std::optional<Span> TimelineView::span_under(QPointF point) const {
  if (!document_ || !lanes_area().contains(point) || point.x() < kGutter) return std::nullopt;
  const Ns slack = 2 * axis_of(lanes_area(), view_).pixel();
  return span_at(rows_, document_->lanes, point.y() - lanes_area().top() + view_.scroll,
                 time_at(point.x()), slack);
}

QString TimelineView::name_under(QPointF point) const {
  if (!document_ || point.x() >= kGutter) return {};
  const auto lanes = lanes_between(point.y(), point.y());
  return lanes.empty() ? QString() : shown(document_->lanes[lanes.front()].label());
}

std::vector<std::size_t> TimelineView::lanes_between(double y, double other) const {
  const QRectF area = lanes_area();
  std::vector<std::size_t> lanes;
  if (std::max(y, other) < area.top() || std::min(y, other) >= area.bottom()) return lanes;
  const double low = std::max(std::min(y, other), area.top()) - area.top() + view_.scroll;
  const double high = std::min(std::max(y, other), area.bottom() - 1) - area.top() + view_.scroll;
  for (const LaneRow& row : rows_.rows)
    if (row.y <= high && row.y + row.height > low) lanes.push_back(row.lane);
  return lanes;
}

void TimelineView::show_range(TimeRange range, bool is_gesture) {
  if (!document_ || range == view_.range) return;
  history_.leave(view_.place(), is_gesture);
  view_.range = range;
  is_painted_ = false;
  update();
}

void TimelineView::zoom(double factor, std::optional<double> at_x) {
  if (!document_) return;
  const Ns around =
      at_x ? time_at(std::max(*at_x, kGutter)) : view_.range.begin + view_.range.length() / 2;
  show_range(zoomed(view_.range, factor, around, document_->session.extent()), at_x.has_value());
}

void TimelineView::pan(double share) {
  if (document_) show_range(panned(view_.range, share, document_->session.extent()), true);
}

void TimelineView::scroll(double share) {
  set_scroll(view_.scroll + share * lanes_area().height());
}

void TimelineView::go_back() {
  if (history_.empty()) return;
  static_cast<ViewPlace&>(view_) = history_.back();
  view_.range = clamped(view_.range, document_->session.extent());
  refresh();
}

void TimelineView::fit_selection() {
  if (view_.selection)
    show_range(*view_.selection);
  else if (view_.selected)
    show_range(range_around(*document_, *view_.selected));
}

void TimelineView::select(std::optional<Span> span) {
  view_.selected = span;
  if (span) view_.selection.reset();
  refresh();
  if (on_selection) on_selection();
}

void TimelineView::select_range(std::optional<TimeRange> range, std::vector<std::size_t> lanes) {
  view_.selection = range;
  view_.selected_lanes = std::move(lanes);
  if (range) view_.selected.reset();
  refresh();
  if (on_selection) on_selection();
}

void TimelineView::select_visible() {
  if (!document_) return;
  std::vector<std::size_t> lanes;
  for (const LaneRow& row : rows_.rows) lanes.push_back(row.lane);
  select_range(view_.range, std::move(lanes));
}

void TimelineView::jump_to(const Span& span) {
  if (!document_) return;
  if (!view_.show[span.side]) change([&](ViewState& view) { view.show[span.side] = true; });
  show_range(range_showing(*document_, span, view_.range));
  select(span);
  set_scroll(scroll_showing(*document_, rows_, span, view_.scroll, lanes_area().height()));
}

void TimelineView::toggle_mark() {
  if (!view_.selected) return;
  if (std::erase(view_.marks, *view_.selected) == 0) view_.marks.push_back(*view_.selected);
  refresh();
}

std::optional<std::size_t> TimelineView::selected_lane() const {
  if (!view_.selected) return std::nullopt;
  const auto place = document_->place_of(*view_.selected);
  return place ? std::optional(place->lane) : std::nullopt;
}

void TimelineView::toggle_pin() {
  if (const auto lane = selected_lane())
    change([lane](ViewState& view) { gui::toggle_pin(view, *lane); });
}

void TimelineView::move_lane(int by) {
  if (const auto lane = selected_lane())
    change([lane, by](ViewState& view) { gui::move_lane(view, *lane, by > 0); });
}

void TimelineView::change(const std::function<void(ViewState&)>& how) {
  const ViewPlace before = view_.place();
  how(view_);
  if (before != view_.place()) history_.leave(before, false);
  refresh();
}

}  // namespace foregather::gui
