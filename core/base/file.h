// Whole files in, whole files out.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"

namespace foregather {

/// The content of a regular file of at most `limit` bytes. A missing file, a directory or a longer
/// file is an input error at the path.
Result<std::string> read_file(const std::string& path, Bytes limit);

/// A file that appears under its name only once it is complete: it is written under a temporary
/// name in the same directory (created exclusively, so a link there is never followed) and renamed
/// by commit(). Without commit() the temporary is removed. A device or a pipe is written as it is:
/// it must not be replaced by a file.
class PendingFile {
 public:
  /// An unwritable directory, or a path that is empty or a directory, is an input error.
  static Result<PendingFile> create(const std::string& path);
  PendingFile(PendingFile&& other) noexcept;
  PendingFile& operator=(PendingFile&&) = delete;
  ~PendingFile();

  /// Empty for a device or a pipe.
  const std::string& temporary_path() const { return temporary_; }
  /// Appends; a short write (disk full) is a work error.
  Status write(std::string_view text);
  /// Flushes and renames. Errors (disk full) leave no file behind.
  Status commit();

 private:
  void forget_temporary();
  PendingFile() = default;
  std::string path_;
  std::string target_;  ///< path_ with links followed
  std::string temporary_;
  int descriptor_ = -1;
  int slot_ = -1;  ///< among the names that a signal handler removes
};

/// From now on SIGINT, SIGTERM and SIGHUP remove the temporaries of all pending files before they
/// end the process as usual. For programs (main), not for libraries.
void remove_pending_files_on_signals();

}  // namespace foregather
