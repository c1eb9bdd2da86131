// What our FSDP1 schedule asks of streams, row by row against tests/oracles/data/streams.json.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/memory/host_order.h"
#include "tests/models/oracle.h"
#include "tests/support/places.h"

namespace foregather::test {

namespace {

using Json = nlohmann::json;

bool is_of_streams(const std::string& row) {
  return row.find(" waits ") != std::string::npos || row.find(" on ") != std::string::npos;
}

/// Of a recording: waits, records, record_streams, collectives.
std::vector<std::string> rows_of_streams(const Json& rows) {
  std::vector<std::string> kept;
  for (const std::string row : rows)
    if (is_of_streams(row)) kept.push_back(row);
  return kept;
}

/// The same rows of section body, from the first forward on.
class StreamRows {
 public:
  explicit StreamRows(const Graph& graph) : graph_(graph), program_(graph.programs.front()) {}

  std::vector<std::string> rows() {
    const std::vector<sim::HostPoint> order = sim::host_order(program_, Section::body);
    std::vector<Action> actions;
    for (const sim::HostPoint& point : order)
      actions.push_back(program_.threads[point.thread].actions(Section::body)[point.index]);
    for (std::size_t i = 0; i < actions.size(); ++i)
      if (actions[i].kind == ActionKind::record && !is_join(actions, i))
        numbers_.try_emplace(actions[i].a, numbers_.size() + 1);
    for (std::size_t i = 0; i < actions.size(); ++i) hear(actions, i);
    return std::move(rows_);
  }

 private:
  /// Stream.wait_stream is a record and a wait for it.
  static bool is_join(const std::vector<Action>& actions, std::size_t i) {
    return i + 1 < actions.size() && actions[i + 1].kind == ActionKind::wait &&
           actions[i + 1].a == actions[i].a;
  }

  std::string_view name(StreamId stream) const {
    return graph_.text(program_.streams[stream.row()].name);
  }

  void hear(const std::vector<Action>& actions, std::size_t i) {
    const Action& action = actions[i];
    if (action.kind == ActionKind::mark && static_cast<Phase>(action.b) == Phase::forward)
      begun_ = true;
    if (!begun_) return;
    switch (action.kind) {
      case ActionKind::record:
        if (is_join(actions, i))
          rows_.push_back(
              fmt::format("{} waits {}", name(actions[i + 1].stream), name(action.stream)));
        else
          rows_.push_back(fmt::format("record e{} on {}", numbers_[action.a], name(action.stream)));
        return;
      case ActionKind::host_wait_event:
        return rows_.push_back(fmt::format("host waits e{}", numbers_[action.a]));
      case ActionKind::record_stream:
        return rows_.push_back(fmt::format("record_stream {} bytes on {}",
                                           graph_.storages[action.a].bytes, name(action.stream)));
      case ActionKind::launch: return hear_launch(graph_.ops[action.a]);
      default: return;
    }
  }

  void hear_launch(const Op& op) {
    if (!is_collective(op.kind)) return;
    const char* kind = op.kind == OpKind::all_gather       ? "ag"
                       : op.kind == OpKind::reduce_scatter ? "rs"
                                                           : "ar";
    std::string unit(graph_.scope_name(op.scope));
    const auto layer = unit.find("layers.");
    if (layer != std::string::npos) unit = unit.substr(layer);
    rows_.push_back(fmt::format("{} {} on {}", kind, unit, name(op.stream)));
  }

  const Graph& graph_;
  const Program& program_;
  std::map<std::uint32_t, std::size_t> numbers_;
  std::vector<std::string> rows_;
  bool begun_ = false;
};

/// PyTorch calls record_stream on a root's low-precision shard also where a unit that is already
/// unsharded is unsharded again; nothing is allocated there, so that the allocator ignores it.
void drop_calls_on_nothing(std::vector<std::string>& rows, Bytes root_cast) {
  const std::string call = fmt::format("record_stream {} bytes on unshard", root_cast);
  for (std::size_t i = 1; i < rows.size(); ++i)
    if (rows[i] == call && !rows[i - 1].starts_with("ag ")) rows.erase(rows.begin() + i--);
}

}  // namespace

TEST_CASE("FSDP1 asks of streams what PyTorch asks of them") {
  std::ifstream file(source_dir() + "/tests/oracles/data/streams.json");
  const Json streams = Json::parse(file);
  const std::vector<RecordedCase> cases = recorded_cases("fsdp1");
  std::size_t compared = 0;
  for (const Json& one : streams.at("cases")) {
    const std::string name = one.at("name");
    if (!name.starts_with("fsdp1/")) continue;
    INFO(name);
    const auto found = std::find_if(cases.begin(), cases.end(),
                                    [&](const RecordedCase& c) { return c.name == name; });
    REQUIRE(found != cases.end());
    const Result<Lowered> ours = lowered(*found);
    REQUIRE(ours);
    std::vector<std::string> expected = rows_of_streams(one.at("streams"));
    const Unit& root = ours->graph.units.front();
    drop_calls_on_nothing(expected,
                          root.padded_elements / found->world_size * size_of(root.gathered));
    CHECK(difference(expected, StreamRows(ours->graph).rows()) == "");
    ++compared;
  }
  CHECK(compared == 3);
}

}  // namespace foregather::test
