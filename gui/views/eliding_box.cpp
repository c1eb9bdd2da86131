#include "gui/views/eliding_box.h"

#include <QStylePainter>

namespace foregather::gui {

void ElidingBox::paintEvent(QPaintEvent*) {
  QStyleOptionComboBox option;
  initStyleOption(&option);
  const QRect room =
      style()->subControlRect(QStyle::CC_ComboBox, &option, QStyle::SC_ComboBoxEditField, this);
  constexpr int kMargin = 4;
  option.currentText =
      fontMetrics().elidedText(option.currentText, Qt::ElideMiddle, room.width() - kMargin);
  QStylePainter painter(this);
  painter.drawComplexControl(QStyle::CC_ComboBox, option);
  painter.drawControl(QStyle::CE_ComboBoxLabel, option);
}

}  // namespace foregather::gui
