#include <optional>
#include <utility>

#include "core/plan/build_attention.h"
#include "core/plan/build_ends.h"
#include "core/plan/build_families.h"
#include "core/plan/build_loss.h"
#include "core/plan/model_names.h"

namespace foregather::plan {

namespace {

using Residual = ModelConfig::Residual;

ValueIndex positions_added(TapeBuilder& t, const LayerContext& context, ValueIndex tokens) {
  const ModelConfig& c = context.config;
  const std::string positions(names_of(c.family).positions);
  t.enter(positions);
  if (c.family == ModelConfig::Family::opt) {
    // OPTLearnedPositionalEmbedding counts the tokens of a mask, each sequence for itself.
    const ValueIndex places = given(t, "position ids", context.tokens, DType::i64);
    const ValueIndex rows =
        embedding(t, places, positions + ".weight", c.hidden, "position embeddings");
    t.enter("");
    return add(t, tokens, rows, "embeddings");
  }
  const ValueIndex places = t.make("position ids", context.positions, DType::i64);
  OpSpec arange;
  arange.kind = OpKind::fill;
  arange.writes = {places};
  t.op(std::move(arange));
  const ValueIndex rows =
      embedding(t, places, positions + ".weight", c.hidden, "position embeddings");
  t.enter("");
  return add_positions(t, tokens, rows);
}

// BertEmbeddings: token types (all zero: one row), then LayerNorm and dropout.
ValueIndex with_token_types(TapeBuilder& t, const LayerContext& context, ValueIndex x) {
  const ModelConfig& c = context.config;
  const std::string types = "embeddings.token_type_embeddings";
  t.enter(types);
  const ValueIndex ids = given(t, "token type ids", context.positions, DType::i64);
  const ValueIndex rows = embedding(t, ids, types + ".weight", c.hidden, "type embeddings");
  t.enter("embeddings");
  const ValueIndex sum = add_positions(t, x, rows);
  return norm(t, context, sum, "embeddings.LayerNorm", c.hidden, "embedding norm");
}

/// A block's residual stream around attention and mlp.
class Block {
 public:
  Block(TapeBuilder& t, const LayerContext& context, bool has_experts)
      : t_(t),
        context_(context),
        c_(context.config),
        names_(names_of(c_.family)),
        has_experts_(has_experts),
        residual_dropout_(context.dropout(c_.residual_dropout)) {}

  ValueIndex run(ValueIndex x) {
    switch (c_.residual) {
      case Residual::parallel: return parallel(x);
      case Residual::post_norm: return post_norm(x);
      case Residual::serial:
      case Residual::output_norm: break;
    }
    return serial(x);
  }

 private:
  ValueIndex normed(ValueIndex x, std::string_view module, const std::string& name) {
    t_.enter(module);
    return norm(t_, context_, x, std::string(module), c_.hidden, name);
  }

  ValueIndex attention(ValueIndex x) {
    t_.enter(names_.attention);
    return dropout(t_, attention_of_block(t_, context_, x, held_), residual_dropout_);
  }

  ValueIndex mlp(ValueIndex x) {
    t_.enter(names_.mlp);
    if (has_experts_) return mixture_of_experts(t_, context_, x);
    return dropout(t_, dense_mlp(t_, context_, x), residual_dropout_);
  }

