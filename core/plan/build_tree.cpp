#include "core/plan/build_tree.h"

#include <optional>
#include <utility>

#include "core/plan/build_ends.h"
#include "core/plan/build_families.h"
#include "core/plan/build_loss.h"
#include "core/plan/trainable.h"

namespace foregather::plan {

namespace {

using Kind = TreeNode::Kind;

// torch.cuda._sleep: a kernel that waits and touches nothing.
void wait_for(TapeBuilder& t, Ns time) {
  OpSpec spec;
  spec.kind = OpKind::sleep;
  spec.dtype = t.compute();
  spec.fixed_time = time;
  t.op(std::move(spec));
}

// torch.nn.BatchNorm1d in training: num_batches_tracked += 1, then the statistics and the
// normalization (aten::native_batch_norm), which also updates the running statistics. Saves x, the
// mean and the reciprocal deviation.
ValueIndex batch_norm(TapeBuilder& t, ValueIndex x, const std::string& module,
                      std::int64_t features) {
  const ValueIndex weight = t.parameter(module + ".weight");
  const ValueIndex bias = t.parameter(module + ".bias");
  OpSpec count;
  count.dtype = DType::i64;
  count.bytes_read = count.bytes_written = size_of(DType::i64);
  count.flops = 1;
  t.op(std::move(count));
  const ValueIndex y = t.make("batch norm", t.elements(x), t.dtype(x));
  const ValueIndex mean = t.make("batch norm mean", features, DType::f32);
  const ValueIndex deviation = t.make("batch norm rstd", features, DType::f32);
  const Bytes running = 2 * features * size_of(DType::f32);
  OpSpec forward;
  forward.kind = OpKind::norm;
  forward.reads = {x, weight, bias};
  forward.writes = {y, mean, deviation};
  forward.flops = times(8, t.elements(x));
  forward.kernels = 2;
  forward.bytes_read = 2 * t.size(x) + t.size(weight) + t.size(bias) + running;
  forward.bytes_written = t.size(y) + t.size(mean) + t.size(deviation) + running;
  t.op(std::move(forward));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    OpSpec back;
    back.kind = OpKind::norm;
    back.reads = {*g[0], x, mean, deviation, weight};
    back.flops = times(12, b.elements(x));
    back.kernels = 2;
    back.bytes_read = 2 * (b.size(*g[0]) + b.size(x));
    std::optional<ValueIndex> dx;
    if (b.needs_gradient(x)) {
      dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
      back.writes.push_back(*dx);
    }
    for (const ValueIndex parameter : {weight, bias})
      if (b.needs_gradient(parameter)) back.writes.push_back(b.gradient_of(parameter));
    b.op(std::move(back));
    if (dx) b.give(x, *dx);
  });
  return y;
}

// x + buffer of one row; an integer buffer is cast first (type_as).
ValueIndex add_buffer(TapeBuilder& t, ValueIndex x, const TreeNode& node) {
  const Bytes stored = node.elements * size_of(node.dtype);
  Bytes read = stored;
  if (node.dtype != t.dtype(x)) {
    const ValueIndex cast = t.scratch(node.name + " cast", node.elements, t.dtype(x));
    OpSpec spec;
    spec.kind = OpKind::cast;
    spec.writes = {cast};
    spec.bytes_read = stored;
    t.op(std::move(spec));
    read = t.size(cast);
  }
  const ValueIndex y = t.make(t.name(x) + " + " + node.name, t.elements(x), t.dtype(x));
  OpSpec spec;
  spec.reads = {x};
  spec.writes = {y};
  spec.flops = t.elements(x);
  spec.bytes_read = t.size(x) + read;
  t.op(std::move(spec));
  t.node({y}, [x](TapeBuilder& b, TapeBuilder::Gradients g) { b.give(x, *g[0]); });
  return y;
}

