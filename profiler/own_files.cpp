#include "profiler/own_files.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>

namespace foregather::profiler {
namespace {

// Files that SQLite has open: a database and its log, a folder now and then, those of a process
// that forked. Without locks: a fork copies them as they are.
struct Slot {
  std::atomic<int> descriptor{-1};
  OwnFile file;
};
constexpr std::size_t kSlots = 64;
std::array<Slot, kSlots> g_slots;

Slot* slot_of(int descriptor) {
  for (Slot& slot : g_slots)
    if (slot.descriptor.load(std::memory_order_acquire) == descriptor) return &slot;
  return nullptr;
}

// What it did not open itself it has from who opened it.
bool is_own(int descriptor) {
  const Slot* const slot = slot_of(descriptor);
  return slot == nullptr || slot->file.descriptor() == descriptor;
}

template <class Result>
Result refused() {
  errno = EBADF;
  return -1;
}

int open_file(const char* path, int flags, int mode) {
  const int descriptor = ::open(path, flags | O_CLOEXEC, mode);
  if (descriptor < 0) return descriptor;
  Slot* slot = slot_of(descriptor);  // of a file that somebody else has closed
  if (slot == nullptr) slot = slot_of(-1);
  if (slot != nullptr) {
    slot->file = OwnFile(descriptor);
    slot->descriptor.store(descriptor, std::memory_order_release);
  }
  return descriptor;
}

int close_file(int descriptor) {
  const bool is_ours = is_own(descriptor);
  if (Slot* const slot = slot_of(descriptor)) slot->descriptor.store(-1, std::memory_order_release);
  return is_ours ? ::close(descriptor) : 0;
}

ssize_t write_file(int descriptor, const void* bytes, std::size_t count) {
  return is_own(descriptor) ? ::write(descriptor, bytes, count) : refused<ssize_t>();
}
ssize_t write_at(int descriptor, const void* bytes, std::size_t count, off_t at) {
  return is_own(descriptor) ? ::pwrite(descriptor, bytes, count, at) : refused<ssize_t>();
}
ssize_t read_file(int descriptor, void* bytes, std::size_t count) {
  return is_own(descriptor) ? ::read(descriptor, bytes, count) : refused<ssize_t>();
}
ssize_t read_at(int descriptor, void* bytes, std::size_t count, off_t at) {
  return is_own(descriptor) ? ::pread(descriptor, bytes, count, at) : refused<ssize_t>();
}
int cut(int descriptor, off_t size) {
  return is_own(descriptor) ? ::ftruncate(descriptor, size) : refused<int>();
}
int allocate(int descriptor, off_t at, off_t size) {
  return is_own(descriptor) ? ::posix_fallocate(descriptor, at, size) : EBADF;
}
// SQLite gives a lock's address or a number, which the system call takes as one word alike.
int control(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return is_own(descriptor) ? ::fcntl(descriptor, command, argument) : refused<int>();
}

template <class Function>
void replace(sqlite3_vfs& system, const char* name, Function* with) {
  system.xSetSystemCall(&system, name, reinterpret_cast<sqlite3_syscall_ptr>(with));
}

}  // namespace

OwnFile::OwnFile(int descriptor) {
  struct stat info {};
  if (descriptor < 0 || ::fstat(descriptor, &info) != 0) return;
  descriptor_ = descriptor;
  device_ = info.st_dev;
  inode_ = info.st_ino;
}

int OwnFile::descriptor() const {
  struct stat info {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &info) != 0) return -1;
  return info.st_dev == device_ && info.st_ino == inode_ ? descriptor_ : -1;
}

void keep_off_foreign_files() {
  sqlite3_vfs* const system = sqlite3_vfs_find("unix");
  if (system == nullptr || system->iVersion < 3) return;
  replace(*system, "open", open_file);
  replace(*system, "close", close_file);
  replace(*system, "read", read_file);
  replace(*system, "pread", read_at);
  replace(*system, "pread64", read_at);
  replace(*system, "write", write_file);
  replace(*system, "pwrite", write_at);
  replace(*system, "pwrite64", write_at);
  replace(*system, "ftruncate", cut);
  replace(*system, "fallocate", allocate);
  replace(*system, "fcntl", control);
}

}  // namespace foregather::profiler
