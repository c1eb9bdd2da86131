// The parameters of a model, module by module. Tapes and counts both use these lists.
#pragma once

#include <string>
#include <vector>

#include "core/plan/model.h"

namespace foregather::plan {

/// One parameter, named within its module.
struct ParameterShape {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string tie;  ///< parameters with one non-empty tie are one storage
  /// No op reads it (DINOv2's mask token, BERT's sentence head): it gets no gradient, and the
  /// optimizer makes no state for it.
  bool is_unused = false;
};
using ParameterShapes = std::vector<ParameterShape>;

/// The tie of a token embedding and the head that shares its weight.
constexpr const char* kEmbeddingTie = "embedding";

/// In the order in which transformers registers them. `layer` decides whether a block is dense or
/// has experts, whose weights are stacked: [experts, out, in] (transformers 5).
ParameterShapes embedding_parameters(const ModelConfig& config);
ParameterShapes block_parameters(const ModelConfig& config, std::int64_t layer);
/// Names are whole paths: the head's module has no path.
ParameterShapes head_parameters(const ModelConfig& config);
ParameterShapes projector_parameters(const ModelConfig& config);

}  // namespace foregather::plan
