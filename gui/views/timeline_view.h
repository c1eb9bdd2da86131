// The timeline as a widget: minimap, ruler, lanes, memory.
#pragma once

#include <QPixmap>
#include <QWidget>
#include <functional>
#include <memory>
#include <optional>

#include "gui/models/history.h"
#include "gui/models/navigation.h"
#include "gui/models/search.h"
#include "gui/views/ruler_painter.h"
#include "gui/views/timeline_painter.h"

namespace foregather::gui {

/// One widget of the size of its viewport. Lanes are painted into a pixmap that is kept until the
/// view changes; what follows the pointer is painted over it. Owns no data: a document and a view.
class TimelineView final : public QWidget {
 public:
  explicit TimelineView(QWidget* parent = nullptr);

  /// Shows another document from its first view on; none: an empty widget.
  void set_document(std::shared_ptr<const Document> document);
  /// Shows another version of the same: the view stays, but for what is no longer there.
  void replace_document(std::shared_ptr<const Document> document);
  void set_theme(const Theme& theme);
  void set_frame_time(bool shown) { shows_frame_time_ = shown; }

  const ViewState& view() const { return view_; }
  const TimelineLayout& rows() const { return rows_; }
  /// Milliseconds that the last painting of all lanes took.
  double frame_ms() const { return frame_ms_; }

  // What commands do. A range, an order of lanes or a choice of sides that is left can be come back
  // to.
  void show_range(TimeRange range, bool is_gesture = false);
  void zoom(double factor, std::optional<double> at_x = {});
  void pan(double share);
  /// Lanes up or down by a share of what fits.
  void scroll(double share);
  void go_back();
  void fit_selection();
  void select(std::optional<Span> span);
  void select_range(std::optional<TimeRange> range, std::vector<std::size_t> lanes);
  void select_visible();
  /// Where it is seen: its side is shown.
  void jump_to(const Span& span);
  void toggle_mark();
  void toggle_pin();
  /// Of the selection: up or down by one.
  void move_lane(int by);
  /// Changes options of the view by hand, then repaints.
  void change(const std::function<void(ViewState&)>& how);
  bool shows_memory() const { return shows_memory_; }
  void set_shows_memory(bool shown);
  /// All that it shows, at its size, but for what follows the pointer.
  void paint(QPainter& painter);

  std::function<void()> on_selection;                   ///< the selected span or range changed
  std::function<void(std::size_t pair, Ns)> on_memory;  ///< memory was clicked at a time

  // Where things lie, for tests too.
  QRectF minimap_area() const;
  QRectF ruler_area() const;
  QRectF lanes_area() const;
  QRectF memory_area() const;
  QRectF legend_area() const;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  bool event(QEvent* event) override;  ///< tool tips

 private:
  enum class Drag : std::uint8_t { none, range, pan, zoom, minimap };
  void refresh();
  std::optional<std::size_t> selected_lane() const;
  void repaint_lanes();
  void paint_minimap(QPainter& painter);
  QPixmap minimap_picture() const;
  void paint_marks(QPainter& painter);
  void set_scroll(double scroll);
  std::optional<Span> span_under(QPointF point) const;
  /// Of the lane whose name stands there; empty: none.
  QString name_under(QPointF point) const;
  /// Of those in sight.
  std::vector<std::size_t> lanes_between(double y, double other) const;
  Ns time_at(double x) const;
  std::size_t memory_pair() const;
  double memory_height() const;
  void paint_legends(QPainter& painter);

  std::shared_ptr<const Document> document_;
  ViewState view_;
  TimelineLayout rows_;
  History<ViewPlace> history_;
  Theme theme_ = Theme::light();
  TimelinePainter painter_;
  QPixmap minimap_;          ///< all of time; of another size, or null: to be painted
  QPixmap lanes_;            ///< ruler, lanes and memory
  bool is_painted_ = false;  ///< lanes_ shows the view as it is
  double legend_height_ = 0;
  bool shows_memory_ = true, shows_frame_time_ = false;
  double frame_ms_ = 0;
  Drag drag_ = Drag::none;
  QPointF pressed_, last_;
  bool has_moved_ = false;
};

}  // namespace foregather::gui
