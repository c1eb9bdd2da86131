// The page of a sweep.
#pragma once

#include <QPixmap>
#include <QWidget>
#include <functional>
#include <memory>
#include <optional>

#include "gui/models/sweep_plot.h"
#include "gui/views/theme.h"

namespace foregather::gui {

/// Step time against memory with the front and the limit, and beside it what is known of the
/// current point. Arrows go through the points in order of their time, up and down along the front;
/// Enter or a click asks for the point's schedule.
class SweepView final : public QWidget {
 public:
  explicit SweepView(QWidget* parent = nullptr);
  void set_plot(std::shared_ptr<const SweepPlot> plot);
  void set_theme(const Theme& theme);

  const std::shared_ptr<const SweepPlot>& plot() const { return plot_; }
  std::optional<std::size_t> current() const { return current_; }  ///< of SweepPlot::dots()
  SweepScale scale() const;  ///< where dots lie, for tests too
  void paint(QPainter& painter) const;

  std::function<void(const SweepPlot&, const run::SweepPoint&)> on_load;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  QRectF plot_area() const;
  void paint_choice(QPainter& painter) const;
  void go_to(std::size_t dot);
  void go_along_front(int by);
  void load();

  std::shared_ptr<const SweepPlot> plot_;
  Theme theme_ = Theme::light();
  std::optional<std::size_t> current_;
  QPixmap dots_;  ///< null: to be painted
};

}  // namespace foregather::gui
