#include "traces/execution_trace.h"

#include <nlohmann/json.hpp>

#include "traces/json_elements.h"

namespace foregather::traces {
namespace {

struct Node {
  std::uint64_t id = 0, parent = 0, rf_id = 0, forward_parent = 0, thread = 0;
  std::uint64_t sequence = ~std::uint64_t{0};  // -1
  bool is_operator = false;
};

// Of a node itself (schema 1.0.1) or of its attributes. False: a number that is none.
bool read_attribute(std::string_view key, JsonValue& value, Node& node) {
  if (key == "rf_id") return value.scalar().set(node.rf_id);
  if (key == "fw_parent") return value.scalar().set(node.forward_parent);
  if (key == "tid") return value.scalar().set(node.thread);
  if (key == "seq_id") return value.scalar().set(node.sequence);
  if (key == "op_schema") node.is_operator = !value.text().value_or("").empty();
  return true;
}

// {"name": …, "type": …, "value": …}, in this order as PyTorch prints it.
bool read_attributes(JsonValue& attributes, Node& node) {
  std::string key;
  return attributes.each([&](JsonValue& attribute) {
    key.clear();
    return attribute.each_field([&](std::string_view field, JsonValue& value) {
      if (field == "name") key = value.text().value_or("");
      return field != "value" || read_attribute(key, value, node);
    });
  });
}

class NodeReader {
 public:
  explicit NodeReader(const std::string& name) { trace_.source = name; }

  bool read(JsonValue& element) {
    Node node;
    name_.clear();
    const bool is_good = element.each_field([&](std::string_view key, JsonValue& value) {
      if (key == "attrs") return read_attributes(value, node);
      if (key == "id") return value.scalar().set(node.id);
      if (key == "parent" || key == "ctrl_deps") return value.scalar().set(node.parent);
      if (key != "name") return read_attribute(key, value, node);
      name_ = value.text().value_or("");
      return true;
    });
    if (is_good) add(node);
    return is_good;
  }
  void damaged() {
    ++trace_.elements;
    ++damaged_;
  }

  ExecutionTrace finish(const JsonTop& top) {
    if (damaged_ > 0) trace_.dropped.emplace_back("damaged_node", damaged_);
    trace_.bytes = top.bytes;
    for (const std::string& key : top.keys)
      if (key != "nodes") trace_.keys.push_back(key);
    using Json = nlohmann::ordered_json;
    const Json object = Json::parse(top.object, nullptr, false);
    if (!object.is_object())
      trace_.warnings.push_back(trace_.source +
                                ": what lies beside the nodes is no JSON, and is left out");
    else
      for (const auto& [key, value] : object.items())
        if (key == "nodes")
          trace_.warnings.push_back(
              fmt::format("{}: 'nodes' is {} {}, expected a list: it has none", trace_.source,
                          value.is_object() ? "an" : "a", value.type_name()));
        else if (value.is_primitive())
          trace_.header.emplace_back(key,
                                     value.dump(-1, ' ', false, Json::error_handler_t::replace));
    return std::move(trace_);
  }

 private:
  void add(const Node& node) {
    ++trace_.elements;
    ExecutionNodes& rows = trace_.nodes;
    rows.id.push_back(node.id);
    rows.parent.push_back(node.parent);
    rows.name.push_back(trace_.strings.intern(name_));
    rows.rf_id.push_back(node.rf_id);
    rows.forward_parent.push_back(node.forward_parent);
    rows.sequence.push_back(static_cast<std::int64_t>(node.sequence));
    rows.thread.push_back(node.thread);
    rows.is_operator.push_back(node.is_operator ? 1 : 0);
  }

  ExecutionTrace trace_;
  std::string name_;
  std::int64_t damaged_ = 0;
};

}  // namespace

bool is_execution_trace(std::string_view head) {
  const auto first = head.find_first_not_of(" \n\r\t\xef\xbb\xbf");
  return first != std::string_view::npos && head[first] == '{' &&
         head.find("\"schema\"") != std::string_view::npos &&
         head.find("\"nodes\"") != std::string_view::npos;
}

Result<ExecutionTrace> read_execution_trace(TextSource& source, const std::string& name) {
  NodeReader reader(name);
  JsonElements elements;
  const auto top =
      read_json(source, name, {{"nodes"}, [&](const JsonWindow& window) {
                                 elements.read(
                                     window, [&](JsonValue& e) { return reader.read(e); },
                                     [&] { reader.damaged(); });
                                 return Status();
                               }});
  if (!top) return tl::unexpected(top.error());
  return reader.finish(*top);
}

}  // namespace foregather::traces
