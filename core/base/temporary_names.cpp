#include "core/base/temporary_names.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/file.h"
#include "core/base/last_words.h"

namespace foregather {
namespace {

// `path` and `journal` are written before `used`.
struct TemporaryName {
  std::atomic<bool> taken{false};
  std::atomic<bool> used{false};
  bool is_folder = false;
  std::array<char, PATH_MAX> path{};
  std::array<char, PATH_MAX> journal{};  // SQLite's
};
std::array<TemporaryName, 16> temporary_names;

int note(const std::string& path, bool is_folder) {
  constexpr std::string_view kJournal = "-journal";
  if (path.size() + kJournal.size() >= PATH_MAX) return -1;
  for (std::size_t slot = 0; slot < temporary_names.size(); ++slot) {
    TemporaryName& name = temporary_names[slot];
    if (name.taken.exchange(true)) continue;
    name.is_folder = is_folder;
    std::memcpy(name.path.data(), path.c_str(), path.size() + 1);
    std::memcpy(name.journal.data(), path.data(), path.size());
    std::memcpy(name.journal.data() + path.size(), kJournal.data(), kJournal.size() + 1);
    name.used = true;
    return static_cast<int>(slot);
  }
  return -1;
}

std::atomic<const char*> words_on_signals = nullptr;

void end_by_signal(int signal) {
  remove_temporaries();
  if (const char* const words = words_on_signals) [[maybe_unused]]
    const ssize_t written = ::write(STDERR_FILENO, words, std::strlen(words));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

SignalsWait::SignalsWait() {
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int signal : kEndingSignals) ::sigaddset(&ends, signal);
  ::pthread_sigmask(SIG_BLOCK, &ends, &before_);
}

SignalsWait::~SignalsWait() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

// opendir() takes memory.
void remove_folder_of_files(const char* path) {
  struct Entry {  // linux_dirent64 of getdents64(2)
    std::uint64_t inode, offset;
    std::uint16_t length;
    std::uint8_t type;
    char name[1];
  };
  const int folder = ::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  // Under another name first, so that other threads make no more files in it.
  constexpr std::string_view kAway = ".away";
  std::array<char, PATH_MAX> away;
  if (const std::size_t length = std::strlen(path); length + kAway.size() < away.size()) {
    std::memcpy(away.data(), path, length);
    std::memcpy(away.data() + length, kAway.data(), kAway.size());
    away[length + kAway.size()] = '\0';
    if (std::rename(path, away.data()) == 0) path = away.data();
  }
  alignas(Entry) std::array<char, 4096> bytes;
  for (long got = 0; (got = ::syscall(SYS_getdents64, folder, bytes.data(), bytes.size())) > 0;)
    for (long at = 0; at < got;) {
      const auto* const entry = reinterpret_cast<const Entry*>(bytes.data() + at);
      const char* const name = bytes.data() + at + offsetof(Entry, name);
      ::unlinkat(folder, name, 0);
      at += entry->length;
    }
  ::close(folder);
  ::rmdir(path);
}

int note_temporary_file(const std::string& path) { return note(path, false); }

int note_temporary_folder(const std::string& path) { return note(path, true); }

void forget_temporary_name(int slot) {
  if (slot < 0) return;
  temporary_names[static_cast<std::size_t>(slot)].used = false;
  temporary_names[static_cast<std::size_t>(slot)].taken = false;
}

void remove_temporaries() {
  for (const TemporaryName& name : temporary_names) {
    if (!name.used) continue;
    if (name.is_folder) {
      remove_folder_of_files(name.path.data());
    } else {
      ::unlink(name.path.data());
      ::unlink(name.journal.data());
    }
  }
}

WordsOnSignals::WordsOnSignals(std::string text) : text_(std::move(text)) {
  words_on_signals = text_.c_str();
}

WordsOnSignals::~WordsOnSignals() { words_on_signals = nullptr; }

void remove_temporaries_on_signals() {
  // A write beyond RLIMIT_FSIZE is an error then, as on a full disk. A handler, since programs that
  // are started would go on ignoring it.
  struct sigaction before {};
  if (::sigaction(SIGXFSZ, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
    struct sigaction too_large {};
    too_large.sa_handler = [](int) {};
    too_large.sa_flags = SA_RESTART;
    ::sigaction(SIGXFSZ, &too_large, nullptr);
  }
  for (const int signal : kEndingSignals) {
    struct sigaction old {};
    // Whoever ignores the signal (nohup) goes on ignoring it.
    if (::sigaction(signal, nullptr, &old) != 0 || old.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = end_by_signal;
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace foregather
