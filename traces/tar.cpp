#include "traces/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

namespace foregather::traces {
namespace {

constexpr std::size_t kLongestName = 1 << 16;
// Offsets of ustar's header.
constexpr std::size_t kNameEnd = 100, kSizeAt = 124, kSizeEnd = 136, kChecksumAt = 148,
                      kChecksumEnd = 156, kTypeAt = 156, kMagicAt = 257, kPrefixAt = 345,
                      kPrefixEnd = 500;
constexpr std::string_view kUstar = "ustar";
// Of a written header: rw-r--r--, user and group 0, 1970.
constexpr std::size_t kModeAt = 100, kUserAt = 108, kGroupAt = 116, kTimeAt = 136, kVersionAt = 263;
constexpr Bytes kLargestMember = (Bytes{1} << 33) - 1;  // eleven octal digits
constexpr std::array<char, 2 * kTarBlock> kZeros{};

std::string_view field(std::string_view block, std::size_t begin, std::size_t end) {
  const std::string_view bytes = block.substr(begin, end - begin);
  return bytes.substr(0, bytes.find('\0'));
}

std::optional<Bytes> octal(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  Bytes value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc() || value < 0) return std::nullopt;
  return value;
}

// GNU writes sizes of 8 GiB and more as big-endian bytes behind a set first bit.
std::optional<Bytes> size_of(std::string_view block) {
  if ((static_cast<unsigned char>(block[kSizeAt]) & 0x80U) == 0)
    return octal(field(block, kSizeAt, kSizeEnd));
  std::uint64_t value = 0;
  for (std::size_t i = kSizeAt + 1; i < kSizeEnd; ++i) {
    if ((value >> 54U) != 0) return std::nullopt;
    value = value << 8U | static_cast<unsigned char>(block[i]);
  }
  return static_cast<Bytes>(value);
}

std::int64_t checksum(std::string_view block) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i)
    sum += i >= kChecksumAt && i < kChecksumEnd ? ' ' : static_cast<unsigned char>(block[i]);
  return sum;
}

// The value of a key in pax's "LENGTH KEY=VALUE\n" records.
std::optional<std::string> pax_value(std::string_view records, std::string_view key) {
  while (!records.empty()) {
    std::size_t length = 0;
    const auto [end, error] =
        std::from_chars(records.data(), records.data() + records.size(), length);
    if (error != std::errc() || length == 0 || length > records.size()) return std::nullopt;
    std::string_view record = records.substr(0, length - 1);
    record.remove_prefix(std::min<std::size_t>(record.size(), end - records.data() + 1));
    if (record.starts_with(key) && record.substr(key.size()).starts_with('='))
      return std::string(record.substr(key.size() + 1));
    records.remove_prefix(length);
  }
  return std::nullopt;
}

// The bytes of one member.
class Content final : public TextSource {
 public:
  Content(TextSource& archive, const std::string& path, Bytes bytes)
      : archive_(archive), path_(path), left_(bytes) {}

  Result<std::size_t> read(std::span<char> buffer) override {
    const std::size_t wanted =
        std::min(buffer.size(), static_cast<std::size_t>(std::max<Bytes>(left_, 0)));
    const auto n = archive_.read(buffer.first(wanted));
    if (!n) return n;
    if (*n < wanted) return fail_at(path_, "ends inside a member, expected all of the archive");
    left_ -= static_cast<Bytes>(*n);
    return n;
  }
  Status skip(Bytes padding) {
    left_ += padding;
    std::array<char, 1 << 14> ignored{};
    while (left_ > 0)
      if (const auto n = read(ignored); !n) return tl::unexpected(n.error());
    return {};
  }

 private:
  TextSource& archive_;
  const std::string& path_;
  Bytes left_;
};

}  // namespace

bool is_tar(std::string_view head) {
  return head.size() >= kTarBlock && head.substr(kMagicAt, kUstar.size()) == kUstar &&
         octal(field(head, kChecksumAt, kChecksumEnd)) == checksum(head);
}

Status visit_tar(TextSource& archive, const std::string& path,
                 const std::function<Status(const TarMember&, TextSource&)>& visit) {
  std::string block(kTarBlock, '\0');
  std::string long_name;
  for (;;) {
    const auto n = archive.read(block);
    if (!n) return tl::unexpected(n.error());
    if (*n == 0 || std::all_of(block.begin(), block.end(), [](char c) { return c == '\0'; }))
      return {};
    const auto bytes = size_of(block);
    if (*n < kTarBlock || !bytes ||
        octal(field(block, kChecksumAt, kChecksumEnd)) != checksum(block))
      return fail_at(path, "has a damaged tar header");
    const auto padding = static_cast<Bytes>(tar_padding(*bytes).size());
    Content content(archive, path, *bytes);
    const char type = block[kTypeAt];
    if (type == 'L' || type == 'x') {
      if (*bytes > static_cast<Bytes>(kLongestName))
        return fail_at(path, "has a name of {} bytes in its tar headers", *bytes);
      std::string text(static_cast<std::size_t>(*bytes), '\0');
      if (const auto read = content.read(text); !read) return tl::unexpected(read.error());
      if (type == 'L')
        long_name = text.c_str();
      else if (auto name = pax_value(text, "path"))
        long_name = std::move(*name);
    } else {
      const std::string_view prefix = field(block, kPrefixAt, kPrefixEnd);
      std::string name = std::exchange(long_name, {});
      if (name.empty())
        name = (prefix.empty() ? "" : std::string(prefix) + "/") +
               std::string(field(block, 0, kNameEnd));
      if (type == '0' || type == '\0')
        if (const Status status = visit({std::move(name), *bytes}, content); !status) return status;
    }
    if (const Status status = content.skip(padding); !status) return status;
  }
}

Result<std::string> tar_header(const TarMember& member) {
  if (member.name.empty() || member.name.size() >= kNameEnd)
    return fail_at(member.name, "is no name for a tar archive, expected 1 to 99 bytes");
  if (member.bytes > kLargestMember)
    return fail_work(member.name, "would have {} bytes, more than a tar archive holds in one file",
                     member.bytes);
  std::string block(kTarBlock, '\0');
  const auto put = [&block](std::size_t at, std::string_view text) {
    block.replace(at, text.size(), text);
  };
  put(0, member.name);
  put(kModeAt, "0000644");
  put(kUserAt, "0000000");
  put(kGroupAt, "0000000");
  put(kSizeAt, fmt::format("{:011o}", member.bytes));
  put(kTimeAt, "00000000000");
  put(kTypeAt, "0");
  put(kMagicAt, kUstar);
  put(kVersionAt, "00");
  put(kChecksumAt, fmt::format("{:06o}", checksum(block)));
  put(kChecksumEnd - 1, " ");
  return block;
}

std::string_view tar_padding(Bytes bytes) {
  constexpr auto kBlock = static_cast<Bytes>(kTarBlock);
  return {kZeros.data(), static_cast<std::size_t>((kBlock - bytes % kBlock) % kBlock)};
}

std::string_view tar_end() { return {kZeros.data(), kZeros.size()}; }

}  // namespace foregather::traces
