#include "traces/sqlite_header.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/base/units.h"
#include "traces/foreign_sqlite.h"

namespace foregather::traces {
namespace {

constexpr std::string_view kMagic{"SQLite format 3\0", 16};
constexpr std::size_t kHeader = 100;
constexpr std::size_t kPageSizeAt = 16, kChangesAt = 24, kPagesAt = 28, kValidForAt = 92;
constexpr off_t kLockBytes = 0x40000000;  // pending, reserved and 510 shared ones
constexpr off_t kLockLength = 512;

class Descriptor {
 public:
  explicit Descriptor(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  operator int() const { return descriptor_; }

 private:
  int descriptor_;
};

std::uint32_t big_endian(std::string_view header, std::size_t at, std::size_t bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = at; i < at + bytes; ++i)
    value = value << 8U | static_cast<unsigned char>(header[i]);
  return value;
}

// 0: the header does not say. It does where the last writer knew of the field.
Bytes said_size(std::string_view header) {
  if (big_endian(header, kChangesAt, 4) != big_endian(header, kValidForAt, 4)) return 0;
  const std::uint32_t size = big_endian(header, kPageSizeAt, 2);
  return Bytes{size == 1 ? 65536 : size} * big_endian(header, kPagesAt, 4);
}

Status check_companion(const std::string& path, const char* ending) {
  struct stat status {};
  const std::string companion = path + ending;
  if (::stat(companion.c_str(), &status) != 0 || status.st_size == 0) return {};
  return fail_at(
      path,
      "has unfinished changes beside it ({}), expected a finished export: let its writer "
      "end, or export again",
      companion);
}

}  // namespace

bool is_sqlite(std::string_view head) { return head.starts_with(kMagic); }

Result<Bytes> check_sqlite_file(const std::string& path) {
  const Descriptor file(path);
  if (file < 0) return fail_at(path, "cannot be read: {}", std::strerror(errno));
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
    return fail_at(path, "is not a regular file, expected a SQLite database");
  std::array<char, kHeader> bytes{};
  const ssize_t n = ::pread(file, bytes.data(), bytes.size(), 0);
  const std::string_view header(bytes.data(), n < 0 ? 0 : static_cast<std::size_t>(n));
  if (!is_sqlite(header)) return fail_at(path, "is not a SQLite database");
  if (header.size() < kHeader || said_size(header) > status.st_size)
    return fail_at(path, "is cut: it has {} of {} bytes", status.st_size,
                   header.size() < kHeader ? static_cast<Bytes>(kHeader) : said_size(header));
  struct flock lock {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = kLockBytes;
  lock.l_len = kLockLength;
  if (::fcntl(file, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK)
    return fail_at(path, "is being written by process {}: let it end", lock.l_pid);
  for (const char* ending : {"-wal", "-journal"})
    if (const Status alone = check_companion(path, ending); !alone)
      return tl::unexpected(alone.error());
  return Bytes{status.st_size};
}

}  // namespace foregather::traces
