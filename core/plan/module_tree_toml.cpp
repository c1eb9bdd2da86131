#include "core/plan/module_tree_toml.h"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "core/base/suggest.h"
#include "core/plan/key_values.h"

namespace foregather::plan {
namespace {

using namespace std::string_view_literals;
using Kind = TreeNode::Kind;

constexpr std::int64_t kMostFeatures = std::int64_t{1} << 31;
constexpr std::int64_t kMostStacked = 1024;  // layers of one transformer
constexpr std::size_t kMostDimensions = 8;
constexpr Ns kLongestDelay = 3600 * kSecond;

constexpr std::array kKinds{std::pair{"linear"sv, Kind::linear},
                            std::pair{"embedding"sv, Kind::embedding},
                            std::pair{"layer_norm"sv, Kind::layer_norm},
                            std::pair{"rms_norm"sv, Kind::rms_norm},
                            std::pair{"batch_norm"sv, Kind::batch_norm},
                            std::pair{"relu"sv, Kind::relu},
                            std::pair{"gelu"sv, Kind::gelu},
                            std::pair{"dropout"sv, Kind::dropout},
                            std::pair{"buffer"sv, Kind::buffer},
                            std::pair{"parameter"sv, Kind::parameter},
                            std::pair{"encoder_layer"sv, Kind::encoder_layer},
                            std::pair{"transformer"sv, Kind::transformer},
                            std::pair{"children"sv, Kind::container}};

constexpr std::array kModuleKeys{
    "name"sv,           "rms_norm"sv,   "parameter"sv,     "matmul"sv,      "linear"sv,
    "embedding"sv,      "layer_norm"sv, "batch_norm"sv,    "relu"sv,        "gelu"sv,
    "dropout"sv,        "buffer"sv,     "encoder_layer"sv, "transformer"sv, "children"sv,
    "bias"sv,           "tied"sv,       "wrap"sv,          "group_size"sv,  "forward_delay"sv,
    "backward_delay"sv, "on"sv,         "dtype"sv,         "add"sv};

constexpr std::array kDTypes{std::pair{"fp32"sv, DType::f32},  std::pair{"f32"sv, DType::f32},
                             std::pair{"bf16"sv, DType::bf16}, std::pair{"fp16"sv, DType::f16},
                             std::pair{"f16"sv, DType::f16},   std::pair{"i64"sv, DType::i64},
                             std::pair{"i32"sv, DType::i32},   std::pair{"bool"sv, DType::boolean}};

std::string_view node_kind(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "a list";
    case toml::node_type::string: return "a text";
    case toml::node_type::integer:
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

/// Reads one file's tree. The first complaint ends it.
class TreeReader {
 public:
  explicit TreeReader(const std::string& path) : path_(path) {}

  Result<ModuleTree> read(const toml::node& node) {
    ModuleTree tree;
    tree.place = at(node);
    tree.children = children_of(node, "model.tree", 1);
    if (error_) return tl::unexpected(*error_);
    return tree;
  }

 private:
  std::string at(const toml::source_region& region) const {
    return fmt::format("{}:{}:{}", path_, region.begin.line, region.begin.column);
  }
  std::string at(const toml::node& node) const { return at(node.source()); }

  template <class... Args>
  void complain(std::string place, fmt::format_string<Args...> format, Args&&... args) {
    if (!error_)
      error_ =
          Error{std::move(place), fmt::format(format, std::forward<Args>(args)...), Fault::input};
  }

  std::vector<TreeNode> children_of(const toml::node& node, std::string_view what, int depth) {
    std::vector<TreeNode> children;
    const toml::array* list = node.as_array();
    if (list == nullptr || list->empty()) {
      complain(at(node), "{} is {}, expected a list of modules such as {{ linear = [8, 4] }}", what,
               list == nullptr ? node_kind(node) : "an empty list");
      return children;
    }
    if (depth > kDeepestTree) {
      complain(at(node), "modules are nested more than {} deep", kDeepestTree);
      return children;
    }
    std::set<std::string> names;
    for (const toml::node& each : *list) {
      if (error_) break;
      if (++modules_ > kMostTreeModules) {
        complain(at(each), "more than {} modules, expected fewer", kMostTreeModules);
        break;
      }
      const toml::table* table = each.as_table();
      if (table == nullptr) {
        complain(at(each), "a module is {}, expected a table such as {{ linear = [8, 4] }}",
                 node_kind(each));
        break;
      }
      TreeNode child = module_of(*table, depth);
      if (child.name.empty()) child.name = std::to_string(children.size());
      if (!error_ && !names.insert(child.name).second)
        complain(child.place, "two modules are called '{}' here, expected one", child.name);
      children.push_back(std::move(child));
    }
    return children;
  }

  TreeNode module_of(const toml::table& table, int depth) {
    TreeNode node;
    node.place = at(table);
    std::optional<std::string_view> kind;
    for (const auto& [key, value] : table) {
      const std::string place = at(key.source());
      const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                      [&, k = key.str()](auto& row) { return row.first == k; });
      if (found == kKinds.end()) {
        if (std::find(kModuleKeys.begin(), kModuleKeys.end(), key.str()) == kModuleKeys.end())
          complain_of_key(place, key.str());
        continue;
      }
      if (kind)
        complain(place, "a module is one thing, but '{}' and '{}' are both set", *kind,
                 found->first);
      kind = found->first;
      node.kind = found->second;
      node.kind_place = at(value.source());
    }
    if (!kind)
      complain(node.place,
               "a module without a kind, expected one of linear, embedding, layer_norm, "
               "rms_norm, batch_norm, relu, gelu, dropout, buffer, parameter, encoder_layer, "
               "transformer, children");
    if (error_) return node;
    read_kind(node, *kind, *table.get(*kind), depth);
    read_name(node, table);
    read_own(node, table);
    read_wrap(node, table);
    read_delays(node, table);
    return node;
  }

  void complain_of_key(const std::string& place, std::string_view key) {
    const std::string guess = did_you_mean(key, kModuleKeys);
    complain(place, "unknown key {} of a module{}", shown(key),
             guess.empty()
                 ? ", expected a kind of module or one of its keys: " + joined(kModuleKeys)
                 : guess);
  }

  template <class Names>
  static std::string joined(const Names& names) {
    std::string list;
    for (const std::string_view name : names)
      list += (list.empty() ? "" : ", ") + std::string(name);
    return list;
  }

  static std::string shown(std::string_view text) { return written({std::string(text), true}); }

  // --- what it is ---

  void read_kind(TreeNode& node, std::string_view key, const toml::node& value, int depth) {
    switch (node.kind) {
      case Kind::container: node.children = children_of(value, key, depth + 1); return;
      case Kind::linear:
      case Kind::embedding:
        return two_sizes(
            node, value,
            node.kind == Kind::linear ? "linear = [in, out]" : "embedding = [rows, width]");
      case Kind::layer_norm:
      case Kind::rms_norm:
      case Kind::batch_norm: node.in = node.out = size(value, key); return;
      case Kind::relu:
      case Kind::gelu:
        if (value.value_exact<bool>() != true) complain(at(value), "{}, expected true", key);
        return;
      case Kind::dropout: node.rate = rate(value, key); return;
      case Kind::buffer: node.elements = elements(value); return;
      case Kind::parameter: node.shape = shape(value); return;
      case Kind::encoder_layer:
      case Kind::transformer: return read_transformer(node, key, value);
    }
  }

  void two_sizes(TreeNode& node, const toml::node& value, std::string_view form) {
    const toml::array* list = value.as_array();
    if (list == nullptr || list->size() != 2)
      return complain(at(value), "expected two sizes: {}", form);
    node.in = size(*list->get(0), form);
    node.out = size(*list->get(1), form);
  }

  std::int64_t integer(const toml::node& value, std::string_view what, std::int64_t least,
                       std::int64_t most) {
    const auto number = value.value_exact<std::int64_t>();
    if (!number || *number < least || *number > most) {
      const std::string found = number ? std::to_string(*number) : std::string(node_kind(value));
      complain(at(value), "{}: {}, expected an integer from {} to {}", what, found, least, most);
      return least;
    }
    return *number;
  }
  std::int64_t size(const toml::node& value, std::string_view what) {
    return integer(value, what, 1, kMostFeatures);
  }

  double rate(const toml::node& value, std::string_view what) {
    std::optional<double> number = value.value_exact<double>();
    if (const auto whole = value.value_exact<std::int64_t>()) number = static_cast<double>(*whole);
    if (number && *number >= 0 && *number < 1) return *number;
    complain(at(value), "{}: expected a number from 0 to below 1", what);
    return 0;
  }

  // Of a buffer: a size, or a list of sizes.
  std::int64_t elements(const toml::node& value) {
    const toml::array* list = value.as_array();
    if (list == nullptr) return size(value, "buffer");
    std::int64_t count = 1;
    for (const toml::node& each : *list) {
      count *= std::min(size(each, "buffer"), kMostFeatures);
      if (count > kMostFeatures) {
        complain(at(value), "buffer: more than {} elements, expected fewer", kMostFeatures);
        return 1;
      }
    }
    return count;
  }

  // Of a parameter: a size, or a list of sizes.
  std::vector<std::int64_t> shape(const toml::node& value) {
    const toml::array* list = value.as_array();
    if (list == nullptr) return {size(value, "parameter")};
    std::vector<std::int64_t> shape;
    if (list->empty() || list->size() > kMostDimensions)
      complain(at(value), "parameter has {} sizes, expected 1 to {}", list->size(),
               kMostDimensions);
    for (const toml::node& each : *list) shape.push_back(size(each, "parameter"));
    return shape;
  }

  void read_transformer(TreeNode& node, std::string_view kind, const toml::node& value) {
    static constexpr std::array kOptions{
        "d_model"sv,         "nhead"sv,  "num_encoder_layers"sv, "num_decoder_layers"sv,
        "dim_feedforward"sv, "dropout"sv};
    const bool whole = node.kind == Kind::transformer;
    const toml::table* table = value.as_table();
    if (table == nullptr)
      return complain(at(value), "{} is {}, expected a table such as {{ d_model = 16 }}", kind,
                      node_kind(value));
    // torch.nn.Transformer's own defaults.
    node.heads = 8;
    node.feedforward = 2048;
    node.rate = 0.1;
    node.encoder_layers = whole ? 6 : 1;
    node.decoder_layers = whole ? 6 : 0;
    for (const auto& [key, option] : *table) {
      const std::string_view name = key.str();
      const bool counts = name == "num_encoder_layers" || name == "num_decoder_layers";
      if (name == "d_model")
        node.in = node.out = size(option, name);
      else if (name == "nhead")
        node.heads = size(option, name);
      else if (name == "dim_feedforward")
        node.feedforward = size(option, name);
      else if (name == "dropout")
        node.rate = rate(option, name);
      else if (counts && whole)
        (name == "num_encoder_layers" ? node.encoder_layers : node.decoder_layers) =
            integer(option, name, name == "num_encoder_layers" ? 1 : 0, kMostStacked);
      else
        complain(at(key.source()), "unknown key {} of {}{}", shown(name), kind,
                 did_you_mean(name, kOptions));
    }
    if (node.in == 0) complain(at(value), "{} has no d_model, expected its width", kind);
    if (!error_ && node.in % node.heads != 0)
      complain(at(value), "nhead {} does not divide d_model {}{}", node.heads, node.in,
               table->contains("nhead") ? "" : ": set nhead (torch's default is 8)");
  }

  // --- what else is said of it ---

  const toml::node* option(const toml::table& table, std::string_view key) const {
    return error_ ? nullptr : table.get(key);
  }

  bool flag(const toml::node& value, std::string_view key) {
    const auto found = value.value_exact<bool>();
    if (!found) complain(at(value), "{} is {}, expected true or false", key, node_kind(value));
    return found.value_or(false);
  }

  std::string text(const toml::node& value, std::string_view key) {
    const auto found = value.value_exact<std::string>();
    if (!found) complain(at(value), "{} is {}, expected a text", key, node_kind(value));
    return found.value_or("");
  }

  void refuse(const toml::node& value, std::string_view key, bool allowed, std::string_view whose) {
    if (!allowed) complain(at(value), "'{}' has no meaning here: it belongs to {}", key, whose);
  }

  static bool is_module(const TreeNode& node) {
    return node.kind != Kind::buffer && node.kind != Kind::parameter;
  }

  void read_name(TreeNode& node, const toml::table& table) {
    const toml::node* value = option(table, "name");
    if (value == nullptr) return;
    node.name = text(*value, "name");
    const bool is_plain = !node.name.empty() && node.name.size() <= 80 &&
                          std::all_of(node.name.begin(), node.name.end(), [](unsigned char c) {
                            return c > 0x20 && c < 0x7f && c != '.' && c != '/';
                          });
    if (!is_plain && !error_)
      complain(at(*value), "name is {}, expected a module's name without dots, slashes and blanks",
               shown(node.name));
  }

  void read_own(TreeNode& node, const toml::table& table) {
    const bool has_weight =
        node.kind == Kind::linear || node.kind == Kind::embedding || node.kind == Kind::parameter;
    if (const toml::node* value = option(table, "matmul")) {
      refuse(*value, "matmul", node.shape.size() == 2, "parameters of two sizes");
      node.is_matmul = flag(*value, "matmul");
    }
    if (const toml::node* value = option(table, "bias")) {
      refuse(*value, "bias", node.kind == Kind::linear, "linear");
      node.bias = flag(*value, "bias");
    }
    if (const toml::node* value = option(table, "tied")) {
      refuse(*value, "tied", has_weight, "linear, embedding and parameter");
      node.tied = text(*value, "tied");
      node.tied_place = at(*value);
      if (node.tied.empty()) complain(at(*value), "tied is empty, expected a module's path");
    }
    if (const toml::node* value = option(table, "on")) {
      const std::string on = text(*value, "on");
      node.on = on == "source" ? TreeNode::On::source : TreeNode::On::target;
      node.on_place = at(*value);
      if (on != "source" && on != "target")
        complain(at(*value), "on is {}, expected source or target", shown(on));
      refuse(*value, "on", node.kind != Kind::container && node.kind != Kind::transformer,
             "modules that compute");
    }
    if (const toml::node* value = option(table, "dtype")) {
      refuse(*value, "dtype", node.kind == Kind::buffer, "buffer");
      const std::string name = text(*value, "dtype");
      const auto* const found = std::find_if(kDTypes.begin(), kDTypes.end(),
                                             [&](auto& row) { return row.first == name; });
      if (found == kDTypes.end())
        complain(at(*value), "dtype is {}, expected fp32, bf16, fp16, i64, i32 or bool",
                 shown(name));
      else
        node.dtype = found->second;
    }
    if (const toml::node* value = option(table, "add")) {
      refuse(*value, "add", node.kind == Kind::buffer, "buffer");
      node.adds = flag(*value, "add");
    }
  }

  void read_wrap(TreeNode& node, const toml::table& table) {
    if (const toml::node* value = option(table, "wrap")) {
      node.unit = value->value_exact<std::string>().value_or("");
      node.wraps = !node.unit.empty() || flag(*value, "wrap");
      node.wrap_place = at(*value);
      refuse(*value, "wrap", is_module(node), "modules");
    }
    if (const toml::node* value = option(table, "group_size")) {
      const auto ranks = value->value_exact<std::int64_t>();
      if (ranks != 1)
        complain(at(*value),
                 "group_size is {}, expected 1: a process group of one rank; without "
                 "the key it is the job's",
                 ranks ? std::to_string(*ranks) : std::string(node_kind(*value)));
      else if (!node.wraps)
        complain(at(*value), "group_size of a module that is not wrapped, expected wrap = true");
      node.is_alone = true;
    }
  }

  void read_delays(TreeNode& node, const toml::table& table) {
    for (const auto& [key, field] : {std::pair{"forward_delay"sv, &TreeNode::forward_delay},
                                     std::pair{"backward_delay"sv, &TreeNode::backward_delay}}) {
      const toml::node* value = option(table, key);
      if (value == nullptr) continue;
      refuse(*value, key, is_module(node), "modules");
      const auto written_time = value->value_exact<std::string>();
      const auto time =
          written_time
              ? to_time({*written_time, true}, 0, kLongestDelay)
              : Result<Ns>(fail("is {}, expected a time like \"5 ms\"", node_kind(*value)));
      if (time)
        node.*field = *time;
      else
        complain(at(*value), "{}: {}", key, time.error().message);
    }
  }

  const std::string& path_;
  std::optional<Error> error_;
  std::size_t modules_ = 0;
};

}  // namespace

Result<ModuleTree> read_tree(std::string_view text, const std::string& path) {
  try {
    const toml::table document = toml::parse(text, std::string_view(path));
    const auto tree = document["model"]["tree"];
    if (tree.node() == nullptr) return fail_at(path, "has no model.tree");
    return TreeReader(path).read(*tree.node());
  } catch (const toml::parse_error& error) {
    return fail_at(path, "{}", error.description());
  }
}

}  // namespace foregather::plan
