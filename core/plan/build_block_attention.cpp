#include <utility>

#include "core/plan/build_attention.h"
#include "core/plan/build_ends.h"
#include "core/plan/build_families.h"
#include "core/plan/model_names.h"

namespace foregather::plan {

namespace {

// What the projections see as heads: the gradient of the rotary embedding comes back as
// [B, heads, S, head_dim], so the view of the projection copies it. torchtitan rotates in the
// projection's own layout, where nothing is copied.
ValueIndex heads_of(TapeBuilder& t, ValueIndex x, const std::string& name, bool copies) {
  return copies ? view_with_copied_gradient(t, x, name) : x;
}

/// Projections of one block.
class Projections {
 public:
  Projections(TapeBuilder& t, const LayerContext& context, ValueIndex x)
      : t_(t), context_(context), c_(context.config), names_(names_of(c_.family)), x_(x) {
    is_eager_ = context.train.attention == Attention::eager;
    copies_ = c_.positions == ModelConfig::Positions::rotary && !turns_complex(context);
  }

  Heads separate() {
    Heads heads;
    ValueIndex query = project("query", names_.query, c_.heads);
    if (c_.family == ModelConfig::Family::opt) query = scale(t_, query, "query, scaled");
    heads.query = heads_of(t_, head_norm(query, names_.query_norm, c_.heads, "query norm"),
                           "query heads", copies_ || is_eager_);
    const ValueIndex key = project("key", names_.key, c_.kv_heads);
    heads.key = heads_of(t_, head_norm(key, names_.key_norm, c_.kv_heads, "key norm"), "key heads",
                         copies_ || is_eager_);
    // Flash writes the value's gradient in the projection's layout; bmm does not.
    const ValueIndex value = project("value", names_.value, c_.kv_heads);
    heads.value = heads_of(t_, value, "value heads", is_eager_);
    return heads;
  }

  Heads fused() {
    const std::int64_t queries = context_.tokens * c_.heads * c_.head_dim;
    const std::int64_t keys = context_.tokens * c_.kv_heads * c_.head_dim;
    const ValueIndex all = linear(t_, x_,
                                  linear_of(t_, "query, key, value", std::string(names_.fused),
                                            c_.hidden, (c_.heads + 2 * c_.kv_heads) * c_.head_dim));
    if (c_.family == ModelConfig::Family::bloom) return selected(all, queries);
    const auto parts = split(t_, all, {{"query", queries}, {"key", keys}, {"value", keys}});
    Heads heads{parts[0], parts[1], parts[2], {}};
    heads.value = heads_of(t_, heads.value, "value heads", is_eager_);
    return heads;
  }

  // DeepseekV3Attention.forward.
  Heads latent() {
    const ModelConfig::Latent& l = c_.latent;
    const std::int64_t rows = context_.tokens;
    const std::int64_t plain = rows * c_.heads * l.plain_dim;
    const std::int64_t turned = rows * c_.heads * l.rotary_dim;
    const auto query =
        split(t_, latent_query(), {{"query, plain", plain}, {"query, turned", turned}});
    const ValueIndex compressed =
        linear(t_, x_,
               linear_of(t_, "compressed keys and values", "self_attn.kv_a_proj_with_mqa",
                         c_.hidden, l.kv_rank + l.rotary_dim));
    const auto low =
        split(t_, compressed, {{"latent", rows * l.kv_rank}, {"key, turned", rows * l.rotary_dim}});
    const ValueIndex latent =
        norm(t_, context_, low[0], "self_attn.kv_a_layernorm", l.kv_rank, "latent norm");
    const ValueIndex wide = linear(t_, latent,
                                   linear_of(t_, "keys and values", "self_attn.kv_b_proj",
                                             l.kv_rank, c_.heads * (l.plain_dim + l.value_dim)));
    const auto high =
        split(t_, wide, {{"key, plain", plain}, {"value", rows * c_.heads * l.value_dim}});
    // apply_rotary_pos_emb_interleave: pairs side by side are first moved to halves.
    const ValueIndex query_rows = copy(t_, query[1], "query pairs", true);
    const ValueIndex key_rows = copy(t_, low[1], "key pairs", true);
    const ValueIndex query_turned = rotate(t_, context_, query_rows, "query");
    const ValueIndex key_turned = spread(rotate(t_, context_, key_rows, "key"));
    Heads heads;
    heads.query = concatenate(t_, {query[0], query_turned}, "query with positions");
    heads.key = concatenate(t_, {high[0], key_turned}, "key with positions");
    heads.value = heads_of(t_, high[1], "value heads", true);
    heads.locals = {query[0], query_turned, compressed, latent, key_turned};
    return heads;
  }

 private:
  // BloomAttention._reshape; eager attention copies each to lie by heads.
  Heads selected(ValueIndex all, std::int64_t each) {
    std::vector<ValueIndex> parts;
    for (const char* name : {"query", "key", "value"}) parts.push_back(slice(t_, all, each, name));
    if (is_eager_)
      for (ValueIndex& part : parts) part = copy(t_, part, t_.name(part) + " by head", false);
    return {parts[0], parts[1], parts[2], {all}};
  }

  ValueIndex project(const char* name, std::string_view module, std::int64_t heads) {
    return linear(t_, x_, linear_of(t_, name, std::string(module), c_.hidden, heads * c_.head_dim));
  }

  // Qwen3, Gemma 3: one weight for all heads; StableLM, Cohere: one a head; OLMo 2: one norm.
  ValueIndex head_norm(ValueIndex x, std::string_view module, std::int64_t heads,
                       const std::string& name) {
    if (!c_.qk_norm) return x;
    const std::int64_t width = c_.head_dim * (c_.norm_all_heads ? heads : 1);
    return norm(t_, context_, x, std::string(module), width, name);
  }

