#include "gui/views/text_fit.h"

#include "gui/models/details.h"
#include "gui/views/theme.h"

namespace foregather::gui {
namespace {

// Equal keys have equal names.
std::uint64_t key_of(const Session& session, const Span& span) {
  run::RunView run = session.run(span.side);
  const std::uint64_t base = std::uint64_t{span.side} << 63U;
  if (span.kind == SpanKind::call)
    return base | std::uint64_t{1} << 62U | run.calls[span.row].name.row();
  const StringId scope = run.ops.scope[span.row];
  const auto kind = static_cast<std::uint64_t>(run.ops.kind[span.row]);
  const StringId name = scope && !run.text_of(scope).empty() ? scope : run.ops.source[span.row];
  return base | kind << 33U | (name == scope ? 0 : std::uint64_t{1} << 32U) |
         (name ? name.row() : 0xffffffffU);
}

}  // namespace

void draw_fitting(QPainter& painter, const QRectF& rectangle, int flags, const QString& text,
                  Qt::TextElideMode elide) {
  const QFontMetrics metrics(painter.font());
  const QString elided = metrics.elidedText(text, elide, static_cast<int>(rectangle.width()));
  // A single letter stays as it is, however wide.
  if ((elided == "…" && text != elided) || metrics.horizontalAdvance(elided) > rectangle.width())
    return;
  painter.drawText(rectangle, flags | Qt::TextSingleLine, elided);
}

QString LabelCache::fitting(const Session& session, const Span& span, const QFontMetrics& metrics,
                            double width) {
  std::vector<Label>& labels = labels_[key_of(session, span)];
  if (labels.empty())
    for (const std::string& name : short_names(session, span)) {
      const QString text = shown(name);
      labels.push_back({text, metrics.horizontalAdvance(text)});
    }
  for (const Label& label : labels)
    if (label.width <= width) return label.text;
  return {};
}

}  // namespace foregather::gui
