// How models of transformers differ from Llama in their attention and their losses, seen in the
// storages of a lowered step.
#include <set>
#include <string>
#include <catch2/catch.hpp>

#include "tests/unit/plan/small_model.h"

namespace foregather::test {
namespace {

using namespace plan;

const std::string kHeads = ", \"num_key_value_heads\": 4";

ModelConfig config_of(const std::string& type, const std::string& lines) {
  return config_read("{\"model_type\": \"" + type + "\", \"hidden_size\": 64, " +
                     "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, " +
                     "\"intermediate_size\": 160, \"vocab_size\": 100" + lines + "}");
}

/// Names of what a step allocates, with its bytes.
std::set<std::pair<std::string, Bytes>> storages_of(const ModelConfig& config,
                                                    const std::vector<std::string>& sets) {
  const Graph graph = lowered_step(config, sets);
  std::set<std::pair<std::string, Bytes>> found;
  for (const Storage& storage : graph.storages)
    found.emplace(graph.text(storage.name), storage.bytes);
  return found;
}

bool copies_its_output(const std::string& type, const std::string& lines) {
  const auto storages =
      storages_of(config_of(type, lines), {"train.precision=bf16", "train.attention=flash"});
  return storages.contains({"attention by token", Bytes{2} * 64 * 64 * 2});
}

}  // namespace

TEST_CASE("attention: queries that torch.cat laid out by heads leave an output to be copied") {
  CHECK(copies_its_output("phi3", ""));
  CHECK(copies_its_output("phi", ", \"partial_rotary_factor\": 0.5"));
  CHECK(copies_its_output("stablelm", kHeads + ", \"partial_rotary_factor\": 0.25"));
  CHECK_FALSE(copies_its_output("stablelm", kHeads + ", \"partial_rotary_factor\": 1.0"));
  CHECK_FALSE(copies_its_output("llama", ""));
  // Memory-efficient attention, as fp32 and a mask have it, writes by tokens.
  const Bytes bytes = Bytes{2} * 64 * 64;
  CHECK_FALSE(storages_of(config_of("phi3", ""), {"train.precision=fp32", "train.attention=sdpa"})
                  .contains({"attention by token", 4 * bytes}));
  const auto masked = config_of("phi3", ", \"sliding_window\": 64");
  const auto storages = [&](const char* attention) {
    return storages_of(masked,
                       {"train.precision=bf16", std::string("train.attention=") + attention});
  };
  CHECK(storages("flash").contains({"attention by token", 2 * bytes}));
  CHECK_FALSE(storages("sdpa").contains({"attention by token", 2 * bytes}));
}

TEST_CASE("attention: Gemma 2 has no SDPA, and says so") {
  const ModelConfig gemma2 = config_of("gemma2", kHeads);
  const Workload usual = workload_of(gemma2, {});
  CHECK(usual.train.attention == Attention::eager);
  REQUIRE(usual.warnings.size() == 1);
  CHECK(usual.warnings.front().find("flash") != std::string::npos);
  const Workload wide = workload_of(gemma2, {"train.precision=fp32"});
  CHECK(wide.train.attention == Attention::eager);
  CHECK(wide.warnings.at(0).find("flash") == std::string::npos);  // which takes no fp32
  const Workload alibi = workload_of(config_of("bloom", ", \"n_embed\": 64, \"n_head\": 4"), {});
  CHECK(alibi.train.attention == Attention::eager);
  CHECK(alibi.warnings.at(0).find("flash") == std::string::npos);  // which transformers has not
  CHECK(workload_of(gemma2, {"train.attention=flash"}).train.attention == Attention::flash);
  const Workload chosen = workload_of(gemma2, {"train.attention=eager"});
  CHECK(chosen.warnings.empty());
  CHECK(workload_of(config_of("gemma", kHeads), {}).train.attention == Attention::sdpa);
}

TEST_CASE("attention: Gemma 2 caps scores and logits unless its file has no caps") {
  const Bytes scores = Bytes{2} * 2 * 4 * 64 * 64, logits = Bytes{2} * 2 * 64 * 100;
  const auto caps = [&](const std::string& type, const std::string& lines) {
    const auto storages = storages_of(config_of(type, kHeads + lines),
                                      {"train.precision=bf16", "train.attention=eager"});
    return std::pair{storages.contains({"attention scores tanh", scores}),
                     storages.contains({"logits tanh", logits})};
  };
  const std::string none = ", \"attn_logit_softcapping\": null, \"final_logit_softcapping\": null";
  CHECK(caps("gemma2", "") == std::pair{true, true});
  CHECK(caps("gemma2", none) == std::pair{false, false});
  CHECK(caps("gemma2", ", \"attn_logit_softcapping\": null") == std::pair{false, true});
  CHECK(caps("gemma3_text", "") == std::pair{false, false});
  CHECK(caps("gemma3_text", ", \"final_logit_softcapping\": 30.0") == std::pair{false, true});
  CHECK(caps("llama", ", \"final_logit_softcapping\": 30.0") == std::pair{false, false});
}

TEST_CASE("attention: MPT widens its scores, Falcon does not") {
  const auto widens = [](const std::string& type, const std::string& lines) {
    const Bytes scores = Bytes{4} * 2 * 4 * 64 * 64;
    for (const auto& [name, bytes] :
         storages_of(config_of(type, lines), {"train.precision=bf16", "train.attention=eager"}))
      if (bytes == scores && name.find("score") + name.find("softmax") != 2 * std::string::npos)
        return true;
    return false;
  };
  CHECK(widens("mpt", ", \"d_model\": 64, \"n_heads\": 4, \"n_layers\": 2"));
  CHECK_FALSE(widens("falcon", ""));
}

TEST_CASE("losses: masked language models compute theirs in fp32 under autocast") {
  const ModelConfig bert = config_of("bert", ", \"max_position_embeddings\": 64");
  const Bytes wide = Bytes{4} * 2 * 64 * 100;
  const auto is_wide = [&](const char* precision) {
    return storages_of(bert, {std::string("train.precision=") + precision})
        .contains({"log probabilities", wide});
  };
  CHECK(is_wide("bf16-mixed"));
  CHECK_FALSE(is_wide("bf16"));
}

}  // namespace foregather::test
