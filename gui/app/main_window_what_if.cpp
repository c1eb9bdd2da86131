// Knobs, and what they change.
#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QLabel>

#include "core/base/printable.h"
#include "gui/app/main_window.h"
#include "gui/app/resimulate.h"
#include "gui/views/summary_view.h"
#include "gui/views/timeline_view.h"
#include "gui/views/what_if_panel.h"

namespace foregather::gui {

void MainWindow::bind_what_if() {
  knobs_->on_turn = [this](const std::string& name, const std::string& value) {
    if (what_if_.turn(name, value)) turn_knobs();
  };
  knobs_->on_further = [this](const std::string& passes) {
    if (passes == what_if_.further_passes()) return;
    what_if_.set_further_passes(passes);
    turn_knobs();
  };
  knobs_->on_reset = [this] { run(CommandId::reset_knobs); };
  knobs_->on_pin = [this] { run(CommandId::pin_baseline); };
  knobs_->on_copy = [this] { run(CommandId::copy_command); };
  bind(CommandId::show_knobs, [this] {
    pages_->setCurrentWidget(timeline_);
    knobs_dock_->show();
    knobs_dock_->raise();
    front_dock_ = knobs_dock_;
    knobs_->focus_first();
  });
  bind(CommandId::reset_knobs, [this] {
    what_if_.reset();
    turn_knobs();
  });
  bind(CommandId::pin_baseline, [this] { pin_baseline(); });
  bind(CommandId::copy_command, [this] {
    if (what_if_.empty()) {
      message_->setText("nothing to copy");
      return;
    }
    if (is_refused_) {
      message_->setText("nothing is copied: what is turned cannot be simulated");
      return;
    }
    QApplication::clipboard()->setText(shown(what_if_.command_line()));
    message_->setText("copied the command line");
  });
}

// The first run is turned; as it was opened it is the baseline. What was turned stays so: before
// another run came below it, and before its file was read again.
void MainWindow::reset_what_if() {
  ++what_if_round_;
  const OpenRun& first = document_->session.open_run(0);
  const OpenRun* read = run_at(first.location);
  const OpenRun opened = read == nullptr ? first : *read;
  const bool is_same = !what_if_.empty() && opened_.location == opened.location;
  if (!is_same || opened_.run != opened.run) {
    const auto known = sources_.find(opened.location);
    auto knobs = known == sources_.end() ? what_if_of(opened) : WhatIf(known->second, knob_names());
    if (knobs && is_same) knobs->turn_as(what_if_);
    what_if_ = knobs ? std::move(*knobs) : WhatIf();
    opened_ = opened;
    is_refused_ = false;
    top_ = baseline_ = first;
    knobs_->show_knobs(what_if_);
    show_difference();
    if (!knobs) knobs_->show_message(gui::shown(printable(knobs.error().text())), false);
  }
  if (what_if_.is_turned()) turn_knobs();
}

void MainWindow::turn_knobs() {
  if (what_if_.empty() || loader_->is_running()) return;
  knobs_->show_knobs(what_if_);
  turned_.start();
  std::optional<OpenRun> below;
  if (const auto* chosen = run_below())
    below = *chosen;
  else if (what_if_.is_turned() || baseline_->location != opened_.location)
    below = baseline_;
  resimulation_->start([this, asked = what_if_, opened = opened_, below = std::move(below),
                        post = post_, round = what_if_round_]() mutable {
    auto made = asked.is_turned() ? resimulate(asked, std::move(below))
                                  : laid_over(std::move(opened), std::move(below));
    post([this, made = std::move(made), round]() mutable {
      if (round == what_if_round_) show_resimulated(std::move(made));
    });
  });
}

void MainWindow::show_resimulated(Result<Resimulated> made) {
  is_refused_ = !made;
  if (!made) {
    knobs_->show_message(gui::shown(printable(made.error().text())), true);
    return;
  }
  top_ = made->run;
  show_document(std::move(made->document), true);
  show_difference();
  timeline_->repaint();
  redraw_ms_ = static_cast<double>(turned_.nsecsElapsed()) / 1e6;
}

void MainWindow::show_difference() {
  const run::Run &top = *top_->run, &baseline = *baseline_->run;
  const WhatIfFigures now = what_if_figures(top, baseline);
  const WhatIfFigures before = what_if_figures(baseline, top);
  knobs_->show_figures(now, before);
  const bool differs = top_->run != baseline_->run;
  difference_->setText(differs ? gui::shown(difference_text(now, before)) : QString());
  difference_->setToolTip("against " + gui::shown(printable(baseline_->location)));
}

void MainWindow::pin_baseline() {
  if (what_if_.empty()) return;
  baseline_ = top_;
  show_difference();
  message_->setText("pinned " + gui::shown(printable(baseline_->location)));
  if (run_below() == nullptr) turn_knobs();  // what lies below is the baseline
}

const OpenRun* MainWindow::run_at(const std::string& location) const {
  for (const OpenRun& run : runs_)
    if (run.location == location) return &run;
  return nullptr;
}

const OpenRun* MainWindow::run_below() const {
  return shown_[1] < 0 ? nullptr : run_at(locations_[static_cast<std::size_t>(shown_[1])]);
}

}  // namespace foregather::gui
