#include "traces/chakra_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace foregather::traces {
namespace {

constexpr std::uint64_t kLongestUs = std::uint64_t{366} * 24 * 3600 * 1'000'000;
constexpr std::uint64_t kMostNodeBytes = std::uint64_t{1} << 62U;
constexpr std::uint64_t kMostRank = std::uint64_t{1} << 24U;

bool is_in_range(const ChakraNode& node) {
  return node.duration_us <= kLongestUs && node.operations <= kMostNodeBytes &&
         node.tensor_bytes <= kMostNodeBytes && node.comm_bytes.value_or(0) <= kMostNodeBytes;
}

std::optional<std::uint32_t> narrow(std::optional<std::uint64_t> rank) {
  if (!rank || *rank > kMostRank) return std::nullopt;
  return static_cast<std::uint32_t>(*rank);
}

Range append(std::vector<std::uint64_t>& pool, const std::vector<std::uint64_t>& ids) {
  const Range range{static_cast<std::uint32_t>(pool.size()),
                    static_cast<std::uint32_t>(ids.size())};
  pool.insert(pool.end(), ids.begin(), ids.end());
  return range;
}

// The enumerator of that name, in either case; nothing if there is none.
template <class Enum>
std::optional<std::uint64_t> value_of(std::string_view text, std::size_t count) {
  const auto upper = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; };
  for (std::size_t i = 0; i < count; ++i)
    if (std::ranges::equal(text, name(static_cast<Enum>(i)), {}, upper, upper)) return i;
  return std::nullopt;
}

// As the schema spells it in JSON.
template <class Enum, class Number>
bool set_enum(const Scalar& value, std::size_t count, Number& to) {
  if (value.number || !value.text) return value.set(to);
  const auto named = value_of<Enum>(*value.text, count);
  if (named) to = *named;
  return named.has_value();
}

bool set_group(const Scalar& value, std::string& group) {
  if (value.text)
    group = *value.text;
  else if (value.number)
    group = fmt::to_string(static_cast<std::int64_t>(*value.number));
  return value.text || value.number || value.is_absent;
}

}  // namespace

