#include "tests/gui/paint_list.h"

#include <fmt/format.h>

#include <QPaintEngine>
#include <QPainterPath>
#include <cmath>

namespace foregather::test {
namespace {

std::string color(const QColor& color) { return color.name(QColor::HexArgb).toStdString(); }

std::string box(const QRectF& r) {
  return fmt::format("{},{} {}x{}", std::lround(r.x()), std::lround(r.y()), std::lround(r.width()),
                     std::lround(r.height()));
}

}  // namespace

class PaintList::Engine : public QPaintEngine {
 public:
  explicit Engine(QSize paper)
      : QPaintEngine(QPaintEngine::AllFeatures), paper_(QPointF(0, 0), QSizeF(paper)) {}
  bool begin(QPaintDevice*) override { return true; }
  bool end() override { return true; }
  Type type() const override { return QPaintEngine::User; }
  void drawPixmap(const QRectF&, const QPixmap&, const QRectF&) override {}
  void drawTextItem(const QPointF& at, const QTextItem& item) override {
    words_.push_back(item.text().toStdString());
    const QRectF place(at.x(), at.y() - item.ascent() / 2, item.width(), item.ascent() / 2);
    const QRectF seen = clip_.intersected(paper_);
    if (place.intersects(seen) && !seen.adjusted(-1, -1, 1, 1).contains(place))
      cut_words_.push_back(words_.back());
  }

  void updateState(const QPaintEngineState& now) override {
    if (now.state() & DirtyPen) pen_ = now.pen();
    if (now.state() & DirtyBrush) brush_ = now.brush();
    if (now.state() & DirtyClipRegion || now.state() & DirtyClipPath ||
        now.state() & DirtyClipEnabled)
      clip_ = painter()->hasClipping() ? painter()->clipBoundingRect() : QRectF(0, 0, 1e6, 1e6);
    if (now.state() & DirtyOpacity) opacity_ = now.opacity();
  }
  void drawRects(const QRectF* rects, int count) override {
    for (int i = 0; i < count; ++i) shape("fill", rects[i]);
  }
  void drawRects(const QRect* rects, int count) override {
    for (int i = 0; i < count; ++i) shape("fill", rects[i]);
  }
  void drawLines(const QLineF* lines, int count) override {
    for (int i = 0; i < count; ++i) {
      const QRectF bounds = QRectF(lines[i].p1(), lines[i].p2()).normalized();
      if (pen_.style() != Qt::NoPen && bounds.adjusted(-1, -1, 1, 1).intersects(clip_))
        out_ += fmt::format("line {},{} {},{} {}\n", std::lround(lines[i].x1()),
                            std::lround(lines[i].y1()), std::lround(lines[i].x2()),
                            std::lround(lines[i].y2()), color(pen_.color()));
    }
  }
  void drawPath(const QPainterPath& path) override { shape("path", path.boundingRect()); }
  void drawPolygon(const QPointF* points, int count, PolygonDrawMode) override {
    QPolygonF polygon;
    for (int i = 0; i < count; ++i) polygon << points[i];
    shape("polygon", polygon.boundingRect());
  }

  std::string out_;
  std::vector<std::string> words_, cut_words_;

 private:
  void shape(const char* what, const QRectF& bounds) {
    // Outlines may be flat, and a flat rectangle intersects nothing.
    const QRectF seen(
        QPointF(std::max(bounds.left(), clip_.left()), std::max(bounds.top(), clip_.top())),
        QPointF(std::min(bounds.right(), clip_.right()),
                std::min(bounds.bottom(), clip_.bottom())));
    if (seen.width() < 0 || seen.height() < 0) return;
    if (!seen.isEmpty() && brush_.style() != Qt::NoBrush)
      out_ += fmt::format("{} {} {} style {}{}\n", what, box(seen), color(brush_.color()),
                          static_cast<int>(brush_.style()),
                          opacity_ < 1 ? fmt::format(" opacity {:.2f}", opacity_) : "");
    if (pen_.style() != Qt::NoPen)
      out_ += fmt::format("{} outline {} {}\n", what, box(seen), color(pen_.color()));
  }

  QPen pen_ = QPen(Qt::black);
  QBrush brush_;
  QRectF paper_;
  QRectF clip_{0, 0, 1e6, 1e6};
  double opacity_ = 1;
};

PaintList::PaintList(QSize size) : size_(size), engine_(std::make_unique<Engine>(size)) {}
PaintList::~PaintList() = default;
std::string PaintList::text() const { return engine_->out_; }
const std::vector<std::string>& PaintList::words() const { return engine_->words_; }
const std::vector<std::string>& PaintList::cut_words() const { return engine_->cut_words_; }
QPaintEngine* PaintList::paintEngine() const { return engine_.get(); }

int PaintList::metric(PaintDeviceMetric metric) const {
  constexpr int kDotsPerInch = 96;
  switch (metric) {
    case PdmWidth: return size_.width();
    case PdmHeight: return size_.height();
    case PdmDepth: return 32;
    case PdmDevicePixelRatio: return 1;
    case PdmDevicePixelRatioScaled: return static_cast<int>(devicePixelRatioFScale());
    case PdmDpiX:
    case PdmDpiY:
    case PdmPhysicalDpiX:
    case PdmPhysicalDpiY: return kDotsPerInch;
    default: return 0;
  }
}

}  // namespace foregather::test
