// The end of a program that cannot go on, or is told not to.
#pragma once

#include <string>
#include <system_error>

namespace foregather {

/// Is it what std::thread says where no thread can be started? Files have errors of the same kind.
inline bool lacks_threads(const std::system_error& error) {
  return error.code() == std::errc::resource_unavailable_try_again;
}

/// From now on an exception that no thread catches ends the program in order where it only means
/// that the machine has no more memory or threads: a line on standard error, no temporary left
/// (core/base/file.h), exit code 1. Any other one aborts as usual, temporaries removed. For
/// programs (main), not for libraries.
void end_in_order();

/// While it lives, signals that end the program on request (remove_temporaries_on_signals()) write
/// a text to standard error before. One at a time.
class WordsOnSignals {
 public:
  explicit WordsOnSignals(std::string text);
  ~WordsOnSignals();
  WordsOnSignals(const WordsOnSignals&) = delete;
  WordsOnSignals& operator=(const WordsOnSignals&) = delete;

 private:
  std::string text_;
};

}  // namespace foregather
