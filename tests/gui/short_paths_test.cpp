#include "gui/views/short_paths.h"

#include <catch2/catch.hpp>

using foregather::gui::short_paths;

TEST_CASE("short paths: equal names get as many folders as tell them apart") {
  using Names = std::vector<std::string>;
  CHECK(short_paths({}).empty());
  CHECK(short_paths({"/runs/a.db", "/runs/b.db"}) == Names{"a.db", "b.db"});
  CHECK(short_paths({"/x/1/a.db", "/y/1/a.db", "/y/2/a.db", "b.db"}) ==
        Names{"x/1/a.db", "y/1/a.db", "2/a.db", "b.db"});
  CHECK(short_paths({"a.db", "/runs/a.db"}) == Names{"a.db", "runs/a.db"});
  CHECK(short_paths({"/runs/a.db", "/runs/a.db"}) == Names{"/runs/a.db", "/runs/a.db"});
  CHECK(short_paths({"/runs/a.db:plan", "/runs/a.db:other"}) == Names{"a.db:plan", "a.db:other"});
  CHECK(short_paths({"", "/", "a/"}) == Names{"", "/", "a/"});
}
