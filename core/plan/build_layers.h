// The layers that transformers are made of, each with the ops, saved tensors and temporaries of its
// PyTorch eager implementation on CUDA. Where a layer names no other source, the op lists follow
// what PyTorch 2.9+ and Hugging Face transformers 5 dispatch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/model.h"
#include "core/plan/tape_builder.h"

namespace foregather::plan {

/// What all layers of a model share.
struct LayerContext {
  const ModelConfig& config;
  const Train& train;
  const Implementation& implementation;
  std::int64_t sequences = 0;        ///< B: sequences of a micro-batch
  std::int64_t positions = 0;        ///< S: tokens of a sequence
  std::int64_t tokens = 0;           ///< N = B·S
  bool input_needs_gradient = true;  ///< something before this module is trained
  bool windowed = false;             ///< a block whose attention sees config.window tokens
  std::string path;                  ///< of the module, of a block without its number

  /// The rate if dropout runs, else 0 (then PyTorch dispatches nothing).
  double dropout(double rate) const { return train.dropout.value_or(true) ? rate : 0.0; }
};

/// The training of a model's modules, by their index: in some, frozen parameters get gradients.
class TrainOfModules {
 public:
  TrainOfModules(const Train& train, std::vector<bool> frozen_get_gradients)
      : train_(train), with_all_(train), is_with_all_(std::move(frozen_get_gradients)) {
    with_all_.trainable.frozen_get_gradients = true;
  }
  const Train& operator[](std::size_t module) const {
    return module < is_with_all_.size() && is_with_all_[module] ? with_all_ : train_;
  }

