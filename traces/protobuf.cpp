#include "traces/protobuf.h"

#include <algorithm>
#include <cstring>

namespace foregather::traces {
namespace {

constexpr std::size_t kReadPiece = std::size_t{1} << 20;
constexpr std::size_t kLongestVarint = 10;

}  // namespace

WireMessages::WireMessages(TextSource& source, const std::string& name)
    : source_(source), name_(name), buffer_(kReadPiece) {}

Result<std::optional<std::string_view>> WireMessages::next() {
  if (const Status filled = fill(kLongestVarint); !filled) return tl::unexpected(filled.error());
  if (at_ == end_) return std::nullopt;
  offset_ = bytes();
  std::string_view rest(&buffer_[at_], end_ - at_);
  std::uint64_t length = 0;
  if (!take_varint(rest, length))
    return fail_at(name_, "byte {}: no length of a message, expected a varint", offset_);
  if (length > static_cast<std::uint64_t>(kLongest))
    return fail_at(name_, "byte {}: a message of {} bytes, expected at most {} MiB", offset_,
                   length, kLongest / MiB);
  const std::size_t head = end_ - at_ - rest.size();
  if (const Status filled = fill(head + static_cast<std::size_t>(length)); !filled)
    return tl::unexpected(filled.error());
  if (end_ - at_ < head + length)
    return fail_at(name_, "byte {}: ends inside a message of {} bytes, of which {} are there",
                   offset_, length, end_ - at_ - head);
  const std::string_view message(&buffer_[at_ + head], static_cast<std::size_t>(length));
  at_ += head + message.size();
  return message;
}

// Moves what is left to the front and reads until `wanted` bytes are there, or the end.
Status WireMessages::fill(std::size_t wanted) {
  if (is_at_end_ || end_ - at_ >= wanted) return {};
  std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
  before_ += static_cast<Bytes>(at_);
  end_ -= at_;
  at_ = 0;
  // A length that only claims much costs no more than what is there.
  while (end_ < wanted && !is_at_end_) {
    if (end_ == buffer_.size()) buffer_.resize(std::min(2 * buffer_.size(), wanted + kReadPiece));
    const std::size_t room = buffer_.size() - end_;
    const auto n = source_.read(std::span(buffer_).subspan(end_, room));
    if (!n) return tl::unexpected(n.error());
    is_at_end_ = *n < room;
    end_ += *n;
  }
  return {};
}

}  // namespace foregather::traces