// What a module of another kind does with one of its parameters: each row is multiplied by it, or
// (a scale, a shift, a table) it is used elementwise. Saves x.
ValueIndex use_parameter(TapeBuilder& t, ValueIndex x, const TreeLeaf& leaf,
                         const std::string& own) {
  const TreeNode& node = *leaf.node;
  const ValueIndex p = t.parameter(own);
  const ValueIndex y = t.make(t.name(x) + " · " + node.name, t.elements(x), t.dtype(x));
  const std::int64_t rows = t.elements(x) / leaf.width;
  const auto multiply = [&node, rows](TapeBuilder& b, std::vector<ValueIndex> reads,
                                      ValueIndex out) {
    if (node.is_matmul)
      b.gemm(std::move(reads), out, 1, rows, node.shape[0], node.shape[1]);
    else
      b.elementwise(std::move(reads), {out});
  };
  multiply(t, {x, p}, y);
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    if (b.needs_gradient(x)) {
      const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
      multiply(b, {*g[0], p}, dx);
      b.give(x, dx);
    }
    if (!b.needs_gradient(p)) return;
    const ValueIndex dp = b.gradient_of(p);
    if (node.is_matmul) return multiply(b, {*g[0], x}, dp);
    OpSpec sum;
    sum.kind = OpKind::reduction;
    sum.reads = {*g[0], x};
    sum.writes = {dp};
    sum.flops = times(2, b.elements(x));
    b.op(std::move(sum));
  });
  return y;
}

/// The tape of one module, or of those that work on a source and a target.
class TreeTape {
 public:
  TreeTape(const LayerContext& context, std::string path)
      : context_(context), path_(std::move(path)), t_(context.train, false, path_) {}

  void add_parameters(const TreeLeaf& leaf) {
    const TreeNode& node = *leaf.node;
    const std::string own = relative(leaf);
    const std::string& tie = leaf.tie;
    switch (node.kind) {
      case Kind::linear:
        t_.add_parameter(own + ".weight", {node.out, node.in}, tie);
        if (node.bias) t_.add_parameter(own + ".bias", {node.out});
        break;
      case Kind::embedding: {
        // Used twice, it gets two gradients: a second name of the same weight has the other one.
        const bool twice = leaf.is_paired && node.on == TreeNode::On::both;
        const std::string shared = twice && tie.empty() ? weight_of(leaf) : tie;
        t_.add_parameter(own + ".weight", {node.in, node.out}, shared);
        if (twice) t_.add_parameter(own + ".weight of the target", {node.in, node.out}, shared);
        break;
      }
      case Kind::parameter: t_.add_parameter(own, node.shape, tie); break;
      case Kind::rms_norm: t_.add_parameter(own + ".weight", {node.in}); break;
      case Kind::layer_norm:
      case Kind::batch_norm:
        t_.add_parameter(own + ".weight", {node.in});
        t_.add_parameter(own + ".bias", {node.in});
        break;
      case Kind::encoder_layer: add_transformer_layer(t_, spec_of(node), own, false); break;
      case Kind::transformer: add_transformer(node, own); break;
      default: break;
    }
  }

  void begin(std::int64_t elements, DType type, std::int64_t target_ids) {
    x_ = t_.input("input", elements + target_ids, type, context_.input_needs_gradient);
    if (target_ids == 0) return;
    target_ = t_.view("target", x_, target_ids);
    x_ = t_.view("source", x_, elements);
  }

  void run(const TreeLeaf& leaf) {
    const TreeNode& node = *leaf.node;
    const std::string own = relative(leaf);
    const std::string scope = node.kind == Kind::parameter ? parent_of(own) : own;
    t_.enter(scope);
    if (leaf.forward_delay > 0) wait_for(t_, leaf.forward_delay);
    if (node.kind == Kind::transformer) {
      transformer(node, own);
    } else {
      const bool paired = target_.has_value();
      if (node.on != TreeNode::On::target) x_ = computed(leaf, own, x_, false);
      if (paired && node.on != TreeNode::On::source) target_ = computed(leaf, own, *target_, true);
    }
    t_.enter(scope);
    if (leaf.backward_delay > 0) delay_backward(leaf.backward_delay);
  }

  Tape finish(bool hands_on) { return t_.finish(x_, hands_on, 3 * flops()); }
  std::int64_t elements() const { return t_.elements(x_); }

 private:
  // The tape's path is that of the leaf's parent, or "".
  std::string relative(const TreeLeaf& leaf) const {
    return path_.empty() ? leaf.path : leaf.path.substr(path_.size() + 1);
  }

  static std::string parent_of(const std::string& path) {
    const auto dot = path.rfind('.');
    return dot == std::string::npos ? "" : path.substr(0, dot);
  }

