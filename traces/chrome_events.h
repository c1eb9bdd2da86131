// The text of Chrome trace events, piece by piece.
#pragma once

#include <fmt/compile.h>
#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "core/base/units.h"
#include "traces/formats.h"

namespace foregather::traces {

/// Printed as decimal microseconds with three decimals: exact nanoseconds.
struct Microseconds {
  Ns time = 0;
};

/// Where a slice lies. Neither is 0: Perfetto takes a thread 0 for the process's own one and a
/// process 0 for the idle one.
struct ChromeTrack {
  std::uint32_t process = 1, thread = 1;
  friend auto operator<=>(const ChromeTrack&, const ChromeTrack&) = default;
};

/// Hands text on in pieces of about 64 KiB. After the sink failed nothing more is handed on.
class ChromeEvents {
 public:
  /// All times will be later by `shift`.
  ChromeEvents(const TextSink& sink, Ns shift) : sink_(sink), shift_(shift) {}

  Microseconds at(Ns time) const { return {time + shift_}; }

  /// Text before or behind the events.
  void text(std::string_view text) { buffer_.append(text); }
  /// One event: the fields of its object, formatted by what FMT_COMPILE makes.
  template <class Format, class... Args>
  void event(const Format& fields, const Args&... args) {
    begin_event();
    fmt::format_to(fmt::appender(buffer_), fields, args...);
    end_event();
  }
  /// The same by hand: what is between the two goes into buffer().
  void begin_event() { text(std::exchange(has_events_, true) ? ",\n{" : "\n{"); }
  void end_event() {
    buffer_.push_back('}');
    if (buffer_.size() >= kPiece) flush();
  }
  fmt::memory_buffer& buffer() { return buffer_; }

  bool failed() const { return !status_; }
  /// Hands on what is left.
  Status finish() {
    flush();
    return status_;
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 16;

  void flush() {
    if (status_) status_ = sink_({buffer_.data(), buffer_.size()});
    buffer_.clear();
  }

  const TextSink& sink_;
  Ns shift_;
  fmt::memory_buffer buffer_;
  Status status_;
  bool has_events_ = false;
};

}  // namespace foregather::traces

template <>
struct fmt::formatter<foregather::traces::Microseconds> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const foregather::traces::Microseconds& value, Context& context) const {
    // Of the smallest number, too, the absolute value.
    const bool is_negative = value.time < 0;
    const std::uint64_t size = is_negative ? 0 - static_cast<std::uint64_t>(value.time)
                                           : static_cast<std::uint64_t>(value.time);
    return fmt::format_to(context.out(), FMT_COMPILE("{}{}.{:03}"), is_negative ? "-" : "",
                          size / 1000, size % 1000);
  }
};
