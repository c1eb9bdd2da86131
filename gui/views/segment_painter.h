// Addresses over time.
#pragma once

#include <QPainter>
#include <optional>

#include "gui/models/segment_map.h"
#include "gui/views/ruler_painter.h"

namespace foregather::gui {

/// What of a map is shown: heights [low, high) of it, and which block is chosen.
struct SegmentScene {
  const SegmentMap& map;
  Bytes low = 0, high = 1;
  std::optional<std::size_t> chosen;
};

/// Held memory as a band, blocks in it: by cause, or in a map that knows none by name. Blocks that
/// are less than a pixel both ways are painted where none that is larger lies. Right of the gutter,
/// which names the bands. Linear in blocks.
void paint_segments(QPainter& painter, const QRectF& area, const Scene& scene,
                    const SegmentScene& segments);

/// The height of the map at a y of the area, and back.
Bytes height_at(const QRectF& area, const SegmentScene& segments, double y);
double y_of(const QRectF& area, const SegmentScene& segments, Bytes height);

}  // namespace foregather::gui
