#include "gui/models/sweep_plot.h"

#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "core/store/sweep_reader.h"

namespace foregather::gui {
namespace {

Bytes peak_of(const run::PointFigures::Memory& memory) {
  return std::max(memory.peaks.reserved, memory.first_peaks.reserved);
}

std::string_view value_on(const run::SweepPoint& point, std::size_t axis) {
  return axis < point.values.size() ? std::string_view(point.values[axis]) : std::string_view();
}

// "--set X" and "--what-if Y", one a line.
void add_options(std::string_view options, WhatIfSource& source) {
  constexpr std::string_view kSet = "--set ", kWhatIf = "--what-if ";
  while (!options.empty()) {
    const std::string_view line = options.substr(0, options.find('\n'));
    options.remove_prefix(std::min(line.size() + 1, options.size()));
    if (line.starts_with(kSet)) source.sets.emplace_back(line.substr(kSet.size()));
    if (line.starts_with(kWhatIf)) source.passes.emplace_back(line.substr(kWhatIf.size()));
  }
}

}  // namespace

std::string_view short_key(std::string_view key) { return key.substr(key.rfind('.') + 1); }

bool SweepPlot::is_sweep(const std::string& path) { return store::is_sweep(path); }

Result<SweepPlot> SweepPlot::read(const std::string& path) {
  auto reader = store::SweepReader::open(path);
  if (!reader) return tl::unexpected(reader.error());
  std::vector<run::SweepPoint> points;
  for (;;) {
    auto point = reader->next();
    if (!point) return tl::unexpected(point.error());
    if (!*point) break;
    points.push_back(std::move(**point));
  }
  if (points.empty()) return fail_at(path, "has no points yet");
  return SweepPlot(path, reader->info(), std::move(points));
}

SweepPlot::SweepPlot(std::string path, run::SweepInfo info, std::vector<run::SweepPoint> points)
    : path_(std::move(path)), info_(std::move(info)), points_(std::move(points)) {
  bool is_one_limit = true;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const run::SweepPoint& point = points_[i];
    oom_ += point.status == run::PointStatus::out_of_memory ? 1 : 0;
    failed_ += point.status == run::PointStatus::failed ? 1 : 0;
    const auto& memory = point.figures.memory;
    if (memory) {
      const Bytes own = memory->capacity - memory->outside_allocator;
      is_one_limit = is_one_limit && limit_.value_or(own) == own;
      limit_ = own;
    }
    if (point.status != run::PointStatus::fits || !point.figures.times) continue;
    SweepDot& dot = dots_.emplace_back(SweepDot{i, point.figures.times->step, {}, false});
    if (memory) dot.peak = peak_of(*memory);
  }
  if (!is_one_limit) limit_.reset();
  std::stable_sort(dots_.begin(), dots_.end(), [](const SweepDot& a, const SweepDot& b) {
    return std::pair(a.step, a.peak) < std::pair(b.step, b.peak);
  });
  for (std::size_t i = 0; i < dots_.size(); ++i) {
    const auto peak = [&](std::size_t dot) { return dots_[dot].peak.value_or(0); };
    if (!front_.empty() && peak(i) >= peak(front_.back())) continue;
    dots_[i].on_front = true;
    front_.push_back(i);
  }
}

std::string SweepPlot::title(const run::SweepPoint& point) const {
  std::string text;
  for (std::size_t a = 0; a < info_.axes.size() && a < point.values.size(); ++a) {
    if (point.values[a].empty()) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", info_.axes[a].first, point.values[a]);
  }
  return text.empty() ? "as the source has it" : text;
}

std::vector<std::size_t> SweepPlot::front_axes() const {
  std::vector<std::size_t> axes;
  for (std::size_t a = 0; a < info_.axes.size(); ++a) {
    const auto differs = [&](std::size_t dot) {
      return value_on(points_[dots_[dot].point], a) !=
             value_on(points_[dots_[front_.front()].point], a);
    };
    if (std::any_of(front_.begin(), front_.end(), differs)) axes.push_back(a);
  }
  return axes;
}