  ValueIndex latent_query() {
    const std::int64_t out = c_.heads * c_.query_dim();
    const ModelConfig::Latent& l = c_.latent;
    if (l.query_rank == 0)
      return linear(t_, x_, linear_of(t_, "query", std::string(names_.query), c_.hidden, out));
    const ValueIndex low = linear(
        t_, x_, linear_of(t_, "compressed query", "self_attn.q_a_proj", c_.hidden, l.query_rank));
    const ValueIndex normal =
        norm(t_, context_, low, "self_attn.q_a_layernorm", l.query_rank, "compressed query norm");
    return linear(t_, normal, linear_of(t_, "query", "self_attn.q_b_proj", l.query_rank, out));
  }

  // expand() to all heads; ExpandBackward sums over them. The copy is the concatenation's.
  ValueIndex spread(ValueIndex x) {
    const ValueIndex y = t_.view("key, turned, of all heads", x, t_.elements(x) * c_.heads);
    t_.node({y}, [x](TapeBuilder& b, TapeBuilder::Gradients g) {
      const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
      OpSpec sum;
      sum.kind = OpKind::reduction;
      sum.reads = {*g[0]};
      sum.writes = {dx};
      sum.flops = b.elements(*g[0]);
      b.op(std::move(sum));
      b.give(x, dx);
    });
    return y;
  }

  TapeBuilder& t_;
  const LayerContext& context_;
  const ModelConfig& c_;
  const ModelNames& names_;
  ValueIndex x_;
  bool is_eager_ = false;
  bool copies_ = false;
};

// modeling_ministral3.py, get_llama_4_attn_scale; modeling_llama4.py, Llama4TextAttention.forward,
// whose numbers stay fp32: one a position, made by each block.
ValueIndex scaled_by_position(TapeBuilder& t, const LayerContext& context, ValueIndex query) {
  const bool is_llama4 = context.config.family == ModelConfig::Family::llama4;
  const DType type = is_llama4 ? DType::f32 : t.compute();
  const ValueIndex numbers = t.make("scale of positions", context.positions, type);
  OpSpec make;
  make.writes = {numbers};
  make.kernels = is_llama4 ? 8 : type == DType::f32 ? 6 : 7;
  make.host_ops = make.kernels;
  make.flops = 6 * context.positions;
  t.op(std::move(make));
  const DType wide = is_llama4 ? DType::f32 : t.dtype(query);
  const ValueIndex y = t.make("query, scaled by position", t.elements(query), wide);
  t.elementwise({query, numbers}, {y});
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(query), b.elements(query), wide);
    b.elementwise({*g[0], numbers}, {dx});
    b.give(query, narrowed(b, dx, query));
  });
  return cast(t, y, t.dtype(query), "query, scaled by position, narrow");
}

// Llama4TextL2Norm of both.
void norm_turned(TapeBuilder& t, const ModelConfig& c, Heads& heads) {
  heads.query = bare_rms_norm(t, heads.query, c.head_dim, "query norm");
  heads.key = bare_rms_norm(t, heads.key, c.head_dim, "key norm");
}

}  // namespace

LinearSpec linear_of(const TapeBuilder& t, const std::string& name, const std::string& module,
                     std::int64_t in, std::int64_t out, std::vector<ValueIndex> holds) {
  const std::string bias = module + ".bias";
  return {name,  module + ".weight", t.has_parameter(bias) ? bias : "", in, out,
          false, std::move(holds)};
}

ValueIndex attention_of_block(TapeBuilder& t, const LayerContext& context, ValueIndex x,
                              HeldLocals& held) {
  const ModelConfig& c = context.config;
  Projections projections(t, context, x);
  Heads heads;
  if (c.latent.kv_rank > 0) {
    heads = projections.latent();
  } else {
    heads = c.fused_qkv ? projections.fused() : projections.separate();
    const bool rotates = c.positions == ModelConfig::Positions::rotary;
    if (rotates) apply_rotary(t, context, heads);
    if (rotates && c.turned_qk_norm) norm_turned(t, c, heads);
    if (c.scaled_queries && (!rotates || c.family != ModelConfig::Family::llama4))
      heads.query = scaled_by_position(t, context, heads.query);
  }
  if (context.train.held_outputs == HeldOutputs::cache && c.causal)
    t.return_beside_output({heads.key, heads.value});
  // Llama computes the softmax in fp32, as do OPT and MPT; GPT-like models, encoders, Falcon,
  // GPT-OSS and Llama 4 as it comes.
  using Family = ModelConfig::Family;
  const bool softmax_in_f32 =
      !c.sinks && c.family != Family::falcon && c.family != Family::llama4 &&
      (c.norm != ModelConfig::Norm::layer || c.positions == ModelConfig::Positions::rotary ||
       c.family == Family::opt || c.family == Family::mpt || c.family == Family::bloom);
  AttentionLocals locals;
  const ValueIndex out = attend(t, context, heads, {softmax_in_f32}, locals);
  locals.in_attention.push_back(x);
  locals.in_attention.insert(locals.in_attention.end(), heads.locals.begin(), heads.locals.end());
  held = {std::move(locals.in_block), std::move(locals.to_residual)};
  return linear(t, out,
                linear_of(t, "attention out", std::string(names_of(c.family).out),
                          c.heads * c.value_dim(), c.hidden, std::move(locals.in_attention)));
}

}  // namespace foregather::plan
