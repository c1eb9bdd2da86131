// The first page as a picture.
#pragma once

#include <QPainter>

#include "gui/models/document.h"
#include "gui/models/summary.h"
#include "gui/views/theme.h"

namespace foregather::gui {

/// What is open, the five figures, badges, the largest residuals. Remembers where badges and rows
/// lie, so that a widget can make them buttons.
class SummaryPainter {
 public:
  explicit SummaryPainter(const Document& document);
  /// Returns the height that it takes with some residuals; what has no room is not painted.
  double paint(QPainter& painter, const QRectF& area, const Theme& theme);

  struct Place {
    QRectF box;
    bool is_badge = false;
    std::size_t index = 0;  ///< of badges(), or of residuals().shown()
  };
  /// Of the last paint().
  const std::vector<Place>& places() const { return places_; }
  const std::vector<Badge>& badges() const { return badges_; }
  const Residuals& residuals() const { return residuals_; }

 private:
  double paint_about(QPainter& painter, const QRectF& area, const Theme& theme);
  double paint_figures(QPainter& painter, const QRectF& area, const Theme& theme);
  double paint_badges(QPainter& painter, const QRectF& area, const Theme& theme);

  const Document& document_;
  std::array<Figure, 5> figures_;
  std::vector<Badge> badges_;
  Residuals residuals_;
  std::vector<Place> places_;
};

}  // namespace foregather::gui
