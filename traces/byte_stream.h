// Bytes of a file or of memory, front to back, with a window to look ahead.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"

namespace foregather::traces {

/// Reads a file in pieces, so that it is never in memory as a whole. One thread.
class ByteStream {
 public:
  /// A missing file, a directory or a pipe is an input error at the path.
  static Result<ByteStream> open(const std::string& path);
  /// Borrows `content`, which must outlive the stream.
  static ByteStream of(std::string_view content);
  ByteStream(ByteStream&& other) noexcept;
  ByteStream& operator=(ByteStream&&) = delete;
  ~ByteStream();

  Bytes offset() const { return before_ + static_cast<Bytes>(at_); }
  /// By the file's size when it was opened.
  Bytes remaining() const { return size_ - offset(); }

  /// The next `count` bytes, fewer only at the end. Borrowed until the next peek.
  std::string_view peek(std::size_t count) {
    if (window_.size() - at_ < count) [[unlikely]]
      refill(count);
    return window_.substr(at_, count);
  }
  /// Forward by `count` bytes that peek has shown.
  void skip(std::size_t count) { at_ += count; }

 private:
  ByteStream() = default;
  void refill(std::size_t count);

  int descriptor_ = -1;  ///< -1: memory
  Bytes size_ = 0;
  Bytes before_ = 0;  ///< offset of the window
  std::string buffer_;
  std::string_view window_;
  std::size_t at_ = 0;  ///< in the window
};

}  // namespace foregather::traces
