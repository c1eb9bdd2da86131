// Residuals as a picture.
#pragma once

#include <QPainter>

#include "gui/models/residuals.h"
#include "gui/views/theme.h"

namespace foregather::gui {

/// How many rows have which relative error, coloured as in the timeline's strip.
void paint_histogram(QPainter& painter, const QRectF& area, const ErrorHistogram& histogram,
                     const Theme& theme);

/// The first rows shown, as many as fit, and how many do not.
void paint_residual_table(QPainter& painter, const QRectF& area, const Residuals& residuals,
                          const Theme& theme);

}  // namespace foregather::gui
