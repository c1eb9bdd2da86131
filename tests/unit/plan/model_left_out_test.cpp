// What a config.json says and no op follows.
#include "core/plan/model_left_out.h"

#include <catch2/catch.hpp>

#include "tests/unit/plan/temporary_file.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

std::string config_with(const std::string& type, const std::string& lines) {
  return "{\"model_type\": \"" + type +
         "\",\n\"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,\n"
         "\"num_key_value_heads\": 2, \"intermediate_size\": 160, \"vocab_size\": 100" +
         lines + "}";
}

std::vector<std::string> warnings_of(const std::string& text, std::int64_t seq_len,
                                     std::int64_t loss_chunks = 1) {
  const TemporaryFile file(text);
  const Result<ModelConfig> config = read_model_config(file.path());
  if (!config) FAIL(config.error().text());
  Train train;
  train.seq_len = seq_len;
  train.loss_chunks = loss_chunks;
  std::vector<std::string> warnings = model_warnings(*config, train);
  for (std::string& warning : warnings)
    if (warning.starts_with(file.path())) warning = warning.substr(file.path().size() + 1);
  return warnings;
}

}  // namespace

TEST_CASE("keys that change the cost and are left out are named with their place") {
  CHECK(warnings_of(config_with("llama", ""), 64).empty());
  CHECK(warnings_of(config_with("llama", ",\n\"quantization_config\": {\"bits\": 4}"), 64) ==
        std::vector<std::string>{
            "4:1: 'quantization_config' has no effect: weights have the dtype of train.precision"});
  CHECK(warnings_of(config_with("llama", ",\n\"quantization_config\": null"), 64).empty());
  CHECK(warnings_of(config_with("llama", ",\n\"final_logit_softcapping\": 30.0"), 64).size() == 1);
  CHECK(warnings_of(config_with("gemma2", ",\n\"final_logit_softcapping\": 30.0"), 64).empty());
  CHECK(warnings_of(config_with("llama", ", \"num_nextn_predict_layers\": 0"), 64).empty());
  // Of no cost.
  CHECK(warnings_of(config_with("llama", ", \"rope_scaling\": {\"rope_type\": \"new\"}"), 64)
            .empty());
}

TEST_CASE("of a loss in parts the caps of Gemma's logits are left out, which is said") {
  const std::string capped = config_with("gemma2", ",\n\"final_logit_softcapping\": 30.0");
  CHECK(warnings_of(capped, 64, 4) ==
        std::vector<std::string>{"train.loss_chunks: the parts of gemma2's logits are not capped"});
  CHECK(warnings_of(config_with("gemma2", ",\n\"final_logit_softcapping\": null"), 64, 4).empty());
}

TEST_CASE("a size of an image is a number, or a list of which the first counts") {
  const auto patches = [](const std::string& image, const std::string& patch) {
    const TemporaryFile file(
        "{\"model_type\": \"siglip_vision_model\", \"hidden_size\": 64,\n"
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
        "\"intermediate_size\": 160,\n\"image_size\": " +
        image + ",\n\"patch_size\": " + patch + "}");
    const Result<ModelConfig> config = read_model_config(file.path());
    return config ? std::to_string(config->image.patches())
                  : config.error().text().substr(file.path().size() + 1);
  };
  CHECK(patches("64", "16") == "16");
  CHECK(patches("[64, 32]", "[16]") == "16");
  for (const char* bad : {"[]", "[0]", "[\"64\"]", "[-64]"})
    CHECK(patches(bad, "16").starts_with(
        "3:1: 'image_size' is a list, expected one of integers of 1 to "));
}

TEST_CASE("a key that a config.json has twice is an error at its place") {
  const TemporaryFile file(config_with("llama", ",\n \"hidden_size\": 128"));
  const Result<ModelConfig> config = read_model_config(file.path());
  REQUIRE_FALSE(config.has_value());
  CHECK(config.error().place == file.path() + ":4:2");
  CHECK(config.error().message.starts_with("the key \"hidden_size\" is given twice"));
}
