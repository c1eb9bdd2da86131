// What a painter draws, as text.
#pragma once

#include <QPaintDevice>
#include <QSize>
#include <memory>
#include <string>
#include <vector>

namespace foregather::test {

/// A paper that lists fills and lines, one a line, "fill 10,20 30x4 #0072b2 solid", rounded to
/// whole pixels, without what texts need (fonts differ between machines): pictures that can be
/// compared and read in a diff. Words are apart.
class PaintList : public QPaintDevice {
 public:
  explicit PaintList(QSize size);
  ~PaintList() override;
  std::string text() const;
  const std::vector<std::string>& words() const;  ///< each text that was drawn
  /// Those of them that begin or end where nothing can be seen: off the paper, or cut off.
  const std::vector<std::string>& cut_words() const;
  QPaintEngine* paintEngine() const override;

 protected:
  int metric(PaintDeviceMetric metric) const override;

 private:
  class Engine;
  QSize size_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace foregather::test
