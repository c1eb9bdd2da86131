#include "tests/faults/fault.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/faults/aftermath.h"
#include "tests/faults/small_disk.h"
#include "tests/support/places.h"
#include "tests/support/processes.h"

namespace foregather::test {
namespace {

namespace fs = std::filesystem;
using Cell = std::optional<std::string>;

// A change in a folder, seen from outside.
class Watch {
 public:
  explicit Watch(const std::string& folder) : file_(::inotify_init1(IN_CLOEXEC)) {
    ::inotify_add_watch(file_, folder.c_str(), IN_CREATE);
  }
  ~Watch() { ::close(file_); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  void wait(double seconds) const {
    pollfd poll{file_, POLLIN, 0};
    ::poll(&poll, 1, std::max(1, static_cast<int>(seconds * 1000)));
  }

 private:
  int file_;
};

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// Where a signal is passed on: until what it is passed to has said something. Where rows are
// written as they come: until there is a file for them. A busy machine needs longer than it did
// undisturbed.
void wait_until_it_matters(const LongCommand& command, const Stage& stage) {
  constexpr double kPause = 0.001, kPatience = 20;
  const std::string output = stage.folder() + "/" + command.output;
  for (double waited = 0; waited < kPatience * stage.seconds; waited += kPause) {
    if (command.passes_signals ? !text_of(stage.said()).empty()
                               : command.writes == LongCommand::Writes::whole || fs::exists(output))
      return;
    sleep_for(kPause);
  }
}

void empty_place(const LongCommand& command, const Stage& stage) {
  std::error_code ignored;
  for (const std::string& folder : {stage.folder(), stage.scratch.path("tmp")}) {
    fs::remove_all(folder, ignored);
    fs::create_directory(folder);
  }
  put_old_file(command, stage);
}

pid_t begin(const Texts& command, const Stage& stage) {
  fs::remove(stage.said());
  return begin_process(command, stage.environment(), stage.said());
}

int run_command(const Texts& command, const Stage& stage) { return end_of(begin(command, stage)); }

void check_says_where(const LongCommand& command, const Stage& stage, const std::string& what) {
  INFO(command.name << " said: " << last_line(stage));
  const std::string output = "foregather: " + stage.folder() + "/" + command.output;
  CHECK(last_line(stage).starts_with(output));
  CHECK(last_line(stage).ends_with(": cannot be written: " + what));
}

// Room for half of what the command writes.
Cell full_disk(const LongCommand& command, const Stage& stage) {
  fs::remove_all(stage.folder());
  SmallDisk disk(stage.folder(), "size=64m");
  if (!disk.is_there()) return {};
  put_old_file(command, stage);
  struct statvfs room {};
  REQUIRE(::statvfs(stage.folder().c_str(), &room) == 0);
  const std::size_t page = room.f_frsize;
  const std::size_t half = fs::file_size(stage.reference) / 2 / page * page;
  std::ofstream(stage.folder() + "/filler") << std::string(room.f_bavail * page - half, 'x');
  const int code = run_command(command.command(stage.folder()), stage);
  check_says_where(command, stage, "No space left on device");
  return aftermath(command, stage, code);
}

Cell read_only_folder(const LongCommand& command, const Stage& stage) {
  fs::remove_all(stage.folder());
  SmallDisk disk(stage.folder(), "size=64m");
  if (!disk.is_there()) return {};
  put_old_file(command, stage);
  if (!disk.make_read_only()) return {};
  const int code = run_command(command.command(stage.folder()), stage);
  check_says_where(command, stage, "Read-only file system");
  return aftermath(command, stage, code);
}

// The earlier, the later the machine let us be.
Cell signal_meets(int signal, const LongCommand& command, const Stage& stage) {
  for (const double share : {0.5, 0.5, 0.4, 0.3, 0.2, 0.6, 0.4, 0.3, 0.2, 0.1}) {
    empty_place(command, stage);
    const Watch watch(stage.folder());
    const pid_t child = begin(command.command(stage.folder()), stage);
    wait_until_it_matters(command, stage);
    if (command.writes_long)
      watch.wait(stage.seconds);
    else if (!command.passes_signals)
      sleep_for(share * stage.seconds);
    ::kill(child, signal);
    const int code = end_of(child);
    if (code == 0) continue;  // it was done
    const bool is_killed = signal == SIGKILL;
    const std::string cell = aftermath(command, stage, code, is_killed);
    // The output was in its place, and the process about to leave.
    if (cell.ends_with("new file") && !command.passes_signals) continue;
    if (is_killed) check_second_attempt(command, stage);
    return cell;
  }
  FAIL_CHECK(command.name << " is always done before a signal comes");
  return {};
}

int run_within(double kib, const Texts& command, const Stage& stage) {
  Texts limited{"/bin/sh", "-c", "ulimit -c 0 && ulimit -v \"$0\" && exec \"$@\"",
                std::to_string(static_cast<std::int64_t>(kib))};
  limited.insert(limited.end(), command.begin(), command.end());
  return run_command(limited, stage);
}

// As little as any program of these libraries starts with, then more and more until it is enough.
// With less, the loader or the C++ runtime ends it before main().
Cell out_of_memory(const LongCommand& command, const Stage& stage) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {};  // they reserve terabytes
#endif
  std::set<std::string> cells;
  constexpr double kMost = 4096 * 1024, kLittleMore = 1.02, kMore = 1.15;
  const double kib_of_devices = command.name == "run" ? 8.0 * 1024 * 1024 : 0;
  double least = 15 * 1024;
  while (least < kMost && run_within(least, {program_path(), "--version"}, stage) != 0)
    least *= kLittleMore;
  REQUIRE(least < kMost);
  for (double kib = least * kLittleMore; kib < kMost; kib *= kMore) {
    empty_place(command, stage);
    const int code = run_within(kib + kib_of_devices, command.command(stage.folder()), stage);
    const std::string said = last_line(stage);
    // The desktop program needs more libraries.
    if (said.find("error while loading shared libraries") != std::string::npos) continue;
    if (code == 0) break;
    INFO(command.name << " with " << kib << " KiB said: " << said);
    CHECK((said.find("out of memory") != std::string::npos ||
           said.find("no more threads") != std::string::npos ||
           said.find("Cannot allocate memory") != std::string::npos ||
           said.find("could be reserved") != std::string::npos));
    cells.insert(aftermath(command, stage, code));
  }
  std::string cell;
  for (const std::string& each : cells) cell += (cell.empty() ? "" : "; ") + each;
  return cell.empty() ? Cell() : Cell(cell);
}

Cell another_process(const LongCommand& command, const Stage& stage) {
  empty_place(command, stage);
  const Watch watch(stage.folder());
  const pid_t first = begin(command.command(stage.folder()), stage);
  watch.wait(stage.seconds / 2);
  const pid_t second = begin_process(command.command(stage.folder()), stage.environment(),
                                     stage.scratch.path("said by the second"));
  const int one = end_of(first), other = end_of(second);
  // Which of the two comes first is chance.
  const std::string state = aftermath(command, stage, std::min(one, other));
  return std::to_string(std::max(one, other)) + " and " + state;
}

Cell other_clock(const LongCommand& command, const Stage& stage) {
  if (!command.uses_clock) return "no clock";
  empty_place(command, stage);
  Texts shifted{"/usr/bin/unshare", "-T", "-f", "--monotonic", "864000", "--boottime", "864000"};
  Texts probe = shifted;
  probe.push_back("/bin/true");
  if (!fs::exists(shifted.front()) || run_command(probe, stage) != 0) return {};
  for (const std::string& each : command.command(stage.folder())) shifted.push_back(each);
  return aftermath(command, stage, run_command(shifted, stage));
}

Fault signal_fault(const char* name, int signal) {
  return {name, [signal](const LongCommand& command, const Stage& stage) {
            return signal_meets(signal, command, stage);
          }};
}

}  // namespace

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all{
      {"full disk", full_disk},           {"read-only folder", read_only_folder},
      signal_fault("SIGINT", SIGINT),     signal_fault("SIGTERM", SIGTERM),
      signal_fault("SIGKILL", SIGKILL),   {"out of memory", out_of_memory},
      {"twice at once", another_process}, {"clock 10 days ahead", other_clock}};
  return all;
}

}  // namespace foregather::test