  static TransformerSpec spec_of(const TreeNode& node) {
    return {node.in, node.heads, node.feedforward, node.rate};
  }

  static std::string layer_path(const std::string& own, const char* stack, std::int64_t layer) {
    return own + "." + stack + ".layers." + std::to_string(layer);
  }

  void add_transformer(const TreeNode& node, const std::string& own) {
    const auto norm = [&](const std::string& stack) {
      t_.add_parameter(own + "." + stack + ".norm.weight", {node.in});
      t_.add_parameter(own + "." + stack + ".norm.bias", {node.in});
    };
    for (std::int64_t i = 0; i < node.encoder_layers; ++i)
      add_transformer_layer(t_, spec_of(node), layer_path(own, "encoder", i), false);
    norm("encoder");
    for (std::int64_t i = 0; i < node.decoder_layers; ++i)
      add_transformer_layer(t_, spec_of(node), layer_path(own, "decoder", i), true);
    if (node.decoder_layers > 0) norm("decoder");
  }

  void transformer(const TreeNode& node, const std::string& own) {
    const TransformerSpec spec = spec_of(node);
    for (std::int64_t i = 0; i < node.encoder_layers; ++i)
      x_ = transformer_layer(t_, context_, spec, layer_path(own, "encoder", i), x_, {});
    t_.enter(own + ".encoder.norm");
    x_ = layer_norm(t_, x_, own + ".encoder.norm", node.in, "memory");
    if (!target_) return;
    ValueIndex y = *target_;
    for (std::int64_t i = 0; i < node.decoder_layers; ++i)
      y = transformer_layer(t_, context_, spec, layer_path(own, "decoder", i), y, x_);
    t_.enter(own + ".decoder.norm");
    x_ = layer_norm(t_, y, own + ".decoder.norm", node.in, "decoded");
    target_.reset();
  }

  ValueIndex computed(const TreeLeaf& leaf, const std::string& own, ValueIndex x, bool is_target) {
    const TreeNode& node = *leaf.node;
    switch (node.kind) {
      case Kind::linear: return linear(t_, x, linear_of(t_, node.name, own, node.in, node.out));
      case Kind::embedding: {
        const bool second = is_target && node.on == TreeNode::On::both;
        return embedding(t_, x, own + (second ? ".weight of the target" : ".weight"), node.out,
                         node.name);
      }
      case Kind::layer_norm: return layer_norm(t_, x, own, node.in, node.name);
      case Kind::rms_norm:
        return rms_norm(t_, context_.implementation, x, own + ".weight", node.in, node.name);
      case Kind::parameter: return use_parameter(t_, x, leaf, own);
      case Kind::batch_norm: return batch_norm(t_, x, own, node.in);
      case Kind::relu: return activation(t_, x, node.name, 1, true);
      case Kind::gelu: return gelu(t_, true, x);
      case Kind::dropout: return dropout(t_, x, context_.dropout(node.rate));
      case Kind::buffer: return node.adds ? add_buffer(t_, x, node) : x;
      case Kind::encoder_layer: return transformer_layer(t_, context_, spec_of(node), own, x, {});
      default: return x;
    }
  }

  // An identity whose node comes first in backward.
  void delay_backward(Ns time) {
    ValueIndex& last = target_ ? *target_ : x_;
    const ValueIndex x = last;
    last = t_.view(t_.name(x), x, t_.elements(x));
    t_.node({last}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
      wait_for(b, time);
      b.give(x, *g[0]);
    });
  }

  // Of matmuls and attention in the forward.
  std::int64_t flops() const { return t_.forward_flops(); }

  const LayerContext& context_;
  std::string path_;
  TapeBuilder t_;
  ValueIndex x_ = 0;
  std::optional<ValueIndex> target_;
};

/// The chain of modules under construction.
class TreeBuilder {
 public:
  TreeBuilder(const ModelConfig& config, const TrainOfModules& train,
              const Implementation& implementation)
      : config_(config),
        train_of_(train),
        train_(train[0]),
        implementation_(implementation),
        plan_(*config.tree_plan) {}

