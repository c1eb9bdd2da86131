#include "gui/views/residual_view.h"

#include <QCheckBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPainter>
#include <QStackedLayout>
#include <QTableView>
#include <QVBoxLayout>

#include "core/base/text.h"
#include "gui/models/navigation.h"
#include "gui/views/residual_painter.h"

namespace foregather::gui {
namespace {

class Histogram final : public QWidget {
 public:
  explicit Histogram(std::function<void(QPainter&, const QRectF&)> paint)
      : paint_(std::move(paint)) {
    setMinimumHeight(110);
    setAccessibleName("Histogram of relative errors");
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    paint_(painter, rect());
  }

 private:
  std::function<void(QPainter&, const QRectF&)> paint_;
};

bool is_number(ResidualColumn column) {
  return column >= ResidualColumn::first && column <= ResidualColumn::error;
}

}  // namespace

void ResidualTable::set(std::optional<Residuals> residuals, const Theme& theme) {
  beginResetModel();
  residuals_ = std::move(residuals);
  theme_ = theme;
  endResetModel();
}

void ResidualTable::set_theme(const Theme& theme) {
  beginResetModel();
  theme_ = theme;
  endResetModel();
}

void ResidualTable::filter(const std::string& text, bool met_only) {
  if (!residuals_) return;
  beginResetModel();
  residuals_->filter(text, met_only);
  endResetModel();
}

int ResidualTable::rowCount(const QModelIndex& parent) const {
  return parent.isValid() || !residuals_ ? 0 : static_cast<int>(residuals_->shown().size());
}

int ResidualTable::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(kResidualColumns);
}

QVariant ResidualTable::data(const QModelIndex& index, int role) const {
  const auto column = static_cast<ResidualColumn>(index.column());
  const ResidualRow& row =
      residuals_->row(residuals_->shown()[static_cast<std::size_t>(index.row())]);
  if (role == Qt::DisplayRole || role == Qt::ToolTipRole)
    return shown(residuals_->text(row, column));
  if (role == Qt::TextAlignmentRole)
    return QVariant(Qt::AlignVCenter | (is_number(column) ? Qt::AlignRight : Qt::AlignLeft));
  if (role == Qt::DecorationRole && column == ResidualColumn::error)
    if (const auto error = residuals_->error(row)) return theme_.residual(*error);
  return {};
}

QVariant ResidualTable::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole || !residuals_) return {};
  return shown(residuals_->title(static_cast<ResidualColumn>(section)));
}

void ResidualTable::sort(int column, Qt::SortOrder order) {
  if (!residuals_ || column < 0) return;
  beginResetModel();
  residuals_->sort(static_cast<ResidualColumn>(column), order == Qt::AscendingOrder);
  endResetModel();
}

