#include "gui/views/lists.h"

#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPlainTextEdit>
#include <QShortcut>
#include <QTreeWidget>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/views/theme.h"

namespace foregather::gui {
namespace {

QDialog* dialog(QWidget* parent, const QString& title, QSize size) {
  auto* made = new QDialog(parent);
  made->setAttribute(Qt::WA_DeleteOnClose);
  made->setWindowTitle(title);
  made->resize(size);
  new QVBoxLayout(made);
  return made;
}

QString keys(const CommandInfo& command) { return shown(command.keys).replace("; ", ",  "); }

}  // namespace

QDialog* list_dialog(QWidget* parent, const QString& title, const std::vector<std::string>& lines) {
  QDialog* made = dialog(parent, title, {760, 420});
  auto* text = new QPlainTextEdit;
  text->setReadOnly(true);
  QStringList all;
  for (const std::string& line : lines) all << shown(line);
  text->setPlainText(all.join('\n'));
  made->layout()->addWidget(text);
  return made;
}

QDialog* help_dialog(QWidget* parent) {
  QDialog* made = dialog(parent, "Keys and gestures", {620, 640});
  auto* tree = new QTreeWidget;
  tree->setHeaderLabels({"what", "keys"});
  tree->setRootIsDecorated(false);
  tree->setAlternatingRowColors(true);
  QTreeWidgetItem* group = nullptr;
  for (const CommandInfo& command : commands()) {
    if (group == nullptr || group->text(0) != shown(command.group)) {
      group = new QTreeWidgetItem(tree, {shown(command.group)});
      QFont bold = group->font(0);
      bold.setBold(true);
      group->setFont(0, bold);
      group->setExpanded(true);
    }
    new QTreeWidgetItem(group, {shown(command.title), keys(command)});
  }
  tree->header()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
  made->layout()->addWidget(tree);
  return made;
}

QDialog* palette_dialog(QWidget* parent, std::function<void(CommandId)> run) {
  QDialog* made = dialog(parent, "Commands", {480, 420});
  auto* words = new QLineEdit;
  auto* list = new QListWidget;
  made->layout()->addWidget(words);
  made->layout()->addWidget(list);
  words->setPlaceholderText("What to do");
  for (const CommandInfo& command : commands()) {
    if (command.is_gesture) continue;
    auto* item = new QListWidgetItem(shown(command.title) + "    " + keys(command), list);
    item->setData(Qt::UserRole, static_cast<int>(command.id));
  }
  list->setCurrentRow(0);
  QObject::connect(words, &QLineEdit::textChanged, list, [list](const QString& text) {
    const QStringList parts = text.split(' ', Qt::SkipEmptyParts);
    for (int i = list->count() - 1; i >= 0; --i) {
      const QString title = list->item(i)->text();
      const bool fits = std::all_of(parts.begin(), parts.end(), [&](const QString& part) {
        return title.contains(part, Qt::CaseInsensitive);
      });
      list->item(i)->setHidden(!fits);
      if (fits) list->setCurrentRow(i);
    }
  });
  for (const int by : {-1, 1}) {
    auto* key = new QShortcut(by < 0 ? Qt::Key_Up : Qt::Key_Down, words);
    key->setContext(Qt::WidgetShortcut);
    QObject::connect(key, &QShortcut::activated, list, [list, by] {
      int row = list->currentRow() + by;
      while (row >= 0 && row < list->count() && list->item(row)->isHidden()) row += by;
      if (row >= 0 && row < list->count()) list->setCurrentRow(row);
    });
  }
  const auto choose = [made, list, run = std::move(run)] {
    const QListWidgetItem* item = list->currentItem();
    const bool is_chosen = item != nullptr && !item->isHidden();
    const auto id =
        is_chosen ? static_cast<CommandId>(item->data(Qt::UserRole).toInt()) : CommandId::palette;
    made->close();
    if (is_chosen) run(id);
  };
  QObject::connect(words, &QLineEdit::returnPressed, list, choose);
  QObject::connect(list, &QListWidget::itemActivated, list, choose);
  return made;
}

}  // namespace foregather::gui
