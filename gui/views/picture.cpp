#include "gui/views/picture.h"

#include <QBuffer>
#include <QImage>
#include <QSvgGenerator>
#include <algorithm>

#include "core/base/file.h"
#include "gui/models/segment_map.h"
#include "gui/models/timeline_layout.h"
#include "gui/views/legend_painter.h"
#include "gui/views/memory_painter.h"
#include "gui/views/residual_painter.h"
#include "gui/views/segment_painter.h"
#include "gui/views/summary_painter.h"
#include "gui/views/sweep_painter.h"
#include "gui/views/text_fit.h"
#include "gui/views/timeline_painter.h"

namespace foregather::gui {
namespace {

constexpr double kTitle = 26, kMapLine = 18, kMemoryBand = 130, kMemoryLeast = 110,
                 kSegmentsLeast = 150;

QString title_of(const Document& document) {
  QString text;
  for (std::size_t side = 0; side < document.session.sides(); ++side) {
    const OpenRun& open = document.session.open_run(side);
    text += QString("%1%2: %3 %4")
                .arg(side == 0 ? "" : "  |  ", QString(QChar(document.session.letter(side))),
                     shown(name(open.run->about.kind)), shown(open.location));
  }
  return text;
}

void note(QPainter& painter, const QRectF& line, const Theme& theme, const QString& text) {
  painter.setFont(picture_font(10));
  painter.setPen(theme.faint);
  draw_fitting(painter, line.adjusted(8, 0, -8, 0), Qt::AlignRight | Qt::AlignVCenter, text);
}

void paint_title(QPainter& painter, const QRectF& line, const Scene& scene) {
  painter.setFont(picture_font(12));
  painter.setPen(scene.theme.text);
  draw_fitting(painter, line.adjusted(8, 0, -8, 0), Qt::AlignLeft | Qt::AlignVCenter,
               title_of(scene.document), Qt::ElideMiddle);
}

double paint_legend_below(QPainter& painter, QRectF& rest, const Scene& scene, LegendOf what,
                          std::size_t pair) {
  const double height = paint_legend(nullptr, rest, scene, what, pair);
  paint_legend(&painter, {rest.left(), rest.bottom() - height, rest.width(), height}, scene, what,
               pair);
  rest.setBottom(rest.bottom() - height);
  return height;
}

// Pairs of ranks whose lanes are shown, and those that have none: snapshots of memory.
std::vector<std::size_t> shown_pairs(const Scene& scene) {
  std::vector<std::size_t> pairs;
  const auto add = [&](std::size_t pair) {
    if (std::find(pairs.begin(), pairs.end(), pair) == pairs.end()) pairs.push_back(pair);
  };
  const auto& lanes = scene.document.lanes;
  for (const std::size_t l : scene.view.order) add(lanes[l].pair);
  for (std::size_t pair = 0; pair < scene.document.session.pairs().size(); ++pair)
    if (std::none_of(lanes.begin(), lanes.end(), [&](const Lane& l) { return l.pair == pair; }))
      add(pair);
  return pairs;
}

std::vector<std::size_t> pairs_with_memory(const Scene& scene) {
  std::vector<std::size_t> pairs = shown_pairs(scene);
  std::erase_if(pairs, [&](std::size_t pair) {
    const PairMemory& memory = scene.document.memory[pair];
    return std::none_of(memory.begin(), memory.end(),
                        [](const auto& rank) { return rank && !rank->empty(); });
  });
  return pairs;
}

// So many of `count` bands fit; what does not is said below, and `rest` is what is left.
std::size_t bands_that_fit(QPainter& painter, QRectF& rest, const Theme& theme, std::size_t count,
                           double least) {
  const auto fit =
      std::clamp<std::size_t>(static_cast<std::size_t>(rest.height() / least), 1, count);
  if (fit < count) {
    note(painter, {rest.left(), rest.bottom() - 18, rest.width(), 18}, theme,
         QString(count - fit == 1 ? "%1 more rank" : "%1 more ranks").arg(count - fit));
    rest.setBottom(rest.bottom() - 18);
  }
  return fit;
}

void paint_nothing(QPainter& painter, const QRectF& area, const Scene& scene,
                   std::string_view why) {
  painter.setPen(scene.theme.faint);
  painter.drawText(area.adjusted(8, 0, -8, 0), Qt::AlignCenter | Qt::TextWordWrap, shown(why));
}

// As wide as the longest name of a lane, up to a quarter of the picture: nothing else says the
// rest.
double gutter_of(const Scene& scene, double width) {
  constexpr double kAround = 16, kLetters = 20;
  const QFontMetrics metrics(picture_font(11));
  double longest = 0;
  for (const std::size_t lane : scene.view.order)
    longest = std::max<double>(
        longest, metrics.horizontalAdvance(shown(scene.document.lanes[lane].label())) + 1);
  const double wanted = longest + kAround + (scene.document.session.sides() > 1 ? kLetters : 0);
  return std::max(kGutter, std::min(wanted, width / 4));
}

void paint_timeline(QPainter& painter, QRectF rest, const Scene& scene) {
  const TimelineLayout rows = layout(scene.document.lanes, scene.view);
  paint_ruler(painter, {rest.left(), rest.top(), rest.width(), kRulerHeight}, scene);
  rest.setTop(rest.top() + kRulerHeight);
  paint_legend_below(painter, rest, scene, LegendOf::timeline, 0);
  const std::vector<std::size_t> memory = pairs_with_memory(scene);
  if (!memory.empty() && rest.height() > 2 * kMemoryBand) {
    paint_legend_below(painter, rest, scene,
                       scene.view.by_cause ? LegendOf::causes : LegendOf::curves, memory.front());
    const double band = std::max(kMemoryBand, std::min(rest.height() - rows.height, 260.0));
    paint_memory(painter, {rest.left(), rest.bottom() - band, rest.width(), band}, scene,
                 memory.front());
    rest.setBottom(rest.bottom() - band);
  }
  const auto fits = [&](const LaneRow& row) { return row.y + row.height <= rest.height() - 18; };
  const auto hidden = std::find_if_not(rows.rows.begin(), rows.rows.end(), fits);
  const bool all = rows.height <= rest.height() || hidden == rows.rows.end();
  const double height = all ? rest.height() : std::max(0.0, hidden->y);
  TimelinePainter().paint(painter, {rest.left(), rest.top(), rest.width(), height}, scene, rows);
  if (all) return;
  note(painter, {rest.left(), rest.bottom() - 18, rest.width(), 18}, scene.theme,
       QString("%1 more lanes do not fit").arg(rows.rows.end() - hidden));
}

void paint_memories(QPainter& painter, QRectF rest, const Scene& scene) {
  const std::vector<std::size_t> pairs = pairs_with_memory(scene);
  paint_ruler(painter, {rest.left(), rest.top(), rest.width(), kRulerHeight}, scene);
  rest.setTop(rest.top() + kRulerHeight);
  if (pairs.empty()) return paint_nothing(painter, rest, scene, "Nothing is known of memory");
  paint_legend_below(painter, rest, scene,
                     scene.view.by_cause ? LegendOf::causes : LegendOf::curves, pairs.front());
  const std::size_t fit = bands_that_fit(painter, rest, scene.theme, pairs.size(), kMemoryLeast);
  const double height = rest.height() / static_cast<double>(fit);
  for (std::size_t i = 0; i < fit; ++i)
    paint_memory(painter,
                 {rest.left(), rest.top() + height * static_cast<double>(i), rest.width(), height},
                 scene, pairs[i]);
}

// The whole plane of every rank that says where its memory lies.
void paint_maps(QPainter& painter, QRectF rest, const Scene& scene) {
  struct Place {
    std::size_t side;
    const RankStep& rank;
  };
  const Session& session = scene.document.session;
  std::vector<Place> places;
  const std::vector<std::size_t> pairs = shown_pairs(scene);
  for (const std::size_t pair : pairs)
    for (std::size_t side = 0; side < session.sides(); ++side) {
      const auto& rank = session.pairs()[pair].sides[side];
      if (rank && has_addresses(session.run(side), rank->rank_class))
        places.push_back({side, *rank});
    }
  paint_ruler(painter, {rest.left(), rest.top(), rest.width(), kRulerHeight}, scene);
  rest.setTop(rest.top() + kRulerHeight);
  if (places.empty())
    return paint_nothing(painter, rest, scene, "No rank says where its memory lies");
  // Of the sides that know causes: blocks of others have colours by name.
  ViewState by_cause = scene.view;
  for (std::size_t side = 0; side < 2; ++side)
    by_cause.show[side] = knows_causes(scene.document, pairs.front(), {side == 0, side == 1});
  paint_legend_below(painter, rest, {scene.document, by_cause, scene.theme}, LegendOf::causes,
                     pairs.front());
  const std::size_t fit = bands_that_fit(painter, rest, scene.theme, places.size(), kSegmentsLeast);
  const double height = rest.height() / static_cast<double>(fit);
  for (std::size_t i = 0; i < fit; ++i) {
    const QRectF band(rest.left(), rest.top() + height * static_cast<double>(i), rest.width(),
                      height);
    const QRectF line(band.left(), band.top(), band.width(), kMapLine);
    painter.fillRect(line, scene.theme.band);
    painter.setFont(picture_font(11));
    painter.setPen(scene.theme.text);
    const SegmentMap map(session, places[i].side, places[i].rank);
    draw_fitting(painter, line.adjusted(8, 0, -8, 0), Qt::AlignLeft | Qt::AlignVCenter,
                 QString("%1: rank %2%3")
                     .arg(QChar(session.letter(places[i].side)))
                     .arg(places[i].rank.rank)
                     .arg(map.knows_causes() ? "" : ", colours by name"));
    paint_segments(painter, band.adjusted(0, kMapLine, 0, 0), scene,
                   {map, 0, std::max<Bytes>(1, map.height()), std::nullopt});
  }
}

void paint_residuals(QPainter& painter, const QRectF& rest, const Scene& scene,
                     const Residuals& residuals) {
  if (residuals.all() == 0)
    return paint_nothing(painter, rest, scene, why_no_residuals(&scene.document.session));
  const double height = std::min(160.0, rest.height() / 3);
  paint_histogram(painter, {rest.left(), rest.top(), rest.width(), height}, residuals.histogram(),
                  scene.theme);
  paint_residual_table(painter, rest.adjusted(8, height + 8, -8, -8), residuals, scene.theme);
}

}  // namespace

std::optional<PictureOf> picture_of(std::string_view word) {
  if (word == "timeline") return PictureOf::timeline;
  if (word == "memory") return PictureOf::memory;
  if (word == "segments") return PictureOf::segments;
  if (word == "residuals") return PictureOf::residuals;
  if (word == "summary") return PictureOf::summary;
  return std::nullopt;
}

void paint_picture(QPainter& painter, const QSizeF& size, const Scene& scene, PictureOf what) {
  const QRectF whole(QPointF(0, 0), size);
  painter.fillRect(whole, scene.theme.ground);
  if (what == PictureOf::summary) {
    SummaryPainter(scene.document).paint(painter, whole, scene.theme);
    return;
  }
  if (what == PictureOf::residuals)
    return paint_picture(painter, size, scene, scene.document.residuals);
  paint_title(painter, {0, 0, size.width(), kTitle}, scene);
  const QRectF rest = whole.adjusted(0, kTitle, 0, 0);
  switch (what) {
    case PictureOf::timeline: {
      ViewState view = scene.view;
      view.gutter = gutter_of(scene, size.width());
      return paint_timeline(painter, rest, {scene.document, view, scene.theme});
    }
    case PictureOf::memory: return paint_memories(painter, rest, scene);
    default: return paint_maps(painter, rest, scene);
  }
}

void paint_picture(QPainter& painter, const QSizeF& size, const Scene& scene,
                   const Residuals& residuals) {
  const QRectF whole(QPointF(0, 0), size);
  painter.fillRect(whole, scene.theme.ground);
  paint_title(painter, {0, 0, size.width(), kTitle}, scene);
  paint_residuals(painter, whole.adjusted(0, kTitle, 0, 0), scene, residuals);
}

void paint_picture(QPainter& painter, const QSizeF& size, const SweepPlot& plot,
                   const Theme& theme) {
  const double beside = std::min(kSweepDetails, size.width() / 2);
  const QRectF area(0, 0, size.width() - beside, size.height());
  paint_sweep(painter, area, plot, theme);
  paint_sweep_details(painter, {area.right(), 0, beside, size.height()}, plot, std::nullopt, theme);
}

Status save_picture(const std::string& path, const QSizeF& size, double scale,
                    const std::function<void(QPainter&)>& paint) {
  QByteArray bytes;
  QBuffer buffer(&bytes);
  buffer.open(QIODevice::WriteOnly);
  if (path.ends_with(".svg")) {
    QSvgGenerator svg;
    svg.setOutputDevice(&buffer);
    svg.setSize(size.toSize());
    svg.setViewBox(QRectF(QPointF(0, 0), size));
    svg.setTitle("Foregather");
    QPainter painter(&svg);
    paint(painter);
  } else if (path.ends_with(".png")) {
    QImage image((size * scale).toSize(), QImage::Format_RGB32);
    if (image.isNull()) return fail_work(path, "out of memory for so large a picture");
    image.setDevicePixelRatio(scale);
    QPainter painter(&image);
    paint(painter);
    painter.end();
    if (!image.save(&buffer, "PNG"))
      return fail_work(path, "cannot be encoded as PNG: out of memory");
  } else {
    return fail_at(path, "has another ending, expected .png or .svg");
  }
  auto file = PendingFile::create(path);
  if (!file) return tl::unexpected(file.error());
  if (const Status written =
          file->write(std::string_view(bytes.constData(), static_cast<std::size_t>(bytes.size())));
      !written)
    return written;
  return file->commit();
}

}  // namespace foregather::gui
