#include "traces/perfetto.h"

#include <map>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/chrome_trace.h"
#include "tests/support/example_run.h"
#include "traces/tar.h"
#include "traces/text_source.h"

using namespace foregather;
using nlohmann::json;

namespace {

std::string archive_of(const std::vector<traces::PlacedRun>& runs) {
  std::string bytes;
  REQUIRE(traces::write_perfetto(runs, [&](std::string_view piece) -> Status {
    bytes += piece;
    return {};
  }));
  return bytes;
}

// Members in order, read by the reader of other tools' archives.
std::vector<std::pair<std::string, std::string>> members_of(const std::string& archive) {
  std::vector<std::pair<std::string, std::string>> members;
  const auto source = traces::text_of(archive);
  REQUIRE(traces::visit_tar(*source, "x.tar",
                            [&](const traces::TarMember& member, traces::TextSource& text) {
                              std::string content(static_cast<std::size_t>(member.bytes), '\0');
                              REQUIRE(text.read(content) == content.size());
                              members.emplace_back(member.name, content);
                              return Status{};
                            }));
  return members;
}

run::Run example(run::RunKind kind) {
  run::Run run = test::example_run();
  run.about.kind = kind;
  return run;
}

}  // namespace

TEST_CASE("Perfetto archive: a manifest that puts predicted and measured on one axis") {
  const run::Run predicted = example(run::RunKind::predicted);
  const run::Run measured = example(run::RunKind::measured);
  const auto members = members_of(archive_of({{&predicted, 90, {}}, {&measured, 1000, {}}}));
  REQUIRE(members.size() == 5);
  CHECK(members[0].first == "perfetto_manifest.json");
  // Perfetto knows it by its first characters.
  std::string bare = members[0].second;
  std::erase_if(bare, [](char c) { return c == ' ' || c == '\n'; });
  CHECK(bare.starts_with("{\"perfetto_manifest\""));
  const auto reference = [](const char* path, const char* machine) {
    return json{{"path", path}, {"machine", {{"name", machine}}}};
  };
  const auto later = [&](const char* path, const char* machine, int offset) {
    json file = reference(path, machine);
    file["clocks"] = {{"sync_to", {{"file", "measured/rank_0.json"}}}, {"offset_ns", offset}};
    return file;
  };
  CHECK(json::parse(members[0].second) ==
        json{{"perfetto_manifest",
              {{"version", 1},
               {"files",
                {reference("measured/rank_0.json", "measured"),
                 later("measured/rank_2.json", "measured", 0),
                 later("predicted/rank_0.json", "predicted", 910),
                 later("predicted/rank_2.json", "predicted", 910)}}}}});
  for (std::size_t i = 1; i < members.size(); ++i) {
    INFO(members[i].first);
    const json manifest = json::parse(members[0].second);
    CHECK(manifest["perfetto_manifest"]["files"][i - 1].at("path").get<std::string>() ==
          members[i].first);
    CHECK(test::read_chrome(members[i].second).faults.empty());
  }
}

TEST_CASE("Perfetto archive: two runs of one kind have numbers, their arrows ids of their own") {
  const run::Run run = example(run::RunKind::predicted);
  const auto members = members_of(archive_of({{&run, 0, {}}, {&run, 0, {}}}));
  REQUIRE(members.size() == 5);
  CHECK(members[1].first == "predicted_1/rank_0.json");
  CHECK(members[4].first == "predicted_2/rank_2.json");
  std::map<std::pair<std::string, std::uint64_t>, int> ends;
  for (std::size_t i = 1; i < members.size(); ++i) {
    const json trace = json::parse(members[i].second);
    for (const auto& event : trace.at("traceEvents"))
      if (event.at("ph") == "s") ++ends[{event.at("cat"), event.at("id")}];
  }
  CHECK(ends.size() > 12);
  for (const auto& [id, n] : ends) CHECK(n == 1);
}

TEST_CASE("Perfetto archive: equal runs are equal bytes, headers without owner and date") {
  const run::Run run = example(run::RunKind::measured);
  const std::string archive = archive_of({{&run, 0, {}}});
  CHECK(archive == archive_of({{&run, 0, {}}}));
  CHECK(archive.size() % traces::kTarBlock == 0);
  CHECK(traces::is_tar(archive));
  const std::string_view header = std::string_view(archive).substr(0, traces::kTarBlock);
  CHECK(header.substr(100, 24) == std::string_view("0000644\0"
                                                   "0000000\0"
                                                   "0000000\0",
                                                   24));
  CHECK(header.substr(136, 12) == std::string_view("00000000000\0", 12));
}
