// Going from one span to another.
#pragma once

#include <optional>

#include "gui/models/document.h"
#include "gui/models/timeline_layout.h"
#include "gui/models/view_state.h"

namespace foregather::gui {

/// The span behind (or before) one on its track; absent at the ends.
std::optional<Span> neighbour(const Document& document, const Span& span, bool next);

/// What held a span back, on its own stream, too, else what it needed gathered, else its launch;
/// forward: the first one of another stream that it held back, else what needed it gathered, else
/// the first one of its own stream. Absent where nothing is known.
std::optional<Span> followed(const Document& document, const Span& span, bool forward);

/// The measured op of a residual's row, the predicted one where it has none.
Span span_of(const ResidualRow& row);

/// The range that shows a span with as much again around it; never empty.
TimeRange range_around(const Document& document, const Span& span);

/// The range moved so that it shows the span, as it is where it does already; a span longer than
/// the range has its own.
TimeRange range_showing(const Document& document, const Span& span, TimeRange range);

/// Have both the same lanes, in one order?
bool have_same_lanes(const Document& a, const Document& b);

/// The view of a document that takes the place of another one: options stay, the range (unless all
/// of the old document was shown: then all of the new one is), the order of lanes where they are
/// the same ones, the selected op where it is still in its row.
ViewState continued_view(const ViewState& view, const Document& old, const Document& now);

/// How far lanes must be scrolled so that `height` pixels show the lane of the span.
double scroll_showing(const Document& document, const TimelineLayout& layout, const Span& span,
                      double scroll, double height);

}  // namespace foregather::gui
