// Memory on the timeline's axis.
#pragma once

#include <QPainter>

#include "gui/views/ruler_painter.h"

namespace foregather::gui {

/// The memory of the pair into the rectangle: curves of both sides over each other, or, by cause,
/// stacks of each side below each other. The highest column of each pixel is shown, so that no peak
/// is lost. With the limit of the device, and a cross where it ran out.
void paint_memory(QPainter& painter, const QRectF& area, const Scene& scene, std::size_t pair);

/// Which causes these sides of the pair hold anywhere, for the legend.
std::vector<Cause> causes_of(const Document& document, std::size_t pair,
                             const std::array<bool, 2>& sides);
/// Has any other cause than unknown.
bool knows_causes(const Document& document, std::size_t pair, const std::array<bool, 2>& sides);

}  // namespace foregather::gui
