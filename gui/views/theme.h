// Colours and textures.
#pragma once

#include <QBrush>
#include <QColor>
#include <QFont>
#include <QString>
#include <array>
#include <string_view>

#include "gui/models/collective_parts.h"

namespace foregather::gui {

/// Ops that look alike.
enum class Family : std::uint8_t {
  matmul,
  attention,
  pointwise,  ///< norms, elementwise, softmax, reductions, embedding, loss
  optimizer,
  copy,  ///< copies, casts, fills
  gather,
  reduce,
  other_comm,
  other,
};
inline constexpr std::size_t kFamilies = 9;
Family family(OpKind kind);
QString title(Family family);

/// The palette of Okabe and Ito (2008), which colour-blind people can tell apart, on a dark or a
/// light ground. Brightness differs between neighbours, and parts of collectives by texture, so
/// that no meaning rests on hue alone.
struct Theme {
  bool dark = false;
  QColor ground, band, line, grid, text, faint, selection, path, alarm;
  std::array<QColor, kFamilies> family;
  std::array<QColor, kCauses> cause;
  std::array<QColor, 2> side;  ///< of predicted and of measured curves
  QColor host;

  static Theme light();
  static Theme night();

  QColor of(OpKind kind) const { return family[static_cast<std::size_t>(gui::family(kind))]; }
  /// The texture of a part over the colour of its kind: dots wait, stripes are hidden, solid is
  /// exposed.
  QBrush texture(CommPart part) const;
  /// Blue: predicted too short; orange: too long; strongest from ±50 % on; grey: within 1 %.
  QColor residual(double error) const;
  /// Black or white, whichever reads better.
  static QColor text_on(const QColor& ground);
};

/// The font of pictures, `pixels` high: the platform's sans serif.
QFont picture_font(int pixels);
/// Text of the models is UTF-8, cut where it is no longer so.
QString shown(std::string_view text);

}  // namespace foregather::gui
