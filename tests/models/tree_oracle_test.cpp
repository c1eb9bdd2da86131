// Nested units and an own process group: our schedules of module trees against what PyTorch 2.15
// did with the test models of its PR 70235.
#include <map>
#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "core/plan/lower.h"
#include "core/plan/workload_toml.h"
#include "tests/models/oracle.h"

namespace foregather::test {

namespace {

// As tests/oracles/record_trees.py writes them down.
const std::map<std::string, std::string> kModels{{"nested", R"(tree = [
       { linear = [8, 4] },
       { wrap = true, children = [{ linear = [4, 16], wrap = true }, { linear = [16, 16] }] },
       { linear = [16, 4], wrap = true },
       { linear = [4, 8] }])"},
                                                 {"wrap_everything", R"(tree = [
       { linear = [8, 4], wrap = true }, { linear = [4, 16], wrap = true },
       { linear = [16, 4], wrap = true }, { linear = [4, 8], wrap = true }])"},
                                                 {"moe", R"(tree = [
       { linear = [8, 12] },
       { linear = [12, 23], wrap = true },
       { linear = [23, 12], wrap = true, group_size = 1 },
       { linear = [12, 8] }])"},
                                                 {"deep", R"(tree = [
       { wrap = true, children = [
         { linear = [8, 6] },
         { wrap = true, children = [{ linear = [6, 10], wrap = true }, { linear = [10, 6] }] },
         { linear = [6, 4], wrap = true }] },
       { linear = [4, 8] }])"},
                                                 {"inner_last", R"(tree = [
       { linear = [8, 4] },
       { wrap = true, children = [{ linear = [4, 16] }, { linear = [16, 8], wrap = true }] }])"},
                                                 {"transformer", R"(target_len = 4
       tree = [
       { name = "embed_tokens", embedding = [23, 16] },
       { name = "vocab_bias", buffer = 16, add = true, on = "source" },
       { name = "long_buffer", buffer = 16, dtype = "i64", add = true, on = "source" },
       { name = "bn", batch_norm = 2, on = "target" },
       { transformer = { d_model = 16, num_encoder_layers = 2, num_decoder_layers = 2, dim_feedforward = 8 } },
       { name = "output_proj", linear = [16, 23], tied = "embed_tokens" }])"}};

// A tree's modules are registered in the order in which they run, but this model registers its
// BatchNorm last. Where parameters are aligned (use_orig_params), the padding between them depends
// on the order: here it is 8 bytes.
const std::string kOtherOrder = "fsdp1/orig_params/transformer/2";

std::string model_of(const RecordedCase& recorded) {
  const auto end = recorded.name.rfind('/');
  const auto begin = recorded.name.rfind('/', end - 1) + 1;
  return recorded.name.substr(begin, end - begin);
}

std::string workload_text(const RecordedCase& recorded) {
  const std::string model = model_of(recorded);
  const bool is_tokens = model == "transformer";
  std::string text = "[model]\n" + kModels.at(model) + "\n[train]\nprecision = \"fp32\"\n" +
                     "optimizer = \"sgd\"\nclip_grad_norm = false\n" +
                     (is_tokens ? "micro_batch = 2\nseq_len = 6\n" : "micro_batch = 4\n") +
                     "[parallel]\nstrategy = \"" + recorded.family +
                     "\"\nworld_size = " + std::to_string(recorded.world_size) + '\n';
  if (recorded.family == "fsdp2") return text;
  if (!recorded.settings.contains("use_orig_params")) text += "use_orig_params = false\n";
  for (const auto& [key, value] : recorded.settings) {
    if (key == "sharding_strategy")
      text += "sharding = \"shard_grad_op\"\n";
    else
      text += key + " = " + (key == "backward_prefetch" ? '"' + value + '"' : value) + '\n';
  }
  return text;
}

template <class Value>
Value required(Result<Value> result) {
  if (!result) throw std::runtime_error(result.error().text());
  return std::move(*result);
}

Lowered lowered_tree(const RecordedCase& recorded) {
  Lowered result;
  result.workload = required(plan::parse_workload(workload_text(recorded), recorded.name, {}));
  const plan::ModelConfig config = required(plan::read_model(result.workload));
  REQUIRE(plan::resolve_workload(result.workload, config));
  result.model = plan::build_model(config, result.workload.train);
  result.graph = required(plan::lower(result.model, result.workload));
  return result;
}

// What a group of one rank communicates is nothing to us.
std::vector<std::string> of_groups(const std::vector<std::string>& collectives) {
  std::vector<std::string> kept;
  for (const std::string& row : collectives)
    if (!row.ends_with(" 1")) kept.push_back(row);
  return kept;
}

std::vector<std::string> events_of(const RecordedCase& recorded, const RecordedStep& step) {
  return recorded.family == "fsdp1"
             ? only(step.events, {"==", "ag", "rs", "unshard", "reshard", "host_wait"})
             : only(step.events, {"==", "ag", "rs", "unshard", "reshard"});
}

void compare_tree(const RecordedCase& recorded, const Lowered& ours, Section section,
                  const RecordedStep& expected) {
  const RecordedStep step = scheduled_step(ours, section, recorded);
  CHECK(difference(of_groups(expected.collectives), step.collectives) == "");
  CHECK(difference(events_of(recorded, expected), events_of(recorded, step)) == "");
}

}  // namespace

TEST_CASE("Module trees issue PyTorch's collectives, end lifetimes and wait in its order") {
  const std::vector<RecordedCase> cases = recorded_cases("trees");
  CHECK(cases.size() == 35);
  for (const RecordedCase& recorded : cases) {
    INFO(recorded.name);
    const Lowered ours = lowered_tree(recorded);
    for (const Problem& problem : validate(ours.graph)) FAIL_CHECK(problem.message);
    if (recorded.name == kOtherOrder) continue;
    compare_tree(recorded, ours, Section::first,
                 recorded.first ? *recorded.first : recorded.steady);
    compare_tree(recorded, ours, Section::body, recorded.steady);
  }
}

TEST_CASE("The flat parameters of module trees have PyTorch's sizes") {
  for (const RecordedCase& recorded : recorded_cases("trees")) {
    INFO(recorded.name);
    const Lowered ours = lowered_tree(recorded);
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> expected, actual;
    for (const RecordedUnit& unit : recorded.units)
      expected[unit.name] = {unit.elements, unit.shard_elements};
    for (const Unit& unit : ours.graph.units) {
      const std::int64_t ranks = unit.group ? ours.graph.at(unit.group).ranks.count : 1;
      actual[std::string(ours.graph.scope_name(unit.scope))] = {unit.parameters,
                                                                unit.padded_elements / ranks};
    }
    if (recorded.name != kOtherOrder) CHECK(expected == actual);
  }
}

}  // namespace foregather::test
