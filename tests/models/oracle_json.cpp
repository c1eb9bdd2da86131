#include <fstream>
#include <stdexcept>
#include <nlohmann/json.hpp>

#include "tests/models/oracle.h"
#include "tests/support/places.h"

namespace foregather::test {

namespace {

using OrderedJson = nlohmann::ordered_json;

class Reader {
 public:
  explicit Reader(std::string_view family) : family_(family) {
    const std::string path = source_dir() + "/tests/oracles/data/" + family_ + ".json";
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + " is not there");
    json_ = OrderedJson::parse(file);
    for (const OrderedJson& one : json_.at("cases")) by_name_[one.at("name")] = &one;
  }

  std::vector<RecordedCase> cases() const {
    std::vector<RecordedCase> all;
    for (const OrderedJson& one : json_.at("cases")) all.push_back(read(one));
    return all;
  }

 private:
  static std::string text(const OrderedJson& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  }

  RecordedCase read(const OrderedJson& one) const {
    RecordedCase result;
    result.name = one.at("name");
    result.family = result.name.substr(0, result.name.find('/'));
    result.world_size =
        static_cast<std::uint32_t>(std::stoul(result.name.substr(result.name.rfind('/') + 1)));
    for (const auto& [key, value] : one.at("settings").items()) result.settings[key] = text(value);
    if (one.contains("model")) read_model(one, result);
    if (one.contains("units"))
      for (const auto& [name, sizes] : one.at("units").items())
        result.units.push_back({name, sizes.at(0), sizes.at(1)});
    if (one.contains("steady_from")) result.steady_from = one.at("steady_from");
    const OrderedJson& first = one.at("first_step");
    result.first_differs_in_host_waits = first.is_string();
    if (first.is_object()) result.first = step(first);
    if (one.contains("second_step") && one.at("second_step").is_object())
      result.second = step(one.at("second_step"));
    result.steady = step(one.at("steady_step"));
    return result;
  }

  void read_model(const OrderedJson& one, RecordedCase& result) const {
    result.sequences = json_.at("batch").at(0);
    result.tokens = json_.at("batch").at(1);
    result.config = config_of_json(
        json_.at("models").at(one.at("model").get<std::string>()).at("config").dump());
    for (const auto& [key, value] : json_.at("defaults").items())
      result.settings.try_emplace(key, text(value));
  }

  RecordedStep step(const OrderedJson& recorded) const {
    RecordedStep result;
    if (recorded.contains("collectives"))
      for (const OrderedJson& row : resolved(recorded, "collectives"))
        result.collectives.push_back(collective(row));
    if (recorded.contains("events"))
      for (const OrderedJson& event : resolved(recorded, "events"))
        result.events.push_back(event.get<std::string>());
    return result;
  }

  const OrderedJson& resolved(const OrderedJson& step, const char* part) const {
    const OrderedJson* list = &step.at(part);
    while (list->is_string()) {
      const std::string reference = *list;
      const auto hash = reference.find('#');
      list = &by_name_.at(reference.substr(0, hash))->at(reference.substr(hash + 1)).at(part);
    }
    return *list;
  }

  static std::string collective(const OrderedJson& row) {
    std::string line = row.at(0);
    line += row.at(1).is_null() ? " -" : " [" + row.at(1).get<std::string>() + "]";
    for (std::size_t i = 2; i < row.size(); ++i) line += ' ' + text(row.at(i));
    return line;
  }

  std::string family_;
  OrderedJson json_;
  std::map<std::string, const OrderedJson*> by_name_;
};

}  // namespace

std::vector<RecordedCase> recorded_cases(std::string_view family) { return Reader(family).cases(); }

std::map<std::string, std::vector<std::string>> recorded_streams() {
  std::ifstream file(source_dir() + "/tests/oracles/data/streams.json");
  std::map<std::string, std::vector<std::string>> rows;
  const OrderedJson json = OrderedJson::parse(file);
  for (const OrderedJson& one : json.at("cases"))
    rows[one.at("name")] = one.at("streams").get<std::vector<std::string>>();
  return rows;
}

plan::ModelConfig config_of_json(const std::string& text) {
  const OrderedJson json = OrderedJson::parse(text);
  plan::ModelConfig config;
  config.model_type = json.at("model_type");
  config.tied_embeddings = json.at("tie_word_embeddings");
  config.vocab = json.at("vocab_size");
  if (config.model_type == "gpt2") {
    config.family = plan::ModelConfig::Family::gpt2;
    config.hidden = json.at("n_embd");
    config.layers = json.at("n_layer");
    config.heads = json.at("n_head");
    config.kv_heads = config.heads;
    config.intermediate = 4 * config.hidden;
    config.max_positions = json.at("n_positions");
    config.qkv_bias = config.output_bias = config.mlp_bias = true;
    config.fused_gelu = true;
  } else {
    config.hidden = json.at("hidden_size");
    config.layers = json.at("num_hidden_layers");
    config.heads = json.at("num_attention_heads");
    config.kv_heads = json.at("num_key_value_heads");
    config.intermediate = json.at("intermediate_size");
    config.max_positions = json.at("max_position_embeddings");
  }
  config.head_dim = config.hidden / config.heads;
  return config;
}

}  // namespace foregather::test
