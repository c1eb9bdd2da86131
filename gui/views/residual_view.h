// The table of residuals with its filter and histogram.
#pragma once

#include <QAbstractTableModel>
#include <QWidget>
#include <functional>
#include <memory>
#include <optional>

#include "gui/models/document.h"
#include "gui/models/history.h"
#include "gui/views/theme.h"

class QLabel;
class QLineEdit;
class QCheckBox;
class QStackedLayout;
class QTableView;

namespace foregather::gui {

/// Residuals as Qt wants them.
class ResidualTable final : public QAbstractTableModel {
 public:
  /// None: an empty table. The residuals' document must outlive it.
  void set(std::optional<Residuals> residuals, const Theme& theme);
  void set_theme(const Theme& theme);
  const std::optional<Residuals>& residuals() const { return residuals_; }
  void filter(const std::string& text, bool met_only);

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  void sort(int column, Qt::SortOrder order) override;

 private:
  std::optional<Residuals> residuals_;
  Theme theme_ = Theme::light();
};

/// The table of a document with a filter and a histogram, or why it is empty.
class ResidualView final : public QWidget {
 public:
  explicit ResidualView(QWidget* parent = nullptr);
  void set_document(std::shared_ptr<const Document> document);
  void set_theme(const Theme& theme);
  QString csv() const;
  void go_back();  ///< to the filter before
  QTableView& rows() { return *rows_; }
  /// Why there are no rows, and what to do: shown instead of them.
  const QLabel& nothing() const { return *nothing_; }
  QLineEdit& filter_line() { return *filter_; }
  const ResidualTable& table() const { return table_; }

  std::function<void(const Span&)> on_jump;  ///< a row was activated

 private:
  struct Filter {
    QString text;
    bool met_only = false;
    friend bool operator==(const Filter&, const Filter&) = default;
  };
  void refilter();
  void apply();
  void show_rows_or_why();

  std::shared_ptr<const Document> document_;
  ResidualTable table_;
  Theme theme_ = Theme::light();
  QWidget* histogram_;
  QLineEdit* filter_;
  QCheckBox* met_only_;
  QLabel* count_;
  QLabel* nothing_;
  QStackedLayout* pages_;  ///< nothing_, or all else
  QTableView* rows_;
  Filter filtered_;
  History<Filter> history_;
};

}  // namespace foregather::gui
