#include "core/plan/model_families.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/suggest.h"
#include "core/plan/model_details.h"
#include "core/plan/model_rows.h"

namespace foregather::plan {

namespace {

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> list;
  while (!text.empty()) {
    const std::size_t end = text.find(' ');
    list.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return list;
}

bool has_word(std::string_view list, std::string_view word) {
  const auto all = words(list);
  return std::find(all.begin(), all.end(), word) != all.end();
}

void complain_unknown(const ConfigFile& file, std::string_view key, std::string_view word,
                      std::string_view Family::*column) {
  std::vector<std::string_view> known;
  std::string listed;
  for (const Family& family : families()) {
    for (const std::string_view name : words(family.*column)) known.push_back(name);
    listed += (listed.empty() ? "" : ", ") + std::string(words(family.model_types).front());
  }
  const bool is_composite = file.has("text_config");
  file.complain(
      key, fmt::format("unknown {} {}{}; expected one of {}; record others (docs/sidecar.md) "
                       "or spell them out (model.tree){}",
                       key == "architectures" ? "architecture" : "model_type", shown_text(word),
                       did_you_mean(word, known), listed,
                       is_composite ? ", or give the text_config as a file of its own" : ""));
}

std::vector<std::string_view> make_model_keys() {
  std::vector<std::string_view> keys;
  const auto add = [&](std::string_view list) {
    for (const std::string_view key : words(list))
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  };
  add("model_type family architecture");
  for (const Family& family : families()) {
    const FamilyKeys& k = family.keys;
    for (const std::string_view list :
         {k.hidden, k.layers, k.heads, k.kv_heads, k.intermediate, k.vocab, k.positions,
          k.activation, k.attention_dropout, k.residual_dropout, k.embedding_dropout})
      add(list);
  }
  add(kDetailKeys);
  return keys;
}

}  // namespace

std::span<const Family> families() {
  static const std::vector<Family> kRows = make_families();
  return kRows;
}

NamedFamily find_family(const ConfigFile& file) {
  NamedFamily found;
  std::optional<std::string> name =
      file.has("architecture") ? file.text("architecture", "") : file.first_text("architectures");
  const std::string type = file.text("model_type family", "");
  // The architecture of a section may be that of the whole.
  if (file.is_section() && !type.empty()) name.reset();
  if (file.error()) return {};
  if (!name && type.empty()) {
    file.complain("architectures",
                  "neither 'architectures' nor 'model_type' is given, expected for example "
                  "\"architectures\": [\"LlamaForCausalLM\"]");
    return {};
  }
  for (const Family& family : families()) {
    if (name ? !has_word(family.architectures, *name) : !has_word(family.model_types, type))
      continue;
    if (!type.empty() && !has_word(family.model_types, type))
      file.complain("model_type", fmt::format("'{}' is {} but the architecture is {}, "
                                              "expected \"{}\"",
                                              file.label("model_type family"), shown_text(type),
                                              *name, words(family.model_types).front()));
    found.family = &family;
    found.model_type = type.empty() ? std::string(words(family.model_types).front()) : type;
    found.architecture = name.value_or("");
    return found;
  }
  if (name)
    complain_unknown(file, "architectures", *name, &Family::architectures);
  else
    complain_unknown(file, file.has("model_type") ? "model_type" : "family", type,
                     &Family::model_types);
  return {};
}

std::span<const std::string_view> model_keys() {
  static const std::vector<std::string_view> kKeys = make_model_keys();
  return kKeys;
}

bool is_model_key(std::string_view key) {
  const auto keys = model_keys();
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace foregather::plan
