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

/// The file that writing to `path` makes or replaces: links are followed, also to a file that is
/// still to be made. Errors: a circle of links, another user's link in a shared directory.
Result<std::string> written_file(const std::string& path);

/// A file that appears under its name only once it is complete: it is written under a temporary
/// name in the same directory (created exclusively, so a link there is never followed) and renamed
/// by commit(). Without commit() the temporary is removed. A device or a pipe is written as it is:
/// it must not be replaced by a file. A link under the name is followed, but for what is_planted().
class PendingFile {
 public:
  /// An unwritable directory, a path that is empty or a directory, or a planted link is an input
  /// error.
  static Result<PendingFile> create(const std::string& path);
  /// Written as it is, where it stands.
  static Result<PendingFile> standard_output();
  PendingFile(PendingFile&& other) noexcept;
  PendingFile& operator=(PendingFile&&) = delete;
  ~PendingFile();

  /// Empty for a device or a pipe.
  const std::string& temporary_path() const { return temporary_; }
  /// Appends; a short write (disk full) is a work error.
  Status write(std::string_view text);
  /// Flushes and renames. Errors (disk full) leave no file behind.
  Status commit();
  /// Renames alone: of a file that this process reads back, which need not survive the machine.
  Status commit_unflushed();

 private:
  void forget_temporary();
  Status close_and_rename();
  PendingFile() = default;
  std::string path_;
  std::string target_;  ///< path_ with links followed
  std::string temporary_;
  int descriptor_ = -1;
  int slot_ = -1;  ///< among the names that a signal handler removes
};

/// Is `path` a link that another user may have left for whoever writes there: in a directory that
/// all may write to, and owned by neither this user nor the directory's? The rule of Linux's
/// fs.protected_symlinks, which guards no rename.
bool is_planted(const std::string& path);

/// A new folder of temporary files beneath TMPDIR (/tmp), for this user alone; it goes away with
/// this object. It holds files and no folders.
class TemporaryFolder {
 public:
  /// `name` begins the folder's name. A folder that cannot be made is a work error.
  static Result<TemporaryFolder> create(std::string_view name);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path);
  std::string path_;
  int slot_;
};

/// Removes the temporaries of all pending files and all temporary folders, from anywhere: a handler
/// of a signal, the end of a program that has no memory left.
void remove_temporaries();

/// From now on the signals that end a process on request (kEndingSignals, temporary_names.h) call
/// remove_temporaries() before they do so as usual. For programs (main), not for libraries.
void remove_temporaries_on_signals();

}  // namespace foregather
