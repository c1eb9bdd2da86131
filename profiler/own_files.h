// Files of the recording under descriptors that the recorded program may close, and have again for
// files of its own (daemons close all that they know nothing of).
#pragma once

#include <sys/types.h>

namespace foregather::profiler {

/// A descriptor, and which file it was of.
class OwnFile {
 public:
  OwnFile() = default;
  explicit OwnFile(int descriptor);
  /// The descriptor; −1: it never was one, or is of another file by now.
  int descriptor() const;

 private:
  int descriptor_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// From now on SQLite, as far as it is this library's own, neither writes nor cuts nor closes what
/// it has opened under a descriptor that has become another file's: such writes fail. Costs an
/// fstat a call.
void keep_off_foreign_files();

}  // namespace foregather::profiler
