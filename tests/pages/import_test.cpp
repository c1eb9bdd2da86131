#include <catch2/catch.hpp>

#include <cstdint>

#include "tasks/import.h"

using namespace foregather;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

TEST_CASE("add-a-reader: import reads the page's file, and says what the page promises") {
  const auto files =
      tasks::import_files({FOREGATHER_PAGES "/tests/golden/inputs/rocprof_small.csv"});
  REQUIRE(files.has_value());
  REQUIRE(files->size() == 1);
  const tasks::ImportedFile& file = files->front();
  CHECK(file.what == "rocprofv3 kernel trace");
  CHECK(file.dropped == run::EventCounts{{"neg_dur", 1}});
  CHECK(file.rows ==
        std::vector<std::array<std::string, 3>>{{"kernels", "2", "1 of communication"},
                                                {"communication", "100.0 µs", "exposed 50.0 µs"}});
  CHECK(tasks::to_json(*files).find(R"("format": "rocprof")") != std::string::npos);
}

TEST_CASE("add-a-reader: the fuzz target takes what is no trace") {
  const std::uint8_t bytes[] = {'"', 'K', 'i', 'n', 'd', '"', ',', 0, '\n', '"'};
  CHECK(LLVMFuzzerTestOneInput(bytes, sizeof bytes) == 0);
  CHECK(LLVMFuzzerTestOneInput(bytes, 0) == 0);
}
