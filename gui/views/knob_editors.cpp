#include "gui/views/knob_editors.h"

#include <QAbstractSpinBox>
#include <QComboBox>
#include <QCompleter>
#include <QLineEdit>
#include <QSignalBlocker>
#include <QWheelEvent>

#include "gui/views/theme.h"

namespace foregather::gui {
namespace {

using Turn = std::function<void(const std::string&)>;

// Twice or half by arrows, keys and wheel; anything by typing.
class NumberBox final : public QAbstractSpinBox {
 public:
  NumberBox(Knob knob, Turn turn) : knob_(std::move(knob)), turn_(std::move(turn)) {
    lineEdit()->setPlaceholderText(shown(knob_.given));
    setFocusPolicy(Qt::StrongFocus);
    connect(this, &QAbstractSpinBox::editingFinished, this, [this] { settle(); });
  }

  void stepBy(int steps) override {
    std::string value = current();
    for (int i = 0; i < std::abs(steps); ++i)
      if (const std::string next = turned(knob_, value, steps > 0); !next.empty()) value = next;
    lineEdit()->setText(value == knob_.given ? QString() : shown(value));
    settle();
  }

  void set(const std::string& value) {
    lineEdit()->setText(shown(value));
    settled_ = value;
  }

 protected:
  StepEnabled stepEnabled() const override {
    const std::string value = current();
    StepEnabled enabled = StepNone;
    if (!turned(knob_, value, true).empty()) enabled |= StepUpEnabled;
    if (!turned(knob_, value, false).empty()) enabled |= StepDownEnabled;
    return enabled;
  }
  void wheelEvent(QWheelEvent* event) override {
    hasFocus() ? QAbstractSpinBox::wheelEvent(event) : event->ignore();
  }

 private:
  std::string current() const {
    const std::string typed = lineEdit()->text().trimmed().toStdString();
    return typed.empty() ? knob_.given : typed;
  }
  void settle() {
    const std::string typed = lineEdit()->text().trimmed().toStdString();
    if (typed == settled_) return;
    settled_ = typed;
    turn_(typed == knob_.given ? std::string() : typed);
  }

  Knob knob_;
  Turn turn_;
  std::string settled_;
};

class ChoiceBox final : public QComboBox {
 public:
  ChoiceBox() {
    setFocusPolicy(Qt::StrongFocus);
    setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    setMinimumContentsLength(8);
  }

 protected:
  void wheelEvent(QWheelEvent* event) override {
    hasFocus() ? QComboBox::wheelEvent(event) : event->ignore();
  }
};

}  // namespace

QWidget* make_knob_editor(const Knob& knob, Turn turn) {
  if (knob.kind == Knob::Kind::number && knob.choices.empty())
    return new NumberBox(knob, std::move(turn));
  if (knob.kind == Knob::Kind::text) {
    auto* line = new QLineEdit;
    line->setPlaceholderText(shown(knob.given));
    QObject::connect(line, &QLineEdit::editingFinished, line,
                     [line, turn] { turn(line->text().trimmed().toStdString()); });
    return line;
  }
  auto* box = new ChoiceBox;
  box->addItem(shown(knob.given.empty() ? "as it is" : knob.given), QString());
  for (const std::string& choice : knob.choices)
    if (choice != knob.given) box->addItem(shown(choice), shown(choice));
  if (knob.kind == Knob::Kind::number) {
    box->setEditable(true);
    box->setInsertPolicy(QComboBox::NoInsert);
    box->setCompleter(nullptr);
    QObject::connect(box->lineEdit(), &QLineEdit::editingFinished, box, [box, turn, knob] {
      const std::string typed = box->currentText().trimmed().toStdString();
      turn(typed == knob.given ? std::string() : typed);
    });
  }
  QObject::connect(box, &QComboBox::activated, box,
                   [box, turn](int index) { turn(box->itemData(index).toString().toStdString()); });
  return box;
}

void show_knob_value(QWidget* editor, const Knob& knob, const std::string& value) {
  const QSignalBlocker quiet(editor);
  if (auto* number = dynamic_cast<NumberBox*>(editor)) return number->set(value);
  if (auto* line = qobject_cast<QLineEdit*>(editor)) {
    if (line->text() != shown(value)) line->setText(shown(value));
    return;
  }
  auto* box = static_cast<QComboBox*>(editor);
  const int index = value.empty() ? 0 : box->findData(shown(value));
  if (index >= 0)
    box->setCurrentIndex(index);
  else
    box->setEditText(shown(value));
  box->setToolTip(shown(knob.help));
}

}  // namespace foregather::gui
