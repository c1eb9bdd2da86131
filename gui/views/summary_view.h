// The first page as a widget.
#pragma once

#include <QAbstractScrollArea>
#include <functional>
#include <memory>
#include <optional>

#include "gui/views/summary_painter.h"

namespace foregather::gui {

/// The picture of SummaryPainter; badges open their lists, residuals lead to their ops. Without a
/// document: how to open one, or what went wrong. Arrows go from one to the next, Enter follows.
/// What has no room scrolls.
class SummaryView final : public QAbstractScrollArea {
 public:
  explicit SummaryView(QWidget* parent = nullptr);
  void set_document(std::shared_ptr<const Document> document);
  void set_theme(const Theme& theme);
  /// Shown in place of a document.
  void set_message(const QString& message, bool is_error);
  /// The size of all that there is to see, scrolled away or not; at least that of the widget.
  QSizeF whole() const { return {double(viewport()->width()), height_}; }
  /// Its figures; empty: no document.
  QString csv() const;
  const QString& message() const { return message_; }
  /// The badge or residual that the keys are at; null: none. Valid until the next paint.
  const SummaryPainter::Place* current() const;

  std::function<void(const Span&)> on_jump;
  std::function<void(const Badge&)> on_badge;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void fit();
  QRectF area() const;
  void go_to(std::size_t place);
  const SummaryPainter::Place* place_at(QPointF point) const;
  void follow(const SummaryPainter::Place& place);

  std::shared_ptr<const Document> document_;
  std::optional<SummaryPainter> painter_;
  Theme theme_ = Theme::light();
  double height_ = 0;  ///< of all that there is to see
  QString message_;
  bool is_error_ = false;
  std::optional<std::size_t> current_;  ///< of the painter's places
};

}  // namespace foregather::gui
