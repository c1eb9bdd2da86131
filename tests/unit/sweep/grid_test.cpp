#include "sim/sweep/grid.h"

#include <catch2/catch.hpp>

using namespace foregather;
using namespace foregather::sim;

namespace {

std::vector<std::string> values(const std::string& text) {
  const auto axis = Axis::parse(text);
  if (!axis) FAIL(axis.error().text());
  std::vector<std::string> all;
  for (std::int64_t i = 0; i < axis->size(); ++i) all.push_back(axis->value(i));
  return all;
}

std::string refused_axis(const std::string& text) {
  const auto axis = Axis::parse(text);
  return axis ? "" : axis.error().text();
}

Grid grid_of(const std::vector<std::string>& texts) {
  std::vector<Axis> axes;
  for (const std::string& text : texts) axes.push_back(Axis::parse(text).value());
  return Grid::make(std::move(axes)).value();
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("an axis holds texts, ranges and nothing, as they were written") {
  CHECK(values("k=a,b") == Texts{"a", "b"});
  CHECK(values("k=") == Texts{""});
  CHECK(values("k=,x,") == Texts{"", "x", ""});
  CHECK(values("k=1..4") == Texts{"1", "2", "3", "4"});
  CHECK(values("k=1..64*2") == Texts{"1", "2", "4", "8", "16", "32", "64"});
  CHECK(values("k=1..10*3") == Texts{"1", "3", "9"});
  CHECK(values("k=8..24+8,none,1..2") == Texts{"8", "16", "24", "none", "1", "2"});
  CHECK(values("k=0.5..2+0.25") == Texts{"0.5", "0.75", "1", "1.25", "1.5", "1.75", "2"});
  CHECK(values("k=-1..1") == Texts{"-1", "0", "1"});
  CHECK(values("k=0.1..0.8*2") == Texts{"0.1", "0.2", "0.4", "0.8"});
  CHECK(values("k=7..7") == Texts{"7"});
  CHECK(values("k=a..b,1.2.3,../x.toml") == Texts{"a..b", "1.2.3", "../x.toml"});
  CHECK(values("what-if.scale=links:2") == Texts{"links:2"});
}

TEST_CASE("a quoted value may hold commas and is no range") {
  CHECK(values(R"(k="a:1,b:2",c)") == Texts{"a:1,b:2", "c"});
  CHECK(values(R"(k="1..3","")") == Texts{"1..3", ""});
  CHECK(refused_axis(R"(k="a)").find("a quote has no end") != std::string::npos);
  CHECK(refused_axis(R"(k="a"b)").find("'b' follows a quoted value") != std::string::npos);
}

TEST_CASE("ranges that never end or hold nothing are refused") {
  CHECK(refused_axis("k=1..10+0").find("never ends") != std::string::npos);
  CHECK(refused_axis("k=1..10*1").find("never ends") != std::string::npos);
  CHECK(refused_axis("k=0..10*2").find("never grows") != std::string::npos);
  CHECK(refused_axis("k=9..1").find("begins above its end") != std::string::npos);
  CHECK(refused_axis("k=9..1*2").find("begins above its end") != std::string::npos);
  CHECK(refused_axis("k=1..9000000000000000000").find("more than") != std::string::npos);
  CHECK(refused_axis("k=-9000000000000000000..9000000000000000000").find("too large") !=
        std::string::npos);
  CHECK(refused_axis("k=1..1000000*1.0001").find("more than 10000 values") != std::string::npos);
  CHECK(refused_axis("k").find("expected KEY=V1,V2") != std::string::npos);
  CHECK(refused_axis("=1").find("expected KEY=V1,V2") != std::string::npos);
  CHECK(values("k=1..9223372036854775807*3").size() == 40);
}

TEST_CASE("the last axis of a grid changes fastest") {
  const Grid all = grid_of({"a=x,y", "b=1..3"});
  REQUIRE(all.size() == 6);
  CHECK(all.values(0) == Texts{"x", "1"});
  CHECK(all.values(2) == Texts{"x", "3"});
  CHECK(all.values(3) == Texts{"y", "1"});
  CHECK(all.values(5) == Texts{"y", "3"});
}

TEST_CASE("a grid of 10^12 points costs nothing") {
  const Grid all = grid_of({"a=1..1000000", "b=0..999999"});
  CHECK(all.size() == 1'000'000'000'000);
  CHECK(all.values(all.size() - 1) == Texts{"1000000", "999999"});
  CHECK(all.values(123'456'789'012) == Texts{"123457", "789012"});
}

TEST_CASE("a grid that cannot be counted is refused") {
  std::vector<Axis> axes;
  for (const char* text : {"a=1..1000000", "b=1..1000000", "c=1..1000000"})
    axes.push_back(Axis::parse(text).value());
  CHECK_FALSE(Grid::make(axes).has_value());
  CHECK_FALSE(Grid::make({}).has_value());
  CHECK_FALSE(Grid::make({Axis::parse("a=1").value(), Axis::parse("a=2").value()}).has_value());
}

TEST_CASE("examples of an axis are its texts and the ends of its ranges") {
  CHECK(Axis::parse("k=1..1000000,x")->examples() == Texts{"1", "1000000", "x"});
}

TEST_CASE("shards are parts of a grid that follow each other") {
  for (const std::int64_t points : {0L, 1L, 7L, 100L, 1'000'000'000'000L})
    for (const std::int64_t of : {1L, 3L, 8L}) {
      std::int64_t next = 0;
      for (std::int64_t number = 1; number <= of; ++number) {
        const Shard shard{number, of};
        CHECK(shard.begin(points) == next);
        next = shard.end(points);
        CHECK(next - shard.begin(points) <= points / of + 1);
      }
      CHECK(next == points);
    }
  CHECK(parse_shard("3/16")->number == 3);
  for (const char* bad : {"0/4", "5/4", "1", "1/0", "a/b", "1/2/3", "-1/2", "/", "1/99999999"})
    CHECK_FALSE(parse_shard(bad).has_value());
}
