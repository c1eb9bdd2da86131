// Chakra execution traces (MLCommons): one rank's work as a graph of nodes and what each waits for.
// As the schema of mlcommons/chakra 1.0.0 has it (schema/protobuf/et_def.proto, package
// ChakraProtoMsg).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/ir/graph.h"
#include "traces/text_source.h"

namespace foregather::traces {

/// NodeType of the schema.
enum class ChakraType : std::uint8_t {
  invalid,
  metadata,
  mem_load,
  mem_store,
  compute,
  send,
  receive,
  collective,
};
inline constexpr std::size_t kChakraTypes = 8;
/// As the schema spells it: "COMP_NODE".
std::string_view name(ChakraType);

/// CollectiveCommType of the schema.
enum class ChakraCollective : std::uint8_t {
  all_reduce,
  reduce,
  all_gather,
  gather,
  scatter,
  broadcast,
  all_to_all,
  reduce_scatter,
  reduce_scatter_block,
  barrier,
};
inline constexpr std::size_t kChakraCollectives = 10;
/// "all_reduce".
std::string_view name(ChakraCollective);

/// What a node says about its communication.
struct ChakraComm {
  std::optional<ChakraCollective> collective;  ///< of a COMM_COLL_NODE that names one
  /// As the file has it: a rank's shard of an all-gather, the whole buffer else (ASTRA-sim's
  /// Ring.cc).
  std::optional<Bytes> bytes;
  std::optional<std::uint32_t> source, destination;  ///< ranks, of a send or a receive
  std::int64_t tag = 0;
  StringId group;  ///< pg_name
  friend bool operator==(const ChakraComm&, const ChakraComm&) = default;
};

using ChakraCommId = Id<struct ChakraCommTag>;

/// Nodes in the file's order.
struct ChakraNodes {
  std::vector<std::uint64_t> id;
  std::vector<ChakraType> type;
  std::vector<std::uint8_t> on_host;  ///< is_cpu_op; what says nothing is of the GPU
  std::vector<Ns> duration;
  std::vector<std::int64_t> operations;   ///< num_ops
  std::vector<Bytes> tensor_bytes;        ///< tensor_size
  std::vector<ChakraCommId> comm;         ///< row of `comms`
  std::vector<Range> control_deps, deps;  ///< rows of `dep_ids`
  std::vector<std::uint64_t> dep_ids;     ///< ids, as the file has them
  std::vector<ChakraComm> comms;
  std::string names;  ///< one behind the other
  std::vector<std::uint64_t> name_ends;

  std::size_t size() const { return id.size(); }
  std::string_view name(std::size_t row) const {
    const std::uint64_t begin = row == 0 ? 0 : name_ends[row - 1];
    return std::string_view(names).substr(begin, name_ends[row] - begin);
  }
  std::span<const std::uint64_t> ids(Range range) const {
    return std::span(dep_ids).subspan(range.first, range.count);
  }
  friend bool operator==(const ChakraNodes&, const ChakraNodes&) = default;
};

/// A process group that the trace declares.
struct ChakraGroup {
  std::string name, description;
  std::vector<std::uint32_t> ranks;  ///< empty: all
  std::uint32_t size = 0;            ///< 0: not said
  friend bool operator==(const ChakraGroup&, const ChakraGroup&) = default;
};

/// One file.
struct ChakraTrace {
  std::string source;                                           ///< path, with "!MEMBER"
  bool is_json = false;                                         ///< the "workload_graph" form
  std::string version;                                          ///< of the schema; often empty
  std::vector<std::pair<std::string, std::string>> attributes;  ///< of the metadata, as text
  ChakraNodes nodes;
  StringTable groups_used;  ///< what ChakraComm::group names
  std::vector<ChakraGroup> groups;
  std::int64_t unknown_fields = 0;  ///< skipped: of no message of the schema
  std::vector<std::pair<std::string, std::int64_t>> dropped;  ///< reason, nodes
  std::vector<std::string> warnings;
  Bytes bytes = 0;  ///< unpacked
};

/// Is this the beginning of Chakra's protobuf form? It has no magic number: the first messages must
/// be a GlobalMetadata and a Node, whole or up to the end of `head`, with known fields in front.
bool is_chakra_et(std::string_view head);
/// Is this the beginning of Chakra's JSON form, an object with "workload_graph"?
bool is_chakra_json(std::string_view head);

/// Reads either form, in one pass and memory for the columns. A node that is damaged, or has the id
/// of one before it, is dropped and counted, the first with its place as a warning. Attributes
/// are found by name, with whatever type of number they have: writers differ. More than
/// kMostNodes nodes or dependencies, a metadata message that is none, and no node at all are
/// errors, at FILE; also those of WireMessages and of read_json().
Result<ChakraTrace> read_chakra(TextSource& source, const std::string& name);

/// Rows of 32 bits number nodes and dependencies.
inline constexpr std::size_t kMostNodes = 500'000'000;

/// Dependencies as rows instead of ids.
struct ChakraDeps {
  std::vector<Range> of;            ///< by node: rows of `rows`; each node once
  std::vector<std::uint32_t> rows;  ///< nodes that must end first
  std::int64_t dangling = 0;        ///< ids that no node has
  std::int64_t self = 0;            ///< of a node on itself
  std::int64_t forward = 0;         ///< of control on later nodes, where those are left out
  std::optional<std::uint32_t> first_dangling;  ///< row of the first node with one

  std::span<const std::uint32_t> before(std::size_t row) const {
    return std::span(rows).subspan(of[row].first, of[row].count);
  }
};

enum class ControlDeps : std::uint8_t { all, backward };  ///< backward: on earlier nodes alone

/// Control and data dependencies together. Those on absent nodes and on the node itself are left
/// out and counted: real traces have both. Linear.
ChakraDeps resolve_deps(const ChakraNodes& nodes, ControlDeps control = ControlDeps::all);

/// Who waits for each node.
class ChakraSuccessors {
 public:
  explicit ChakraSuccessors(const ChakraDeps& deps);
  std::span<const std::uint32_t> of(std::uint32_t row) const {
    return std::span(rows_).subspan(first_[row], first_[row + 1] - first_[row]);
  }

 private:
  std::vector<std::uint32_t> first_, rows_;
};

/// The nodes such that each comes behind what it depends on, the earlier in the file first where
/// that is free. Shorter than the nodes where dependencies go in a circle: then `circle` names, by
/// row, the nodes of one.
struct ChakraOrder {
  std::vector<std::uint32_t> rows;
  std::vector<std::uint32_t> circle;
};
ChakraOrder topological_order(const ChakraDeps& deps);

}  // namespace foregather::traces
