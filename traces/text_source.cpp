#include "traces/text_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

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
    std::size_t got = 0;
    while (got < buffer.size()) {
      const ssize_t n = ::read(descriptor_, buffer.data() + got, buffer.size() - got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail_at(path_, "cannot be read: {}", std::strerror(errno));
      if (n == 0) break;
      got += static_cast<std::size_t>(n);
    }
    return got;
  }

 private:
  std::string path_;
  int descriptor_;
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

// Gives back what was looked at.
class Peeked final : public TextSource {
 public:
  Peeked(std::string head, std::unique_ptr<TextSource> rest)
      : head_(std::move(head)), rest_(std::move(rest)) {}
  Result<std::size_t> read(std::span<char> buffer) override {
    const std::size_t n = std::min(head_.size() - at_, buffer.size());
    std::copy_n(head_.data() + at_, n, buffer.data());
    at_ += n;
    if (n == buffer.size()) return n;
    const auto more = rest_->read(buffer.subspan(n));
    if (!more) return tl::unexpected(more.error());
    return n + *more;
  }

 private:
  std::string head_;
  std::unique_ptr<TextSource> rest_;
  std::size_t at_ = 0;
};

Result<std::unique_ptr<TextSource>> open_file(const std::string& path) {
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

Result<std::string> head_of(TextSource& source, std::size_t bytes) {
  std::string head(bytes, '\0');
  const auto n = source.read(head);
  if (!n) return tl::unexpected(n.error());
  head.resize(*n);
  return head;
}

struct Opened {
  std::unique_ptr<TextSource> text;
  bool is_packed = false;
};

Result<Opened> open_unpacked(const std::string& path) {
  auto file = open_file(path);
  if (!file) return tl::unexpected(file.error());
  auto head = head_of(**file, 4);
  if (!head) return tl::unexpected(head.error());
  const bool gzip = is_gzip(*head), zstd = is_zstd(*head);
  std::unique_ptr<TextSource> text = std::make_unique<Peeked>(std::move(*head), std::move(*file));
  if (gzip) text = ungzip(std::move(text), path);
  if (zstd) text = unzstd(std::move(text), path);
  return Opened{std::move(text), gzip || zstd};
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace

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
  auto head = head_of(*opened->text, kTarBlock);
  if (!head) return tl::unexpected(head.error());
  const bool is_archive = is_tar(*head);
  Peeked text(std::move(*head), std::move(opened->text));
  if (!is_archive) {
    if (names_member) return fail_at(path, "is in no archive: {} is not one", file);
    return visit({path, 0, opened->is_packed}, text);
  }
  bool is_found = false;
  const Status status = visit_tar(text, file, [&](const TarMember& member, TextSource& content) {
    if (names_member && member.name != wanted) return Status();
    is_found = true;
    return visit({file + "!" + member.name, member.bytes, true}, content);
  });
  if (!status) return status;
  if (!is_found)
    return names_member ? fail_at(path, "is not in the archive")
                        : fail_at(path, "is an archive without files");
  return {};
}

}  // namespace foregather::traces
