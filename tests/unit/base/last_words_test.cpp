#include "core/base/last_words.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <catch2/catch.hpp>

#include "core/base/file.h"

using namespace foregather;

namespace {

// What a program says that is interrupted while `words` live, or after.
std::string said_when_interrupted(const std::string& words, bool live) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    for (const int end : ends) ::close(end);
    std::signal(SIGINT, SIG_DFL);
    remove_temporaries_on_signals();
    std::optional<WordsOnSignals> said(words);
    if (!live) said.reset();
    ::raise(SIGINT);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text(4096, ' ');
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
  return text.substr(0, static_cast<std::size_t>(size));
}

}  // namespace

TEST_CASE("a program that is interrupted says its last words and ends by the signal") {
  CHECK(said_when_interrupted("go on with --resume\n", true) == "go on with --resume\n");
  CHECK(said_when_interrupted("go on with --resume\n", false).empty());
}