  // DINOv2: times a weight of one row.
  ValueIndex scaled(ValueIndex x, const char* module) {
    if (!c_.layer_scale) return x;
    t_.enter(module);
    const ValueIndex weight = t_.parameter(std::string(module) + ".lambda1");
    const ValueIndex y = t_.make(t_.name(x) + ", scaled", t_.elements(x));
    t_.elementwise({x, weight}, {y});
    t_.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
      std::optional<ValueIndex> product;
      if (b.needs_gradient(weight)) {
        product = b.scratch("grad scale, unsummed", b.elements(x), b.compute());
        b.elementwise({*g[0], x}, {*product});
      }
      if (b.needs_gradient(x)) {
        const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x));
        b.elementwise({*g[0], weight}, {dx});
        b.give(x, dx);
      }
      if (product) column_sum(b, *product, weight);
    });
    return y;
  }

  // Granite: times a number before it is added.
  ValueIndex added(ValueIndex x, ValueIndex branch, const std::string& name,
                   std::vector<ValueIndex> holds = {}) {
    t_.enter("");
    if (!c_.scaled_residual) return add(t_, x, branch, name, std::move(holds));
    holds.push_back(branch);
    return add(t_, x, scale(t_, branch, t_.name(branch) + ", scaled"), name, std::move(holds));
  }

  ValueIndex serial(ValueIndex x) {
    const bool has_first = c_.residual != Residual::output_norm;
    const bool has_last = c_.sandwich_norms || !has_first;
    const ValueIndex normal = has_first ? normed(x, names_.first_norm, "attention norm") : x;
    ValueIndex attended = scaled(attention(normal), "layer_scale1");
    if (has_last) attended = normed(attended, names_.after_attention, "norm after attention");
    // Llama4TextDecoderLayer has a variable of its own for it.
    if (c_.family == ModelConfig::Family::llama4) held_.to_end.push_back(attended);
    const ValueIndex middle = added(x, attended, "residual", std::move(held_.to_residual));
    const std::string_view before_mlp = c_.sandwich_norms ? names_.before_mlp : names_.second_norm;
    const ValueIndex second = has_first ? normed(middle, before_mlp, "mlp norm") : middle;
    ValueIndex out = scaled(mlp(second), "layer_scale2");
    if (has_last) out = normed(out, names_.after_mlp, "norm after mlp");
    return added(middle, out, "hidden states", std::move(held_.to_end));
  }

  // GPTNeoXLayer, FalconDecoderLayer: mlp + attention + x.
  ValueIndex parallel(ValueIndex x) {
    const ValueIndex normal = normed(x, names_.first_norm, "attention norm");
    const ValueIndex second =
        c_.two_parallel_norms ? normed(x, names_.second_norm, "mlp norm") : normal;
    const ValueIndex attended = attention(normal);
    const ValueIndex out = mlp(second);
    t_.enter("");
    const ValueIndex both = add(t_, out, attended, "attention and mlp");
    // Falcon adds in place.
    if (c_.family != ModelConfig::Family::falcon)
      held_.to_end.insert(held_.to_end.end(), {out, attended});
    return add(t_, both, x, "hidden states", std::move(held_.to_end));
  }

  ValueIndex post_norm(ValueIndex x) {
    const ValueIndex attended = attention(x);
    const ValueIndex middle =
        normed(add(t_, attended, x, "residual"), names_.first_norm, "attention norm");
    const ValueIndex out = mlp(middle);
    return normed(add(t_, out, middle, "residual 2"), names_.second_norm, "hidden states");
  }

  TapeBuilder& t_;
  const LayerContext& context_;
  const ModelConfig& c_;
  const ModelNames& names_;
  bool has_experts_;
  double residual_dropout_;
  HeldLocals held_;
};

// Eager attention adds one, of each kind of layer that the class knows; SDPA takes a boolean one
// where it needs it.
std::vector<ValueIndex> masks(TapeBuilder& t, const LayerContext& context) {
  const ModelConfig& c = context.config;
  LayerContext windowed = context;
  windowed.windowed = c.window > 0;
  std::vector<ValueIndex> made;
  const auto make = [&](const char* name, std::int64_t rows, DType dtype) {
    t.enter("");
    made.push_back(t.make(name, times(rows, context.positions), dtype));
    t.elementwise({}, {made.back()});
  };
  if (is_masked(windowed)) make("causal mask", context.positions, DType::boolean);
  if (context.train.attention != Attention::eager || !c.causal) return made;
  make("causal mask", context.tokens, context.train.compute);
  if (c.window > 0 && !c.windowed.empty())
    make("causal mask with a window", context.tokens, context.train.compute);
  return made;
}

// Of the routed experts those that a token does not use.
IdleWeights idle_weights(const TapeBuilder& t, const ModelConfig& c, bool has_experts) {
  IdleWeights idle;
  if (!has_experts) return idle;
  for (const char* weight : {".gate_up_proj", ".down_proj"}) {
    const ValueIndex value = t.parameter(std::string(names_of(c.family).experts) + weight);
    const std::int64_t unused = c.experts.count - c.experts.active;
    (t.trains(value) ? idle.trained : idle.frozen) += t.elements(value) / c.experts.count * unused;
  }
  return idle;
}

// The transform of BertLMPredictionHead; the sentence head of BertForPreTraining is not run.
ValueIndex transformed(TapeBuilder& t, const LayerContext& context, ValueIndex x) {
  const ModelConfig& c = context.config;
  const std::string path = "cls.predictions.transform";
  t.enter(path);
  const ValueIndex dense =
      linear(t, x, linear_of(t, "transform", path + ".dense", c.hidden, c.hidden));
  const ValueIndex act = activated(t, context, dense, "transform gelu");
  return norm(t, context, act, path + ".LayerNorm", c.hidden, "transform norm");
}

}  // namespace

