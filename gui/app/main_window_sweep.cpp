// The page of a sweep, and the schedules of its points.
#include <QLabel>
#include <QTabWidget>
#include <algorithm>

#include "core/base/printable.h"
#include "gui/app/main_window.h"
#include "gui/app/resimulate.h"
#include "gui/views/recent_list.h"
#include "gui/views/sweep_view.h"
#include "gui/views/timeline_view.h"

namespace foregather::gui {

void MainWindow::open_sweep(const std::string& path) {
  message_->setText("reading " + gui::shown(printable(path)));
  reading_->start([this, path, post = post_] {
    auto plot = SweepPlot::read(path);
    post([this, plot = std::move(plot)]() mutable {
      if (!plot) return say({plot.error()});
      show_sweep(std::make_shared<const SweepPlot>(std::move(*plot)));
    });
  });
}

void MainWindow::show_sweep(std::shared_ptr<const SweepPlot> plot) {
  remember_files({plot->path()});
  message_->setText(gui::shown(printable(plot->path())));
  sweep_->set_plot(std::move(plot));
  pages_->setTabVisible(pages_->indexOf(sweep_), true);
  pages_->setCurrentWidget(sweep_);
  sweep_->setFocus();
}

void MainWindow::show_point(const SweepPlot& plot, const run::SweepPoint& point) {
  message_->setText("simulating " + gui::shown(printable(plot.title(point))));
  WhatIf what_if(plot.source_of(point), knob_names());
  reading_->start([this, what_if = std::move(what_if), post = post_,
                   location = plot.path() + ": " + plot.title(point)] {
    auto made = resimulate(what_if, std::nullopt);
    post([this, made = std::move(made), source = what_if.source(), location]() mutable {
      if (!made) return say({made.error()});
      made->run.location = location;
      add_run(std::move(made->run), source);
    });
  });
}

// As if it had been opened: above, and nothing below. What was there before may be of a sweep that
// is no more.
void MainWindow::add_run(OpenRun run, const WhatIfSource& source) {
  sources_[run.location] = source;
  const auto known = std::find(locations_.begin(), locations_.end(), run.location);
  shown_ = {static_cast<int>(known - locations_.begin()), -1};
  if (known == locations_.end()) locations_.push_back(run.location);
  std::erase_if(runs_, [&](const OpenRun& old) { return old.location == run.location; });
  runs_.push_back(std::move(run));
  pages_->setCurrentWidget(timeline_);
  load();
}

}  // namespace foregather::gui
