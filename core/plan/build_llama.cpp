#include <utility>

#include "core/plan/build_attention.h"
#include "core/plan/build_ends.h"
#include "core/plan/build_families.h"

namespace foregather::plan {

namespace {

constexpr const char* kTie = "embedding";

Tape embedding_tape(const LayerContext& context) {
  const ModelConfig& c = context.config;
  TapeBuilder t(context.train.compute, false);
  t.enter("embed_tokens");
  t.add_parameter("embed_tokens.weight", {c.vocab, c.hidden}, c.tied_embeddings ? kTie : "");
  const ValueIndex ids = t.input("token ids", context.tokens, DType::i64);
  const ValueIndex y = embedding(t, ids, "embed_tokens.weight", c.hidden, "hidden states");
  // LlamaModel.forward makes the tables after the embedding; every block saves them.
  t.enter("rotary_emb");
  std::vector<ValueIndex> held = rotary_tables(t, context);
  if (context.train.attention == Attention::eager) {
    t.enter("");
    const ValueIndex mask =
        t.make("causal mask", times(context.tokens, context.positions), context.train.compute);
    t.elementwise({}, {mask});
    // Only checkpointed blocks keep it beyond the forward (as an argument).
    if (context.train.checkpointing != Checkpointing::none) held.push_back(mask);
  }
  t.hold_until_backward_ends(std::move(held));
  return t.finish(y, false, 0);
}

// What the projections see as heads: the gradient of the rotary embedding comes back as
// [B, heads, S, head_dim], so the view of the projection copies it. torchtitan rotates in the
// projection's own layout, where nothing is copied.
ValueIndex heads_of(TapeBuilder& t, ValueIndex x, const std::string& name, bool copies) {
  return copies ? view_with_copied_gradient(t, x, name) : x;
}

ValueIndex attention_of_block(TapeBuilder& t, const LayerContext& context, ValueIndex x,
                              AttentionLocals& locals) {
  const ModelConfig& c = context.config;
  const auto bias = [](bool has, const char* name) {
    return has ? std::string("self_attn.") + name + ".bias" : std::string();
  };
  const auto project = [&](const char* name, const char* weight, std::int64_t heads) {
    return linear(t, x,
                  {name,
                   std::string("self_attn.") + weight + ".weight",
                   bias(c.qkv_bias, weight),
                   c.hidden,
                   heads * c.head_dim,
                   false,
                   {}});
  };
  const bool is_eager = context.train.attention == Attention::eager;
  const bool copies = context.implementation.rotary == Implementation::Rotary::real;
  Heads heads;
  ValueIndex query = project("query", "q_proj", c.heads);
  if (c.qk_norm)
    query = rms_norm(t, context.implementation, query, "self_attn.q_norm.weight", c.head_dim,
                     "query norm");
  heads.query = heads_of(t, query, "query heads", copies);
  ValueIndex key = project("key", "k_proj", c.kv_heads);
  if (c.qk_norm)
    key =
        rms_norm(t, context.implementation, key, "self_attn.k_norm.weight", c.head_dim, "key norm");
  heads.key = heads_of(t, key, "key heads", copies);
  // Flash writes the value's gradient in the projection's layout; bmm does not.
  const ValueIndex value = project("value", "v_proj", c.kv_heads);
  heads.value = heads_of(t, value, "value heads", is_eager);
  apply_rotary(t, context, heads);
  const ValueIndex out = attend(t, context, heads, {true}, locals);
  locals.in_attention.push_back(x);
  return linear(t, out,
                {"attention out", "self_attn.o_proj.weight", bias(c.output_bias, "o_proj"),
                 c.heads * c.head_dim, c.hidden, false, locals.in_attention});
}

// In the order in which LlamaDecoderLayer registers them.
void add_block_parameters(TapeBuilder& t, const ModelConfig& c) {
  const auto projection = [&](const std::string& name, std::int64_t out, std::int64_t in,
                              bool biased) {
    t.add_parameter(name + ".weight", {out, in});
    if (biased) t.add_parameter(name + ".bias", {out});
  };
  const std::int64_t queries = c.heads * c.head_dim;
  const std::int64_t keys = c.kv_heads * c.head_dim;
  projection("self_attn.q_proj", queries, c.hidden, c.qkv_bias);
  projection("self_attn.k_proj", keys, c.hidden, c.qkv_bias);
  projection("self_attn.v_proj", keys, c.hidden, c.qkv_bias);
  projection("self_attn.o_proj", c.hidden, queries, c.output_bias);
  if (c.qk_norm) {
    t.add_parameter("self_attn.q_norm.weight", {c.head_dim});
    t.add_parameter("self_attn.k_norm.weight", {c.head_dim});
  }
  projection("mlp.gate_proj", c.intermediate, c.hidden, c.mlp_bias);
  projection("mlp.up_proj", c.intermediate, c.hidden, c.mlp_bias);
  projection("mlp.down_proj", c.hidden, c.intermediate, c.mlp_bias);
  t.add_parameter("input_layernorm.weight", {c.hidden});
  t.add_parameter("post_attention_layernorm.weight", {c.hidden});
}

Tape block_tape(const LayerContext& context) {
  const ModelConfig& c = context.config;
  TapeBuilder t(context.train.compute, true);
  add_block_parameters(t, c);
  const ValueIndex x =
      t.input("block input", times(context.tokens, c.hidden), context.train.compute);
  t.enter("input_layernorm");
  const ValueIndex normal =
      rms_norm(t, context.implementation, x, "input_layernorm.weight", c.hidden, "attention norm");
  t.enter("self_attn");
  AttentionLocals locals;
  const ValueIndex attention = attention_of_block(t, context, normal, locals);
  t.enter("");
  const ValueIndex middle = add(t, x, attention, "residual");
  t.enter("post_attention_layernorm");
  const ValueIndex second = rms_norm(t, context.implementation, middle,
                                     "post_attention_layernorm.weight", c.hidden, "mlp norm");
  t.enter("mlp");
  const ValueIndex out = swiglu(t, c, second);
  t.enter("");
  const ValueIndex y = add(t, middle, out, "hidden states", std::move(locals.in_block));
  return t.finish(y, true,
                  weight_flops(t.parameter_elements(), context) + attention_flops(context));
}

Tape head_tape(const LayerContext& context) {
  const ModelConfig& c = context.config;
  TapeBuilder t(context.train.compute, false);
  t.add_parameter("model.norm.weight", {c.hidden});
  t.add_parameter("lm_head.weight", {c.vocab, c.hidden}, c.tied_embeddings ? kTie : "");
  const ValueIndex x =
      t.input("hidden states", times(context.tokens, c.hidden), context.train.compute);
  t.enter("model.norm");
  const ValueIndex normal =
      rms_norm(t, context.implementation, x, "model.norm.weight", c.hidden, "final norm");
  t.enter("lm_head");
  const ValueIndex logits =
      linear(t, normal, {"logits", "lm_head.weight", "", c.hidden, c.vocab, false, {}});
  t.enter("loss");
  const ValueIndex loss = causal_lm_loss(t, context, logits);
  return t.finish(loss, true, weight_flops(t.parameter_elements(), context));
}

}  // namespace

FamilyTapes llama_tapes(const LayerContext& context) {
  return {embedding_tape(context), block_tape(context), head_tape(context)};
}

}  // namespace foregather::plan