std::string_view name(ChakraType type) {
  constexpr std::string_view kNames[kChakraTypes] = {
      "INVALID_NODE", "METADATA_NODE",  "MEM_LOAD_NODE",  "MEM_STORE_NODE",
      "COMP_NODE",    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"};
  return kNames[static_cast<std::size_t>(type)];
}

std::string_view name(ChakraCollective collective) {
  constexpr std::string_view kNames[kChakraCollectives] = {
      "all_reduce", "reduce",         "all_gather",           "gather", "scatter", "broadcast",
      "all_to_all", "reduce_scatter", "reduce_scatter_block", "barrier"};
  return kNames[static_cast<std::size_t>(collective)];
}

void ChakraNode::clear() {
  auto control = std::move(control_deps), data = std::move(deps);
  *this = ChakraNode();
  control.clear();
  data.clear();
  control_deps = std::move(control);
  deps = std::move(data);
}

bool ChakraNode::set_type(const Scalar& value) {
  return set_enum<ChakraType>(value, kChakraTypes, type);
}

bool ChakraNode::set(std::string_view attribute, const Scalar& value) {
  if (attribute == "is_cpu_op") {
    if (value.number) on_host = *value.number != 0;
    return value.number || value.is_absent;
  }
  if (attribute == "num_ops") return value.set(operations);
  if (attribute == "tensor_size") return value.set(tensor_bytes);
  if (attribute == "comm_type")
    return set_enum<ChakraCollective>(value, kChakraCollectives, collective);
  if (attribute == "comm_size") return value.set(comm_bytes);
  if (attribute == "comm_src") return value.set(source);
  if (attribute == "comm_dst") return value.set(destination);
  if (attribute == "comm_tag") return value.set(tag);
  return attribute != "pg_name" || set_group(value, group);
}

void ChakraBuilder::drop(std::string_view reason, std::string_view unit, Bytes offset) {
  const auto row = std::find_if(trace_.dropped.begin(), trace_.dropped.end(),
                                [&](const auto& known) { return known.first == reason; });
  if (row != trace_.dropped.end()) {
    ++row->second;
    return;
  }
  trace_.dropped.emplace_back(reason, 1);
  trace_.warnings.push_back(
      fmt::format("{}: {} {}: dropped, {}", trace_.source, unit, offset, reason));
}

void ChakraBuilder::add(const ChakraNode& node, std::string_view unit, Bytes offset) {
  ChakraNodes& rows = trace_.nodes;
  if (node.type >= kChakraTypes) return drop("unknown_type", unit, offset);
  if (!is_in_range(node)) return drop("out_of_range", unit, offset);
  if (ids_.row(node.id) < rows.size()) return drop("duplicate_id", unit, offset);
  const auto type = static_cast<ChakraType>(node.type);
  rows.id.push_back(node.id);
  rows.type.push_back(type);
  rows.on_host.push_back(node.on_host ? 1 : 0);
  rows.duration.push_back(static_cast<Ns>(node.duration_us) * kMicrosecond);
  rows.operations.push_back(static_cast<std::int64_t>(node.operations));
  rows.tensor_bytes.push_back(static_cast<Bytes>(node.tensor_bytes));
  rows.control_deps.push_back(append(rows.dep_ids, node.control_deps));
  rows.deps.push_back(append(rows.dep_ids, node.deps));
  rows.names.append(node.name);
  rows.name_ends.push_back(rows.names.size());
  if (type == ChakraType::metadata && !node.values.empty())
    read_process_groups(node.values, trace_.groups);
  if (type != ChakraType::collective && type != ChakraType::send && type != ChakraType::receive)
    return rows.comm.emplace_back(), void();
  ChakraComm comm;
  if (type == ChakraType::collective &&
      node.collective.value_or(kChakraCollectives) < kChakraCollectives)
    comm.collective = static_cast<ChakraCollective>(*node.collective);
  if (node.comm_bytes) comm.bytes = static_cast<Bytes>(*node.comm_bytes);
  comm.source = narrow(node.source);
  comm.destination = narrow(node.destination);
  comm.tag = static_cast<std::int64_t>(node.tag);
  if (!node.group.empty()) comm.group = trace_.groups_used.intern(node.group);
  rows.comm.emplace_back(rows.comms.size());
  rows.comms.push_back(comm);
}

Result<ChakraTrace> ChakraBuilder::finish() {
  if (trace_.nodes.size() == 0)
    return fail_at(trace_.source, "is a Chakra trace without a node that can be read");
  if (is_full())
    return fail_at(trace_.source, "has more than {} million nodes and dependencies",
                   kMostNodes / 1'000'000);
  return std::move(trace_);
}

void read_process_groups(std::string_view values, std::vector<ChakraGroup>& groups) {
  const auto begin = values.find("[{");
  const auto end = values.rfind("}]");
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return;
  std::string text(values.substr(begin, end + 2 - begin));
  // Python may have escaped the quotes of the JSON inside its string.
  for (auto at = text.find("\\\""); at != std::string::npos; at = text.find("\\\"", at))
    text.erase(at, 1);
  using Json = nlohmann::json;
  const Json list = Json::parse(text, nullptr, false);
  if (!list.is_array()) return;
  const auto text_of = [](const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end()) return std::string();
    if (found->is_number_integer()) return found->dump();
    return found->is_string() ? found->get<std::string>() : std::string();
  };
  for (const Json& object : list) {
    if (!object.is_object()) continue;
    ChakraGroup group;
    group.name = text_of(object, "pg_name");
    group.description = text_of(object, "pg_desc");
    const auto size = object.find("group_size");
    if (size != object.end() && size->is_number_unsigned() && *size <= kMostRank)
      group.size = size->get<std::uint32_t>();
    const auto ranks = object.find("ranks");
    if (ranks != object.end() && ranks->is_array())
      for (const Json& rank : *ranks)
        if (rank.is_number_unsigned() && rank <= kMostRank)
          group.ranks.push_back(rank.get<std::uint32_t>());
    groups.push_back(std::move(group));
  }
}

}  // namespace foregather::traces
