// The page of addresses.
#pragma once

#include <QComboBox>
#include <QLabel>
#include <QPixmap>
#include <QWidget>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "gui/models/document.h"
#include "gui/models/history.h"
#include "gui/views/segment_painter.h"

namespace foregather::gui {

/// Where a map is looked at.
struct SegmentPlace {
  TimeRange range{0, 1};
  Bytes low = 0, high = 1;  ///< heights [low, high) of the map
  friend bool operator==(const SegmentPlace&, const SegmentPlace&) = default;
};

/// The map of one rank of one run, zoomed both ways: the wheel changes heights, with Ctrl times; a
/// drag moves; a click says which allocation it is. Keys are the window's.
class SegmentPlane final : public QWidget {
 public:
  explicit SegmentPlane(QWidget* parent = nullptr);
  /// Of a rank of that pair.
  void set_map(std::shared_ptr<const Document> document, std::optional<SegmentMap> map,
               std::size_t pair);
  void set_theme(const Theme& theme);
  const std::optional<SegmentMap>& map() const { return map_; }
  const std::shared_ptr<const Document>& document() const { return document_; }

  TimeRange range() const { return place_.range; }
  /// Heights [low, high) of the map.
  std::pair<Bytes, Bytes> heights() const { return {place_.low, place_.high}; }
  // What commands do; each does nothing without a map. Around the middle unless a place is given.
  void zoom_times(double factor, std::optional<double> x = {});
  void zoom_heights(double factor, std::optional<double> y = {});
  void pan(double share);
  void scroll(double share);  ///< upwards
  void fit_all();
  void fit_chosen();
  void go_back();
  void choose_none();
  std::optional<std::size_t> chosen() const { return chosen_; }
  /// Where a point of the map lies, for tests.
  QPointF place(Ns time, Bytes height) const;
  void paint(QPainter& painter) const;

  std::function<void()> on_choice;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;

 private:
  QRectF area() const;
  double paint_legend_of(QPainter* painter, const QRectF& area) const;
  TimeAxis axis() const;
  TimeRange all_heights() const;
  SegmentScene segments() const { return {*map_, place_.low, place_.high, chosen_}; }
  /// Clamped to what there is.
  void go_to(SegmentPlace place, bool is_gesture = false);
  SegmentPlace moved_by(Ns time, Bytes height) const;
  void changed();

  std::shared_ptr<const Document> document_;
  std::optional<SegmentMap> map_;
  std::size_t pair_ = 0;
  double legend_height_ = 0;
  SegmentPlace place_;
  History<SegmentPlace> history_;
  std::optional<std::size_t> chosen_;
  Theme theme_ = Theme::light();
  QPixmap picture_;  ///< null: to be painted
  QPointF pressed_, last_;
  bool has_moved_ = false;
};

/// The plane with a choice of runs and ranks, and what is known of the chosen allocation. A map is
/// made when it is first shown.
class SegmentView final : public QWidget {
 public:
  explicit SegmentView(QWidget* parent = nullptr);
  void set_document(std::shared_ptr<const Document> document);
  void set_theme(const Theme& theme) { plane_->set_theme(theme); }
  /// Does any rank say where its memory lies?
  bool has_maps() const { return choice_->count() > 0; }
  SegmentPlane& plane() { return *plane_; }
  QComboBox& choice() { return *choice_; }
  /// What details() says as a table; empty: nothing is chosen.
  QString csv() const;
  QString details() const { return details_->text(); }

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void choose(int index);

  std::shared_ptr<const Document> document_;
  QComboBox* choice_;
  SegmentPlane* plane_;
  QLabel* details_;
};

}  // namespace foregather::gui
