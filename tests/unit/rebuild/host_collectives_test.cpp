// Collectives as the host's events describe them.
#include <catch2/catch.hpp>

#include "recordings.h"
#include "core/rebuild/host_collectives.h"

namespace foregather::test {

namespace {

class Writer : public RecordingWriter {
 public:
  void collective(run::LaneRow thread, std::string_view name, Ns start, Ns end,
                  const run::RecordedCollective& said) {
    range(thread, name, start, end);
    recording.ranges.kind.back() =
        name.starts_with("gloo:") ? run::RangeKind::annotation : run::RangeKind::op;
    recording.ranges.collective.back() = run::CollectiveRow(recording.collectives.size());
    recording.collectives.push_back(said);
  }

  run::RecordedCollective said(std::string_view name, std::string_view dtype, std::int64_t in,
                               std::int64_t out) {
    run::RecordedCollective row;
    row.name = recording.strings.intern(name);
    row.dtype = recording.strings.intern(dtype);
    row.group = row.ranks = recording.strings.intern("");
    row.in_elements = in;
    row.out_elements = out;
    return row;
  }
};

}  // namespace

TEST_CASE("collectives of the host have step, scope, phase, kind, bytes and ranks") {
  Writer w;
  const auto host = w.lane("1", "1"), autograd = w.lane("1", "2");
  w.range(host, "ProfilerStep#4", 0, 100);
  w.range(host, "ProfilerStep#5", 100, 200);
  w.range(host, "layers.0/forward", 10, 20);
  w.collective(host, "c10d::_allgather_base_", 12, 14,
               w.said("_allgather_base", "BFloat16", 8, 32));
  w.range(autograd, "layers.0/backward", 110, 130);
  w.collective(autograd, "c10d::_reduce_scatter_base_", 120, 125,
               w.said("_reduce_scatter_base", "Float", 32, 8));
  w.collective(host, "c10d::allreduce_", 205, 210, w.said("allreduce", "", 4, 4));
  const auto list = rebuild::host_collectives(w.recording);
  REQUIRE(list.size() == 3);
  CHECK(list[0].step == 4);
  CHECK(list[0].scope == "layers.0");
  CHECK(list[0].phase == Phase::forward);
  CHECK(list[0].kind == OpKind::all_gather);
  CHECK(list[0].bytes == 64);
  CHECK(list[0].ranks == 4);
  CHECK(list[1].step == 5);
  CHECK(list[1].phase == Phase::backward);
  CHECK(list[1].kind == OpKind::reduce_scatter);
  CHECK(list[1].bytes == 128);
  CHECK(list[1].ranks == 4);
  CHECK_FALSE(list[2].step);
  CHECK_FALSE(list[2].bytes);  // of a dtype that nothing names
  CHECK(list[2].ranks == 0);
}

TEST_CASE("the record of parameters counts, not the operator around it, and no wait") {
  Writer w;
  const auto host = w.lane("1", "1");
  w.collective(host, "c10d::_allgather_base_", 10, 20, w.said("_allgather_base", "Float", 8, 16));
  run::RecordedCollective inner = w.said("_allgather_base", "Float", 8, 16);
  inner.group = w.recording.strings.intern("shard");
  inner.group_size = 2;
  w.collective(host, "record_param_comms", 12, 18, inner);
  w.collective(host, "record_param_comms", 30, 31, w.said("wait", "Float", 8, 8));
  const auto list = rebuild::host_collectives(w.recording);
  REQUIRE(list.size() == 1);
  CHECK(list[0].group == "shard");
  CHECK(list[0].bytes == 64);
}

TEST_CASE("a list's dtype is that of the range on gloo's thread, its length the job's") {
  Writer w;
  const auto host = w.lane("1", "1"), gloo = w.lane("1", "2");
  w.recording.world_size = 4;
  w.collective(gloo, "gloo:all_gather", 5, 6, w.said("gloo:all_gather", "Double", 8, 8));
  w.collective(host, "c10d::allgather_", 10, 11, w.said("allgather", "", 8, 0));
  w.collective(gloo, "gloo:all_gather", 12, 20, w.said("gloo:all_gather", "BFloat16", 8, 8));
  w.collective(host, "c10d::allgather_", 30, 31, w.said("allgather", "", 8, 0));
  w.collective(gloo, "gloo:all_gather", 32, 40, w.said("gloo:all_gather", "Float", 8, 8));
  const auto list = rebuild::host_collectives(w.recording);
  REQUIRE(list.size() == 2);
  CHECK(list[0].dtype == "BFloat16");
  CHECK(list[0].bytes == 4 * 8 * 2);
  CHECK(list[0].ranks == 4);
  CHECK(list[1].dtype == "Float");
  w.recording.group_sizes = {4, 2};  // which group it is nothing says
  CHECK(rebuild::host_collectives(w.recording)[0].ranks == 0);
  CHECK_FALSE(rebuild::host_collectives(w.recording)[0].bytes);
  w.recording.group_sizes = {2, 2};
  CHECK(rebuild::host_collectives(w.recording)[0].bytes == 2 * 8 * 2);
}

}  // namespace foregather::test
