#include "cli/terminal.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/base/printable.h"

namespace foregather::cli {

namespace {

int write_out(std::string_view text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return 0;
  return give_up(Error{"standard output",
                       fmt::format("cannot be written: {}", std::strerror(errno)), Fault::work});
}

}  // namespace

int print(std::string_view text) { return write_out(printable(text, true)); }

int print_json(std::string_view text) { return write_out(text); }

void complain(std::string_view message) {
  constexpr std::size_t kLongest = 1500;
  const std::string line = fmt::format("foregather: {}\n", printable(shortened(message, kLongest)));
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int give_up(const Error& error) {
  complain(error.text());
  return error.fault == Fault::work ? 1 : 2;
}

}  // namespace foregather::cli
