// The colours of the widgets around the pictures.
#pragma once

#include "gui/views/theme.h"

namespace foregather::gui {

/// Does the system ask for light on dark?
bool system_is_dark();

/// Gives all widgets of the application the theme's colours.
void use_palette(const Theme& theme);

}  // namespace foregather::gui
