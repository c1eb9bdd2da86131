// The widgets that turn knobs.
#pragma once

#include <QWidget>
#include <functional>
#include <string>

#include "gui/models/knobs.h"

namespace foregather::gui {

/// A box of choices, a number with arrows, or a line of text. `turn` is called with what the user
/// chose, "" for what is given. The wheel turns it while it has the focus alone, so that it scrolls
/// the panel elsewhere.
QWidget* make_knob_editor(const Knob& knob, std::function<void(const std::string&)> turn);

/// Shows a value without calling `turn`.
void show_knob_value(QWidget* editor, const Knob& knob, const std::string& value);

}  // namespace foregather::gui
