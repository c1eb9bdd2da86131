#include "tests/support/processes.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include <catch2/catch.hpp>

#include "core/store/sweep_reader.h"

namespace foregather::test {

pid_t begin_process(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment, const std::string& out) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  for (const std::string& each : environment) ::putenv(const_cast<char*>(each.c_str()));
  const int file = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

int end_of(pid_t child) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr auto kPatience = std::chrono::minutes(10);
#else
  constexpr auto kPatience = std::chrono::minutes(2);
#endif
  const auto until = std::chrono::steady_clock::now() + kPatience;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return -1000;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<run::SweepPoint> stored_points(const std::string& path) {
  std::vector<run::SweepPoint> all;
  auto reader = store::SweepReader::open(path);
  if (!reader) FAIL(reader.error().text());
  while (true) {
    auto point = reader->next();
    if (!point) FAIL(point.error().text());
    if (!*point) return all;
    all.push_back(std::move(**point));
  }
}

}  // namespace foregather::test
