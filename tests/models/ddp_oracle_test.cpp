// Our DDP schedule against what PyTorch 2.15 did.
#include <algorithm>
#include <set>
#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "tests/models/oracle.h"

namespace foregather::test {

namespace {

// Cases that no workload can express; workload_of() says why.
const std::set<std::string> kInexpressibleDdp{
    // static_graph=True counts how often parameters are used in the first step and rebuilds after
    // the second; its steady step is compared below.
    "ddp/static_graph/gpt2_19m/2",
};

using Rows = std::vector<std::string>;

/// Moves the broadcasts of rebuilding to where our schedule has them: PyTorch rebuilds in the next
/// synchronised forward; where that is the second step's, we do it at the end of the first step.
void move_rebuilding(Rows& first, Rows& second, const std::string& last_micro_batch) {
  for (std::string row : second) {
    if (!row.starts_with("broadcast")) continue;
    const auto phase = row.find("forward 0");
    REQUIRE(phase != std::string::npos);
    first.push_back(row.replace(phase, 9, "other " + last_micro_batch));
  }
  std::erase_if(second, [](const std::string& row) { return row.starts_with("broadcast"); });
}

}  // namespace

TEST_CASE("DDP reduces PyTorch's buckets, step by step") {
  std::size_t compared = 0;
  for (const RecordedCase& recorded : recorded_cases("ddp")) {
    INFO(recorded.name);
    const Result<Lowered> ours = lowered(recorded);
    if (kInexpressibleDdp.contains(recorded.name)) {
      CHECK(!ours);
      continue;
    }
    if (!ours) {
      FAIL_CHECK(ours.error().message);
      continue;
    }
    ++compared;
    REQUIRE(recorded.first);
    REQUIRE(recorded.second);
    Rows first = recorded.first->collectives;
    Rows second = recorded.second->collectives;
    const bool accumulates = recorded.settings.at("grad_accum") != "1";
    move_rebuilding(first, second, accumulates ? "1" : "0");
    CHECK(difference(recorded.steady.collectives, second) == "");
    const RecordedStep ours_first = scheduled_step(*ours, Section::first, recorded);
    const RecordedStep ours_body = scheduled_step(*ours, Section::body, recorded);
    CHECK(difference(first, ours_first.collectives) == "");
    CHECK(difference(recorded.steady.collectives, ours_body.collectives) == "");
    // In the backward; DDP's forward was not recorded.
    const auto backward = [](const Rows& events) {
      return only(in_modules(events), {"==", "bwd>", "bwd<", "ar"});
    };
    CHECK(difference(backward(recorded.steady.events), backward(ours_body.events)) == "");
    for (const Problem& problem : validate(ours->graph)) FAIL_CHECK(problem.message);
  }
  CHECK(compared + kInexpressibleDdp.size() == 17);
}

TEST_CASE("a static graph changes nothing of DDP's steady step") {
  std::vector<RecordedCase> cases = recorded_cases("ddp");
  const auto found = std::find_if(cases.begin(), cases.end(), [](const RecordedCase& recorded) {
    return kInexpressibleDdp.contains(recorded.name);
  });
  REQUIRE(found != cases.end());
  found->settings["static_graph"] = "false";
  const Result<Lowered> ours = lowered(*found);
  REQUIRE(ours);
  CHECK(difference(found->steady.collectives,
                   scheduled_step(*ours, Section::body, *found).collectives) == "");
}

}  // namespace foregather::test
