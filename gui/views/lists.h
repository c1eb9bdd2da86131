// Small dialogs: lists of text, the help, the command palette.
#pragma once

#include <QDialog>
#include <functional>
#include <string>
#include <vector>

#include "gui/models/commands.h"

namespace foregather::gui {

/// A title over lines that can be copied.
QDialog* list_dialog(QWidget* parent, const QString& title, const std::vector<std::string>& lines);

/// All commands and gestures with their keys, from the table of commands.
QDialog* help_dialog(QWidget* parent);

/// Finds a command by its words and runs it.
QDialog* palette_dialog(QWidget* parent, std::function<void(CommandId)> run);

}  // namespace foregather::gui
