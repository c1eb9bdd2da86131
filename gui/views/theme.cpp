#include "gui/views/theme.h"

#include <QFontDatabase>
#include <algorithm>
#include <cmath>

namespace foregather::gui {
namespace {

constexpr QRgb kBlack = 0xff000000, kOrange = 0xffe69f00, kSky = 0xff56b4e9, kGreen = 0xff009e73,
               kYellow = 0xfff0e442, kBlue = 0xff0072b2, kVermillion = 0xffd55e00,
               kPurple = 0xffcc79a7, kGrey = 0xff8a8f98;

void set_shared(Theme& theme) {
  theme.family = {QColor(kBlue),       QColor(kGreen),     QColor(kSky),
                  QColor(kPurple),     QColor(kYellow),    QColor(kOrange),
                  QColor(kVermillion), QColor(0xff9a6324), QColor(kGrey)};
  theme.cause = {QColor(kBlue),      QColor(kOrange),    QColor(kVermillion), QColor(0xff9a6324),
                 QColor(kGreen),     QColor(kPurple),    QColor(kYellow),     QColor(kSky),
                 QColor(0xff117733), QColor(0xff999933), QColor(0xff332288),  QColor(kGrey)};
}

double luminance(const QColor& color) {
  return 0.299 * color.redF() + 0.587 * color.greenF() + 0.114 * color.blueF();
}

QColor mixed(const QColor& a, const QColor& b, double share) {
  const auto mix = [share](double x, double y) { return static_cast<float>(x + (y - x) * share); };
  return QColor::fromRgbF(mix(a.redF(), b.redF()), mix(a.greenF(), b.greenF()),
                          mix(a.blueF(), b.blueF()));
}

}  // namespace

Family family(OpKind kind) {
  switch (kind) {
    case OpKind::gemm: return Family::matmul;
    case OpKind::attention: return Family::attention;
    case OpKind::norm:
    case OpKind::elementwise:
    case OpKind::softmax:
    case OpKind::embedding:
    case OpKind::cross_entropy:
    case OpKind::fused:
    case OpKind::reduction: return Family::pointwise;
    case OpKind::optimizer: return Family::optimizer;
    case OpKind::copy:
    case OpKind::cast:
    case OpKind::fill:
    case OpKind::host_to_device:
    case OpKind::device_to_host: return Family::copy;
    case OpKind::all_gather: return Family::gather;
    case OpKind::reduce_scatter:
    case OpKind::all_reduce:
    case OpKind::reduce: return Family::reduce;
    case OpKind::broadcast:
    case OpKind::all_to_all:
    case OpKind::send_recv:
    case OpKind::barrier: return Family::other_comm;
    case OpKind::other:
    case OpKind::sleep: return Family::other;
  }
  return Family::other;
}

QString title(Family family) {
  switch (family) {
    case Family::matmul: return "matmul";
    case Family::attention: return "attention";
    case Family::pointwise: return "pointwise";
    case Family::optimizer: return "optimizer";
    case Family::copy: return "copy, cast";
    case Family::gather: return "all-gather";
    case Family::reduce: return "reduction";
    case Family::other_comm: return "other collective";
    case Family::other: return "other";
  }
  return {};
}

Theme Theme::light() {
  Theme theme;
  set_shared(theme);
  theme.ground = QColor(0xfffbfbfc);
  theme.band = QColor(0xfff0f1f4);
  theme.line = QColor(0xffc6cad1);
  theme.grid = QColor(0xffe4e6ea);
  theme.text = QColor(0xff1b1e24);
  theme.faint = QColor(0xff5c6470);
  theme.selection = QColor(0, 0x72, 0xb2, 48);
  theme.path = QColor(0xffc2006b);
  theme.alarm = QColor(0xffb00020);
  theme.side = {QColor(kBlue), QColor(kVermillion)};
  theme.host = QColor(0xff6b7280);
  return theme;
}

Theme Theme::night() {
  Theme theme;
  set_shared(theme);
  theme.dark = true;
  theme.ground = QColor(0xff17191d);
  theme.band = QColor(0xff1f2228);
  theme.line = QColor(0xff3b4049);
  theme.grid = QColor(0xff282c33);
  theme.text = QColor(0xffe8eaed);
  theme.faint = QColor(0xffa2a9b4);
  theme.selection = QColor(0x56, 0xb4, 0xe9, 56);
  theme.path = QColor(0xffff5fb0);
  theme.alarm = QColor(0xffff6b6b);
  theme.family[0] = QColor(0xff2e8fd0);
  theme.side = {QColor(kSky), QColor(kOrange)};
  theme.host = QColor(0xff8a93a1);
  return theme;
}

QBrush Theme::texture(CommPart part) const {
  const QColor mark = dark ? QColor(0xff17191d) : QColor(0xfffbfbfc);
  switch (part) {
    case CommPart::wait: return {mark, Qt::Dense4Pattern};
    case CommPart::hidden: return {mark, Qt::BDiagPattern};
    case CommPart::exposed: return Qt::NoBrush;
  }
  return Qt::NoBrush;
}

QColor Theme::residual(double error) const {
  constexpr double kStrongest = 0.5;
  const double share = std::min(1.0, std::abs(error) / kStrongest);
  const QColor none = dark ? QColor(0xff3a3f47) : QColor(0xffdfe2e7);
  constexpr double kNoise = 0.01;
  if (std::abs(error) < kNoise) return none;
  return mixed(none, error < 0 ? QColor(kBlue) : QColor(kVermillion), 0.2 + 0.8 * share);
}

QColor Theme::text_on(const QColor& ground) {
  return luminance(ground) > 0.55 ? QColor(kBlack) : QColor(Qt::white);
}

QFont picture_font(int pixels) {
  QFont font = QFontDatabase::systemFont(QFontDatabase::GeneralFont);
  font.setPixelSize(pixels);
  return font;
}

QString shown(std::string_view text) {
  return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

}  // namespace foregather::gui
