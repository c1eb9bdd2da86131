#include "gui/views/segment_painter.h"

#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "gui/views/text_fit.h"

namespace foregather::gui {
namespace {

constexpr double kLeastLabel = 13, kLeastName = 40;

QColor block_color(const Theme& theme, const run::BindingRecord& binding, bool by_cause) {
  if (by_cause) return theme.cause[static_cast<std::size_t>(binding.cause)];
  // Of the palette without its last, the grey of what is not known.
  const std::size_t row = binding.name ? binding.name.row() : 0;
  return theme.cause[row * 7 % (theme.cause.size() - 1)];
}

void paint_band_names(QPainter& painter, const QRectF& area, const Scene& scene,
                      const SegmentScene& segments) {
  painter.setFont(picture_font(11));
  double free_below = area.bottom();
  for (const SegmentMap::Band& band : segments.map.bands()) {
    const double top = std::max(area.top(), y_of(area, segments, band.at + band.bytes));
    const double bottom = std::min(area.bottom(), y_of(area, segments, band.at));
    const double middle = (top + bottom) / 2;
    if (bottom - top < kLeastLabel || middle + kLeastLabel / 2 > free_below) continue;
    free_below = middle - kLeastLabel / 2;
    painter.setPen(scene.theme.text);
    draw_fitting(painter, {area.left() + 8, middle - 8, scene.view.gutter - 96, 16},
                 Qt::AlignLeft | Qt::AlignVCenter, shown(band.name), Qt::ElideMiddle);
    painter.setPen(scene.theme.faint);
    draw_fitting(painter, {area.left() + scene.view.gutter - 86, middle - 8, 80, 16},
                 Qt::AlignRight | Qt::AlignVCenter, shown(format_bytes(band.bytes)));
  }
}

}  // namespace

Bytes height_at(const QRectF& area, const SegmentScene& segments, double y) {
  const double share = (area.bottom() - y) / area.height();
  return segments.low +
         static_cast<Bytes>(std::floor(share * static_cast<double>(segments.high - segments.low)));
}

double y_of(const QRectF& area, const SegmentScene& segments, Bytes height) {
  return area.bottom() - area.height() * static_cast<double>(height - segments.low) /
                             static_cast<double>(segments.high - segments.low);
}

void paint_segments(QPainter& painter, const QRectF& area, const Scene& scene,
                    const SegmentScene& segments) {
  painter.save();
  painter.setClipRect(area);
  painter.fillRect(area, scene.theme.ground);
  paint_band_names(painter, area, scene, segments);
  const TimeAxis axis = axis_of(area, scene.view);
  painter.setClipRect(QRectF(area.left() + scene.view.gutter, area.top(),
                             area.width() - scene.view.gutter, area.height()));
  const auto box = [&](TimeRange time, Bytes at, Bytes bytes) {
    const double left = x_of(area, axis, time.begin), right = x_of(area, axis, time.end);
    const double bottom = y_of(area, segments, at), top = y_of(area, segments, at + bytes);
    return QRectF(left, top, right - left, bottom - top);
  };
  const auto is_shown = [&](TimeRange time, Bytes at, Bytes bytes) {
    return time.end > axis.range.begin && time.begin < axis.range.end && at < segments.high &&
           at + bytes > segments.low;
  };
  for (const SegmentMap::Held& held : segments.map.held())
    if (is_shown(held.time, held.at, held.bytes))
      painter.fillRect(box(held.time, held.at, held.bytes), scene.theme.line);
  const run::RunView run = scene.document.session.run(segments.map.side());
  const auto paint_blocks = [&](bool small) {
    for (std::size_t b = 0; b < segments.map.blocks().size(); ++b) {
      const SegmentMap::Block& block = segments.map.blocks()[b];
      if (!is_shown(block.time, block.at, block.bytes)) continue;
      QRectF place = box(block.time, block.at, block.bytes);
      if ((place.width() < 1 || place.height() < 1) != small) continue;
      place.setSize({std::max(1.0, place.width()), std::max(1.0, place.height())});
      const QColor color =
          block_color(scene.theme, run.bindings[block.binding], segments.map.knows_causes());
      // A line tells neighbours apart.
      const bool is_tall = place.height() > 3 && place.width() > 3;
      painter.fillRect(is_tall ? place.adjusted(0, 1, -1, 0) : place, color);
      const QRectF seen = place.intersected(area);
      if (seen.height() >= kLeastLabel && seen.width() >= kLeastName) {
        const run::BindingRecord& binding = run.bindings[block.binding];
        painter.setPen(Theme::text_on(color));
        draw_fitting(painter, seen.adjusted(4, 0, -4, 0), Qt::AlignLeft | Qt::AlignVCenter,
                     shown(binding.name ? run.text_of(binding.name) : std::string_view()));
      }
    }
  };
  paint_blocks(true);
  paint_blocks(false);
  if (segments.chosen) {
    const SegmentMap::Block& block = segments.map.blocks()[*segments.chosen];
    painter.setPen(QPen(scene.theme.text, 2));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(box(block.time, block.at, block.bytes));
  }
  painter.restore();
}

}  // namespace foregather::gui
