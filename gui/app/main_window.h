// The window.
#pragma once

#include <QElapsedTimer>
#include <QMainWindow>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/app/resimulate.h"
#include "gui/views/background.h"
#include "gui/views/lists.h"
#include "gui/views/sweep_view.h"
#include "gui/views/theme.h"

class QComboBox;
class QDockWidget;
class QLabel;
class QLineEdit;
class QMenu;
class QProgressBar;
class QPushButton;
class QTabWidget;

namespace foregather::gui {

class DetailsPanel;
class ResidualView;
class SegmentView;
class SummaryView;
class TimelineView;
class WhatIfPanel;

/// Pages of one document, what is selected beside them, and every command of the table with its
/// keys. Files are read, and turned knobs simulated, in the background; what goes wrong is said in
/// the window.
class MainWindow final : public QMainWindow {
 public:
  MainWindow();
  ~MainWindow() override;

  /// Opens files beside those that are open. The first two are shown; the boxes above choose
  /// others.
  void open(const std::vector<std::string>& files);
  void cancel_loading();
  bool is_loading() const { return loader_->is_running(); }
  void run(CommandId command);
  bool can_run(CommandId command) const { return handlers_.contains(command); }
  void set_dark(bool dark);
  /// Writes the page that is shown, as it is shown, where one has zoomed into it that part: to a
  /// name that ends in .png or .svg. Something is open.
  Status save_page(const std::string& path) const;

  const std::shared_ptr<const Document>& document() const { return document_; }
  TimelineView& timeline() { return *timeline_; }
  SummaryView& summary() { return *summary_; }
  ResidualView& residuals() { return *residuals_; }
  SweepView& sweep() { return *sweep_; }
  SegmentView& segments() { return *segments_; }
  DetailsPanel& details() { return *details_; }
  WhatIfPanel& knobs() { return *knobs_; }
  bool is_resimulating() const { return resimulation_->is_busy() || reading_->is_busy(); }
  /// From the last turn of a knob until its picture was painted.
  double redraw_ms() const { return redraw_ms_; }
  QString difference() const;
  QLineEdit& search_line() { return *search_; }
  QTabWidget& pages() { return *pages_; }
  std::size_t results() const { return results_.size(); }
  QString status() const;

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;
  void closeEvent(QCloseEvent* event) override;
  /// Keys of commands that lines of text would take for themselves.
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void build();
  void bind_commands();
  void focus_page();
  void bind(CommandId command, std::function<void()> what);
  void bind_moving();
  void bind_selecting();
  void bind_what_if();
  /// What is chosen; those of `anew` are read again, whatever is known of them.
  void load(const std::vector<std::string>& anew = {});
  void set_document(std::shared_ptr<const Document> document);
  void show_document(std::shared_ptr<const Document> document, bool keep_view);
  void open_sweep(const std::string& path);
  void show_sweep(std::shared_ptr<const SweepPlot> plot);
  void show_point(const SweepPlot& plot, const run::SweepPoint& point);
  void add_run(OpenRun run, const WhatIfSource& source);
  void reset_what_if();
  void turn_knobs();
  void show_resimulated(Result<Resimulated> made);
  void show_difference();
  void pin_baseline();
  const OpenRun* run_at(const std::string& location) const;
  const OpenRun* run_below() const;
  void choose_shown(const std::vector<std::string>& opened);
  void take(Loader::Loaded loaded);
  bool is_chosen(const Document* document) const;
  void say(const std::vector<Error>& errors);
  void fail(const Error& error);
  void forget_unread();
  void fill_boxes();
  void show_selection();
  void jump(const Span& span);
  void step_residual(int by);
  void step_result(int by);
  void start_search();
  void fill_recent();
  void open_dialog();
  void export_dialog();
  void copy_table();

  Post post_;
  std::shared_ptr<const Document> document_;
  std::vector<std::string> locations_;
  std::vector<OpenRun> runs_;
  std::vector<std::string> opening_;                        ///< locations that are being opened
  std::vector<std::string> before_;                         ///< what was shown before
  std::vector<Error> unread_;                               ///< of the files that are being opened
  std::vector<std::pair<std::string, std::string>> asked_;  ///< locations and their files, of these
  std::array<int, 2> shown_{0, -1};                         ///< of locations_; −1: none below
  std::map<CommandId, std::function<void()>> handlers_;
  Theme theme_ = Theme::light();
  std::vector<Span> results_;
  std::string searched_;
  std::optional<std::size_t> result_, residual_;
  OpenRun opened_;  ///< the run that is turned, as it was read
  WhatIf what_if_;
  std::map<std::string, WhatIfSource> sources_;  ///< of runs that are no files, by location
  std::optional<OpenRun> top_, baseline_;  ///< as it is turned, and what that is compared with
  int what_if_round_ = 0;                  ///< another source makes what is under way stale
  QElapsedTimer turned_;
  double redraw_ms_ = 0;
  bool is_refused_ = false;  ///< what is turned cannot be simulated: an older picture is shown

  QTabWidget* pages_ = nullptr;
  SummaryView* summary_ = nullptr;
  TimelineView* timeline_ = nullptr;
  ResidualView* residuals_ = nullptr;
  SweepView* sweep_ = nullptr;
  SegmentView* segments_ = nullptr;
  DetailsPanel* details_ = nullptr;
  std::array<QComboBox*, 2> boxes_{};
  std::array<QAction*, 2> box_actions_{};  ///< hide them
  QLineEdit* search_ = nullptr;
  QLabel* search_count_ = nullptr;
  QMenu* recent_ = nullptr;
  QLabel* message_ = nullptr;
  QProgressBar* progress_ = nullptr;
  QPushButton* cancel_ = nullptr;
  WhatIfPanel* knobs_ = nullptr;
  QDockWidget* knobs_dock_ = nullptr;
  QDockWidget* front_dock_ = nullptr;  ///< that of the tab which was chosen last
  QLabel* difference_ = nullptr;
  // Last: what they run is waited for before anything else goes.
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<LatestJob> resimulation_, reading_;
};

}  // namespace foregather::gui
