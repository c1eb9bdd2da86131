// The wire format of Protocol Buffers, by hand: messages behind their lengths, and the fields of
// one. Source: protobuf.dev, "Encoding".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "traces/text_source.h"

namespace foregather::traces {

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// Reads an LEB128 number of at most ten bytes at the front of `bytes`, which loses it. False,
/// and nothing is lost, where it is cut or has more than 64 bits.
inline bool take_varint(std::string_view& bytes, std::uint64_t& value) {
  constexpr std::size_t kMostBytes = 10;
  constexpr unsigned char kLastOfTen = 1;  // nine bytes hold 63 bits
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size() && i < kMostBytes; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    sum |= std::uint64_t{byte & 0x7fU} << (7 * i);
    if (byte >= 0x80) continue;
    if (i == kMostBytes - 1 && byte > kLastOfTen) return false;
    value = sum;
    bytes.remove_prefix(i + 1);
    return true;
  }
  return false;
}

/// The fields of one message, front to back, over borrowed bytes:
///   WireFields fields(message);
///   while (fields.next()) switch (fields.field()) …
///   if (fields.is_damaged()) …
class WireFields {
 public:
  explicit WireFields(std::string_view message) : rest_(message) {}

  /// False at the end, and where the message is damaged: a number or a length that is cut or goes
  /// over the end, field 0, a group or an unknown wire type.
  bool next() {
    if (rest_.empty()) return false;
    return read() || (is_damaged_ = true, false);
  }
  bool is_damaged() const { return is_damaged_; }

  std::uint32_t field() const { return field_; }
  WireType type() const { return type_; }
  /// Of a varint or a fixed-width field; 0 of bytes.
  std::uint64_t number() const { return number_; }
  /// Of a field of bytes; empty else.
  std::string_view bytes() const { return bytes_; }

 private:
  bool read() {
    std::uint64_t tag = 0;
    if (!take_varint(rest_, tag)) return false;
    constexpr std::uint64_t kMostField = (1U << 29U) - 1;
    if (tag >> 3U == 0 || tag >> 3U > kMostField) return false;
    field_ = static_cast<std::uint32_t>(tag >> 3U);
    type_ = static_cast<WireType>(tag & 7U);
    number_ = 0;
    bytes_ = {};
    switch (type_) {
      case WireType::varint: return take_varint(rest_, number_);
      case WireType::fixed64: return take_fixed(8);
      case WireType::fixed32: return take_fixed(4);
      case WireType::bytes: return take_bytes();
    }
    return false;
  }
  bool take_fixed(std::size_t width) {
    if (rest_.size() < width) return false;
    for (std::size_t i = width; i-- > 0;)
      number_ = number_ << 8U | static_cast<unsigned char>(rest_[i]);
    rest_.remove_prefix(width);
    return true;
  }
  bool take_bytes() {
    std::uint64_t length = 0;
    if (!take_varint(rest_, length) || length > rest_.size()) return false;
    bytes_ = rest_.substr(0, static_cast<std::size_t>(length));
    rest_.remove_prefix(bytes_.size());
    return true;
  }

  std::string_view rest_;
  std::uint32_t field_ = 0;
  WireType type_ = WireType::varint;
  std::uint64_t number_ = 0;
  std::string_view bytes_;
  bool is_damaged_ = false;
};

/// Messages that follow each other, each behind its length as a varint.
class WireMessages {
 public:
  /// What a message has at most.
  static constexpr Bytes kLongest = 64 * MiB;

  /// Both are borrowed; `name` is the place of errors.
  WireMessages(TextSource& source, const std::string& name);

  /// The next message, valid until the one after it is asked for; nothing at the end. Reads in
  /// pieces of 1 MiB, or of a message. Errors, at a byte of the text: a length that is no varint or
  /// more than kLongest, a text that ends inside a message; those of the source.
  Result<std::optional<std::string_view>> next();
  /// Where the last message's length begins in the text.
  Bytes offset() const { return offset_; }
  /// Bytes read as messages so far.
  Bytes bytes() const { return before_ + static_cast<Bytes>(at_); }

 private:
  Status fill(std::size_t wanted);

  TextSource& source_;
  const std::string& name_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, end_ = 0;  ///< what is left of the buffer
  Bytes before_ = 0;              ///< bytes before the buffer
  Bytes offset_ = 0;
  bool is_at_end_ = false;
};

}  // namespace foregather::traces
