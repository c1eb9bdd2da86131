#include "tests/support/chakra_bytes.h"

namespace foregather::test {

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7U) bytes += static_cast<char>(value | 0x80U);
  return bytes += static_cast<char>(value);
}

std::string number_field(std::uint32_t field, std::uint64_t value) {
  return varint(std::uint64_t{field} << 3U) + varint(value);
}

std::string bytes_field(std::uint32_t field, std::string_view bytes) {
  return varint(std::uint64_t{field} << 3U | 2U) + varint(bytes.size()) + std::string(bytes);
}

std::string framed(std::string_view message) {
  return varint(message.size()) + std::string(message);
}

std::string attribute(std::string_view name, std::uint64_t value) {
  return bytes_field(10, bytes_field(1, name) + number_field(9, value));
}

std::string attribute(std::string_view name, std::string_view value) {
  return bytes_field(10, bytes_field(1, name) + bytes_field(29, value));
}

std::string node(const NodeBytes& node) {
  std::string bytes;
  if (node.id != 0) bytes += number_field(1, node.id);
  bytes += bytes_field(2, node.name) + number_field(3, node.type);
  const auto packed = [](const std::vector<std::uint64_t>& ids) {
    std::string all;
    for (const std::uint64_t id : ids) all += varint(id);
    return all;
  };
  if (!node.control_deps.empty()) bytes += bytes_field(4, packed(node.control_deps));
  if (!node.deps.empty()) bytes += bytes_field(5, packed(node.deps));
  if (node.duration_us != 0) bytes += number_field(7, node.duration_us);
  for (const std::string& attribute : node.attributes) bytes += attribute;
  return framed(bytes);
}

NodeBytes collective(std::uint64_t id, std::string_view name, std::uint64_t kind,
                     std::uint64_t bytes, std::vector<std::uint64_t> deps) {
  return {id,
          name,
          7,
          {},
          std::move(deps),
          0,
          {attribute("comm_type", kind), attribute("comm_size", bytes)}};
}

std::string chakra_file(const std::vector<NodeBytes>& nodes) {
  std::string file = framed(bytes_field(1, "0.0.4"));
  for (const NodeBytes& row : nodes) file += node(row);
  return file;
}

std::string chakra_file(std::initializer_list<NodeBytes> nodes) {
  return chakra_file(std::vector<NodeBytes>(nodes));
}

}  // namespace foregather::test
