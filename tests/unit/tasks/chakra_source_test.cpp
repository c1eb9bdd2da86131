// The files of a job's ranks: which rank each is of, and which are equal.
#include "tasks/chakra_source.h"

#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tasks/chakra_rank.h"
#include "tasks/import.h"
#include "tasks/schedule.h"
#include "tests/support/chakra_bytes.h"
#include "tests/support/scratch.h"

using namespace foregather;
using test::chakra_file;

namespace {

namespace fs = std::filesystem;

/// A folder of the test's own.
struct Folder {
  fs::path path = fs::temp_directory_path() / fmt::format("foregather-chakra-{}", ::getpid());
  Folder() { fs::create_directory(path); }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string write(const char* name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
    return path / name;
  }
  std::string pack(const char* name, const std::string& bytes) const {
    gzFile file = gzopen((path / name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path / name;
  }
};

std::string layer(std::uint64_t microseconds) {
  return chakra_file(
      {test::collective(1, "gather", 2, 1 << 20), {2, "forward", 4, {}, {1}, microseconds}});
}

}  // namespace

TEST_CASE("the rank is the last number of the name") {
  CHECK(tasks::chakra_rank("fsdp.3.et.gz") == 3U);
  CHECK(tasks::chakra_rank("/a/b8/all_gather__4npus_1MB__all_gather.12.et") == 12U);
  CHECK(tasks::chakra_rank("job.tar.gz!traces/rank_7.json") == 7U);
  CHECK(tasks::chakra_rank("trace2/rank.0.et") == 0U);
  CHECK_FALSE(tasks::chakra_rank("trace8/all.et.zst"));
  CHECK_FALSE(tasks::chakra_rank("rank99999999999.et"));
}

TEST_CASE("equal traces are one rank class, whatever their packing") {
  const Folder folder;
  const std::vector<std::string> paths{
      folder.write("t.3.et", layer(10)), folder.write("t.0.et", layer(10)),
      folder.pack("t.1.et.gz", layer(10)), folder.write("t.2.et", layer(20))};
  for (const std::string& path : paths) CHECK(tasks::is_chakra(path));
  traces::ChakraGraphOptions options;
  options.world_size = 4;
  const auto step = tasks::chakra_step(paths, options);
  REQUIRE(step);
  CHECK(step->warnings.empty());
  const Graph& graph = step->graph;
  CHECK(graph.world_size == 4);
  REQUIRE(graph.classes.size() == 2);
  const auto ranks = graph.ranks_of(graph.classes[0].ranks);
  CHECK(std::vector<std::uint32_t>(ranks.begin(), ranks.end()) ==
        std::vector<std::uint32_t>{0, 1, 3});
  CHECK(graph.ranks_of(graph.classes[1].ranks).front() == 2);
}

TEST_CASE("traces whose names number no ranks are numbered in their order") {
  const Folder folder;
  traces::ChakraGraphOptions options;
  options.world_size = 2;
  const auto step = tasks::chakra_step(
      {folder.write("b.1.et", layer(10)), folder.write("a.1.et", layer(20))}, options);
  REQUIRE(step);
  CHECK(step->warnings.size() == 1);
  CHECK(step->graph.world_size == 2);
}

TEST_CASE("a file that is none is an error at its name") {
  const Folder folder;
  const std::string good = folder.write("t.0.et", layer(10));
  const std::string bad = folder.write("t.1.et", "[model]\n");
  CHECK_FALSE(tasks::is_chakra(bad));
  CHECK_FALSE(tasks::is_chakra((folder.path / "absent").string()));
  const auto step = tasks::chakra_step({good, bad}, {});
  REQUIRE_FALSE(step);
  CHECK(step.error().place == bad);
}

TEST_CASE("import: a Chakra trace's nodes on the host, and its process groups, are told apart") {
  const test::Scratch folder;
  test::NodeBytes host{1, "aten::mm"};
  host.attributes = {test::attribute("is_cpu_op", 1)};
  host.duration_us = 7;
  test::NodeBytes device{2, "gemm"};
  device.attributes = {test::attribute("is_cpu_op", 0), test::attribute("num_ops", 300)};
  device.duration_us = 5;
  const std::string inputs = test::bytes_field(
      8, test::bytes_field(1, R"(['[{"pg_name": "2", "pg_desc": "dp", "ranks": [0, 4], )"
                              R"("group_size": 2}]'])"));
  const std::string groups = test::number_field(1, 9) +
                             test::bytes_field(2, "## process_group:init ##") +
                             test::number_field(3, 1) + inputs;
  const std::string path =
      folder.write("trace.et", test::chakra_file({host, device}) + test::framed(groups));
  const auto files = tasks::import_files({path});
  REQUIRE(files);
  const auto json = nlohmann::json::parse(tasks::to_json(*files));
  CHECK(json["host_nodes"] == 1);
  CHECK(json["host_ns"] == 7000);
  CHECK(json["compute_ns"] == 5000);
  CHECK(json["num_ops"] == 300);
  CHECK(json["rank"].is_null());  // no number in the name
  CHECK(json["process_groups"] == nlohmann::json::parse(R"([{"name": "2", "description": "dp",
    "size": 2, "ranks": [0, 4]}])"));
}

TEST_CASE("import: sums over a damaged Chakra trace end where numbers do") {
  const test::Scratch folder;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62, kYear = 366ULL * 24 * 3600 * 1'000'000;
  std::vector<test::NodeBytes> nodes;
  for (std::uint64_t id = 0; id < 3; ++id)
    nodes.push_back(test::collective(id, "all_gather", 2, kMost));
  for (std::uint64_t id = 10; id < 310; ++id) {
    nodes.push_back({id, "gemm"});
    nodes.back().attributes = {test::attribute("is_cpu_op", 0), test::attribute("num_ops", kMost)};
    nodes.back().duration_us = kYear;
  }
  const std::string path = folder.write("trace.et", test::chakra_file(nodes));
  const auto files = tasks::import_files({path});
  REQUIRE(files);
  const auto json = nlohmann::json::parse(tasks::to_json(*files));
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  CHECK(json["collectives"]["all_gather"]["bytes"] == kEnd);
  CHECK(json["compute_ns"] == kEnd);
  CHECK(json["num_ops"] == kEnd);
  const auto schedule = tasks::load_schedule(path, {}, {});
  REQUIRE_FALSE(schedule);
  CHECK(schedule.error().text() ==
        path +
            ": is no schedule that could run: k0: message bytes 4611686018427387904 is out of "
            "range, expected 0 to 4503599627370496");
}

TEST_CASE("traces that differ in a group's name alone are of two rank classes") {
  const Folder folder;
  const auto in_group = [](std::string_view name) {
    test::NodeBytes gather = test::collective(1, "gather", 2, 1 << 20);
    gather.attributes.push_back(test::attribute("pg_name", name));
    return chakra_file({gather});
  };
  traces::ChakraGraphOptions options;
  options.world_size = 3;
  const auto step = tasks::chakra_step(
      {folder.write("t.0.et", in_group("a")), folder.write("t.1.et", in_group("b")),
       folder.write("t.2.et", in_group("a"))},
      options);
  REQUIRE(step);
  CHECK(step->graph.classes.size() == 2);
}
