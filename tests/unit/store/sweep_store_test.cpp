// Sweeps joined into a database, and rows that are no points.
#include <unistd.h>

#include <filesystem>

#include <catch2/catch.hpp>

#include "core/store/sqlite.h"
#include "core/store/sweep_reader.h"
#include "core/store/sweep_writer.h"
#include "core/store/writer.h"
#include "tests/support/scratch.h"

namespace foregather::store {
namespace {

run::SweepInfo sweep_info() {
  run::SweepInfo info;
  info.tool = "foregather 1";
  info.source = "w.toml";
  info.axes = {{"train.micro_batch", "1,2,3"}};
  info.points = 3;
  return info;
}

run::SweepPoint sweep_point(std::int64_t index, const std::string& error = "no such model") {
  run::SweepPoint point;
  point.index = index;
  point.values = {std::to_string(index + 1)};
  point.error = error;
  return point;
}

void write_sweep(const std::string& path, const std::vector<run::SweepPoint>& points,
                 const run::SweepInfo& info = sweep_info()) {
  auto writer = SweepWriter::create(path, info);
  REQUIRE(writer);
  for (const run::SweepPoint& point : points) REQUIRE(writer->add(point));
  REQUIRE(writer->finish());
}

std::string refused_merge(const std::vector<std::string>& paths, const std::string& output) {
  const auto merged = merge_sweeps(paths, output);
  REQUIRE_FALSE(merged);
  return merged.error().text();
}

}  // namespace

TEST_CASE("sweeps that have one point in two ways are not joined") {
  const test::Scratch scratch;
  const std::string a = scratch.path("a.db"), b = scratch.path("b.db");
  write_sweep(a, {sweep_point(0), sweep_point(1)});
  write_sweep(b, {sweep_point(1, "another reason"), sweep_point(2)});
  CHECK(refused_merge({a, b}, scratch.path("all.db")) == b + ": point 1 differs from that of " + a);
  CHECK(::access(scratch.path("all.db").c_str(), F_OK) != 0);
  CHECK(refused_merge({a}, "/dev/null") == "/dev/null: is no regular file, expected one to write");
}

TEST_CASE("a sweep is replaced by one that has all of its points alone") {
  const test::Scratch scratch;
  const std::string part = scratch.path("part.db"), other = scratch.path("other.db");
  write_sweep(part, {sweep_point(0), sweep_point(1)});
  run::SweepInfo another = sweep_info();
  another.options = "--set train.seq_len=64";
  write_sweep(other, {sweep_point(0)}, another);
  CHECK(refused_merge({part}, other) ==
        other +
            ": exists, as another sweep (other --set, --what-if or --where): name another file");
  const std::string more = scratch.path("more.db"), fewer = scratch.path("fewer.db");
  write_sweep(more, {sweep_point(0), sweep_point(2)});
  write_sweep(fewer, {sweep_point(1)});
  CHECK(refused_merge({part}, more) ==
        more + ": exists, with points that none of these databases has: name another file");
  CHECK(merge_sweeps({part}, fewer) == 2);
  auto reader = SweepReader::open(fewer);
  REQUIRE(reader);
  CHECK(*reader->next() == sweep_point(0));
  CHECK(*reader->next() == sweep_point(1));
  CHECK_FALSE(reader->next()->has_value());
}

TEST_CASE("runs take no sweep's place, and sweeps none of runs") {
  const test::Scratch scratch;
  const std::string sweep = scratch.path("sweep.db"), run = scratch.path("run.db");
  write_sweep(sweep, {sweep_point(0)});
  const auto writer = RunWriter::create(sweep);
  REQUIRE_FALSE(writer);
  CHECK(writer.error().text() == sweep + ": holds a sweep, which stays: name another file");
  CHECK(is_sweep(sweep));
  {
    auto runs = RunWriter::create(run);
    REQUIRE(runs);
    REQUIRE(runs->finish());
  }
  CHECK(refused_merge({sweep}, run) == run + ": exists, and holds no sweep: name another file");
}

TEST_CASE("a database may have the name that SQLite takes for none") {
  const test::Scratch scratch;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path(""));
  write_sweep(":memory:", {sweep_point(0)});
  CHECK(is_sweep(":memory:"));
  std::filesystem::current_path(before);
}

TEST_CASE("a row that is no point of its sweep is damage") {
  const test::Scratch scratch;
  const std::string path = scratch.path("sweep.db");
  for (const char* change : {"UPDATE point SET settings = '[]'", "UPDATE point SET settings = 'x'",
                             "UPDATE point SET id = 3", "UPDATE point SET id = -1"}) {
    CAPTURE(change);
    ::unlink(path.c_str());
    write_sweep(path, {sweep_point(0)});
    auto database = Database::create(path, path);
    REQUIRE(database);
    const Status changed = database->execute(change);
    if (!changed) FAIL(changed.error().text());
    REQUIRE(database->finish());
    auto reader = SweepReader::open(path);
    REQUIRE(reader);
    const auto point = reader->next();
    REQUIRE_FALSE(point);
    CHECK(point.error().text() == path + ": is damaged: a row of table point does not fit");
  }
}

}  // namespace foregather::store
