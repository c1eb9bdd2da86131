// What is known of the selection, in words.
#pragma once

#include <QTreeWidget>
#include <memory>

#include "gui/models/document.h"
#include "gui/models/view_state.h"

namespace foregather::gui {

/// A table with groups: the selected op; or the totals of the selected range, by rank and by lane,
/// predicted beside measured; or who holds memory at a time.
class DetailsPanel final : public QTreeWidget {
 public:
  explicit DetailsPanel(QWidget* parent = nullptr);
  void show_selection(const Document* document, const ViewState& view);
  void show_holders(const Document& document, std::size_t pair, Ns time);
  /// The columns in sight as comma-separated values, times of the axis in nanoseconds. Empty:
  /// nothing is selected.
  QString csv() const;

 private:
  void set_columns(const QStringList& titles, int stretched);
  QTreeWidgetItem* group(const QString& title);

  bool is_empty_ = true;  ///< nothing is selected
  void show_span(const Document& document, const Span& span);
  void show_range(const Document& document, const ViewState& view);
};

}  // namespace foregather::gui
