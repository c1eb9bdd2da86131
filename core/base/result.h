// Errors are values at module borders.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <tl/expected.hpp>

namespace foregather {

/// Whose fault it is; decides the exit code of the program.
enum class Fault {
  input,  ///< bad usage or bad input: exit code 2
  work,   ///< the work failed (disk full, out of host memory): exit code 1
};

/// One line for a person: what is wrong and what was expected. `place` is "FILE", "FILE:LINE" or
/// "FILE:LINE:COL", empty when the error has none.
struct Error {
  std::string place;
  std::string message;
  Fault fault = Fault::input;

  /// "PLACE: MESSAGE", or the message alone.
  std::string text() const;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

/// An input error without a place.
template <class... Args>
tl::unexpected<Error> fail(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected(Error{{}, fmt::format(format, std::forward<Args>(args)...), Fault::input});
}

/// An input error at a place.
template <class... Args>
tl::unexpected<Error> fail_at(std::string place, fmt::format_string<Args...> format,
                              Args&&... args) {
  return tl::unexpected(
      Error{std::move(place), fmt::format(format, std::forward<Args>(args)...), Fault::input});
}

/// The work itself failed.
template <class... Args>
tl::unexpected<Error> fail_work(std::string place, fmt::format_string<Args...> format,
                                Args&&... args) {
  return tl::unexpected(
      Error{std::move(place), fmt::format(format, std::forward<Args>(args)...), Fault::work});
}

}  // namespace foregather
