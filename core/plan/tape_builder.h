// A small autograd: layers append forward ops and say how their backward goes; finish() runs the
// backwards in the order in which PyTorch's engine runs them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plan/model_parameters.h"
#include "core/plan/tape.h"
#include "core/plan/workload.h"

namespace foregather::plan {

/// a × b, at most 2^60: absurd sizes must not overflow.
std::int64_t times(std::int64_t a, std::int64_t b);

/// One framework op. Without the optional sizes, the cost reads all `reads` and writes all `writes`
/// once (`updates` both).
struct OpSpec {
  OpKind kind = OpKind::elementwise;
  std::vector<ValueIndex> reads;
  std::vector<ValueIndex> writes;
  std::vector<ValueIndex> updates;
  /// Values that stay alive until this op ends though it does not read them: a caller's local
  /// variable, the other saved tensors of an autograd node.
  std::vector<ValueIndex> holds;
  std::int64_t flops = 0;
  std::optional<Bytes> bytes_read;
  std::optional<Bytes> bytes_written;
  std::uint16_t kernels = 1;
  float host_ops = 1;
  std::int64_t m = 0, n = 0, k = 0, batch = 0;
  std::optional<DType> dtype;    ///< of the arithmetic; unset: that of the first value written
  std::optional<Ns> fixed_time;  ///< how long it takes, whatever it does
  bool keep_under_selective = false;
  bool crosses_rows = false;  ///< TapeOp::crosses_rows
  bool is_strided = false;    ///< of an elementwise op or a copy: an operand is not contiguous
  bool is_opaque = false;     ///< TapeOp::is_opaque
};

/// Builds one tape. Use: add the parameters in the order in which the framework registers them, the
/// input, then layers; finish() last. Rules that make lifetimes exact:
///
/// - A node (one autograd function) holds its gradient and all that it saved until it returns, so
///   these stay alive through the last of its ops.
/// - Nodes run newest first. The engine runs the ready node with the highest sequence number; in
/// the
///   order of creation backwards every node is ready (torch/csrc/autograd/engine.cpp).
/// - When a second gradient arrives at a value, it is added in place if nobody else holds the
///   first, else into a new tensor (torch/csrc/autograd/input_buffer.cpp, can_accumulate_inplace).
/// - A value needs a gradient if an op made it from one that does: a trained parameter, or an input
///   that does. Nodes of other values are dropped; gradients that nobody needs are ignored.
class TapeBuilder {
 public:
  /// The gradients of a node's outputs, in their order; an output that got none is absent.
  using Gradients = std::span<const std::optional<ValueIndex>>;
  using Backward = std::function<void(TapeBuilder&, Gradients)>;

  /// `is_block`: bias-free matmuls follow torchtitan's selective rule (see next_matmul_is_kept),
  /// and linears may be float8. `train` outlives the builder.
  /// `path` is the module's, for train.trainable.
  TapeBuilder(const Train& train, bool is_block, std::string path);

  DType compute() const { return train_.compute; }
  /// Of the residual stream: fp32 under autocast.
  DType stream() const { return train_.autocast ? DType::f32 : train_.compute; }
  const Train& train() const { return train_; }
  bool is_block() const { return is_block_; }

  /// Ops and values from here on belong to that module path (relative; "" is the module itself).
  void enter(std::string_view scope);

  /// A parameter, and the value that stands for it unsharded in the compute dtype.
  /// Train::trainable decides whether it is trained; adapters of a linear's weight [out, in] (or
  /// [in, out] if `transposed`) follow it, as PEFT registers them.
  void add_parameter(std::string name, std::vector<std::int64_t> shape, std::string tie = "",
                     bool transposed = false);
  /// `is_unused`: of all of them, whatever the list says.
  void add_parameters(const ParameterShapes& list, bool is_unused = false);
  bool has_parameter(std::string_view name) const;
  ValueIndex parameter(std::string_view name) const;
  /// Of all parameters of the tape.
  std::int64_t parameter_elements() const;
  /// Of those that are trained.
  std::int64_t trained_elements() const;
  /// `x` is multiplied with that weight: where x has no gradient, backward has a product less.
  void note_product(ValueIndex x, ValueIndex weight) {
    if (!needs_[x]) without_input_gradient_ += elements(weight);
  }
  /// Elements of such weights.
  std::int64_t without_input_gradient() const { return without_input_gradient_; }
  /// Of the matmuls and attention of the forward so far.
  std::int64_t forward_flops() const;
  ValueIndex input(std::string name, std::int64_t elements, DType dtype, bool needs_gradient);
  /// Does backward compute a gradient of this forward value?
  bool needs_gradient(ValueIndex value) const { return needs_[value]; }
  bool trains(ValueIndex parameter) const {
    return tape_.parameters[tape_.values[parameter].parameter].trainable;
  }

