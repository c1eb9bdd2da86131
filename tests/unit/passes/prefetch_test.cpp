#include <catch2/catch.hpp>

#include "core/ir/op_key.h"
#include "sim/passes/registry.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

// Launches of the body as texts, in host order: what a pass must reproduce of a lowering.
std::vector<std::string> launch_order(const Graph& graph) {
  std::vector<std::string> texts;
  for (const OpId op : launches(graph)) {
    const std::string key = op_key(graph, op, 0, 1);
    texts.push_back(key.substr(0, key.find('@')));
  }
  return texts;
}

// The first place where two orders differ; empty: nowhere.
std::string difference(const Graph& left, const Graph& right) {
  const auto a = launch_order(left);
  const auto b = launch_order(right);
  if (a.size() != b.size()) return fmt::format("{} and {} launches", a.size(), b.size());
  const auto [l, r] = std::mismatch(a.begin(), a.end(), b.begin());
  if (l == a.end()) return {};
  return fmt::format("launch {}: {} and {}", l - a.begin(), *l, *r);
}

Graph lowered(const std::string& sample, const std::string& prefetch, bool forward = false) {
  return sample_with(sample, {"model.layers=4", "parallel.backward_prefetch=" + prefetch,
                              forward ? "parallel.forward_prefetch=true"
                                      : "parallel.forward_prefetch=false"})
      .graph;
}

// From each way of prefetching to each: what the lowering gives, and no change where it is that.
template <class Lowered>
void check_all_ways(const std::string& sample, const Lowered& lowered) {
  const std::vector<std::pair<const char*, const char*>> ways{
      {"none", "none"}, {"pre", "backward-pre"}, {"post", "backward-post"}};
  for (const auto& [from, unused] : ways)
    for (const auto& [to, name] : ways) {
      CAPTURE(sample, from, to);
      std::vector<sim::PassNote> notes;
      const Graph after = passed(lowered(from), {std::string("prefetch=") + name}, &notes);
      CHECK(problems(after) == "");
      CHECK(difference(after, lowered(to)) == "");
      CHECK(notes.at(0).changed == (from != to));
    }
}

}  // namespace

TEST_CASE("the pass gives the order that the lowering has") {
  for (const char* sample : {"tiny_fsdp2", "llama3_8b_fsdp2"})
    check_all_ways(sample, [&](const char* prefetch) { return lowered(sample, prefetch); });
}

TEST_CASE("forward prefetch issues a gather before the layer before computes") {
  const Graph after = passed(lowered("tiny_fsdp2", "pre"), {"forward-prefetch"});
  CHECK(problems(after) == "");
  const auto texts = launch_order(after);
  // Each layer's gather comes before the computation of the layer before.
  const auto at = [&](const std::string& text) {
    return std::find(texts.begin(), texts.end(), text) - texts.begin();
  };
  for (int layer = 0; layer < 3; ++layer) {
    const auto gather = fmt::format("r0/s1/m0/model.layers.{}/forward/all_gather/0", layer + 1);
    const auto norm = fmt::format("r0/s1/m0/model.layers.{}.input_layernorm/forward/norm/0", layer);
    CHECK(at(gather) < at(norm));
  }
}

TEST_CASE("FSDP1 without its rate limiter") {
  const Graph limited = lowered("llama2_7b_fsdp1", "none");
  std::vector<sim::PassNote> notes;
  (void)passed(limited, {"prefetch=backward-pre"}, &notes);
  CHECK_FALSE(notes.at(0).changed);
  CHECK(notes.at(0).did.find("limit-all-gathers=none") != std::string::npos);
  for (const auto& [to, name] :
       {std::pair("pre", "backward-pre"), std::pair("post", "backward-post")}) {
    CAPTURE(to);
    const Graph after =
        passed(limited, {"limit-all-gathers=none", std::string("prefetch=") + name}, &notes);
    CHECK(problems(after) == "");
    CHECK(notes.at(1).changed);
    CHECK(difference(after, lowered("llama2_7b_fsdp1", to)) == "");
  }
}

TEST_CASE("FSDP1 whose backward reads its parameters late, and whose shards are cast first") {
  for (const char* sample : {"llama2_7b_fsdp1", "llama3_8b_fsdp2"})
    check_all_ways(sample, [&](const char* prefetch) {
      return sample_with(sample,
                         {"model.layers=4", "parallel.strategy=fsdp1",
                          "parallel.limit_all_gathers=false", "train.activation_checkpointing=none",
                          std::string("parallel.backward_prefetch=") + prefetch})
          .graph;
    });
}