std::string SweepPlot::values(const run::SweepPoint& point,
                              const std::vector<std::size_t>& axes) const {
  std::string text;
  for (const std::size_t a : axes) {
    const std::string_view value = value_on(point, a);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", value.empty() ? "–" : value);
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> SweepPlot::details(
    const run::SweepPoint& point) const {
  std::vector<std::pair<std::string, std::string>> rows;
  for (std::size_t a = 0; a < info_.axes.size() && a < point.values.size(); ++a)
    rows.emplace_back(info_.axes[a].first,
                      point.values[a].empty() ? "as the source has it" : point.values[a]);
  if (!point.error.empty()) rows.emplace_back("error", point.error);
  const run::PointFigures& figures = point.figures;
  if (const auto& times = figures.times) {
    rows.emplace_back("step time", format_time(times->step));
    rows.emplace_back("compute", format_time(times->compute_busy));
    rows.emplace_back("communication", format_time(times->comm_busy));
    rows.emplace_back("… exposed", format_time(times->exposed_comm));
  }
  if (figures.tokens_per_second)
    rows.emplace_back("tokens/s a GPU", fmt::format("{:.0f}", *figures.tokens_per_second));
  if (figures.mfu) rows.emplace_back("MFU", fmt::format("{:.1f} %", *figures.mfu * 100));
  const auto& memory = figures.memory;
  if (!memory && figures.times) rows.emplace_back("reserved, at most", "not known");
  if (memory) {
    rows.emplace_back("reserved, at most", format_bytes(peak_of(*memory)));
    if (memory->margin) rows.emplace_back("left", format_bytes(*memory->margin));
  }
  rows.emplace_back("ranks", format_count(figures.world_size));
  return rows;
}

WhatIfSource SweepPlot::source_of(const run::SweepPoint& point) const {
  WhatIfSource source;
  source.location = source.workload_path = info_.source;
  source.is_text = !info_.source_text.empty();
  if (source.is_text) {
    source.workload = info_.source_text;
    source.inputs = info_.inputs;
  }
  add_options(info_.options, source);
  constexpr std::string_view kWhatIf = "what-if.";
  for (std::size_t a = 0; a < info_.axes.size() && a < point.values.size(); ++a) {
    const std::string& key = info_.axes[a].first;
    const std::string& value = point.values[a];
    if (key.starts_with(kWhatIf)) {
      const std::string pass = key.substr(kWhatIf.size());
      if (value == "on") source.passes.push_back(pass);
      if (!value.empty() && value != "on" && value != "off")
        source.passes.push_back(pass + "=" + value);
    } else if (!value.empty() || key == "allocator.conf") {
      source.sets.push_back((key == "hw" ? "cluster.hardware" : key) + "=" + value);
    }
  }
  return source;
}

double SweepScale::x(Ns step) const {
  return left + width * static_cast<double>(step - least_step) /
                    static_cast<double>(std::max<Ns>(1, most_step - least_step));
}

double SweepScale::y(std::optional<Bytes> peak) const {
  const double share =
      peak && most_peak ? static_cast<double>(*peak) / static_cast<double>(*most_peak) : 0;
  return top + height * (1 - share);
}

SweepScale sweep_scale(const SweepPlot& plot, double left, double top, double width,
                       double height) {
  SweepScale scale{0, 1, {}, left, top, width, height};
  if (plot.dots().empty()) return scale;
  const Ns first = plot.dots().front().step, last = plot.dots().back().step;
  // Of times that are almost equal so much that labels of few digits tell them apart.
  const Ns room = std::max({Ns{1}, (last - first) / 20, last / 1000});
  scale.least_step = std::max<Ns>(0, first - room);
  scale.most_step = last + room;
  // What is absent is less than anything.
  scale.most_peak = plot.limit();
  for (const SweepDot& dot : plot.dots()) scale.most_peak = std::max(scale.most_peak, dot.peak);
  if (scale.most_peak) *scale.most_peak += std::max<Bytes>(1, *scale.most_peak / 20);
  return scale;
}

std::optional<std::size_t> dot_at(const SweepPlot& plot, const SweepScale& scale, double x,
                                  double y, double reach) {
  std::optional<std::size_t> nearest;
  double least = reach * reach;
  for (std::size_t i = 0; i < plot.dots().size(); ++i) {
    const double dx = scale.x(plot.dots()[i].step) - x, dy = scale.y(plot.dots()[i].peak) - y;
    const double distance = dx * dx + dy * dy;
    if (distance > least) continue;
    least = distance;
    nearest = i;
  }
  return nearest;
}

}  // namespace foregather::gui
