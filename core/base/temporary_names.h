// What a signal handler removes: fixed places in memory that it may read at any moment.
#pragma once

#include <array>
#include <csignal>
#include <string>

namespace foregather {

/// What ends a program from outside: by hand, with its terminal, by a batch system's limits.
inline constexpr std::array kEndingSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};

/// While it lives, signals that end the process wait on this thread: between a file's making and
/// its note.
class SignalsWait {
 public:
  SignalsWait();
  ~SignalsWait();
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_;
};

/// Notes a file and the journal that SQLite may have beside it. The place of the note; -1: there is
/// none left, and only the owner removes the file.
int note_temporary_file(const std::string& path);

/// Removes a folder of files by system calls alone: without memory, from anywhere, also while other
/// threads make files there by its path. A link is left.
void remove_folder_of_files(const char* path);

/// Notes a folder of files.
int note_temporary_folder(const std::string& path);

/// -1 is ignored.
void forget_temporary_name(int slot);

}  // namespace foregather