void add_tables(TapeBuilder& t, const LayerContext& context) {
  const ModelConfig& c = context.config;
  std::vector<ValueIndex> held;
  if (c.positions == ModelConfig::Positions::rotary) {
    // LlamaModel.forward makes the tables after the embedding; every block saves them.
    t.enter("rotary_emb");
    held = rotary_tables(t, context);
  }
  const std::vector<ValueIndex> made = masks(t, context);
  // Only checkpointed blocks keep them beyond the forward (as an argument).
  if (context.train.checkpointing != Checkpointing::none)
    held.insert(held.end(), made.begin(), made.end());
  if (reads_alibi(context)) {
    t.enter("");
    const ValueIndex bias =
        t.make("ALiBi bias", bytes_of_alibi(context) / size_of(context.train.compute),
               context.train.compute);
    t.elementwise({}, {bias}, 2);
    held.push_back(bias);
  }
  t.hold_until_backward_ends(held);
}

Tape embedding_tape(const LayerContext& context) {
  const ModelConfig& c = context.config;
  TapeBuilder t(context.train, false, context.path);
  t.add_parameters(embedding_parameters(c));
  const std::string table(names_of(c.family).embedding);
  t.enter(table);
  const ValueIndex ids = t.input("token ids", context.tokens, DType::i64, false);
  ValueIndex y = embedding(t, ids, table + ".weight", c.hidden, "hidden states");
  if (c.normed_embeddings) {
    t.enter(kEmbeddingNorm);
    y = norm(t, context, y, std::string(kEmbeddingNorm), c.hidden, "hidden states, normed");
  }
  if (c.scaled_embeddings) y = scale(t, y, "hidden states, scaled");
  if (c.positions == ModelConfig::Positions::learned) y = positions_added(t, context, y);
  if (c.token_types > 0) y = with_token_types(t, context, y);
  y = dropout(t, y, context.dropout(c.embedding_dropout));
  add_tables(t, context);
  return t.finish(y, false, 0);
}

Tape block_tape(const LayerContext& context, bool has_experts) {
  const ModelConfig& c = context.config;
  TapeBuilder t(context.train, true, context.path);
  std::int64_t layer = 0;
  while (c.has_experts(layer) != has_experts) ++layer;
  t.add_parameters(block_parameters(c, layer));
  const ValueIndex x = t.input("block input", times(context.tokens, c.hidden), t.stream(),
                               context.input_needs_gradient);
  const ValueIndex y = Block(t, context, has_experts).run(x);
  const std::int64_t flops = weight_flops(t, context, idle_weights(t, c, has_experts));
  return t.finish(y, true, flops + attention_flops(t, context));
}

Tape idle_block_tape(const LayerContext& context) {
  const ModelConfig& c = context.config;
  TapeBuilder t(context.train, true, context.path);
  t.add_parameters(block_parameters(c, 0), true);
  const ValueIndex x = t.input("block input", times(context.tokens, c.hidden), t.stream(),
                               context.input_needs_gradient);
  Block(t, context, false).run(x);
  Tape tape = t.finish(x, true, 0);
  tape.is_idle = true;
  return tape;
}

Tape head_tape(const LayerContext& context) {
  const ModelConfig& c = context.config;
  const ModelNames& names = names_of(c.family);
  TapeBuilder t(context.train, false, context.path);
  t.add_parameters(head_parameters(c));
  ValueIndex x = t.input("hidden states", times(context.tokens, c.hidden), t.stream(),
                         context.input_needs_gradient);
  if (c.residual != Residual::post_norm) {
    const std::string path = std::string(names.root) + "." + std::string(names.final_norm);
    t.enter(path);
    x = norm(t, context, x, path, c.hidden, "final norm");
  }
  ValueIndex loss = 0;
  if (c.head == ModelConfig::Head::language_model) {
    const std::string head(names.head);
    t.enter(head);
    loss = language_loss(t, context, x, linear_of(t, "logits", head, c.hidden, c.vocab));
  } else if (c.head == ModelConfig::Head::masked_language_model) {
    x = transformed(t, context, x);
    t.enter("cls.predictions");
    const ValueIndex logits = linear(t, x,
                                     {"logits",
                                      "cls.predictions.decoder.weight",
                                      "cls.predictions.bias",
                                      c.hidden,
                                      c.vocab,
                                      false,
                                      {}});
    t.enter(kLossScope);
    loss = token_loss(t, context, logits);
  } else {
    // BertPooler on each sequence's first token.
    const std::string path = std::string(names.root) + ".pooler.dense";
    t.enter(path);
    const ValueIndex first = slice(t, x, context.sequences * c.hidden, "first tokens");
    const ValueIndex rows = copy(t, first, "first tokens, contiguous", false);
    const ValueIndex dense = linear(t, rows, linear_of(t, "pooled", path, c.hidden, c.hidden));
    loss = mean_loss(t, activation(t, dense, "pooled tanh", 8, true));
    LayerContext of_pooled = context;
    of_pooled.tokens = context.sequences;
    return t.finish(loss, true, weight_flops(t, of_pooled));
  }
  return t.finish(loss, true, weight_flops(t, context));
}

}  // namespace foregather::plan
