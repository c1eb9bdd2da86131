// Takes the fused downcast (fuse_downcast.cpp) of a gather back: gathered in the shard's dtype,
// cast on the compute stream.
#pragma once

#include <map>
#include <optional>

#include "sim/passes/compiled_graph.h"

namespace foregather::sim {

/// Is the node a gather of a cast shard, with the cast that it was fused with as an origin?
bool is_fused_downcast(const Graph& graph, const CompiledNode& node);

/// Undoes fusions, in both sections. The full copy in the shard's dtype is one storage for each
/// narrow one, however many gathers fill it; it is freed where the narrow one is.
class Widener {
 public:
  Widener(Rewriter& rewriter, const CompiledProgram& program)
      : rewriter_(rewriter), program_(program) {}

  /// `node` of `graph` is_fused_downcast().
  void widen(const CompiledGraph& graph, const CompiledNode& node);
  /// More than before, over all that was widened.
  Bytes bytes_more() const { return bytes_more_; }

 private:
  void rewrite_actions(const ActionList& list, Range run, const CompiledNode& node, OpId cast,
                       StorageId shard, StorageId wide);
  bool touches(OpId op, StorageId storage) const;

  Rewriter& rewriter_;
  const CompiledProgram& program_;
  std::map<StorageId, TensorId> wide_;  ///< by narrow storage
  Bytes bytes_more_ = 0;
};

}  // namespace foregather::sim
