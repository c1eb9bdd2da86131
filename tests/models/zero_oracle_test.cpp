// Our ZeRO schedules against the collectives of DeepSpeed 0.17.6 (tests/oracles/record_zero.py).
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/ir/validate.h"
#include "core/plan/lower.h"
#include "core/plan/workload_toml.h"
#include "tests/models/oracle.h"
#include "tests/support/places.h"

namespace foregather::test {

namespace {

using Json = nlohmann::json;
using StepRows = std::vector<std::string>;

const std::string kData = source_dir() + "/tests/oracles/data/";

/// "all_gather 20480 forward" of each collective of a recording.
StepRows recorded(const Json& step) {
  StepRows rows;
  for (const Json& row : step)
    rows.push_back(fmt::format("{} {} {}", row[0].get<std::string>(), row[1].get<std::int64_t>(),
                               row[2].get<std::string>()));
  return rows;
}

/// The same of a section, in host order of both threads.
StepRows scheduled(const Graph& graph, Section section) {
  std::vector<const Op*> ops;
  for (const HostThread& thread : graph.programs.front().threads)
    for (const Action& action : thread.actions(section))
      if (action.kind == ActionKind::launch && is_collective(graph.ops[action.a].kind))
        ops.push_back(&graph.ops[action.a]);
  std::sort(ops.begin(), ops.end(),
            [](const Op* a, const Op* b) { return a->sequence < b->sequence; });
  StepRows rows;
  for (const Op* op : ops)
    rows.push_back(
        fmt::format("{} {} {}", name(op->kind), graph.at(op->cost).message_bytes, name(op->phase)));
  return rows;
}

Graph lowered_case(const Json& settings) {
  std::vector<std::string> sets{"model.config=" + kData + "tiny_llama.json"};
  for (const auto& [key, value] : settings.items()) {
    if (key == "stage")
      sets.push_back("parallel.strategy=zero" + value.dump());
    else if (key == "gradient_accumulation_steps")
      sets.push_back("train.grad_accum=" + value.dump());
    else
      sets.push_back("parallel." + key + "=" + value.dump());
  }
  for (const char* set : {"train.micro_batch=2", "train.seq_len=8"}) sets.emplace_back(set);
  auto workload = plan::parse_workload("", "oracle", sets);
  REQUIRE(workload);
  auto config = plan::read_model_config(workload->model_config);
  REQUIRE(config);
  REQUIRE(plan::resolve_workload(*workload, *config));
  const plan::Model model = plan::build_model(*config, workload->train, recorded_implementation());
  auto graph = plan::lower(model, *workload);
  if (!graph) FAIL(graph.error().text());
  return std::move(*graph);
}

}  // namespace

TEST_CASE("ZeRO-2 and ZeRO-3 communicate as DeepSpeed does") {
  std::ifstream file(kData + "zero.json");
  const Json data = Json::parse(file);
  std::size_t compared = 0;
  for (const Json& recording : data["cases"]) {
    INFO(recording["name"].get<std::string>());
    Json settings = data["defaults"];
    settings.update(recording["settings"]);
    const Graph graph = lowered_case(settings);
    CHECK(difference(recorded(recording["first_step"]), scheduled(graph, Section::first)) == "");
    CHECK(difference(recorded(recording["steady_step"]), scheduled(graph, Section::body)) == "");
    for (const Problem& problem : validate(graph)) FAIL_CHECK(problem.message);
    ++compared;
  }
  CHECK(compared == 17);
}

}  // namespace foregather::test
