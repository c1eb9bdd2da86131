// What names of ranges mean: op keys, FSDP's own, the optimizer's.
#include <string>
#include <vector>
#include <catch2/catch.hpp>

#include "recordings.h"
#include "core/rebuild/range_labels.h"

namespace foregather::test {

namespace {

struct Range {
  std::string name;
  run::RangeKind kind = run::RangeKind::annotation;
};

// Of the innermost of ranges that lie within each other.
std::string label_in(const std::vector<Range>& ranges) {
  RecordingWriter w;
  const auto host = w.lane("1", "1");
  Ns start = 0;
  for (const Range& range : ranges) {
    w.range(host, range.name, start, 1000 - start);
    w.recording.ranges.kind.back() = range.kind;
    ++start;
  }
  rebuild::RangeWalk walk(w.recording, rebuild::ranges_by_lane(w.recording)[host.row()]);
  const rebuild::RangeLabel label = walk.at(start * kMicrosecond);
  return std::string(label.scope) + "|" + std::string(name(label.phase));
}

const Range kEngine{"autograd::engine::evaluate_function: MmBackward0", run::RangeKind::op};
const Range kStep{"ProfilerStep#3"};

}  // namespace

TEST_CASE("a range in the form of an op key is scope and phase") {
  CHECK(label_in({kStep, {"layers.3.attn/forward"}}) == "layers.3.attn|forward");
  CHECK(label_in({{"layers.3/forward"}, {"layers.3.attn/recompute"}}) == "layers.3.attn|recompute");
  CHECK(label_in({{"-/optimizer"}}) == "|optimizer");
  CHECK(label_in({{"r0/s1/m2/layers.3/backward/gemm/2"}}) == "layers.3|backward");
  CHECK(label_in({{"m2/layers.3/backward"}}) == "layers.3|backward");
  CHECK(label_in({{"m2/backward"}}) == "m2|backward");  // a module may be called so
  // Annotations and operators within it change nothing; autograd's do change the phase.
  CHECK(label_in({{"layers.3/forward"}, {"attention"}, {"aten::mm", run::RangeKind::op}}) ==
        "layers.3|forward");
  CHECK(label_in({{"-/forward"}, kEngine}) == "|backward");
  CHECK(label_in({kEngine, {"layers.3/recompute"}}) == "layers.3|recompute");
}

TEST_CASE("what looks like an op key and is none stays an annotation") {
  for (const char* text : {"forward", "/forward", "layers.3/", "layers.3/sideways", "a/b/forward"})
    CHECK(label_in({{text}}) == std::string(text) + "|forward");
}

TEST_CASE("FSDP2's ranges name their unit, and are backward where they say so") {
  CHECK(label_in({{"-/forward"}, {"FSDP::all_gather (layers.0)"}}) == "layers.0|forward");
  CHECK(label_in({{"layers.1/backward"}, {"FSDP::all_gather"}}) == "|backward");
  CHECK(label_in({{"FSDP::pre_backward (layers.1)"}, {"FSDP::backward_prefetch for layers.0"}}) ==
        "layers.0|backward");
  CHECK(label_in({{"FSDP::backward_prefetch for layers.0"}, {"FSDP::all_gather (layers.0)"}}) ==
        "layers.0|backward");
  CHECK(label_in({{"FSDP::post_backward_rs_wait ()"}}) == "|backward");
  CHECK(label_in({{"layers.1/recompute"}, {"FSDP::pre_forward (layers.1)"}}) ==
        "layers.1|recompute");
}

TEST_CASE("FSDP1's hooks are backward, its ranges name nothing") {
  CHECK(label_in({{"FullyShardedDataParallel._pre_backward_hook"}, {"layers.0/backward"}}) ==
        "layers.0|backward");
  CHECK(label_in({{"FullyShardedDataParallel._post_backward_hook"}}) ==
        "FullyShardedDataParallel._post_backward_hook|backward");
}

TEST_CASE("the optimizer's range is the root's") {
  CHECK(label_in({kStep, {"Optimizer.step#AdamW.step"}}) == "|optimizer");
}

TEST_CASE("without any of these, scopes are annotations, then operators") {
  CHECK(label_in({}) == "|other");
  CHECK(label_in({kStep}) == "|forward");
  CHECK(label_in({kStep, {"outer"}, {"inner"}, {"aten::mm", run::RangeKind::op}}) ==
        "inner|forward");
  CHECK(label_in({kEngine, {"aten::mm", run::RangeKind::op}}) == kEngine.name + "|backward");
  CHECK(label_in({{"outer", run::RangeKind::python}}) == "|other");
}

TEST_CASE("an operator's shapes do not stand for what a range says of its collective") {
  RecordingWriter w;
  const auto host = w.lane("1", "1");
  w.recording.collectives.resize(2);
  w.recording.collectives[1].is_of_shapes = true;
  for (const std::uint32_t row : {0U, 1U}) {
    w.range(host, "c10d::allreduce_", 10 * row, 100 - 10 * row);
    w.recording.ranges.collective.back() = run::CollectiveRow(row);
  }
  rebuild::RangeWalk walk(w.recording, rebuild::ranges_by_lane(w.recording)[host.row()]);
  const rebuild::RangeLabel label = walk.at(20 * kMicrosecond);
  CHECK(label.collective == run::CollectiveRow(0));
  CHECK(label.called == run::CollectiveRow(1));
}

TEST_CASE("of ranges that overlap the one that began last counts") {
  RecordingWriter w;
  const auto host = w.lane("1", "1");
  w.range(host, "layers.1/backward", 0, 20);
  w.range(host, "layers.0/backward", 10, 30);
  rebuild::RangeWalk walk(w.recording, rebuild::ranges_by_lane(w.recording)[host.row()]);
  CHECK(walk.at(5 * kMicrosecond).scope == "layers.1");
  CHECK(walk.at(15 * kMicrosecond).scope == "layers.0");
  CHECK(walk.at(25 * kMicrosecond).scope == "layers.0");
  CHECK(walk.at(35 * kMicrosecond).phase == Phase::other);
}

}  // namespace foregather::test
