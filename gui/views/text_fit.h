// Texts that fit where they are drawn.
#pragma once

#include <QFontMetrics>
#include <QPainter>
#include <QString>
#include <cstdint>
#include <unordered_map>

#include "gui/models/document.h"

namespace foregather::gui {

/// Draws within the rectangle, elided where it does not fit; nothing where not even "…" does.
void draw_fitting(QPainter& painter, const QRectF& rectangle, int flags, const QString& text,
                  Qt::TextElideMode elide = Qt::ElideRight);

/// Names of ops and how wide they are, measured once for each scope and kind. One per font.
class LabelCache {
 public:
  /// The longest of the span's short_names() that fits `width` pixels; empty where none does.
  QString fitting(const Session& session, const Span& span, const QFontMetrics& metrics,
                  double width);
  void clear() { labels_.clear(); }

 private:
  struct Label {
    QString text;
    int width = 0;
  };
  std::unordered_map<std::uint64_t, std::vector<Label>> labels_;  ///< longest first
};

}  // namespace foregather::gui
