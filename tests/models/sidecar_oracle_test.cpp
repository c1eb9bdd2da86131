// The side-car on live PyTorch models: what its workload predicts, key by key, against what its
// recording of the same job shows (tests/oracles/record_sidecar.py; PyTorch 2.15, two CPUs, gloo).
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <catch2/catch.hpp>

#include "core/rebuild/host_collectives.h"
#include "core/rebuild/range_labels.h"
#include "core/run/op_shapes.h"
#include "tasks/simulate.h"
#include "tests/models/simulated.h"
#include "tests/support/places.h"
#include "traces/kineto.h"

namespace foregather::test {
namespace {

const std::string kFolder = source_dir() + "/tests/oracles/data/sidecar/";
constexpr std::int64_t kStep = 3;  // the recorded one

const std::vector<std::string> kCases{"ddp",
                                      "ddp_autocast",
                                      "ddp_frozen",
                                      "ddp_unused",
                                      "fsdp1",
                                      "fsdp1_bf16",
                                      "fsdp1_frozen",
                                      "fsdp1_tied_flat",
                                      "fsdp2",
                                      "fsdp2_autocast",
                                      "fsdp2_autocast_tied",
                                      "fsdp2_bf16_keep",
                                      "fsdp2_checkpointed",
                                      "fsdp2_encoder",
                                      "fsdp2_frozen",
                                      "fsdp2_list",
                                      "fsdp2_tied"};

template <class Value>
Value required_value(Result<Value> result) {
  if (!result) throw std::runtime_error(result.error().text());
  return std::move(*result);
}

tasks::Outcome sidecar_prediction(const std::string& name) {
  tasks::SimulateRequest request;
  request.sources.paths = {kFolder + name + ".toml"};
  return required_value(tasks::simulate(request));
}

run::Recording sidecar_recording(const std::string& name) {
  const std::string path = kFolder + name + ".json.gz";
  return required_value(traces::read_kineto(*required_value(traces::open_text(path)), path))
      .recording;
}

std::string row(std::string_view scope, Phase phase, OpKind kind, Bytes bytes,
                std::uint32_t ranks) {
  return fmt::format("{} {} {} {} of {}", scope.empty() ? "-" : scope, foregather::name(phase),
                     foregather::name(kind), bytes, ranks);
}

bool is_ddp(const std::string& name) { return name.starts_with("ddp"); }

// DDP reduces buckets, which are of no module; the list form says nothing of the group.
std::vector<std::string> predicted_rows(const std::string& name) {
  std::vector<std::string> rows;
  for (const tasks::CollectiveFigure& figure : sidecar_prediction(name).summary.collectives)
    rows.push_back(row(figure.scope, figure.phase, figure.kind, figure.bytes,
                       is_ddp(name) ? 0 : figure.ranks));
  return rows;
}

std::vector<std::string> recorded_rows(const std::string& name) {
  const run::Recording recording = sidecar_recording(name);
  std::vector<std::string> rows;
  for (const rebuild::HostCollective& each : rebuild::host_collectives(recording)) {
    REQUIRE(each.bytes);
    if (each.step == kStep)
      rows.push_back(
          row(is_ddp(name) ? "-" : each.scope, each.phase, each.kind, *each.bytes, each.ranks));
  }
  return rows;
}

using Counts = std::map<std::string, int>;

Counts predicted_matmuls(const std::string& name) {
  const tasks::Outcome outcome = sidecar_prediction(name);
  const run::RunView run = outcome.run;
  Counts counts;
  for (const run::StepRow step : run::steps_of(run, run::StepKind::steady)) {
    const run::OpSpan ops = run::ops_of(run, step);
    for (std::size_t op = ops.first; op < ops.last; ++op)
      if (run.ops.kind[op] == OpKind::gemm)
        ++counts[fmt::format("{} {}", run.text_of(run.ops.scope[op]),
                             foregather::name(run.ops.phase[op]))];
  }
  return counts;
}

Counts recorded_matmuls(const std::string& name) {
  const run::Recording recording = sidecar_recording(name);
  Counts counts;
  for (const std::vector<std::uint32_t>& lane : rebuild::ranges_by_lane(recording)) {
    rebuild::RangeWalk walk(recording, lane);
    std::vector<Ns> starts;
    for (const std::uint32_t range : lane)
      if (const auto text = recording.text(recording.ranges.name[range]);
          text == "aten::mm" || text == "aten::addmm")
        starts.push_back(recording.ranges.start[range]);
    std::sort(starts.begin(), starts.end());
    for (const Ns start : starts) {
      const rebuild::RangeLabel label = walk.at(start);
      ++counts[fmt::format("{} {}", label.scope, foregather::name(label.phase))];
    }
  }
  return counts;
}

/// Elements of the weights of a block's linears, and of the table of positions.
bool is_of_weight(std::int64_t elements) {
  return elements == 128 || elements == 256 || elements == 640;
}

std::string cast_row(Phase phase, std::int64_t elements, DType from) {
  return fmt::format("{} {} of {}", foregather::name(phase), elements, foregather::name(from));
}

Counts predicted_casts(const std::string& name) {
  const tasks::Schedule schedule =
      required_value(tasks::load_schedule(kFolder + name + ".toml", {}, {}));
  Counts counts;
  for (const OpId id : body_ops(schedule.graph)) {
    const Op& op = schedule.graph.at(id);
    if (op.kind != OpKind::cast || op.role != Role::cast) continue;
    const Cost& cost = schedule.graph.at(op.cost);
    const DType from = cost.bytes_read < cost.bytes_written ? DType::bf16 : DType::f32;
    const std::int64_t elements = cost.bytes_read / size_of(from);
    if (is_of_weight(elements)) ++counts[cast_row(op.phase, elements, from)];
  }
  return counts;
}

// Weights and their gradients have two dimensions, activations three.
Counts recorded_casts(const std::string& name) {
  const run::Recording recording = sidecar_recording(name);
  Counts counts;
  for (const std::vector<std::uint32_t>& lane : rebuild::ranges_by_lane(recording)) {
    rebuild::RangeWalk walk(recording, lane);
    for (const std::uint32_t range : lane) {
      const run::RangeColumns& ranges = recording.ranges;
      if (recording.text(ranges.name[range]) != "aten::_to_copy") continue;
      const auto arguments = run::shaped_arguments(recording.text(ranges.shapes[range]),
                                                   recording.text(ranges.types[range]));
      if (arguments.empty() || arguments[0].sizes.size() != 2) continue;
      if (!is_of_weight(arguments[0].elements)) continue;
      ++counts[cast_row(walk.at(ranges.start[range]).phase, arguments[0].elements,
                        arguments[0].dtype)];
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("autocast over FSDP2 casts what the prediction casts: weights once, gradients back") {
  for (const char* const name : {"fsdp2_autocast", "fsdp2_autocast_tied"}) {
    INFO(name);
    const Counts counts = recorded_casts(name);
    CHECK(counts.at("forward 128 of f32") == 4);
    CHECK(counts == predicted_casts(name));
  }
}

TEST_CASE("the side-car's workload predicts the collectives that its recording shows") {
  for (const std::string& name : kCases) {
    INFO(name);
    const std::vector<std::string> rows = recorded_rows(name);
    CHECK(rows.size() >= 3);
    CHECK(rows == predicted_rows(name));
  }
}

// Its three buffers are two messages, the two of floats behind each other.
TEST_CASE("DDP sends buffers in the forward of each step, and of what follows a reduction") {
  const auto broadcasts = [](const std::vector<std::string>& sets) {
    const tasks::Schedule schedule =
        required_value(tasks::load_schedule(kFolder + "ddp_unused.toml", sets, {}));
    std::vector<Bytes> sizes;
    for (const OpId id : body_ops(schedule.graph))
      if (const Op& op = schedule.graph.at(id); op.kind == OpKind::broadcast)
        sizes.push_back(schedule.graph.at(op.cost).message_bytes);
    return sizes;
  };
  const std::vector<Bytes> once{24, 24};
  CHECK(broadcasts({}) == once);
  CHECK(broadcasts({"train.grad_accum=3", "train.no_sync=true"}) == once);
  CHECK(broadcasts({"train.grad_accum=3"}).size() == 6);
  CHECK(broadcasts({"parallel.broadcast_buffers=false"}).empty());
}

TEST_CASE("every case of the side-car has a workload and a recording here") {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string stem = entry.path().filename().string();
    files += std::find(kCases.begin(), kCases.end(), stem.substr(0, stem.find('.'))) != kCases.end()
                 ? 1
                 : 100;
  }
  CHECK(files == 2 * kCases.size());
}

TEST_CASE("the side-car's workload has the model's parameters, each once") {
  for (const std::string& name : kCases) {
    INFO(name);
    std::ifstream file(kFolder + name + ".toml");
    std::string hash, model;
    std::int64_t parameters = 0;
    REQUIRE(file >> hash >> model >> parameters);
    const tasks::Summary summary = sidecar_prediction(name).summary;
    CHECK(summary.parameters == parameters);
    CHECK(summary.warnings.empty());
  }
}

// Linears, parallel ones that the tree holds as parameters included: forward once, backward twice.
TEST_CASE("the side-car's ranges say of each matmul the module and the phase of the prediction") {
  for (const char* const name :
       {"fsdp1", "fsdp1_bf16", "fsdp1_tied_flat", "fsdp2", "fsdp2_autocast", "fsdp2_autocast_tied",
        "fsdp2_bf16_keep", "fsdp2_tied"}) {
    INFO(name);
    const Counts counts = recorded_matmuls(name);
    CHECK(counts.size() == 2 * (2 * 7 + 1));
    CHECK(counts == predicted_matmuls(name));
  }
}

TEST_CASE("the side-car's ranges tell recomputation from forward and backward") {
  const Counts counts = recorded_matmuls("fsdp2_checkpointed");
  for (const char* const linear : {"attention.q_proj", "attention.k_proj", "attention.v_proj",
                                   "attention.o_proj", "mlp.gate_proj", "mlp.up_proj"})
    for (const char* const layer : {"layers.0.", "layers.1."}) {
      const std::string module = std::string(layer) + linear;
      INFO(module);
      CHECK(counts.at(module + " forward") == 1);
      CHECK(counts.at(module + " recompute") == 1);
      CHECK(counts.at(module + " backward") == 2);
    }
  CHECK(counts.count("head recompute") == 0);
}

}  // namespace foregather::test
