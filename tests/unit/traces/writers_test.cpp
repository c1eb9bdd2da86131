#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/example_run.h"
#include "traces/formats.h"

using namespace foregather;

namespace {

Status write(const char* format, const traces::TextSink& sink) {
  const run::Run run = test::example_run();
  const traces::PlacedRun placed{&run, 0, {}};
  const auto found = traces::find_format(format);
  return found ? found->write({&placed, 1}, sink) : Status(tl::unexpected(found.error()));
}

std::string written(const char* format) {
  std::string text;
  REQUIRE(write(format, [&](std::string_view piece) -> Status {
    text += piece;
    return {};
  }));
  return text;
}

}  // namespace

TEST_CASE("the CSV has one op a row") {
  const std::string csv = written("csv");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 7);
  CHECK(
      csv.find("r0/s1/m0/layers.0/forward/all_gather/0@fsdp#7,fast,3,1,steady,0,layers.0,,forward,"
               "all_gather,gather,comm,fsdp,108,110,115,130,15,rendezvous,") != std::string::npos);
  CHECK(csv.find(",4096,3072,0,4,7,15\n") != std::string::npos);  // communicator, sequence, alone
}

TEST_CASE("the CSV leaves empty what a recording does not say, in its replay as well") {
  run::Run run = test::example_run();
  const auto ends_a_line = [&](const char* cells) {
    std::string text;
    const traces::PlacedRun placed{&run, 0, {}};
    const auto format = traces::find_format("csv");
    REQUIRE(format);
    REQUIRE(format->write({&placed, 1}, [&](std::string_view piece) -> Status {
      text += piece;
      return {};
    }));
    return text.find(cells) != std::string::npos;
  };
  CHECK(ends_a_line(",4096,3072,0,4,7,15\n"));
  run.about.strategy = "recorded";
  CHECK(ends_a_line(",4096,3072,,4,7,15\n"));
  CHECK_FALSE(ends_a_line(",4096,3072,0,4,7,15\n"));
}

TEST_CASE("the CSV of memory has one point of the curve a row") {
  CHECK(written("csv_memory") ==
        "rank_class,step,time_ns,requested_bytes,allocated_bytes,active_bytes,reserved_bytes\n"
        "fast,1,95,900,1024,1024,2048\n"
        "fast,1,140,0,0,0,2048\n");
}

TEST_CASE("the CSV of allocations has one allocation a row") {
  CHECK(written("csv_allocations") ==
        "rank_class,step,name,scope,cause,bytes,block_bytes,address,allocated_ns,freed_ns,"
        "before_op,from_before,still_bound\n"
        "fast,1,\"weight, unsharded\",layers.0,unsharded_parameter,900,1024,18446603336221196800,"
        "95,140,r0/s1/m0/layers.0.attn/forward/gemm/0,0,0\n");
}

TEST_CASE("a run without memory has no CSV of it") {
  run::Run run = test::example_run();
  run.memory.clear();
  run.bindings.clear();
  const traces::PlacedRun placed{&run, 0, {}};
  for (const char* format : {"csv_memory", "csv_allocations"}) {
    const Status done = traces::find_format(format)->write(
        {&placed, 1}, [](std::string_view) -> Status { return {}; });
    REQUIRE_FALSE(done);
    CHECK(done.error().message.find("expected one whose memory was recorded") != std::string::npos);
  }
}

TEST_CASE("unknown formats name the known ones") {
  const auto format = traces::find_format("perfeto");
  REQUIRE_FALSE(format.has_value());
  CHECK(format.error().message.find("chrome, perfetto, csv") != std::string::npos);
}

TEST_CASE("a writer stops at the first failure") {
  for (const traces::Format& format : traces::formats()) {
    INFO(format.name);
    int calls = 0;
    const Status done = write(format.name.data(), [&](std::string_view) -> Status {
      ++calls;
      return fail_work("x", "full");
    });
    CHECK_FALSE(done.has_value());
    CHECK(calls == 1);
  }
}