  Model build() {
    model_.name = config_.model_type;
    model_.is_tree = true;
    model_.tokens = times(train_.micro_batch, train_.seq_len);
    elements_ = times(model_.tokens, plan_.in);
    if (!plan_.takes_ids) type_ = train_.compute;
    const auto leaves = static_cast<std::uint32_t>(plan_.leaves.size());
    std::vector<std::uint32_t> module_of_leaf(leaves);
    for (std::uint32_t first = 0; first < leaves;) {
      std::uint32_t end = first + 1;
      if (plan_.leaves[first].is_paired)
        while (end < leaves && plan_.leaves[end].is_paired) ++end;
      for (std::uint32_t leaf = first; leaf < end; ++leaf)
        module_of_leaf[leaf] = static_cast<std::uint32_t>(model_.modules.size());
      add_modules(first, end);
      first = end;
    }
    for (WrapMark mark : plan_.wraps) {
      mark.first_module = module_of_leaf[mark.first_module];
      mark.last_module = module_of_leaf[mark.last_module];
      model_.wraps.push_back(std::move(mark));
    }
    add_loss();
    add_buffers();
    return std::move(model_);
  }

 private:
  LayerContext context() const {
    const Train& train = train_of_[model_.modules.size()];
    LayerContext context{config_, train, implementation_, 0, 0, 0, true, false, {}};
    context.sequences = train_.micro_batch;
    context.positions = train_.seq_len;
    context.tokens = model_.tokens;
    context.input_needs_gradient = needs_gradient_;
    return context;
  }

  void push(std::string path, Tape tape, std::uint32_t wrap) {
    needs_gradient_ = tape.has_output_grad;
    type_ = tape.values[tape.output].dtype;
    const auto index = static_cast<std::uint32_t>(model_.tapes.size());
    model_.tapes.push_back(std::move(tape));
    model_.modules.push_back({std::move(path), index, false, wrap});
  }

  // Leaves [first, end) as one module.
  void add_modules(std::uint32_t first, std::uint32_t end) {
    const TreeLeaf& leaf = plan_.leaves[first];
    const auto dot = leaf.path.rfind('.');
    const bool alone = first + 1 == end && dot != std::string::npos;
    const std::string path = alone ? leaf.path.substr(0, dot) : "";
    const LayerContext at = context();
    TreeTape tape(at, path);
    for (std::uint32_t i = first; i < end; ++i) tape.add_parameters(plan_.leaves[i]);
    const bool paired = first + 1 < end || leaf.is_paired;
    tape.begin(elements_, type_, paired ? target_elements() : 0);
    for (std::uint32_t i = first; i < end; ++i) tape.run(plan_.leaves[i]);
    elements_ = tape.elements();
    push(path, tape.finish(first > 0), leaf.wrap);
  }

  std::int64_t target_elements() const {
    return times(times(train_.micro_batch, config_.target_len), plan_.in);
  }

  void add_loss() {
    LayerContext at = context();
    at.tokens = elements_ / plan_.out;
    TapeBuilder t(train_, false, "");
    const ValueIndex x = t.input("output", elements_, type_, needs_gradient_);
    t.enter("loss");
    const bool tokens = config_.tree_loss == TreeLoss::cross_entropy;
    const ValueIndex loss = tokens ? token_loss(t, at, x) : mean_loss(t, x);
    push("", t.finish(loss, true, 0), 0);
  }

  void add_buffers() {
    for (const TreeLeaf& leaf : plan_.leaves) {
      const TreeNode& node = *leaf.node;
      if (node.kind == Kind::buffer)
        model_.buffers.push_back({leaf.path, node.name, node.elements, node.dtype});
      if (node.kind != Kind::batch_norm) continue;
      model_.buffers.push_back({leaf.path, "running_mean", node.in, DType::f32});
      model_.buffers.push_back({leaf.path, "running_var", node.in, DType::f32});
      model_.buffers.push_back({leaf.path, "num_batches_tracked", 1, DType::i64});
    }
  }

  const ModelConfig& config_;
  const TrainOfModules& train_of_;
  const Train& train_;
  const Implementation& implementation_;
  const TreePlan& plan_;
  Model model_;
  std::int64_t elements_ = 0;    // of the next module's input
  DType type_ = DType::i64;      // of it
  bool needs_gradient_ = false;  // the next module's input does
};

}  // namespace

Model build_tree_model(const ModelConfig& config, const TrainOfModules& train,
                       const Implementation& implementation) {
  return TreeBuilder(config, train, implementation).build();
}

}  // namespace foregather::plan
