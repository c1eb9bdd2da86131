// PyTorch execution traces (torch.profiler.ExecutionTraceObserver): the operators of one process,
// how they nest, and what they were called with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/strings.h"
#include "core/base/units.h"
#include "traces/text_source.h"

namespace foregather::traces {

/// Nodes in the file's order. Numbers that a node lacks are 0.
struct ExecutionNodes {
  std::vector<std::uint64_t> id;
  std::vector<std::uint64_t> parent;  ///< id of the node that called it
  std::vector<StringId> name;
  std::vector<std::uint64_t> rf_id;  ///< number of its record_function: a profile of the same run
                                     ///< calls it "External id" or "Record function id"
  std::vector<std::uint64_t> forward_parent;  ///< id of the forward node, of one in the backward
  std::vector<std::int64_t> sequence;         ///< of autograd; -1: none
  std::vector<std::uint64_t> thread;          ///< numbered from 1
  std::vector<std::uint8_t> is_operator;      ///< it has an operator's schema, is no label
  std::size_t size() const { return id.size(); }
};

struct ExecutionTrace {
  std::string source;
  ExecutionNodes nodes;
  StringTable strings;
  std::int64_t elements = 0;  ///< of "nodes", damaged ones too
  /// Of the top-level object: keys but for "nodes", and values as JSON.
  std::vector<std::string> keys;
  std::vector<std::pair<std::string, std::string>> header;
  std::vector<std::pair<std::string, std::int64_t>> dropped;  ///< reason, nodes
  std::vector<std::string> warnings;
  Bytes bytes = 0;  ///< unpacked
};

/// Is this the beginning of such a text, an object with "schema" and "nodes"?
bool is_execution_trace(std::string_view head);

/// Reads schema 1.0.1 (fields of a node side by side) and 1.0.2 to 1.1 (most of them in `attrs`,
/// the parent as `ctrl_deps`), in one pass with memory for the columns alone. A node that is
/// damaged, or has a number that is none, is dropped and counted. Errors: see read_json().
Result<ExecutionTrace> read_execution_trace(TextSource& source, const std::string& name);

}  // namespace foregather::traces
