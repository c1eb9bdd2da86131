#include "core/base/file.h"
#include "core/base/temporary_names.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <catch2/catch.hpp>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace foregather;
namespace fs = std::filesystem;

namespace {

// A directory that goes away with the test.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "file_test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    fs::permissions(path_, fs::perms::owner_all, ignored);
    fs::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void put(const std::string& path, std::string_view text) { std::ofstream(path) << text; }

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Files can grow to that many bytes only, as on a full disk.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

}  // namespace

TEST_CASE("a file is read whole") {
  const Folder folder;
  const std::string bytes("a\0b\n", 4);
  put(folder / "x", bytes);
  CHECK(read_file(folder / "x", 4).value() == bytes);
  put(folder / "empty", "");
  CHECK(read_file(folder / "empty", 0).value().empty());
}

TEST_CASE("what cannot be read is an input error at the path") {
  const Folder folder;
  const auto error = [](const std::string& path, Bytes limit = MiB) {
    const auto text = read_file(path, limit);
    REQUIRE(!text);
    CHECK(text.error().fault == Fault::input);
    CHECK(text.error().place == path);
    return text.error().message;
  };
  CHECK(error(folder / "missing") == "cannot be read: No such file or directory");
  CHECK(error(folder.path().string()) == "is a directory, expected a regular file");
  CHECK(error("/dev/zero") == "is not a regular file, expected a regular file");
  put(folder / "long", std::string(3000, 'x'));
  CHECK(error(folder / "long", 2048) == "is 2.9 KiB long, expected at most 2.0 KiB");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(error(folder / "pipe") == "is not a regular file, expected a regular file");
}

TEST_CASE("a pending file appears when it is committed") {
  const bool flushes = GENERATE(true, false);
  const Folder folder;
  put(folder / "out", "old");
  {
    auto file = PendingFile::create(folder / "out");
    REQUIRE(file);
    REQUIRE(file->write("new "));
    REQUIRE(file->write("text"));
    CHECK(content(folder / "out") == "old");
    CHECK(fs::path(file->temporary_path()).parent_path() == folder.path());
    REQUIRE((flushes ? file->commit() : file->commit_unflushed()));
  }
  CHECK(content(folder / "out") == "new text");
  CHECK(folder.files() == 1);
}

TEST_CASE("a pending file that is not committed leaves nothing") {
  const Folder folder;
  {
    auto file = PendingFile::create(folder / "out");
    REQUIRE(file);
    REQUIRE(file->write("text"));
    const PendingFile moved = std::move(*file);
    CHECK(folder.files() == 1);
  }
  CHECK(folder.files() == 0);
}

TEST_CASE("a new file has the permissions of the mask") {
  const Folder folder;
  const mode_t before = ::umask(027);
  auto file = PendingFile::create(folder / "out");
  ::umask(before);
  REQUIRE(file);
  REQUIRE(file->commit());
  struct stat status {};
  REQUIRE(::stat((folder / "out").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
}

TEST_CASE("a path that cannot be written is an input error") {
  const Folder folder;
  const auto error = [](const std::string& path) {
    const auto file = PendingFile::create(path);
    REQUIRE(!file);
    CHECK(file.error().fault == Fault::input);
    return file.error().message;
  };
  CHECK(error(folder.path().string()) == "is a directory, expected a file to write");
  CHECK(error(folder / "missing/out") == "cannot be written: No such file or directory");
  CHECK(error("") == "an empty file name, expected a file to write");
  if (::geteuid() != 0) {
    fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
    CHECK(error(folder / "out") == "cannot be written: Permission denied");
  }
}

TEST_CASE("a device is written as it is") {
  auto null = PendingFile::create("/dev/null");
  REQUIRE(null);
  CHECK(null->temporary_path().empty());
  CHECK(null->write("text"));
  CHECK(null->commit());
  CHECK(fs::is_character_file("/dev/null"));
  if (!fs::is_character_file("/dev/full")) return;
  auto full = PendingFile::create("/dev/full");
  REQUIRE(full);
  const Status status = full->write("text");
  REQUIRE(!status);
  CHECK(status.error().fault == Fault::work);
  CHECK(status.error().text() == "/dev/full: cannot be written: No space left on device");
}

TEST_CASE("a link is followed, not replaced") {
  const Folder folder;
  put(folder / "target", "old");
  fs::create_symlink("target", folder / "link");
  auto file = PendingFile::create(folder / "link");
  REQUIRE(file);
  REQUIRE(file->write("new"));
  REQUIRE(file->commit());
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(content(folder / "target") == "new");
}

TEST_CASE("a link to a file that is still to be made makes it, one to itself nothing") {
  const Folder folder;
  fs::create_symlink("second", folder / "first");
  fs::create_symlink("target", folder / "second");
  auto file = PendingFile::create(folder / "first");
  REQUIRE(file);
  REQUIRE(file->write("new"));
  REQUIRE(file->commit());
  CHECK(fs::is_symlink(folder / "first"));
  CHECK(fs::is_symlink(folder / "second"));
  CHECK(content(folder / "target") == "new");

  fs::create_symlink("loop", folder / "loop");
  const auto loop = PendingFile::create(folder / "loop");
  REQUIRE_FALSE(loop);
  CHECK(loop.error().text().find("symbolic links") != std::string::npos);
  CHECK(fs::is_symlink(folder / "loop"));
}

TEST_CASE("a full disk is a work error and leaves nothing") {
  const Folder folder;
  put(folder / "out", "old");
  {
    auto file = PendingFile::create(folder / "out");
    REQUIRE(file);
    Status status;
    {
      const SizeLimit limit(1000);
      status = file->write(std::string(5000, 'x'));
    }
    REQUIRE(!status);
    CHECK(status.error().fault == Fault::work);
    CHECK(status.error().place == folder / "out");
    CHECK(status.error().message.find("cannot be written: ") == 0);
  }
  CHECK(content(folder / "out") == "old");
  CHECK(folder.files() == 1);
}

TEST_CASE("a folder of files goes while another thread makes some") {
  const Folder around;
  const std::string path = around / "many";
  REQUIRE(fs::create_directory(path));
  std::atomic<int> made{0};
  std::atomic<bool> has_ended{false};
  std::thread maker([&] {
    while (made < 100'000 && std::ofstream(path + "/" + std::to_string(made))) ++made;
    has_ended = true;
  });
  while (made < 100 && !has_ended) std::this_thread::yield();
  remove_folder_of_files(path.c_str());
  maker.join();
  CHECK(made < 100'000);
  CHECK(around.files() == 0);
}
