// Finding ops by text.
#pragma once

#include <string>
#include <vector>

#include "gui/models/lanes.h"

namespace foregather::gui {

/// Ops whose "scope/phase/kind" or source, and calls whose name holds the text, case ignored: all
/// of them, but of ops those of the steps that are shown, of the first side before the second, in
/// order of rows. Empty text finds nothing. Linear in rows; each distinct text is looked at once.
std::vector<Span> search(const Session& session, const std::string& text);

}  // namespace foregather::gui
