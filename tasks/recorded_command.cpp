#include "tasks/recorded_command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/base/temporary_names.h"

namespace foregather::tasks {
namespace {

// In the child: reports through the pipe why the command did not start.
[[noreturn]] void become(const std::vector<char*>& arguments,
                         const std::map<std::string, std::string>& variables,
                         const sigset_t& signals, int report) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  ::pthread_sigmask(SIG_SETMASK, &signals, nullptr);
  ::execvp(arguments[0], arguments.data());
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &reason, sizeof reason);
  ::_exit(127);
}

int code_of(int status) {
  constexpr int kSignal = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignal + WTERMSIG(status);
}

}  // namespace

Result<CommandEnd> run_command(const std::vector<std::string>& command,
                               const std::map<std::string, std::string>& variables,
                               const std::function<void()>& watch) {
  constexpr timespec kPause{0, 500'000'000};
  sigset_t signals, before;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGCHLD);
  for (const int signal : kEndingSignals) ::sigaddset(&signals, signal);
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int report[2] = {-1, -1};
  if (::pipe2(report, O_CLOEXEC) != 0)
    return fail_work(command.front(), "cannot be run: {}", std::strerror(errno));
  ::pthread_sigmask(SIG_BLOCK, &signals, &before);
  const pid_t child = ::fork();
  if (child == 0) become(arguments, variables, before, report[1]);
  const int fork_error = errno;
  ::close(report[1]);
  int reason = 0;
  const bool has_failed =
      child < 0 || ::read(report[0], &reason, sizeof reason) == static_cast<ssize_t>(sizeof reason);
  ::close(report[0]);
  int status = 0;
  if (has_failed && child > 0) ::waitpid(child, &status, 0);
  while (!has_failed && ::waitpid(child, &status, WNOHANG) == 0) {
    siginfo_t info{};
    const int signal = ::sigtimedwait(&signals, &info, &kPause);
    const bool is_of_terminal =
        (signal == SIGINT || signal == SIGQUIT) && info.si_code == SI_KERNEL;
    if (signal > 0 && signal != SIGCHLD && !is_of_terminal) ::kill(child, signal);
    watch();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (has_failed)
    return fail_at(command.front(), "cannot be run: {}",
                   std::strerror(child < 0 ? fork_error : reason));
  return CommandEnd{child, code_of(status)};
}

}  // namespace foregather::tasks
