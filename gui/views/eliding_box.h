// A choice whose long names end in dots.
#pragma once

#include <QComboBox>

namespace foregather::gui {

/// Shows the middle of a name that has no room as "…"; Qt cuts it where the room ends.
class ElidingBox final : public QComboBox {
 public:
  using QComboBox::QComboBox;

 protected:
  void paintEvent(QPaintEvent* event) override;
};

}  // namespace foregather::gui
