// A model that a workload spells out, module by module, as nested torch.nn modules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/plan/tape.h"

namespace foregather::plan {

/// A module as it is written. A container runs its children in order (torch.nn.Sequential).
struct TreeNode {
  enum class Kind : std::uint8_t {
    container,
    linear,      ///< torch.nn.Linear(in, out)
    embedding,   ///< torch.nn.Embedding(in, out)
    layer_norm,  ///< torch.nn.LayerNorm(in)
    rms_norm,    ///< torch.nn.RMSNorm(in)
    batch_norm,  ///< torch.nn.BatchNorm1d(in), with its three buffers
    relu,
    gelu,
    dropout,
    buffer,         ///< register_buffer: no module, memory that nobody trains
    parameter,      ///< torch.nn.Parameter of a module of another kind: of its parent
    encoder_layer,  ///< torch.nn.TransformerEncoderLayer
    transformer,    ///< torch.nn.Transformer: encoder, decoder, a norm behind each
  };
  /// Which of the two sequences before a transformer it is for.
  enum class On : std::uint8_t { both, source, target };

  std::string place;  ///< FILE:LINE:COL
  std::string name;   ///< within its parent; without one its number
  Kind kind = Kind::container;
  std::string kind_place;  ///< of the key that says what it is
  std::int64_t in = 0;     ///< features, rows of an embedding
  std::int64_t out = 0;
  bool bias = true;                 ///< of a linear
  double rate = 0;                  ///< of dropout, in a transformer too
  std::int64_t elements = 0;        ///< of a buffer
  std::vector<std::int64_t> shape;  ///< of a parameter
  bool is_matmul = false;    ///< each row is multiplied by this parameter, else scaled or shifted
  DType dtype = DType::f32;  ///< of a buffer
  bool adds = false;         ///< x + buffer, broadcast over rows
  std::int64_t heads = 0, feedforward = 0;
  std::int64_t encoder_layers = 0, decoder_layers = 0;
  std::string tied;  ///< path of the module whose weight this one's is, or of that parameter
  std::string tied_place;
  bool wraps = false;  ///< FSDP shards what is in here and in no inner wrapped module
  std::string wrap_place;
  std::string unit;  ///< of wrapped modules: those of one name are one unit of it; empty: its own
  bool is_alone = false;  ///< the wrapped module's process group is one rank
  On on = On::both;
  std::string on_place;
  Ns forward_delay = 0, backward_delay = 0;  ///< a kernel that waits, before the module's own work
  std::vector<TreeNode> children;
};

/// [model] tree. Sizes, names and kinds are checked; plan_tree() checks what is between modules.
struct ModuleTree {
  std::string place;
  std::vector<TreeNode> children;
};

/// A module that computes, or a buffer, in order of execution.
struct TreeLeaf {
  const TreeNode* node = nullptr;
  std::string path;
  std::string tie;         ///< of its weight: the path of the parameter that it shares; empty: none
  std::int64_t width = 0;  ///< features of a row that comes in
  std::uint32_t wrap = 0;  ///< as Module::wrap
  Ns forward_delay = 0, backward_delay = 0;  ///< with those of its parents
  bool is_paired = false;                    ///< works on a source and a target
};

/// A tree that fits together.
struct TreePlan {
  std::vector<TreeLeaf> leaves;
  std::vector<WrapMark> wraps;  ///< modules are indices of `leaves`
  std::string list_place;       ///< of a module that joins another one's unit; empty: none does
  bool takes_ids = false;       ///< the input are token ids, else features
  std::int64_t in = 0;          ///< features of a row of the input
  std::int64_t out = 0;         ///< of a row of the output
  bool is_sequence = false;     ///< rows are [positions, sequences]
  std::int64_t parameters = 0;  ///< tied ones once
  double matmul_flops = 0;      ///< of one micro-batch's forward
  double widest = 0;            ///< elements of the largest tensor that an op makes
};

/// Of modules, and of layers of transformers.
inline constexpr std::size_t kMostTreeModules = 4096;
inline constexpr int kDeepestTree = 64;

/// What a micro-batch is.
struct TreeBatch {
  std::int64_t sequences = 1;
  std::int64_t positions = 0;  ///< of the source, or of all there is; 0: not given, then 1
  std::int64_t target = 0;     ///< positions of the second sequence; 0: there is none
};

/// Checks what one module hands to the next, and ties. Errors have the place of the module. Token
/// ids need `positions`.
Result<TreePlan> plan_tree(const ModuleTree& tree, const TreeBatch& batch);

/// Path of the weight that a leaf may share: its own for a parameter, PATH.weight for linears and
/// embeddings.
std::string weight_of(const TreeLeaf& leaf);

/// FSDP shares no parameter across two wrapped modules.
Status check_tied_wraps(const TreePlan& plan);

}  // namespace foregather::plan