ResidualView::ResidualView(QWidget* parent) : QWidget(parent) {
  histogram_ = new Histogram([this](QPainter& painter, const QRectF& area) {
    painter.fillRect(area, theme_.ground);
    if (table_.residuals()) paint_histogram(painter, area, table_.residuals()->histogram(), theme_);
  });
  filter_ = new QLineEdit;
  filter_->setPlaceholderText("Filter by op, kind or source");
  filter_->setClearButtonEnabled(true);
  met_only_ = new QCheckBox("only what met");
  count_ = new QLabel;
  rows_ = new QTableView;
  rows_->setModel(&table_);
  rows_->setSortingEnabled(true);
  rows_->setSelectionBehavior(QAbstractItemView::SelectRows);
  rows_->verticalHeader()->hide();
  rows_->verticalHeader()->setDefaultSectionSize(rows_->fontMetrics().height() + 6);
  rows_->setWordWrap(false);
  rows_->setTextElideMode(Qt::ElideMiddle);
  rows_->setAccessibleName("Residuals");
  rows_->horizontalHeader()->setStretchLastSection(true);
  // Wide enough for such texts; a square of colour stands before errors.
  constexpr int kMargin = 12, kSquare = 28;
  for (const auto& [column, text] :
       {std::pair{ResidualColumn::kind, "host_to_device"},
        std::pair{ResidualColumn::phase, "recompute"},
        std::pair{ResidualColumn::scope, "model.layers.10.self_attn"},
        std::pair{ResidualColumn::op, "m0/model.layers.10.self_attn/backward/gemm"},
        std::pair{ResidualColumn::level, "only predicted"},
        std::pair{ResidualColumn::first, "predicted  ▾"},
        std::pair{ResidualColumn::second, "measured  ▾"},
        std::pair{ResidualColumn::difference, "difference  ▾"},
        std::pair{ResidualColumn::error, "+99999.9 %"}})
    rows_->setColumnWidth(static_cast<int>(column),
                          rows_->fontMetrics().horizontalAdvance(text) + kMargin +
                              (column == ResidualColumn::error ? kSquare : 0));

  auto* line = new QHBoxLayout;
  line->addWidget(filter_, 1);
  line->addWidget(met_only_);
  line->addWidget(count_);
  auto* some = new QWidget;
  auto* all = new QVBoxLayout(some);
  all->addWidget(histogram_);
  all->addLayout(line);
  all->addWidget(rows_, 1);
  nothing_ = new QLabel;
  nothing_->setAlignment(Qt::AlignCenter);
  nothing_->setWordWrap(true);
  pages_ = new QStackedLayout(this);
  pages_->addWidget(nothing_);
  pages_->addWidget(some);
  show_rows_or_why();

  connect(filter_, &QLineEdit::textChanged, this, [this] { refilter(); });
  connect(met_only_, &QCheckBox::toggled, this, [this] { refilter(); });
  connect(rows_, &QTableView::activated, this, [this](const QModelIndex& index) {
    if (on_jump)
      on_jump(span_of(table_.residuals()->row(
          table_.residuals()->shown()[static_cast<std::size_t>(index.row())])));
  });
}

void ResidualView::set_document(std::shared_ptr<const Document> document) {
  // The table refers to the document that goes.
  table_.set(document ? std::optional(document->residuals) : std::nullopt, theme_);
  document_ = std::move(document);
  show_rows_or_why();
  rows_->sortByColumn(static_cast<int>(ResidualColumn::difference), Qt::DescendingOrder);
  apply();
}

void ResidualView::show_rows_or_why() {
  const bool has_rows = document_ && document_->residuals.all() > 0;
  nothing_->setText(has_rows ? ""
                             : shown(why_no_residuals(document_ ? &document_->session : nullptr)));
  pages_->setCurrentIndex(has_rows ? 1 : 0);
}

void ResidualView::set_theme(const Theme& theme) {
  theme_ = theme;
  table_.set_theme(theme);
  histogram_->update();
}

// What is typed without a pause is one filter.
void ResidualView::refilter() {
  history_.leave(filtered_, true);
  filtered_ = {filter_->text(), met_only_->isChecked()};
  apply();
}

void ResidualView::go_back() {
  if (history_.empty()) return;
  filtered_ = history_.back();
  const QSignalBlocker quiet(filter_), quiet_too(met_only_);
  filter_->setText(filtered_.text);
  met_only_->setChecked(filtered_.met_only);
  apply();
}

void ResidualView::apply() {
  table_.filter(filtered_.text.toStdString(), filtered_.met_only);
  const auto& residuals = table_.residuals();
  const auto count = [](std::size_t number) {
    return shown(format_count(static_cast<std::int64_t>(number)));
  };
  count_->setText(!residuals ? ""
                             : QString("%1 of %2, %3 met nothing")
                                   .arg(count(residuals->shown().size()), count(residuals->all()),
                                        count(residuals->unmatched())));
  histogram_->update();
}

QString ResidualView::csv() const {
  return table_.residuals() ? shown(table_.residuals()->csv()) : QString();
}

}  // namespace foregather::gui
