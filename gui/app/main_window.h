// The window.
#pragma once

#include <QMainWindow>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/app/loader.h"
#include "gui/views/lists.h"
#include "gui/views/theme.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QProgressBar;
class QPushButton;
class QTabWidget;

namespace foregather::gui {

class DetailsPanel;
class ResidualView;
class SummaryView;
class TimelineView;

/// Pages of one document, what is selected beside them, and every command of the table with its
/// keys. Files are read in the background; what goes wrong is said on the page.
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

  const std::shared_ptr<const Document>& document() const { return document_; }
  TimelineView& timeline() { return *timeline_; }
  SummaryView& summary() { return *summary_; }
  ResidualView& residuals() { return *residuals_; }
  DetailsPanel& details() { return *details_; }
  QLineEdit& search_line() { return *search_; }
  QTabWidget& pages() { return *pages_; }
  std::size_t results() const { return results_.size(); }
  QString status() const;

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;
  void closeEvent(QCloseEvent* event) override;

 private:
  void build();
  void bind_commands();
  void bind(CommandId command, std::function<void()> what);
  void bind_moving();
  void bind_selecting();
  void load();
  void set_document(std::shared_ptr<const Document> document);
  void fail(const Error& error);
  void fill_boxes();
  void show_selection();
  void jump(const Span& span);
  void step_residual(int by);
  void step_result(int by);
  void start_search();
  void open_dialog();
  void export_dialog();
  void copy_table();

  std::unique_ptr<Loader> loader_;
  std::shared_ptr<const Document> document_;
  std::vector<std::string> locations_;
  std::vector<OpenRun> runs_;
  std::array<int, 2> shown_{0, -1};  ///< of locations_; −1: none below
  std::map<CommandId, std::function<void()>> handlers_;
  Theme theme_ = Theme::light();
  std::vector<Span> results_;
  std::string searched_;
  std::optional<std::size_t> result_, residual_;

  QTabWidget* pages_ = nullptr;
  SummaryView* summary_ = nullptr;
  TimelineView* timeline_ = nullptr;
  ResidualView* residuals_ = nullptr;
  DetailsPanel* details_ = nullptr;
  std::array<QComboBox*, 2> boxes_{};
  QLineEdit* search_ = nullptr;
  QLabel* search_count_ = nullptr;
  QLabel* message_ = nullptr;
  QProgressBar* progress_ = nullptr;
  QPushButton* cancel_ = nullptr;
};

}  // namespace foregather::gui
