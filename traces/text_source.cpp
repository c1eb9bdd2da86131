#include "traces/text_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/interrupt.h"
#include "traces/perfetto.h"
#include "traces/tar.h"
#include "traces/unpack.h"

namespace foregather::traces {
namespace {

class FileText final : public TextSource {
 public:
  FileText(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  FileText(const FileText&) = delete;
  FileText& operator=(const FileText&) = delete;
  ~FileText() override { ::close(descriptor_); }

  Result<std::size_t> read(std::span<char> buffer) override {
    if (is_interrupted()) return interrupted_at(path_);
    const auto got = read_at(at_, buffer);
    if (got) at_ += static_cast<off_t>(*got);
    return got;
  }
  // The first bytes of the file; reading goes on where it was.
  Result<std::size_t> head(std::span<char> buffer) const { return read_at(0, buffer); }

 private:
  Result<std::size_t> read_at(off_t offset, std::span<char> buffer) const {
    std::size_t got = 0;
    while (got < buffer.size()) {
      const ssize_t n = ::pread(descriptor_, buffer.data() + got, buffer.size() - got,
                                offset + static_cast<off_t>(got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail_at(path_, "cannot be read: {}", std::strerror(errno));
      if (n == 0) break;
      got += static_cast<std::size_t>(n);
    }
    return got;
  }

  std::string path_;
  int descriptor_;
  off_t at_ = 0;
};

class BorrowedText final : public TextSource {
 public:
  explicit BorrowedText(std::string_view text) : rest_(text) {}
  Result<std::size_t> read(std::span<char> buffer) override {
    const std::size_t n = std::min(rest_.size(), buffer.size());
    std::copy_n(rest_.data(), n, buffer.data());
    rest_.remove_prefix(n);
    return n;
  }

 private:
  std::string_view rest_;
};

Result<std::unique_ptr<FileText>> open_file(const std::string& path) {
  // Non-blocking, so that a pipe without a writer does not hang the open.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return fail_at(path, "cannot be read: {}", std::strerror(errno));
  auto file = std::make_unique<FileText>(path, descriptor);
  struct stat status {};
  const bool known = ::fstat(descriptor, &status) == 0;
  if (!known || !S_ISREG(status.st_mode))
    return fail_at(path, "is {}, expected a regular file",
                   known && S_ISDIR(status.st_mode) ? "a directory" : "not a regular file");
  return file;
}

constexpr std::size_t kPackedHead = 4;  // tells gzip from zstd from neither

struct Opened {
  std::unique_ptr<TextSource> text;
  bool is_packed = false;
};

Result<Opened> open_unpacked(const std::string& path) {
  auto file = open_file(path);
  if (!file) return tl::unexpected(file.error());
  std::array<char, kPackedHead> bytes{};
  const auto n = (*file)->head(bytes);
  if (!n) return tl::unexpected(n.error());
  const std::string_view head(bytes.data(), *n);
  const bool gzip = is_gzip(head), zstd = is_zstd(head);
  std::unique_ptr<TextSource> text = std::move(*file);
  if (gzip) text = ungzip(std::move(text), path);
  if (zstd) text = unzstd(std::move(text), path);
  return Opened{std::move(text), gzip || zstd};
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace

Result<std::size_t> Peeked::read(std::span<char> buffer) {
  const std::size_t n = std::min(head_.size(), buffer.size());
  std::copy_n(head_.data(), n, buffer.data());
  head_.remove_prefix(n);
  if (n == buffer.size()) return n;
  const auto more = rest_.read(buffer.subspan(n));
  if (!more) return more;
  return n + *more;
}

Result<std::string> take_head(TextSource& source, std::size_t bytes) {
  std::string head(bytes, '\0');
  const auto n = source.read(head);
  if (!n) return tl::unexpected(n.error());
  head.resize(*n);
  return head;
}

Result<std::unique_ptr<TextSource>> open_text(const std::string& path) {
  auto opened = open_unpacked(path);
  if (!opened) return tl::unexpected(opened.error());
  return std::move(opened->text);
}

std::unique_ptr<TextSource> text_of(std::string_view text) {
  return std::make_unique<BorrowedText>(text);
}

Status visit_texts(const std::string& path,
                   const std::function<Status(const TextMember&, TextSource&)>& visit) {
  const auto bang = path.find('!');
  const bool names_member = bang != std::string::npos && !exists(path);
  const std::string file = names_member ? path.substr(0, bang) : path;
  const std::string wanted = names_member ? path.substr(bang + 1) : "";

  auto opened = open_unpacked(file);
  if (!opened) return tl::unexpected(opened.error());
  const auto head = take_head(*opened->text, kTarBlock);
  if (!head) return tl::unexpected(head.error());
  const bool is_archive = is_tar(*head);
  Peeked text(*head, *opened->text);
  if (!is_archive) {
    if (names_member) return fail_at(path, "is in no archive: {} is not one", file);
    return visit({path, 0, opened->is_packed}, text);
  }
  bool is_found = false;
  const Status status = visit_tar(text, file, [&](const TarMember& member, TextSource& content) {
    if (names_member && member.name != wanted) return Status();
    is_found = true;
    const std::string name = file + "!" + member.name;
    const auto begin = take_head(content, kPackedHead);
    if (!begin) return Status(tl::unexpected(begin.error()));
    auto whole = std::make_unique<Peeked>(*begin, content);
    if (is_gzip(*begin)) return visit({name, 0, true}, *ungzip(std::move(whole), name));
    if (is_zstd(*begin)) return visit({name, 0, true}, *unzstd(std::move(whole), name));
    return visit({name, member.bytes, true}, *whole);
  });
  if (!status) return status;
  if (!is_found)
    return names_member ? fail_at(path, "is not in the archive")
                        : fail_at(path, "is an archive without files");
  return {};
}

Result<std::string> format_head(const std::string& path,
                                const std::function<bool(std::string_view)>& is_wanted) {
  std::string found;
  bool is_done = false;
  const Status status =
      visit_texts(path, [&](const TextMember& member, TextSource& text) -> Status {
        if (is_done || member.name.ends_with(kPerfettoManifest)) return {};
        auto head = take_head(text, kFormatHead);
        if (!head) return tl::unexpected(head.error());
        is_done = !is_wanted || is_wanted(*head);
        if (is_done || found.empty()) found = std::move(*head);
        return {};
      });
  if (!status) return tl::unexpected(status.error());
  return found;
}

}  // namespace foregather::traces
