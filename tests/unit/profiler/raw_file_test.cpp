#include "profiler/raw_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <catch2/catch.hpp>

#include "profiler/own_files.h"
#include "tests/unit/profiler/raw.h"

namespace foregather::profiler {
namespace {

using test::query;
using test::RawScratch;
using test::value;

TEST_CASE("raw file: rows come back as they were added, NULLs among them") {
  RawScratch raw;
  REQUIRE(raw.file != nullptr);
  for (std::int64_t i = 0; i < 5000; ++i)  // more than one stage
    raw.file->add(RawTable::nccl_communicator, {i, i % 2 == 0 ? Cell() : Cell(-i), 1, 2, 3});
  REQUIRE(raw.file->finish());
  CHECK(raw.file->rows() == 5000);
  CHECK(value(raw.path, "SELECT count(*) FROM FOREGATHER_NCCL_COMMUNICATOR") == "5000");
  CHECK(
      query(raw.path, "SELECT * FROM FOREGATHER_NCCL_COMMUNICATOR LIMIT 2") ==
      std::vector<std::vector<std::string>>{{"0", "-", "1", "2", "3"}, {"1", "-1", "1", "2", "3"}});
  CHECK(value(raw.path, "PRAGMA integrity_check") == "ok");
  CHECK(std::distance(std::filesystem::directory_iterator(raw.scratch.path("")), {}) == 1);
}

TEST_CASE("raw file: it is its owner's alone, and what is there is never written over") {
  RawScratch raw;
  struct stat status {};
  REQUIRE(::stat(raw.path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0600U);
  std::string error;
  CHECK(RawFile::create(raw.path, 0, error) == nullptr);
  CHECK(error == "File exists");
  const std::string link = raw.scratch.path("link.sqlite");
  REQUIRE(::symlink(raw.scratch.path("elsewhere").c_str(), link.c_str()) == 0);
  CHECK(RawFile::create(link, 0, error) == nullptr);
  CHECK(RawFile::create(raw.scratch.path("no/folder.sqlite"), 0, error) == nullptr);
  CHECK(error == "No such file or directory");
}

TEST_CASE("raw file: a descriptor that has become another file's is neither written nor closed") {
  keep_off_foreign_files();
  RawScratch raw;
  REQUIRE(raw.file != nullptr);
  const std::string path = raw.scratch.path("theirs");
  const int theirs = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  REQUIRE(::write(theirs, "theirs", 6) == 6);
  const OwnFile own(theirs);
  CHECK(own.descriptor() == theirs);
  // As a program does that closes all descriptors and opens files of its own.
  std::vector<int> taken;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string file = std::filesystem::read_symlink(entry.path(), gone).string();
    if (file.starts_with(raw.path)) taken.push_back(std::stoi(entry.path().filename().string()));
  }
  REQUIRE(taken.size() == 2);  // the database and its log
  for (const int descriptor : taken) REQUIRE(::dup2(theirs, descriptor) == descriptor);
  for (std::int64_t i = 0; i < 5000; ++i) raw.file->add(RawTable::clock, {i, i, i});
  CHECK(!raw.file->commit());
  CHECK(raw.file->dropped() > 0);
  raw.file.reset();
  for (const int descriptor : taken) {
    CHECK(::fcntl(descriptor, F_GETFD) >= 0);
    ::close(descriptor);
  }
  CHECK(std::filesystem::file_size(path) == 6);
  ::close(theirs);
  CHECK(own.descriptor() == -1);
}

TEST_CASE("raw file: what was committed is there without finish, and recover makes one file") {
  RawScratch raw;
  raw.file->add(RawTable::clock, {1, 2, 3});
  REQUIRE(raw.file->commit());
  raw.file->add(RawTable::clock, {4, 5, 6});
  // A copy of the files at this moment is what a kill leaves.
  const std::string killed = raw.scratch.path("killed.sqlite");
  std::filesystem::copy_file(raw.path, killed);
  std::filesystem::copy_file(raw.path + "-wal", killed + "-wal");
  std::ifstream head(killed, std::ios::binary);
  CHECK(is_raw_recording(std::string(std::istreambuf_iterator<char>(head), {})));
  CHECK(recover(killed).empty());
  CHECK_FALSE(std::filesystem::exists(killed + "-wal"));
  CHECK(query(killed, "SELECT * FROM FOREGATHER_CLOCK") ==
        std::vector<std::vector<std::string>>{{"1", "2", "3"}});
  CHECK(value(killed, "PRAGMA integrity_check") == "ok");
}

TEST_CASE("raw file: one whose writer was killed in its first moments has not begun") {
  RawScratch raw;
  CHECK_FALSE(has_begun(raw.scratch.write("empty.sqlite", "")));
  REQUIRE(raw.file != nullptr);
  raw.file.reset();  // tables alone
  CHECK_FALSE(has_begun(raw.path));
  RawScratch other;
  other.file->run(
      "INSERT INTO FOREGATHER_PROCESS VALUES (1, 1, NULL, NULL, NULL, 'h', 'c', 0, 1, 0)");
  REQUIRE(other.file->commit());
  other.file.reset();
  CHECK(has_begun(other.path));
}

TEST_CASE("raw file: texts are kept once, until there are too many") {
  RawScratch raw;
  const auto first = raw.file->text("alpha");
  CHECK(raw.file->text("alpha") == first);
  CHECK(raw.file->text("beta") != first);
  const std::string large(100000, 'x');
  for (int i = 0; i < 100; ++i) raw.file->text(large + std::to_string(i));
  CHECK(raw.file->text("alpha") != first);  // forgotten, not wrong
  REQUIRE(raw.file->finish());
  CHECK(value(raw.path, "SELECT count(*) FROM StringIds WHERE value = 'alpha'") == "2");
}

TEST_CASE("raw file: names of kernels are mangled, demangled and brief") {
  RawScratch raw;
  const auto name = raw.file->kernel_name("_ZN2at6native10add_kernelIfEEvPT_i");
  REQUIRE(raw.file->finish());
  const auto text = [&](std::int64_t id) {
    return value(raw.path, "SELECT value FROM StringIds WHERE id = " + std::to_string(id));
  };
  CHECK(text(name.demangled) == "void at::native::add_kernel<float>(float*, int)");
  CHECK(text(name.brief) == "add_kernel");
  CHECK(text(name.mangled) == "_ZN2at6native10add_kernelIfEEvPT_i");
  CHECK(brief_name("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)") ==
        "ncclDevKernel_AllGather_RING_LL");
  CHECK(brief_name("void (anonymous namespace)::fill<int>(int*)") == "fill");
  CHECK(brief_name("sm90_xmma_gemm") == "sm90_xmma_gemm");
}

TEST_CASE("raw file: losses are counted by reason, and what lies outside the window is none") {
  RawScratch raw;
  raw.file->count("too_fast", 3);
  REQUIRE(raw.file->commit());
  raw.file->count("too_fast", 2);
  raw.file->leave_out(7);
  REQUIRE(raw.file->finish());
  CHECK(raw.file->dropped() == 5);
  CHECK(query(raw.path, "SELECT * FROM FOREGATHER_COUNT ORDER BY reason") ==
        std::vector<std::vector<std::string>>{{"outside_window", "7"}, {"too_fast", "5"}});
}

}  // namespace
}  // namespace foregather::profiler
