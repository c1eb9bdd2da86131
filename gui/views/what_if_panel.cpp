#include "gui/views/what_if_panel.h"

#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollArea>
#include <QVBoxLayout>
#include <algorithm>

#include "core/base/printable.h"
#include "core/base/text.h"
#include "gui/views/knob_editors.h"
#include "gui/views/theme.h"

namespace foregather::gui {
namespace {

constexpr int kLabelLetters = 19;

void set_bold(QLabel* label, bool bold) {
  QFont font = label->font();
  if (font.bold() == bold) return;
  font.setBold(bold);
  label->setFont(font);
}

bool are_alike(const Knob& a, const Knob& b) {
  return a.name == b.name && a.given == b.given && a.choices == b.choices;
}

}  // namespace

WhatIfPanel::WhatIfPanel(QWidget* parent) : QWidget(parent) {
  scroll_ = new QScrollArea;
  scroll_->setWidgetResizable(true);
  scroll_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll_->setFrameShape(QFrame::NoFrame);
  figures_ = new QLabel;
  figures_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  message_ = new QLabel;
  message_->setWordWrap(true);
  command_ = new QPlainTextEdit;
  command_->setReadOnly(true);
  command_->setTabChangesFocus(true);
  command_->setFixedHeight(4 * fontMetrics().lineSpacing());
  command_->setAccessibleName("Command line");
  pin_ = new QPushButton("Pin baseline");
  reset_ = new QPushButton("Reset");
  copy_ = new QPushButton("Copy command");
  auto* buttons = new QHBoxLayout;
  for (QPushButton* button : {pin_, reset_, copy_}) buttons->addWidget(button);
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(4, 4, 4, 4);
  all->addWidget(scroll_, 1);
  all->addWidget(figures_);
  all->addWidget(message_);
  all->addWidget(command_);
  all->addLayout(buttons);
  const auto ask = [this](std::function<void()> WhatIfPanel::*what) {
    return [this, what] {
      if (this->*what) (this->*what)();
    };
  };
  connect(pin_, &QPushButton::clicked, this, ask(&WhatIfPanel::on_pin));
  connect(reset_, &QPushButton::clicked, this, ask(&WhatIfPanel::on_reset));
  connect(copy_, &QPushButton::clicked, this, ask(&WhatIfPanel::on_copy));
}

void WhatIfPanel::show_knobs(const WhatIf& what_if) {
  const bool is_same =
      std::equal(lines_.begin(), lines_.end(), what_if.knobs().begin(), what_if.knobs().end(),
                 [](const Line& line, const Knob& knob) { return are_alike(line.knob, knob); });
  if (!is_same || scroll_->widget() == nullptr) build_lines(what_if);
  for (const Line& line : lines_) show_value(line, what_if.value(line.knob));
  if (further_->text().trimmed() != shown(what_if.further_passes()))
    further_->setText(shown(what_if.further_passes()));
  command_->setPlainText(shown(printable(what_if.command_line())));
  for (QPushButton* button : {pin_, copy_}) button->setEnabled(!what_if.empty());
  reset_->setEnabled(what_if.is_turned());
}

void WhatIfPanel::focus_first() {
  if (!lines_.empty()) lines_.front().editor->setFocus();
}

void WhatIfPanel::build_lines(const WhatIf& what_if) {
  // The line that is being turned may be among those that go.
  std::string focused;
  for (const Line& line : lines_)
    if (line.editor->hasFocus()) focused = line.knob.name;
  if (QWidget* old = scroll_->takeWidget()) old->deleteLater();
  lines_.clear();
  auto* page = new QWidget;
  auto* form = new QFormLayout(page);
  form->setContentsMargins(2, 2, 8, 2);
  form->setVerticalSpacing(3);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  std::string group;
  const int width = kLabelLetters * fontMetrics().averageCharWidth();
  for (const Knob& knob : what_if.knobs()) {
    if (knob.group != group) {
      group = knob.group;
      auto* title = new QLabel(shown(group));
      title->setForegroundRole(QPalette::PlaceholderText);
      form->addRow(title);
    }
    Line line{knob, new QLabel, editor(knob)};
    QFont bold = font();
    bold.setBold(true);
    line.label->setFixedWidth(width);
    line.label->setText(QFontMetrics(bold).elidedText(shown(knob.label), Qt::ElideMiddle, width));
    line.label->setToolTip(shown(knob.label + ": " + knob.help));
    line.label->setBuddy(line.editor);
    form->addRow(line.label, line.editor);
    lines_.push_back(std::move(line));
  }
  further_ = new QLineEdit;
  further_->setPlaceholderText("PASS=ARG …, as --what-if");
  further_->setAccessibleName("Further passes");
  connect(further_, &QLineEdit::editingFinished, this, [this] {
    if (on_further) on_further(further_->text().trimmed().toStdString());
  });
  form->addRow("more passes", further_);
  scroll_->setWidget(page);
  if (QWidget* again = knob(focused)) again->setFocus();
}

QWidget* WhatIfPanel::editor(const Knob& knob) {
  QWidget* made = make_knob_editor(knob, [this, name = knob.name](const std::string& value) {
    if (on_turn) on_turn(name, value);
  });
  made->setAccessibleName(shown(knob.name));
  made->setToolTip(shown(knob.help));
  made->setMinimumWidth(60);
  made->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  return made;
}

void WhatIfPanel::show_value(const Line& line, const std::string& value) {
  show_knob_value(line.editor, line.knob, value);
  set_bold(line.label, !value.empty());
}

void WhatIfPanel::show_figures(const WhatIfFigures& now, const WhatIfFigures& baseline) {
  const QStringList parts = shown(difference_text(now, baseline)).split(", ");
  figures_->setText(parts.join('\n'));
  show_message({}, false);
}

void WhatIfPanel::show_message(const QString& message, bool is_error) {
  message_->setText(message);
  message_->setVisible(!message.isEmpty());
  QFont own = font();
  own.setBold(is_error);
  message_->setFont(own);
}

QString WhatIfPanel::message() const { return message_->text(); }
QString WhatIfPanel::command_line() const { return command_->toPlainText(); }

QWidget* WhatIfPanel::knob(const std::string& name) const {
  for (const Line& line : lines_)
    if (line.knob.name == name) return line.editor;
  return nullptr;
}

}  // namespace foregather::gui
