// Databases, journals and links that somebody else left.
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "core/base/file.h"
#include "core/store/reader.h"
#include "core/store/sqlite.h"
#include "core/store/sweep_writer.h"
#include "tests/support/example_run.h"
#include "tests/support/scratch.h"
#include "tests/support/written_run.h"

using namespace foregather;

namespace {

void write_example(const std::string& path) { test::written(path, test::example_run()); }

void put_number(std::string& bytes, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes += static_cast<char>(static_cast<unsigned char>(number >> static_cast<unsigned>(shift)));
}

// A hot journal without pages that names another file, as SQLite's pager writes and checks it.
std::string journal_that_names(const std::string& file, const std::string& database) {
  constexpr const char* kMagic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  constexpr std::size_t kSector = 512;
  const auto pages = static_cast<std::uint32_t>(std::filesystem::file_size(database) / 8192);
  std::string bytes(kMagic, 8);
  for (const std::uint32_t number : {0U, 0U, pages, std::uint32_t{kSector}, 8192U})
    put_number(bytes, number);
  bytes.resize(kSector, '\0');
  std::uint32_t sum = 0;
  for (const char c : file) sum += static_cast<std::uint32_t>(c);
  put_number(bytes, (1U << 30U) / 8192 + 1);
  bytes += file;
  put_number(bytes, static_cast<std::uint32_t>(file.size()));
  put_number(bytes, sum);
  return bytes + std::string(kMagic, 8);
}

}  // namespace

TEST_CASE("a journal that names another file does not get it deleted") {
  const test::Scratch scratch;
  const std::string path = scratch.path("run.db");
  write_example(path);
  const std::string victim = scratch.write("victim", "what somebody needs");
  scratch.write("run.db-journal", journal_that_names(victim, path));
  const auto run = store::read_run(path);
  REQUIRE_FALSE(run);
  CHECK(run.error().text().find("names other files") != std::string::npos);
  CHECK_FALSE(store::Database::open_in_place(path));
  CHECK(std::filesystem::exists(victim));

  // What SQLite itself makes of that journal.
  sqlite3* plain = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &plain) == SQLITE_OK);
  sqlite3_exec(plain, "SELECT count(*) FROM run", nullptr, nullptr, nullptr);
  sqlite3_close(plain);
  CHECK_FALSE(std::filesystem::exists(victim));
}

TEST_CASE("triggers, views and attached files of a database do nothing") {
  const test::Scratch scratch;
  const std::string path = scratch.path("any.db");
  {
    auto made = store::Database::create(path, path);
    REQUIRE(made);
    REQUIRE(
        made->execute("CREATE TABLE point (a); CREATE TABLE log (a);"
                      "CREATE TRIGGER spread AFTER INSERT ON point BEGIN INSERT INTO log "
                      "VALUES (1); END;"
                      "CREATE VIEW endless AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL "
                      "SELECT x + 1 FROM c) SELECT x FROM c;"));
    REQUIRE(made->finish());
  }
  auto database = store::Database::open_in_place(path);
  REQUIRE(database);
  REQUIRE(database->execute("INSERT INTO point VALUES (1)"));
  CHECK(database->integer("SELECT count(*) FROM log").value() == 0);
  CHECK_FALSE(database->integer("SELECT count(*) FROM endless"));
  CHECK_FALSE(database->execute("ATTACH ':memory:' AS other"));
  CHECK_FALSE(database->prepare("SELECT load_extension('x')").and_then([](auto&& load) {
    return load.next();
  }));
}

TEST_CASE("reading a database ends, whatever its rows take") {
  const test::Scratch scratch;
  const std::string path = scratch.path("run.db");
  write_example(path);
  auto database = store::Database::open(path);
  REQUIRE(database);
  const auto sum = database->integer(
      "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT sum(x) FROM c");
  REQUIRE_FALSE(sum);
  CHECK(sum.error().text() == path + ": is damaged: reading it is more work than its size allows");
  CHECK(sum.error().fault == Fault::input);
  CHECK_FALSE(database->integer("SELECT length(zeroblob(1000000000))"));
}

TEST_CASE("a database that another process writes is said to be") {
  const test::Scratch scratch;
  const std::string path = scratch.path("sweep.db");
  auto first = store::Database::open_in_place(path);
  REQUIRE(first);
  const auto second = store::Database::open_in_place(path);
  REQUIRE_FALSE(second);
  CHECK(second.error().text() ==
        path + ": is being written by another process: try again when that has ended");
  CHECK(second.error().fault == Fault::work);
}

TEST_CASE("another user's link in a shared folder is not followed") {
  if (::geteuid() != 0) return;  // nobody else can plant one
  const test::Scratch scratch;
  const std::string shared = scratch.path("shared"), link = shared + "/out.db";
  std::filesystem::create_directory(shared);
  REQUIRE(::chmod(shared.c_str(), 01777) == 0);
  const std::string victim = scratch.write("victim", "what somebody needs");
  REQUIRE(::symlink(victim.c_str(), link.c_str()) == 0);
  CHECK(PendingFile::create(link));  // one's own
  constexpr uid_t kNobody = 65534;
  REQUIRE(::lchown(link.c_str(), kNobody, kNobody) == 0);
  const auto file = PendingFile::create(link);
  REQUIRE_FALSE(file);
  CHECK(file.error().text().find("is another user's link") != std::string::npos);
  CHECK_FALSE(store::SweepWriter::resume(link, {}));
  std::ifstream left(victim);
  CHECK(std::string(std::istreambuf_iterator<char>(left), {}) == "what somebody needs");
}
