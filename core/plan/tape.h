// What a module computes: its parameters, the ops of its forward and of its backward, and the
// values that pass between them. A tape is a template; the lowering stamps it once a layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace foregather::plan {

/// Index in Tape::values / parameters / scopes; -1 is written nowhere: absent is an empty optional
/// or a range of count 0.
using ValueIndex = std::uint32_t;
using ParameterIndex = std::uint32_t;

struct Parameter {
  std::string name;  ///< within the module: "attn.wq.weight"
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
  bool trainable = true;     ///< the backward gives it a gradient
  bool is_unused = false;    ///< it would be trained, but no loss depends on it
  bool gathered_f8 = false;  ///< FSDP2 gathers it in float8
  /// Parameters with one non-empty tie name are one storage (tied embeddings).
  std::string tie;
};

/// Is it trained as far as PyTorch knows before a backward? DeepSpeed keeps states for all that
/// are, used or not; FSDP1 flattens them together. Of a Parameter or a ShardedParameter.
bool requires_gradient(const auto& parameter) { return parameter.trainable || parameter.is_unused; }

/// What a value is, which decides who allocates it and what its bytes are called.
enum class ValueKind : std::uint8_t {
  input,           ///< the module's input: owned by the module before
  output,          ///< the module's output
  activation,      ///< made by a forward op
  temporary,       ///< scratch of one op (a workspace, an fp32 copy)
  parameter,       ///< an unsharded parameter: made by the strategy
  parameter_grad,  ///< of parameter `index`, in the compute dtype; the strategy owns it from then
                   ///< on
  output_grad,     ///< the gradient that backward starts from: owned by the module after
  input_grad,      ///< the gradient that backward hands on
  gradient,        ///< of an activation, made by a backward op
};

struct Value {
  ValueKind kind = ValueKind::activation;
  std::string name;
  Bytes bytes = 0;
  DType dtype = DType::bf16;
  ParameterIndex parameter = 0;  ///< for parameter and parameter_grad
  /// A view shares the storage of `base` (transposes, splits, reshapes); 0 bytes of its own.
  bool is_view = false;
  ValueIndex base = 0;
};

struct TapeOp {
  Cost cost;                ///< priced work; its kind is the op's kind
  std::uint32_t scope = 0;  ///< index of Tape::scopes
  /// What it reads, and what it merely keeps alive until it ends (a caller's variable, an autograd
  /// node's other saved tensors); `cost` knows what is really read.
  std::vector<ValueIndex> reads;
  std::uint32_t own_reads = 0;     ///< how many of `reads`, from the front, it really reads
  std::vector<ValueIndex> writes;  ///< allocated right before the op unless bound already
  /// Read-modify-write (in-place add, gradient accumulation): must be bound already.
  std::vector<ValueIndex> updates;
  /// Host time that the framework spends on this op beyond one launch, in units of one dispatched
  /// framework op (1 = one ordinary PyTorch op).
  float host_ops = 1;
  /// Forward only: selective per-op checkpointing keeps this op's outputs instead of recomputing
  /// them (torchtitan: attention, every second matmul of a block, the largest values that float8
  /// scales by). A compiler's fused op is made again, whatever is in it.
  bool keep_under_selective = false;
  /// A reduction over more than a row: whoever reads it begins when all of it is read.
  bool crosses_rows = false;
  bool is_opaque = false;  ///< compilers leave it as it is
};

/// A module's work for one micro-batch. A value is made by the first op that writes it and dies
/// after the last op that reads it; forward values that backward reads are what autograd saves.
struct Tape {
  std::vector<std::string> scopes;  ///< relative module paths; scopes[0] is "" (the module itself)
  std::vector<Parameter> parameters;
  std::vector<Value> values;
  std::vector<TapeOp> forward;
  std::vector<TapeOp> backward;
  ValueIndex input = 0;
  ValueIndex output = 0;
  ValueIndex output_grad = 0;
  ValueIndex input_grad = 0;  ///< unused by a module whose input needs no gradient (embedding)
  bool has_input_grad = true;
  bool is_compiled = false;  ///< by compile_tape
  /// Its forward runs beside the model: what it makes is dropped, its input is handed on, and no
  /// hook of a backward fires.
  bool is_idle = false;
  bool has_output_grad = true;  ///< false: nothing here is trained, backward is empty
  /// Forward values that live until the module's backward ends though no op there reads them.
  std::vector<ValueIndex> held;
  /// Of `held`: what the module returns beside its output. Where the backward makes them anew, the
  /// first ones stay all the same.
  std::vector<ValueIndex> returned;
  std::int64_t model_flops = 0;  ///< forward + backward without recomputation, one micro-batch

  /// Do hooks on what it makes fire in the backward?
  bool has_hooks() const { return has_output_grad && !is_idle; }
};

/// A place in the model where a tape is stamped.
struct Module {
  std::string path;        ///< "model.layers.3"
  std::uint32_t tape = 0;  ///< index of Model::tapes
  bool is_block = false;   ///< a repeated block: the default wrap unit and checkpointing unit
  std::uint32_t wrap = 0;  ///< of a module tree: Model::wraps[wrap - 1] is the innermost; 0: none
};

/// A wrapped part of a module tree.
struct WrapMark {
  std::string path;
  std::uint32_t first_module = 0;
  std::uint32_t last_module = 0;
  bool is_alone = false;  ///< its process group is one rank: it is not sharded, nor reduced
};

/// Memory of a module that nobody trains, there from the start (torch.nn.Module.register_buffer).
struct ModelBuffer {
  std::string module;
  std::string name;
  std::int64_t elements = 0;
  DType dtype = DType::f32;
};

/// A chain of modules: each one's output is the next one's input; the last one ends in the loss.
struct Model {
  std::string name;
  std::vector<Tape> tapes;
  std::vector<Module> modules;
  /// A module tree says itself what is wrapped: an outer mark comes before those in it. The last
  /// module is the loss, which is outside the root.
  bool is_tree = false;
  std::vector<WrapMark> wraps;
  std::vector<ModelBuffer> buffers;
  Bytes workspace = 0;          ///< Implementation::workspace
  std::int64_t parameters = 0;  ///< each tie counted once
  std::int64_t tokens = 0;      ///< of one micro-batch
  /// Model FLOPs of its modules for one micro-batch, as training asks for them, whatever else a
  /// strategy has computed.
  std::int64_t flops = 0;
};

}  // namespace foregather::plan
