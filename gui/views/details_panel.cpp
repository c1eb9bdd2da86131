#include "gui/views/details_panel.h"

#include <QHeaderView>

#include "core/base/csv.h"
#include "core/base/text.h"
#include "gui/models/details.h"
#include "gui/models/time_axis.h"
#include "gui/models/totals.h"
#include "gui/views/theme.h"

namespace foregather::gui {
namespace {

constexpr int kCopied = Qt::UserRole;  // what a copied table says in place of the text

QTreeWidgetItem* add(QTreeWidgetItem* group, const QStringList& cells) {
  auto* item = new QTreeWidgetItem(group, cells);
  for (int c = 0; c < cells.size(); ++c) item->setToolTip(c, cells[c]);
  return item;
}

void set_position(QTreeWidgetItem* item, int column, Ns at) {
  item->setData(column, kCopied, QString("%1 ns").arg(at));
}

void add(QTreeWidgetItem* group, const std::vector<Detail>& rows) {
  for (const Detail& row : rows) {
    auto* item = add(group, {shown(row.name), shown(row.value)});
    if (row.at) set_position(item, 1, *row.at);
  }
}

QString time(Ns value) { return shown(format_time(value)); }

QString side_title(const Session& session, std::size_t side) {
  return QString("%1: %2").arg(QChar(session.letter(side)),
                               shown(name(session.run(side).about.kind)));
}

template <class Value>
QString of(const std::optional<RankTotals>& side, Value&& value) {
  return side ? value(*side) : QString();
}

}  // namespace

DetailsPanel::DetailsPanel(QWidget* parent) : QTreeWidget(parent) {
  setColumnCount(3);
  setRootIsDecorated(false);
  setIndentation(10);
  setAlternatingRowColors(true);
  setTextElideMode(Qt::ElideMiddle);
  header()->setStretchLastSection(false);
  setAccessibleName("Details of the selection");
}

// What is elided stands in the tool tip.
void DetailsPanel::set_columns(const QStringList& titles, int stretched) {
  clear();
  is_empty_ = false;
  setHeaderLabels(titles);
  for (int c = 0; c < columnCount(); ++c) {
    setColumnHidden(c, c >= titles.size());
    header()->setSectionResizeMode(
        c, c == stretched ? QHeaderView::Stretch : QHeaderView::ResizeToContents);
  }
}

QTreeWidgetItem* DetailsPanel::group(const QString& title) {
  auto* item = new QTreeWidgetItem(this, {title});
  item->setFirstColumnSpanned(true);
  item->setToolTip(0, title);
  QFont bold = item->font(0);
  bold.setBold(true);
  item->setFont(0, bold);
  item->setExpanded(true);
  return item;
}

void DetailsPanel::show_selection(const Document* document, const ViewState& view) {
  set_columns({""}, 0);
  is_empty_ = true;
  if (document == nullptr) return;
  if (view.selected) return show_span(*document, *view.selected);
  if (view.selection) return show_range(*document, view);
  add(group("Nothing is selected"), {"click an op, or drag over a range"});
}

void DetailsPanel::show_span(const Document& document, const Span& span) {
  set_columns({"name", "value"}, 1);
  auto* own = group(shown(full_name(document.session, span)));
  add(own, details(document.session, span));
  const auto met = document.counterpart(span);
  if (!met) return;
  auto* other = group("met " + shown(full_name(document.session, *met)));
  add(other, details(document.session, *met));
}

void DetailsPanel::show_range(const Document& document, const ViewState& view) {
  const Session& session = document.session;
  const RangeTotals totals =
      range_totals(session, document.lanes, document.memory, view.selected_lanes, *view.selection);
  QStringList head{time(totals.range.length())};
  for (std::size_t side = 0; side < session.sides(); ++side) head << side_title(session, side);
  set_columns(head, 0);
  for (const RangeTotals::Pair& pair : totals.pairs) {
    auto* rank = group(shown(session.pairs()[pair.pair].title()));
    const auto row = [&](const char* what, auto&& value) {
      return add(rank, {what, of(pair.sides[0], value), of(pair.sides[1], value)});
    };
    row("ops", [](const RankTotals& of) { return shown(format_count(of.ops)); });
    row("compute", [](const RankTotals& of) { return time(of.compute); });
    row("communication", [](const RankTotals& of) { return time(of.comm); });
    row("… hidden", [](const RankTotals& of) { return time(of.hidden()); });
    row("… exposed", [](const RankTotals& of) { return time(of.exposed); });
    row("waits for ranks", [](const RankTotals& of) { return time(of.wait); });
    row("sent", [](const RankTotals& of) { return shown(format_bytes(of.wire_bytes)); });
    row("peak memory", [](const RankTotals& of) {
      return of.peak ? shown(format_bytes(of.peak->second)) : QString();
    });
    auto* peak = row("… at", [](const RankTotals& of) {
      return of.peak ? shown(format_position(of.peak->first)) : QString();
    });
    for (int side = 0; side < 2; ++side)
      if (const auto& of = pair.sides[static_cast<std::size_t>(side)]; of && of->peak)
        set_position(peak, side + 1, of->peak->first);
    for (const LaneTotals& lane : totals.lanes) {
      if (document.lanes[lane.lane].pair != pair.pair) continue;
      QStringList cells{shown(document.lanes[lane.lane].label()) + ": busy"};
      QStringList idle{"… idle"};
      for (std::size_t side = 0; side < 2; ++side) {
        const bool has = document.lanes[lane.lane].depth(side) > 0;
        cells << (has ? time(lane.busy[side]) : QString());
        idle << (has ? time(std::max<Ns>(0, totals.range.length() - lane.busy[side])) : QString());
      }
      add(rank, cells);
      add(rank, idle);
    }
  }
}

void DetailsPanel::show_holders(const Document& document, std::size_t pair, Ns at) {
  set_columns({"holder", "bytes", "cause"}, 0);
  for (std::size_t side = 0; side < document.session.sides(); ++side) {
    const auto& memory = document.memory[pair][side];
    if (!memory || memory->empty()) continue;
    auto* own = group(side_title(document.session, side) + " at " + shown(format_position(at)));
    const std::vector<Holder> holders = memory->holders(at);
    if (holders.empty()) add(own, {"no allocation is known at this time"});
    for (const Holder& holder : holders)
      add(own, {shown(holder.scope.empty() ? holder.name : holder.scope + ": " + holder.name),
                shown(format_bytes(holder.bytes)),
                shown(foregather::name(holder.cause)).replace('_', ' ')});
  }
}

QString DetailsPanel::csv() const {
  if (is_empty_) return {};
  QString out;
  const auto line = [&](const QTreeWidgetItem* item) {
    QStringList cells;
    for (int c = 0; c < columnCount(); ++c) {
      if (isColumnHidden(c)) continue;
      const QVariant copied = item->data(c, kCopied);
      const QString text = copied.isValid() ? copied.toString() : item->text(c);
      cells << shown(csv_cell(text.toStdString()));
    }
    out += cells.join(',') + '\n';
  };
  line(headerItem());
  for (int g = 0; g < topLevelItemCount(); ++g) {
    line(topLevelItem(g));
    for (int i = 0; i < topLevelItem(g)->childCount(); ++i) line(topLevelItem(g)->child(i));
  }
  return out;
}

}  // namespace foregather::gui
