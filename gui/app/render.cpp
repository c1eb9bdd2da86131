#include "gui/app/render.h"

#include <charconv>
#include <cmath>

#include "core/base/printable.h"
#include "core/base/text.h"
#include "gui/app/load.h"
#include "gui/views/memory_painter.h"

namespace foregather::gui {
namespace {

constexpr std::uint32_t kLeastSide = 200, kMostSide = 16384;

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<Ns> time_of(std::string_view text) {
  struct Unit {
    std::string_view name;
    double size;
  };
  if (text == "0") return 0;
  for (const Unit& unit :
       {Unit{"ns", 1}, Unit{"us", 1e3}, Unit{"µs", 1e3}, Unit{"ms", 1e6}, Unit{"s", 1e9}}) {
    if (!text.ends_with(unit.name)) continue;
    const auto number = number_of<double>(text.substr(0, text.size() - unit.name.size()));
    constexpr double kMost = 1e18;
    if (!number || !(std::abs(*number * unit.size) < kMost)) return std::nullopt;
    return static_cast<Ns>(std::llround(*number * unit.size));
  }
  return std::nullopt;
}

Status parse_size(const std::string& text, QSizeF& size) {
  const auto cross = text.find('x');
  const auto width = number_of<std::uint32_t>(std::string_view(text).substr(0, cross));
  const auto height = cross == text.npos
                          ? std::nullopt
                          : number_of<std::uint32_t>(std::string_view(text).substr(cross + 1));
  const auto is_fit = [](auto side) { return side && *side >= kLeastSide && *side <= kMostSide; };
  if (!is_fit(width) || !is_fit(height))
    return fail_at("--size", "'{}' is no size, expected WIDTHxHEIGHT of {} to {} pixels each",
                   printable(text), kLeastSide, kMostSide);
  size = QSizeF(*width, *height);
  return {};
}

Status parse_ranks(const std::string& text, std::vector<std::uint32_t>& ranks) {
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    const auto rank = number_of<std::uint32_t>(rest.substr(0, comma));
    if (!rank)
      return fail_at("--rank", "'{}' is no list of ranks, expected one such as 0,3",
                     printable(text));
    ranks.push_back(*rank);
    if (comma == rest.npos) return {};
    rest.remove_prefix(comma + 1);
  }
}

Status set_option(RenderRequest& request, const std::string& name, const std::string& value) {
  if (name == "--size") return parse_size(value, request.size);
  if (name == "--rank") return parse_ranks(value, request.ranks);
  if (name == "--range") {
    const auto range = parse_range(value);
    if (!range) return tl::unexpected(range.error());
    request.range = *range;
    return {};
  }
  if (name == "--view") {
    request.picture = picture_of(value);
    request.of_sweep = value == "sweep";
    if (!request.picture && !request.of_sweep)
      return fail_at("--view",
                     "'{}' is no view, expected timeline, memory, segments, residuals, summary or "
                     "sweep",
                     printable(value));
    return {};
  }
  if (name == "--output") {
    request.output = value;
    return {};
  }
  return fail_at(printable(name), "is no option of --render");
}

// Of the whole step, whatever part of it is asked for.
Status check_range(const RenderRequest& request, PictureOf picture) {
  if (request.range && (picture == PictureOf::residuals || picture == PictureOf::summary))
    return fail_at("--range", "goes with timeline, memory and segments, expected none of {}",
                   picture == PictureOf::residuals ? "residuals" : "a summary");
  return {};
}

Status render_sweep(const RenderRequest& request, const Theme& theme) {
  if (request.files.size() != 1) return fail("expected one sweep, got {}", request.files.size());
  const std::string& file = request.files.front();
  if (request.picture)
    return fail_at(printable(file), "is a sweep, which has no such view: expected --view sweep");
  if (request.range || !request.ranks.empty())
    return fail_at(request.range ? "--range" : "--rank",
                   "goes with runs, expected none of a sweep");
  const auto plot = SweepPlot::read(file);
  if (!plot) return tl::unexpected(plot.error());
  return save_picture(request.output, request.size, 1, [&](QPainter& painter) {
    paint_picture(painter, request.size, *plot, theme);
  });
}

}  // namespace

Result<TimeRange> parse_range(const std::string& text) {
  const auto dots = text.find("..");
  if (dots != text.npos) {
    const auto begin = time_of(std::string_view(text).substr(0, dots));
    const auto end = time_of(std::string_view(text).substr(dots + 2));
    if (begin && end && begin.value() < end.value()) return TimeRange{*begin, *end};
  }
  return fail_at("--range", "'{}' is no range of time, expected one such as 10ms..25.5ms",
                 printable(text));
}

Result<RenderRequest> parse_render(const std::vector<std::string>& arguments) {
  RenderRequest request;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--dark" || argument == "--light") {
      request.dark = argument == "--dark";
    } else if (argument.starts_with("--") && argument.size() > 2) {
      const auto equals = argument.find('=');
      if (equals == argument.npos) return fail_at(printable(argument), "needs a value after '='");
      if (const Status set =
              set_option(request, argument.substr(0, equals), argument.substr(equals + 1));
          !set)
        return tl::unexpected(set.error());
    } else {
      request.files.push_back(argument);
    }
  }
  if (request.files.empty() || request.files.size() > 2)
    return fail("expected one or two runs, got {}", request.files.size());
  if (request.output.empty()) return fail("expected --output=OUT.png or --output=OUT.svg");
  return request;
}

Status render(const RenderRequest& request) {
  const Theme theme = request.dark ? Theme::night() : Theme::light();
  if (request.of_sweep || SweepPlot::is_sweep(request.files.front()))
    return render_sweep(request, theme);
  const PictureOf picture = request.picture.value_or(PictureOf::timeline);
  if (const Status checked = check_range(request, picture); !checked) return checked;
  std::vector<OpenRun> runs;
  for (const std::string& file : request.files) {
    auto run = load_run(file);
    if (!run) return tl::unexpected(run.error());
    runs.push_back(std::move(*run));
  }
  const auto document = Document::open(std::move(runs), request.ranks);
  if (!document) return tl::unexpected(document.error());
  const TimeRange extent = (*document)->session.extent();
  if (request.range && (request.range->begin >= extent.end || request.range->end <= extent.begin))
    return fail_at("--range", "lies outside of what is drawn, from {} to {}",
                   format_time(extent.begin), format_time(extent.end));
  ViewState view = first_view((*document)->session, (*document)->lanes);
  if (request.range) view.range = *request.range;
  for (std::size_t pair = 0; pair < (*document)->memory.size(); ++pair)
    view.by_cause |= picture == PictureOf::memory && knows_causes(**document, pair, view.show);
  return save_picture(request.output, request.size, 1, [&](QPainter& painter) {
    paint_picture(painter, request.size, {**document, view, theme}, picture);
  });
}

}  // namespace foregather::gui
