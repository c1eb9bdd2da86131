#include "core/base/last_words.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include "core/base/file.h"

namespace foregather {
namespace {

[[noreturn]] void give_up(std::string_view line) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(1);
}

[[noreturn]] void end() {
  remove_temporaries();
  try {
    if (const auto uncaught = std::current_exception()) std::rethrow_exception(uncaught);
  } catch (const std::bad_alloc&) {
    give_up("foregather: out of memory\n");
  } catch (const std::system_error& error) {
    if (lacks_threads(error)) give_up("foregather: no more threads can be started\n");
  } catch (...) {
  }
  std::abort();
}

}  // namespace

void end_in_order() { std::set_terminate(end); }

}  // namespace foregather
