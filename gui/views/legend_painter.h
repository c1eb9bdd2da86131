// What colours and textures mean.
#pragma once

#include <QPainter>

#include "gui/views/ruler_painter.h"

namespace foregather::gui {

inline constexpr double kLegendLine = 18;

enum class LegendOf : std::uint8_t { timeline, curves, causes };

/// Swatches with words, causes of the sides shown; as many lines as the width needs. Returns the
/// height that was, or with a null painter would be, used.
double paint_legend(QPainter* painter, const QRectF& area, const Scene& scene, LegendOf what,
                    std::size_t pair);

}  // namespace foregather::gui
