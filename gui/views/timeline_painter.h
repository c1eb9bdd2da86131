// The lanes.
#pragma once

#include <QPainter>
#include <vector>

#include "gui/models/timeline_layout.h"
#include "gui/views/ruler_painter.h"
#include "gui/views/text_fit.h"

namespace foregather::gui {

/// Paints lanes into rectangles, the same on the screen and into files. The cost follows the pixels
/// of the visible lanes, not the number of ops. Keeps measured labels between calls.
class TimelinePainter {
 public:
  /// The lanes that `area` shows when they are scrolled by the view's `scroll`, without the ruler.
  void paint(QPainter& painter, const QRectF& area, const Scene& scene,
             const TimelineLayout& layout);

 private:
  void paint_row(QPainter& painter, const QRectF& area, const Scene& scene, const LaneRow& row);
  void paint_header(QPainter& painter, const QRectF& area, const Scene& scene,
                    const HeaderRow& header);
  void paint_side(QPainter& painter, const QRectF& area, const Scene& scene, const LaneRow& row,
                  std::size_t side);
  void paint_span(QPainter& painter, const QRectF& box, const Scene& scene, const Lane& lane,
                  const Span& span);
  void paint_strip(QPainter& painter, const QRectF& area, const Scene& scene, const LaneRow& row);
  void paint_links(QPainter& painter, const QRectF& area, const Scene& scene, const LaneRow& row);
  void paint_flows(QPainter& painter, const QRectF& area, const Scene& scene,
                   const TimelineLayout& layout);

  void paint_labels(QPainter& painter, const QRectF& area, const Scene& scene);

  // Names are painted last, so that no arrow crosses them.
  struct Label {
    QRectF box;  ///< of the text
    QString text;
    QColor ground;
    double opacity = 1;
    bool covers = false;  ///< a texture
  };
  std::vector<Label> painted_;  ///< of the picture under way
  LabelCache labels_;
};

}  // namespace foregather::gui
