#include <utility>

#include "core/plan/build_attention.h"
#include "core/plan/build_ends.h"
#include "core/plan/build_families.h"
#include "core/plan/build_loss.h"
#include "core/plan/model_parameters.h"

namespace foregather::plan {

namespace {}  // namespace

Tape gpt2_embedding_tape(const LayerContext& context) {
  const ModelConfig& c = context.config;
  TapeBuilder t(context.train, false, context.path);
  t.add_parameter("wte.weight", {c.vocab, c.hidden}, c.tied_embeddings ? kEmbeddingTie : "");
  t.add_parameter("wpe.weight", {c.max_positions, c.hidden});
  const ValueIndex ids = t.input("token ids", context.tokens, DType::i64, false);
  t.enter("wte");
  const ValueIndex tokens = embedding(t, ids, "wte.weight", c.hidden, "token embeddings");
  t.enter("wpe");
  const ValueIndex places = t.make("position ids", context.positions, DType::i64);
  OpSpec arange;
  arange.kind = OpKind::fill;
  arange.writes = {places};
  t.op(std::move(arange));
  const ValueIndex positions = embedding(t, places, "wpe.weight", c.hidden, "position embeddings");
  t.enter("");
  ValueIndex y = add_positions(t, tokens, positions);
  if (context.train.attention == Attention::eager) {
    const ValueIndex mask =
        t.make("causal mask", times(context.tokens, context.positions), context.train.compute);
    t.elementwise({}, {mask});
    // Only checkpointed blocks keep it beyond the forward (as an argument).
    if (context.train.checkpointing != Checkpointing::none) t.hold_until_backward_ends({mask});
  }
  t.enter("drop");
  y = dropout(t, y, context.dropout(c.embedding_dropout));
  return t.finish(y, false, 0);
}

namespace {

// c_attn's output split into three views. SplitBackward concatenates their gradients.
Heads split_heads(TapeBuilder& t, const LayerContext& context, ValueIndex fused) {
  const std::int64_t each = t.elements(fused) / 3;
  const std::vector<ValueIndex> parts =
      split(t, fused, {{"query", each}, {"key", each}, {"value", each}});
  const ValueIndex query = parts[0];
  const ValueIndex key = parts[1];
  const ValueIndex value = parts[2];
  if (context.train.attention != Attention::eager) return {query, key, value, {}};
  // Seen as heads in this order: key, value, query. bmm leaves the key's gradient transposed in a
  // way that merges into rows; the other two are copied.
  Heads heads;
  heads.key = key;
  heads.value = view_with_copied_gradient(t, value, "value heads");
  heads.query = view_with_copied_gradient(t, query, "query heads");
  return heads;
}

LinearSpec projection(const LayerContext& context, const std::string& name,
                      const std::string& module, std::int64_t in, std::int64_t out) {
  return {name, module + ".weight", module + ".bias", in, out, context.implementation.conv1d, {}};
}

void add_block_parameters(TapeBuilder& t, const LayerContext& context) {
  const ModelConfig& c = context.config;
  const auto norm = [&](const std::string& name) {
    t.add_parameter(name + ".weight", {c.hidden});
    t.add_parameter(name + ".bias", {c.hidden});
  };
  const auto conv1d = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    if (context.implementation.conv1d)
      t.add_parameter(name + ".weight", {in, out}, "", true);
    else
      t.add_parameter(name + ".weight", {out, in});
    t.add_parameter(name + ".bias", {out});
  };
  norm("ln_1");
  conv1d("attn.c_attn", c.hidden, 3 * c.hidden);
  conv1d("attn.c_proj", c.hidden, c.hidden);
  norm("ln_2");
  conv1d("mlp.c_fc", c.hidden, c.intermediate);
  conv1d("mlp.c_proj", c.intermediate, c.hidden);
}

}  // namespace

Tape gpt2_block_tape(const LayerContext& context) {
  const ModelConfig& c = context.config;
  const double residual_dropout = context.dropout(c.residual_dropout);
  TapeBuilder t(context.train, true, context.path);
  add_block_parameters(t, context);
  const ValueIndex x = t.input("block input", times(context.tokens, c.hidden), t.stream(),
                               context.input_needs_gradient);
  t.enter("ln_1");
  const ValueIndex normal = layer_norm(t, x, "ln_1", c.hidden, "attention norm");
  t.enter("attn");
  const ValueIndex fused = linear(
      t, normal, projection(context, "query, key, value", "attn.c_attn", c.hidden, 3 * c.hidden));
  AttentionLocals locals;
  const ValueIndex attended = attend(t, context, split_heads(t, context, fused), {false}, locals);
  LinearSpec out = projection(context, "attention out", "attn.c_proj", c.hidden, c.hidden);
  locals.in_attention.push_back(normal);
  out.holds = std::move(locals.in_attention);
  const ValueIndex attention = dropout(t, linear(t, attended, out), residual_dropout);
  t.enter("");
  const ValueIndex middle = add(t, attention, x, "residual");
  t.enter("ln_2");
  const ValueIndex second = layer_norm(t, middle, "ln_2", c.hidden, "mlp norm");
  t.enter("mlp");
  const ValueIndex wide =
      linear(t, second, projection(context, "mlp in", "mlp.c_fc", c.hidden, c.intermediate));
  LinearSpec down = projection(context, "mlp out", "mlp.c_proj", c.intermediate, c.hidden);
  down.holds = {second};
  const ValueIndex mlp = dropout(t, linear(t, gelu(t, c.fused_gelu, wide), down), residual_dropout);
  t.enter("");
  // GPT2Block.forward keeps the attention's output in a variable until it returns.
  locals.in_block.push_back(attention);
  const ValueIndex y = add(t, middle, mlp, "hidden states", std::move(locals.in_block));
  return t.finish(y, true, weight_flops(t, context) + attention_flops(t, context));
}

Tape gpt2_head_tape(const LayerContext& context) {
  const ModelConfig& c = context.config;
  TapeBuilder t(context.train, false, context.path);
  t.add_parameter("transformer.ln_f.weight", {c.hidden});
  t.add_parameter("transformer.ln_f.bias", {c.hidden});
  t.add_parameter("lm_head.weight", {c.vocab, c.hidden}, c.tied_embeddings ? kEmbeddingTie : "");
  const ValueIndex x = t.input("hidden states", times(context.tokens, c.hidden), t.stream(),
                               context.input_needs_gradient);
  t.enter("transformer.ln_f");
  const ValueIndex normal = layer_norm(t, x, "transformer.ln_f", c.hidden, "final norm");
  t.enter("lm_head");
  const ValueIndex loss = language_loss(
      t, context, normal, {"logits", "lm_head.weight", "", c.hidden, c.vocab, false, {}});
  return t.finish(loss, true, weight_flops(t, context));
}

}  // namespace foregather::plan
