#include "traces/chakra_builder.h"
#include "traces/json_elements.h"

namespace foregather::traces {
namespace {

bool read_ids(JsonValue& value, std::vector<std::uint64_t>& ids) {
  return value.each([&ids](JsonValue& element) {
    const auto id = element.number();
    if (id) ids.push_back(*id);
    return id.has_value();
  });
}

// Keys as chakra's src/feeder/json_node.cpp reads them, and as its writers spell them.
bool read_field(std::string_view key, JsonValue& value, ChakraNode& node) {
  if (key == "ctrlDeps" || key == "ctrl_deps") return read_ids(value, node.control_deps);
  if (key == "data_deps") return read_ids(value, node.deps);
  const Scalar scalar = value.scalar();
  if (key == "Name") {
    node.name = scalar.text.value_or("");
    return true;
  }
  if (key == "Id") return scalar.set(node.id);
  if (key == "NodeType") return node.set_type(scalar);
  if (key == "runtime") return scalar.set(node.duration_us);
  return node.set(key, scalar);
}

}  // namespace

bool is_chakra_json(std::string_view head) {
  const auto first = head.find_first_not_of(" \n\r\t\xef\xbb\xbf");
  return first != std::string_view::npos && head[first] == '{' &&
         head.find("\"workload_graph\"") != std::string_view::npos;
}

Result<ChakraTrace> read_chakra_json(TextSource& source, const std::string& name) {
  ChakraBuilder builder(name);
  builder.trace().is_json = true;
  ChakraNode node;
  Bytes number = 0;
  JsonElements elements;
  const auto read = [&](JsonValue& element) {
    node.clear();
    const bool is_good = element.each_field(
        [&](std::string_view key, JsonValue& value) { return read_field(key, value, node); });
    if (is_good) builder.add(node, "node", number++);
    return is_good;
  };
  const auto damaged = [&] { builder.drop("damaged_node", "node", number++); };
  const auto top = read_json(source, name, {{"workload_graph"}, [&](const JsonWindow& window) {
                                              elements.read(window, read, damaged);
                                              return Status();
                                            }});
  if (!top) return tl::unexpected(top.error());
  builder.trace().bytes = top->bytes;
  return builder.finish();
}

}  // namespace foregather::traces
