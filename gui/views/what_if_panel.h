// The knobs as a panel.
#pragma once

#include <QWidget>
#include <functional>
#include <string>
#include <vector>

#include "gui/models/what_if.h"

class QFormLayout;
class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QPushButton;
class QScrollArea;

namespace foregather::gui {

/// A line a knob; what is turned is bold. Below: what it changes, and the command line that says
/// the same. Shows a WhatIf that its owner keeps, and asks the owner to change it.
class WhatIfPanel final : public QWidget {
 public:
  explicit WhatIfPanel(QWidget* parent = nullptr);

  /// What is turned to what. Lines stay, and with them the keyboard's focus, while the knobs are
  /// the same.
  void show_knobs(const WhatIf& what_if);
  /// The first line gets the keyboard's focus.
  void focus_first();
  /// Now and the baseline; why there is nothing new.
  void show_figures(const WhatIfFigures& now, const WhatIfFigures& baseline);
  void show_message(const QString& message, bool is_error);
  QString message() const;
  QString command_line() const;
  /// The widget that turns a knob, null where there is none: for tests.
  QWidget* knob(const std::string& name) const;

  std::function<void(const std::string& name, const std::string& value)> on_turn;
  std::function<void(const std::string& passes)> on_further;
  std::function<void()> on_reset, on_pin, on_copy;

 private:
  struct Line {
    Knob knob;
    QLabel* label = nullptr;
    QWidget* editor = nullptr;
  };
  void build_lines(const WhatIf& what_if);
  QWidget* editor(const Knob& knob);
  void show_value(const Line& line, const std::string& value);

  std::vector<Line> lines_;
  QScrollArea* scroll_ = nullptr;
  QLineEdit* further_ = nullptr;
  QLabel* message_ = nullptr;
  QLabel* figures_ = nullptr;
  QPlainTextEdit* command_ = nullptr;
  QPushButton *pin_ = nullptr, *reset_ = nullptr, *copy_ = nullptr;
};

}  // namespace foregather::gui