  /// A tensor that an op makes: an activation in the forward, a gradient in the backward.
  ValueIndex make(std::string name, std::int64_t elements, DType dtype);
  ValueIndex make(std::string name, std::int64_t elements) {
    return make(std::move(name), elements, compute());
  }
  /// Scratch memory of one op, or of a few.
  ValueIndex scratch(std::string name, std::int64_t elements, DType dtype);
  /// Part or all of another value's storage.
  ValueIndex view(std::string name, ValueIndex base, std::int64_t elements);
  /// The gradient of a parameter, in the compute dtype. Backward only.
  ValueIndex gradient_of(ValueIndex parameter);

  std::int64_t elements(ValueIndex value) const { return elements_[value]; }
  DType dtype(ValueIndex value) const { return tape_.values[value].dtype; }
  const std::string& name(ValueIndex value) const { return tape_.values[value].name; }
  Bytes size(ValueIndex value) const { return elements_[value] * size_of(dtype(value)); }

  void op(OpSpec spec);
  /// Elementwise over the first value written, `flops` a value.
  void elementwise(std::vector<ValueIndex> reads, std::vector<ValueIndex> writes,
                   std::int64_t flops = 1);
  /// batch × (m×k)·(k×n).
  void gemm(std::vector<ValueIndex> reads, ValueIndex out, std::int64_t batch, std::int64_t m,
            std::int64_t n, std::int64_t k, float host_ops = 1, bool keep = false,
            std::vector<ValueIndex> holds = {}, std::optional<DType> dtype = {});
  /// The gradient of a weight (m × n, or as many of `batch`), the sum over `rows`. No operand lies
  /// by the rows: so that the product's price, which looks at n and k (sim/cost/gemm.h), takes them
  /// for aligned, k is rounded up to the next 8; and n is the side that is not aligned, if one is.
  void weight_gemm(std::vector<ValueIndex> reads, ValueIndex out, std::int64_t batch,
                   std::int64_t m, std::int64_t n, std::int64_t rows,
                   std::optional<DType> dtype = {});

  /// Registers the backward of the forward ops since the last node.
  void node(std::vector<ValueIndex> outputs, Backward backward);
  /// From within a Backward: `gradient` is (part of) the gradient of `value`.
  void give(ValueIndex value, ValueIndex gradient);

  /// These stay alive until the last op of the backward.
  void hold_until_backward_ends(const std::vector<ValueIndex>& values);
  /// The same, of values that the module returns beside its output.
  void return_beside_output(const std::vector<ValueIndex>& values);

  /// Counts a bias-free matmul. torchtitan's per-op rule (torchtitan/distributed/
  /// activation_checkpoint.py): of the aten.mm of a block, in order, every second is recomputed, so
  /// the 1st, 3rd, … are kept. aten.addmm (a linear with bias) is not in its list.
  bool next_matmul_is_kept();

  /// Runs the backward from `output`. The builder is empty afterwards. `model_flops` as in Tape.
  Tape finish(ValueIndex output, bool has_input_grad, std::int64_t model_flops);

 private:
  struct Node {
    std::vector<ValueIndex> outputs;
    std::uint32_t scope = 0;
    Backward backward;
  };

  ValueIndex add_value(Value value, std::int64_t elements);
  /// Cost::m of an op that is no product.
  std::int64_t found_one_by_one(const OpSpec& spec) const;
  void push_parameter(std::string name, std::vector<std::int64_t> shape, std::string tie,
                      bool trainable);
  void push_adapter(std::string name, std::vector<std::int64_t> shape);
  void leave_unused(std::size_t parameter);
  void run(const Node& node);
  void hold_through(std::size_t first_op, Gradients gradients);
  void accumulate(ValueIndex value, ValueIndex gradient);
  void hand_on_input_gradient();

  Tape tape_;
  const Train& train_;
  bool is_block_;
  std::string path_;
  int matmuls_ = 0;
  bool in_backward_ = false;
  std::uint32_t scope_ = 0;
  std::vector<std::int64_t> elements_;  // by value
  std::vector<bool> needs_;             // by value: a gradient
  std::int64_t without_input_gradient_ = 0;
  bool reads_need_ = false;                   // some value read since the last node
  std::vector<ValueIndex> parameter_values_;  // by parameter
  std::vector<Node> nodes_;
  std::vector<ValueIndex> held_to_the_end_;
  std::vector<std::optional<ValueIndex>> pending_;        // by value: its gradient so far
  std::vector<std::pair<ValueIndex, ValueIndex>> given_;  // by the running node
};

}  // namespace foregather::plan
