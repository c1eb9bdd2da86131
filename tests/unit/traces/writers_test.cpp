#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/example_run.h"
#include "traces/formats.h"

using namespace foregather;

namespace {

std::string written(const char* format) {
  std::string text;
  const auto found = traces::find_format(format);
  REQUIRE(found.has_value());
  const Status done = found->write(test::example_run(), [&](std::string_view piece) -> Status {
    text += piece;
    return {};
  });
  REQUIRE(done.has_value());
  return text;
}

}  // namespace

TEST_CASE("the Chrome trace is JSON with exact times") {
  const auto trace = nlohmann::json::parse(written("chrome"));
  int complete = 0;
  bool found_wait = false;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++complete;
    if (event["name"] != "layers.0 all_gather wait") continue;
    found_wait = true;
    CHECK(event["ts"].get<double>() == Approx(0.110));
    CHECK(event["dur"].get<double>() == Approx(0.005));
  }
  CHECK(found_wait);
  CHECK(complete == 2 + 6 + 1);  // steps, ops, one wait
}

TEST_CASE("the CSV has one op a row") {
  const std::string csv = written("csv");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 7);
  CHECK(
      csv.find("r0/s1/m0/layers.0/forward/all_gather/0@fsdp#7,fast,3,1,steady,0,layers.0,,forward,"
               "all_gather,gather,comm,fsdp,108,110,115,130,15,rendezvous,") != std::string::npos);
}

TEST_CASE("unknown formats name the known ones") {
  const auto format = traces::find_format("perfeto");
  REQUIRE_FALSE(format.has_value());
  CHECK(format.error().message.find("chrome, csv") != std::string::npos);
}

TEST_CASE("a writer stops at the first failure") {
  int calls = 0;
  const Status done =
      traces::find_format("csv")->write(test::example_run(), [&](std::string_view) -> Status {
        ++calls;
        return fail_work("x", "full");
      });
  CHECK_FALSE(done.has_value());
  CHECK(calls == 1);
}