 private:
  Train train_, with_all_;
  std::vector<bool> is_with_all_;
};

/// x @ weightᵀ (+ bias) over the last dimension, `in` → `out` features. Saves x, if the weight is
/// trained. `transposed`: the weight is stored [in, out] (GPT-2's Conv1D).
///
/// With LoRA (peft/tuners/lora/layer.py, Linear.forward) a frozen linear may have an adapter:
/// y + scaling · B(A(dropout(x))); A saves x, B saves A's output. Where adapters are fp32, A saves
/// x in it, and the sum is made in fp32 and cast back.
///
/// Under autocast an fp32 x is cast first, for each linear anew.
///
/// In float8 (torchao/float8/float8_linear.py): the scale and then the cast of x and of the weight,
/// each one pass over it, before the matmul; x is saved as it came and is cast again in backward,
/// as the weight is, beside the output's gradient. A weight that was gathered in float8 is used as
/// it is. Transformer Engine's delayed scaling: x, the weight and the output's gradient are read
/// once each and written in float8 as they lie and turned; x and the weight are saved turned.
struct LinearSpec {
  std::string name;  ///< of the output
  std::string weight;
  std::string bias;  ///< empty: none
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool transposed = false;
  std::vector<ValueIndex> holds;  ///< locals of the caller that live until this op ends
};
ValueIndex linear(TapeBuilder& tape, ValueIndex x, const LinearSpec& spec);

/// RMSNorm over rows of `width`. Fused (torch.nn.RMSNorm): saves x and the fp32 reciprocal root
/// mean square of each row. Decomposed (Hugging Face's LlamaRMSNorm): the chain to fp32 and back,
/// which saves x in fp32 and the normalized rows in the compute dtype besides.
ValueIndex rms_norm(TapeBuilder& tape, const Implementation& implementation, ValueIndex x,
                    const std::string& weight, std::int64_t width, const std::string& name);

/// Llama 4's L2 norm: the same chain without a weight.
ValueIndex bare_rms_norm(TapeBuilder& tape, ValueIndex x, std::int64_t width,
                         const std::string& name);

/// torch.nn.LayerNorm, with or without a bias: saves x and each row's fp32 mean and reciprocal
/// deviation.
ValueIndex layer_norm(TapeBuilder& tape, ValueIndex x, const std::string& module,
                      std::int64_t width, const std::string& name);

/// The norm of the model's kind; `module` has its weight and perhaps its bias.
ValueIndex norm(TapeBuilder& tape, const LayerContext& context, ValueIndex x,
                const std::string& module, std::int64_t width, const std::string& name);

/// The sum of each column of x.
void sum_columns(TapeBuilder& tape, ValueIndex x, ValueIndex sum,
                 std::vector<ValueIndex> holds = {});

/// The gradient of a bias.
void column_sum(TapeBuilder& tape, ValueIndex gradient, ValueIndex bias,
                std::vector<ValueIndex> holds = {});

/// The gradient in the dtype of what it belongs to: the engine casts it where they differ.
ValueIndex narrowed(TapeBuilder& tape, ValueIndex gradient, ValueIndex x);

/// x to a power: PowBackward is grad · (exponent · x^(exponent - 1)), one kernel an operator. In
/// C++ the temporaries of the expression live until its end. `holds`: as in LinearSpec.
ValueIndex power(TapeBuilder& tape, ValueIndex x, const std::string& name,
                 std::vector<ValueIndex> holds = {});

/// a · b of one shape. MulBackward computes the gradient of `other` before that of `self`.
ValueIndex multiply(TapeBuilder& tape, ValueIndex a, ValueIndex b, const std::string& name,
                    std::vector<ValueIndex> holds = {});

/// f(x) elementwise with a backward kernel that reads x or y.
ValueIndex activation(TapeBuilder& tape, ValueIndex x, const std::string& name, std::int64_t flops,
                      bool saves_output);

/// a + b. Saves nothing; both get the very same gradient tensor. `holds`: as in LinearSpec;
/// `is_strided`: as in OpSpec.
ValueIndex add(TapeBuilder& tape, ValueIndex a, ValueIndex b, const std::string& name,
               std::vector<ValueIndex> holds = {}, bool is_strided = false);

/// torch.nn.Dropout (aten::native_dropout): saves a mask of one byte an element. x itself if the
/// rate is 0.
ValueIndex dropout(TapeBuilder& tape, ValueIndex x, double rate);

/// x.to(dtype); x itself if it has that dtype.
ValueIndex cast(TapeBuilder& tape, ValueIndex x, DType dtype, const std::string& name);

/// x.clone() in another layout. `copies_gradient`: its gradient has to change layout as well.
ValueIndex copy(TapeBuilder& tape, ValueIndex x, const std::string& name, bool copies_gradient,
                std::vector<ValueIndex> holds = {});

/// factor · x. Saves nothing.
ValueIndex scale(TapeBuilder& tape, ValueIndex x, const std::string& name);

/// cap · tanh(x / cap), one kernel an operator; saves the tanh.
ValueIndex soft_capped(TapeBuilder& tape, ValueIndex x, const std::string& name);

/// x cut into views of so many elements. SplitBackward concatenates their gradients.
std::vector<ValueIndex> split(TapeBuilder& tape, ValueIndex x,
                              const std::vector<std::pair<std::string, std::int64_t>>& parts);

/// x[..., a:b] of so many elements. SliceBackward: zeros of x's shape, then a copy into them.
ValueIndex slice(TapeBuilder& tape, ValueIndex x, std::int64_t elements, const std::string& name);

/// torch.cat: a copy of all parts; CatBackward hands on views of its gradient.
ValueIndex concatenate(TapeBuilder& tape, const std::vector<ValueIndex>& parts,
                       const std::string& name);

/// A view of x whose gradient does not come back in x's layout: backward copies it.
ValueIndex view_with_copied_gradient(TapeBuilder& tape, ValueIndex x, const std::string& name);

/// Hugging Face's NewGELUActivation: 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) with one kernel an
/// operator; saves x, 0.5·x, the tanh and 1 + tanh, under autocast all but 0.5·x in fp32. Or
/// torch's fused gelu, which saves x.
ValueIndex gelu(TapeBuilder& tape, bool is_fused, ValueIndex x);
/// BLOOM's GeLUFunction: gelu_new with one kernel an operator in both directions; saves x alone.
ValueIndex bloom_gelu(TapeBuilder& tape, ValueIndex x);

}  // namespace foregather::plan
