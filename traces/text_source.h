// Where the bytes of a trace come from: a file, unpacked on the way.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"

namespace foregather::traces {

/// Bytes front to back. One thread.
class TextSource {
 public:
  virtual ~TextSource() = default;
  /// Fills `buffer` from its front; fewer bytes than it holds only at the end. Errors: a read that
  /// failed, damaged compressed data.
  virtual Result<std::size_t> read(std::span<char> buffer) = 0;
};

/// A source whose first bytes were looked at: reading begins with them again. Borrows both.
class Peeked final : public TextSource {
 public:
  Peeked(std::string_view head, TextSource& rest) : head_(head), rest_(rest) {}
  Result<std::size_t> read(std::span<char> buffer) override;

 private:
  std::string_view head_;
  TextSource& rest_;
};

/// The first `bytes` of what is left, or all of it. Errors: those of read().
Result<std::string> take_head(TextSource& source, std::size_t bytes);

/// How much tells one format from another.
inline constexpr std::size_t kFormatHead = std::size_t{1} << 16;

/// What a packed archive, or a packed member of one, unpacks to at most: a bomb is an error, not a
/// full disk.
inline constexpr Bytes kMostUnpackedBytes = 64 * GiB;

/// A file as it is, or unpacked where its first bytes are gzip's or zstd's. Errors: one that is
/// missing or no regular file.
Result<std::unique_ptr<TextSource>> open_text(const std::string& path);

/// Borrows `text`.
std::unique_ptr<TextSource> text_of(std::string_view text);

/// One of the files that a path names.
struct TextMember {
  std::string name;  ///< the path, with "!MEMBER" for a member of a tar archive
  Bytes bytes = 0;   ///< of a member; 0: as long as it is
  bool is_packed = false;
};

/// Visits the file at `path`, or, where it is a tar archive (packed or not), each regular file in
/// it, in order; "FILE!MEMBER" visits one member. `visit` need not read to the end. Errors: those
/// of open_text() and of `visit`, a member that is not there, a damaged archive.
Status visit_texts(const std::string& path,
                   const std::function<Status(const TextMember&, TextSource&)>& visit);

/// The first kFormatHead bytes of the file at `path`, unpacked, or of a file in an archive: of the
/// first whose head is wanted, else of the first. Errors: those of visit_texts().
Result<std::string> format_head(const std::string& path,
                                const std::function<bool(std::string_view)>& is_wanted = {});

}  // namespace foregather::traces
