// Chakra's protobuf form, written by hand.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace foregather::test {

std::string varint(std::uint64_t value);
/// One field of a message: a number, or bytes behind their length.
std::string number_field(std::uint32_t field, std::uint64_t value);
std::string bytes_field(std::uint32_t field, std::string_view bytes);
/// A message behind its length, as a file has it.
std::string framed(std::string_view message);

/// An AttributeProto with an int64_val, and one with a string_val.
std::string attribute(std::string_view name, std::uint64_t value);
std::string attribute(std::string_view name, std::string_view value);

/// A Node's fields. Types are numbers of the schema: 4 COMP_NODE, 7 COMM_COLL_NODE, …
struct NodeBytes {
  std::uint64_t id = 0;
  std::string_view name = {};
  std::uint64_t type = 4;
  std::vector<std::uint64_t> control_deps = {}, deps = {};
  std::uint64_t duration_us = 0;
  std::vector<std::string> attributes = {};
};
std::string node(const NodeBytes& node);
/// A collective of `kind` (2 all-gather, 7 reduce-scatter, …) on `bytes`.
NodeBytes collective(std::uint64_t id, std::string_view name, std::uint64_t kind,
                     std::uint64_t bytes, std::vector<std::uint64_t> deps = {});

/// A whole file: metadata of version 0.0.4, then the nodes.
std::string chakra_file(std::initializer_list<NodeBytes> nodes);
std::string chakra_file(const std::vector<NodeBytes>& nodes);

}  // namespace foregather::test
