#include "traces/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace foregather::traces {

Result<ByteStream> ByteStream::open(const std::string& path) {
  ByteStream stream;
  // Non-blocking, so that a pipe without a writer does not hang the open.
  stream.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (stream.descriptor_ < 0) return fail_at(path, "cannot be read: {}", std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(stream.descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode))
    return fail_at(path, "is {}, expected a regular file",
                   known && S_ISDIR(status.st_mode) ? "a directory" : "not a regular file");
  stream.size_ = status.st_size;
  return stream;
}

ByteStream ByteStream::of(std::string_view content) {
  ByteStream stream;
  stream.window_ = content;
  stream.size_ = static_cast<Bytes>(content.size());
  return stream;
}

// The window refers to the buffer, whose bytes may lie inside the string object.
ByteStream::ByteStream(ByteStream&& other) noexcept
    : descriptor_(other.descriptor_), size_(other.size_), before_(other.before_), at_(other.at_) {
  const bool is_buffered = descriptor_ >= 0;
  buffer_ = std::move(other.buffer_);
  window_ = is_buffered ? std::string_view(buffer_).substr(0, other.window_.size()) : other.window_;
  other.descriptor_ = -1;
}

ByteStream::~ByteStream() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

// Moves what is left to the front of the buffer and reads on.
void ByteStream::refill(std::size_t count) {
  if (descriptor_ < 0) return;
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  std::size_t filled = window_.size() - at_;
  std::string left(window_.substr(at_));
  before_ += static_cast<Bytes>(at_);
  at_ = 0;
  if (buffer_.size() < std::max(count, kPiece)) buffer_.resize(std::max(count, kPiece));
  std::copy(left.begin(), left.end(), buffer_.begin());
  while (filled < buffer_.size()) {
    const ssize_t n = ::read(descriptor_, buffer_.data() + filled, buffer_.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    filled += static_cast<std::size_t>(n);
  }
  window_ = std::string_view(buffer_).substr(0, filled);
}

}  // namespace foregather::traces
