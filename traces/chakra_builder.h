// What the two forms of Chakra have in common: nodes, one by one, become columns.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dense_ids.h"
#include "traces/chakra.h"
#include "traces/scalar.h"

namespace foregather::traces {

/// One node as its form prints it. Views are borrowed until it is added.
struct ChakraNode {
  std::uint64_t id = 0;
  std::string_view name;
  std::uint64_t type = 0;
  bool on_host = false;
  std::uint64_t duration_us = 0;
  std::uint64_t operations = 0, tensor_bytes = 0;
  std::optional<std::uint64_t> collective, comm_bytes, source, destination;
  std::uint64_t tag = 0;
  std::string group;
  std::vector<std::uint64_t> control_deps, deps;
  std::string_view values;  ///< of its inputs: a Python list as text

  void clear();
  /// By number or by the schema's name. False: it is neither.
  bool set_type(const Scalar& value);
  /// Sets an attribute by its name; others are left. False: its value is none that it can have.
  bool set(std::string_view attribute, const Scalar& value);
};

/// Gathers a trace. Sizes beyond 62 bits and times beyond a year count as damage.
class ChakraBuilder {
 public:
  explicit ChakraBuilder(const std::string& name) { trace_.source = name; }

  ChakraTrace& trace() { return trace_; }
  /// `offset`: of the node in the text, or its number; `unit` says which.
  void add(const ChakraNode& node, std::string_view unit, Bytes offset);
  void drop(std::string_view reason, std::string_view unit, Bytes offset);
  /// Reading on makes no sense: finish() will fail.
  bool is_full() const {
    return std::max(trace_.nodes.size(), trace_.nodes.dep_ids.size()) > kMostNodes;
  }
  /// Errors: no node, too many.
  Result<ChakraTrace> finish();

 private:
  ChakraTrace trace_;
  DenseIds ids_;
};

/// Reads the groups of a "## process_group:init ##" node into `groups`: a JSON list in a Python
/// string. What is none is left.
void read_process_groups(std::string_view values, std::vector<ChakraGroup>& groups);

/// One form each; see read_chakra().
Result<ChakraTrace> read_chakra_et(TextSource& source, const std::string& name);
Result<ChakraTrace> read_chakra_json(TextSource& source, const std::string& name);

}  // namespace foregather::traces
