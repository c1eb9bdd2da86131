#include "gui/models/time_axis.h"

#include <fmt/format.h>

#include <cmath>

namespace foregather::gui {
namespace {

// 1, 2 or 5 times a power of ten.
Ns round_step(double least) {
  Ns step = 1;
  while (true) {
    for (const Ns factor : {1, 2, 5})
      if (static_cast<double>(step * factor) >= least) return step * factor;
    step *= 10;
  }
}

struct Unit {
  Ns size;
  const char* name;
};

// The largest that is no larger than the times.
Unit unit_of(TimeRange range) {
  const Ns large = std::max(std::abs(range.begin), std::abs(range.end));
  Unit unit{1, "ns"};
  for (const Unit& next : {Unit{kMicrosecond, "µs"}, Unit{kMillisecond, "ms"}, Unit{kSecond, "s"}})
    if (large >= next.size) unit = next;
  return unit;
}

std::string label_of(Ns time, Ns step, const Unit& unit) {
  int digits = 0;
  for (Ns at = unit.size; at > step; at /= 10) ++digits;
  return fmt::format("{:.{}f} {}", static_cast<double>(time) / static_cast<double>(unit.size),
                     digits, unit.name);
}

}  // namespace

std::string format_position(Ns time) {
  const Unit unit = unit_of({time, time});
  const Ns whole = std::abs(time) / unit.size, rest = std::abs(time) % unit.size;
  std::string digits;
  for (Ns size = unit.size / 10; size > 0; size /= 10)
    digits += static_cast<char>('0' + rest / size % 10);
  return fmt::format("{}{}{}{} {}", time < 0 ? "-" : "", whole, digits.empty() ? "" : ".", digits,
                     unit.name);
}

Ns TimeAxis::time(double at) const {
  return range.begin +
         static_cast<Ns>(std::floor(at * static_cast<double>(range.length()) / width));
}

Ns TimeAxis::pixel() const {
  return std::max<Ns>(1, static_cast<Ns>(std::ceil(static_cast<double>(range.length()) / width)));
}

TimeRange clamped(TimeRange range, TimeRange limits) {
  const Ns length = std::clamp<Ns>(range.length(), 1, std::max<Ns>(limits.length(), 1));
  const Ns begin =
      std::clamp(range.begin, limits.begin, std::max(limits.begin, limits.end - length));
  return {begin, begin + length};
}

TimeRange zoomed(TimeRange range, double factor, Ns around, TimeRange limits) {
  const double length = static_cast<double>(range.length());
  const double wanted =
      std::clamp(length * factor, 1.0, static_cast<double>(std::max<Ns>(limits.length(), 1)));
  const double share = static_cast<double>(around - range.begin) / length;
  const Ns rounded = std::max<Ns>(1, static_cast<Ns>(std::llround(wanted)));
  const Ns begin = around - static_cast<Ns>(std::llround(share * static_cast<double>(rounded)));
  return clamped({begin, begin + rounded}, limits);
}

TimeRange panned(TimeRange range, double share, TimeRange limits) {
  return moved(range, static_cast<Ns>(std::llround(share * static_cast<double>(range.length()))),
               limits);
}

TimeRange moved(TimeRange range, Ns by, TimeRange limits) {
  return clamped({range.begin + by, range.end + by}, limits);
}

std::vector<Tick> ticks(const TimeAxis& axis, double apart) {
  if (axis.width < 1) return {};
  const double per_pixel = static_cast<double>(axis.range.length()) / axis.width;
  const Ns step = round_step(apart * per_pixel);
  const Ns minor = std::max<Ns>(1, step / 5);
  const Unit unit = unit_of(axis.range);
  std::vector<Tick> found;
  Ns time = axis.range.begin / minor * minor;
  if (time < axis.range.begin) time += minor;
  for (; time <= axis.range.end; time += minor)
    found.push_back({time, time % step == 0 ? label_of(time, step, unit) : std::string()});
  return found;
}

}  // namespace foregather::gui
