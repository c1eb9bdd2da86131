#include "core/plan/build_attention.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/plan/build_ends.h"
#include "core/plan/build_sinks.h"
#include "core/plan/model_names.h"

namespace foregather::plan {

namespace {

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct AttentionSize {
  std::int64_t batch_heads = 0;  // B · heads
  std::int64_t positions = 0;
  std::int64_t head_dim = 0;  // of query and key
  std::int64_t value_dim = 0;
  std::int64_t keys = 0;   // that a query sees at most
  bool skips_half = true;  // under the causal mask
  bool in_chunks = false;  // of `keys` positions
  Bytes bias_bytes = 0;    // of an additive bias that the kernel reads

  // Twice: a window of W under the causal mask has S·W - W²/2, each chunk of W has W²/2.
  std::int64_t pairs() const {
    if (!skips_half) return times(keys, 2 * positions);
    if (!in_chunks) return times(keys, 2 * positions - keys);
    const std::int64_t rest = positions % keys;
    return times(positions - rest, keys) + times(rest, rest);
  }
  std::int64_t flops(std::int64_t width) const { return times(times(batch_heads, pairs()), width); }
  // Two matmuls over the pairs of positions a head; five in backward.
  std::int64_t forward_flops() const { return flops(head_dim + value_dim); }
  std::int64_t backward_flops() const { return flops(3 * head_dim + 2 * value_dim); }
};

AttentionSize size_of_attention(const LayerContext& context) {
  const ModelConfig& c = context.config;
  AttentionSize size{times(context.sequences, c.heads), context.positions, c.query_dim(),
                     c.value_dim()};
  size.keys = context.positions;
  if (reads_alibi(context)) size.bias_bytes = bytes_of_alibi(context);
  size.skips_half = c.causal && size.bias_bytes == 0 && !is_masked(context);
  // PhimoeAttention does not tell FlashAttention of its window.
  if (context.windowed && size.skips_half && context.train.attention == Attention::flash &&
      c.family != ModelConfig::Family::phimoe)
    size.keys = std::min(c.window, context.positions);
  size.in_chunks = c.in_chunks;
  return size;
}

OpSpec attention_op(const AttentionSize& size) {
  OpSpec spec;
  spec.kind = OpKind::attention;
  spec.m = size.positions;
  spec.n = size.keys;
  spec.k = size.head_dim;
  spec.batch = size.batch_heads;
  return spec;
}

// What the operands add up to, and the bias.
void read_bias(const TapeBuilder& t, const AttentionSize& size, OpSpec& spec) {
  if (size.bias_bytes == 0) return;
  Bytes bytes = size.bias_bytes;
  for (const ValueIndex value : spec.reads) bytes += t.size(value);
  spec.bytes_read = bytes;
}

void sum_groups(TapeBuilder& b, ValueIndex expanded, ValueIndex sum,
                std::vector<ValueIndex> holds = {}) {
  OpSpec spec;
  spec.kind = OpKind::reduction;
  spec.reads = {expanded};
  spec.writes = {sum};
  spec.holds = std::move(holds);
  spec.flops = b.elements(expanded);
  b.op(std::move(spec));
}

struct Saved {
  Heads heads;
  std::optional<ValueIndex> mask;
  ValueIndex out = 0;
  ValueIndex logsumexp = 0;
  std::vector<ValueIndex> random_state;
};

// mha_bwd of flash_api.cpp: what it allocates, in its order.
void flash_backward(TapeBuilder& b, const AttentionSize& size, const Saved& saved,
                    ValueIndex dout) {
  const auto like = [&b](ValueIndex x) {
    return b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
  };
  const Heads& h = saved.heads;
  const ValueIndex dq = like(h.query);
  const ValueIndex dk = like(h.key);
  const ValueIndex dv = like(h.value);
  const std::int64_t rows = times(size.batch_heads, round_up(size.positions, 128));
  const std::int64_t width = round_up(size.head_dim, size.head_dim <= 128 ? 32 : 64);
  const ValueIndex row_sums = b.scratch("softmax_d", rows, DType::f32);
  const ValueIndex accumulator = b.scratch("dq_accum", times(rows, width), DType::f32);
  OpSpec spec = attention_op(size);
  spec.reads = {dout, h.query, h.key, h.value, saved.out, saved.logsumexp};
  for (const ValueIndex state : saved.random_state) spec.reads.push_back(state);
  spec.writes = {dq, dk, dv, row_sums, accumulator};
  spec.flops = size.backward_flops();
  spec.kernels = 3;  // dO·O row sums, the gradients, dq to its dtype
  const bool grouped = b.elements(h.key) != b.elements(h.query);
  ValueIndex expanded_k = dk;
  ValueIndex expanded_v = dv;
  if (grouped) {
    expanded_k = b.scratch("dk_expanded", b.elements(h.query), b.dtype(dk));
    expanded_v = b.scratch("dv_expanded", b.elements(h.query), b.dtype(dv));
    spec.writes.push_back(expanded_k);
    spec.writes.push_back(expanded_v);
  }
  b.op(std::move(spec));
  if (grouped) {
    sum_groups(b, expanded_k, dk);
    sum_groups(b, expanded_v, dv, {expanded_k, row_sums, accumulator});
  }
  b.give(h.query, dq);
  b.give(h.key, dk);
  b.give(h.value, dv);
}

// Memory-efficient attention: no rounding, no fp32 accumulators for fp32 inputs.
void efficient_backward(TapeBuilder& b, const AttentionSize& size, const Saved& saved,
                        ValueIndex dout) {
  const auto like = [&b](ValueIndex x) {
    return b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
  };
  const Heads& h = saved.heads;
  const ValueIndex dq = like(h.query);
  const ValueIndex dk = like(h.key);
  const ValueIndex dv = like(h.value);
  OpSpec spec = attention_op(size);
  spec.reads = {dout, h.query, h.key, h.value, saved.out, saved.logsumexp};
  if (saved.mask) spec.reads.push_back(*saved.mask);
  for (const ValueIndex state : saved.random_state) spec.reads.push_back(state);
  spec.writes = {dq, dk, dv,
                 b.scratch("delta", times(size.batch_heads, size.positions), DType::f32)};
  spec.flops = size.backward_flops();
  spec.kernels = 2;
  read_bias(b, size, spec);
  b.op(std::move(spec));
  b.give(h.query, dq);
  b.give(h.key, dk);
  b.give(h.value, dv);
}

// convert_boolean_attn_mask of ATen's transformers/attention.cpp: where(mask, 0, -inf), for each
// call anew. The mask has one row for all sequences, what comes of it one for each.
ValueIndex additive_mask(TapeBuilder& t, const LayerContext& context) {
  const std::int64_t square = times(context.positions, context.positions);
  const ValueIndex y = t.make("attention mask", times(context.sequences, square));
  OpSpec spec;
  spec.writes = {y};
  spec.flops = t.elements(y);
  spec.bytes_read = square;
  spec.kernels = 2;  // with the fill of a scalar
  spec.host_ops = 3;
  t.op(std::move(spec));
  return y;
}

// Else memory-efficient attention runs, or cuDNN's under a mask.
bool runs_flash(const TapeBuilder& t, const LayerContext& context) {
  const ModelConfig& c = context.config;
  return context.implementation.flash_attention && t.compute() != DType::f32 &&
         !reads_alibi(context) && !is_masked(context) && c.query_dim() == c.value_dim();
}

ValueIndex fused_attention(TapeBuilder& t, const LayerContext& context, const Heads& heads) {
  const AttentionSize size = size_of_attention(context);
  const bool is_flash = runs_flash(t, context);
  const std::int64_t rows =
      times(size.batch_heads, is_flash ? size.positions : round_up(size.positions, 32));
  Saved saved;
  saved.heads = heads;
  if (is_masked(context)) saved.mask = additive_mask(t, context);
  saved.out = t.make("attention", times(context.tokens, context.config.heads * size.value_dim));
  saved.logsumexp = t.make("attention logsumexp", rows, DType::f32);
  // Allocated also without dropout ("BC breaking change to flash seed/offset" in flash_api.cpp).
  saved.random_state = {t.make("attention seed", is_flash ? 2 : 1, DType::i64),
                        t.make("attention offset", 1, DType::i64)};
  OpSpec spec = attention_op(size);
  spec.reads = {heads.query, heads.key, heads.value};
  if (saved.mask) spec.reads.push_back(*saved.mask);
  spec.writes = {saved.out, saved.logsumexp};
  for (const ValueIndex state : saved.random_state) spec.writes.push_back(state);
  spec.flops = size.forward_flops();
  spec.keep_under_selective = true;  // torchtitan's list names both SDPA kernels
  spec.host_ops = 2;
  read_bias(t, size, spec);
  if (context.config.sinks) spec.reads.push_back(t.parameter(kSinks));
  t.op(std::move(spec));
  t.node({saved.out}, [=, sinks = context.config.sinks](TapeBuilder& b, TapeBuilder::Gradients g) {
    if (sinks) sink_gradient(b, saved.logsumexp);
    if (is_flash)
      flash_backward(b, size, saved, *g[0]);
    else
      efficient_backward(b, size, saved, *g[0]);
  });
  return saved.out;
}

/// torch.cat of what is turned and the rest lays a query out by heads: where a part of each head is
/// turned, and in LitGPT's Llama, GPT-NeoX and Phi-3 also where all of it is.
bool is_query_by_heads(const ModelConfig& config) {
  using Family = ModelConfig::Family;
  if (config.latent.kv_rank > 0) return false;
  if (config.family == Family::phi3) return true;
  if (config.fused_qkv && (config.family == Family::llama || config.family == Family::gpt_neox))
    return true;
  return config.positions == ModelConfig::Positions::rotary &&
         rotary_width(config) < config.head_dim;
}

// --- eager attention ---

// repeat_kv: expand and reshape copy; the backward sums over the copies.
ValueIndex repeat_kv(TapeBuilder& t, const LayerContext& context, ValueIndex x) {
  const std::int64_t groups = context.config.heads / context.config.kv_heads;
  const ValueIndex y = t.make(t.name(x) + " repeated", t.elements(x) * groups, t.dtype(x));
  OpSpec spec;
  spec.kind = OpKind::copy;
  spec.reads = {x};
  spec.writes = {y};
  spec.is_strided = true;
  t.op(std::move(spec));
  t.node({y}, [x](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    sum_groups(b, *g[0], dx);
    b.give(x, dx);
  });
  return y;
}

// a·b a head. BmmBackward yields the gradient of the second factor first.
ValueIndex batched_matmul(TapeBuilder& t, std::int64_t batch, std::int64_t m, std::int64_t n,
                          std::int64_t k, ValueIndex a, ValueIndex b, const std::string& name) {
  const ValueIndex y = t.make(name, times(times(batch, m), n));
  t.gemm({a, b}, y, batch, m, n, k);
  t.node({y}, [=](TapeBuilder& back, TapeBuilder::Gradients g) {
    const ValueIndex db = back.make("grad " + back.name(b), back.elements(b));
    back.gemm({a, *g[0]}, db, batch, k, n, m);
    const ValueIndex da = back.make("grad " + back.name(a), back.elements(a));
    back.gemm({*g[0], b}, da, batch, m, k, n);
    back.give(a, da);
    back.give(b, db);
  });
  return y;
}

// BloomAttention.forward: baddbmm on one row of ALiBi a head.
ValueIndex scores_on_alibi(TapeBuilder& t, const AttentionSize& size, ValueIndex query,
                           ValueIndex key) {
  const std::int64_t s = size.positions;
  const ValueIndex y = t.make("attention scores", times(times(size.batch_heads, s), s));
  OpSpec spread;
  spread.kind = OpKind::copy;
  spread.writes = {y};
  t.op(std::move(spread));
  t.gemm({query, key}, y, size.batch_heads, s, s, size.head_dim);
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const auto gradient = [&](ValueIndex x, ValueIndex other, std::int64_t m, std::int64_t n) {
      const ValueIndex product =
          b.scratch("grad " + b.name(x) + ", unscaled", b.elements(x), b.compute());
      b.gemm({*g[0], other}, product, size.batch_heads, m, n, s);
      const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x));
      b.elementwise({product}, {dx});
      return dx;
    };
    const ValueIndex dq = gradient(query, key, s, size.head_dim);
    const ValueIndex dk = gradient(key, query, size.head_dim, s);
    b.give(query, dq);
    b.give(key, dk);
  });
  return y;
}

ValueIndex add_mask(TapeBuilder& t, const LayerContext& context, ValueIndex scores) {
  const ValueIndex y = t.make("attention scores, masked", t.elements(scores), t.dtype(scores));
  OpSpec spec;
  spec.reads = {scores};
  spec.writes = {y};
  spec.flops = t.elements(scores);
  spec.bytes_read =
      t.size(scores) + times(context.tokens, context.positions) * size_of(t.dtype(scores));
  t.op(std::move(spec));
  t.node({y}, [scores](TapeBuilder& b, TapeBuilder::Gradients g) { b.give(scores, *g[0]); });
  return y;
}

ValueIndex softmax(TapeBuilder& t, ValueIndex x, std::vector<ValueIndex> holds) {
  const ValueIndex y = t.make("attention weights", t.elements(x), t.dtype(x));
  OpSpec spec;
  spec.kind = OpKind::softmax;
  spec.reads = {x};
  spec.writes = {y};
  spec.flops = times(5, t.elements(x));
  spec.holds = std::move(holds);
  t.op(std::move(spec));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    OpSpec back;
    back.kind = OpKind::softmax;
    back.reads = {*g[0], y};
    back.writes = {dx};
    back.flops = times(4, b.elements(x));
    b.op(std::move(back));
    b.give(x, dx);
  });
  return y;
}

// eager_attention_forward of transformers/models/{llama,gpt2}/modeling_*.py. Query, and keys and
// values that were not repeated, are strided views that matmul copies.
ValueIndex eager_attention(TapeBuilder& t, const LayerContext& context, const Heads& heads,
                           const EagerStyle& style, AttentionLocals& locals) {
  const AttentionSize size = size_of_attention(context);
  const bool repeated = context.config.kv_heads != context.config.heads;
  ValueIndex key = heads.key;
  ValueIndex value = heads.value;
  std::vector<ValueIndex> variables;  // of eager_attention_forward
  if (repeated) {
    key = repeat_kv(t, context, key);
    value = repeat_kv(t, context, value);
    variables = {key, value};
  }
  const bool is_bloom = context.config.family == ModelConfig::Family::bloom;
  const bool copies = !repeated && !is_bloom;
  const ValueIndex query =
      is_bloom ? heads.query : copy(t, heads.query, "query, contiguous", false);
  if (copies) key = copy(t, key, "key, contiguous", false);
  const std::int64_t s = size.positions;
  ValueIndex scores = is_bloom ? scores_on_alibi(t, size, query, key)
                               : scale(t,
                                       batched_matmul(t, size.batch_heads, s, s, size.head_dim,
                                                      query, key, "attention scores, unscaled"),
                                       "attention scores");
  if (context.config.capped_scores) scores = soft_capped(t, scores, "attention scores");
  const bool masks = context.config.causal || reads_alibi(context);
  ValueIndex weights = masks ? add_mask(t, context, scores) : scores;
  const ValueIndex given = weights;  // held by a variable until the weights are there
  if (context.config.sinks) {
    weights = with_sinks(t, context, weights);
    variables.push_back(weights);
  }
  if (style.softmax_in_f32 || t.train().autocast)
    weights = cast(t, weights, DType::f32, "attention scores, fp32");
  weights =
      softmax(t, weights, context.config.sinks ? std::vector{given} : std::vector<ValueIndex>{});
  if (context.config.sinks)
    weights = slice(t, weights, t.elements(given), "attention weights of positions");
  weights = cast(t, weights, t.compute(), "attention weights, narrow");
  weights = dropout(t, weights, context.dropout(context.config.attention_dropout));
  if (copies) value = copy(t, value, "value, contiguous", false);
  const ValueIndex out = batched_matmul(t, size.batch_heads, s, size.value_dim, s, weights, value,
                                        "attention, by head");
  locals.in_attention.push_back(weights);
  locals.in_block.push_back(weights);
  variables.push_back(weights);
  if (is_bloom)
    locals.to_residual = {query, key, value, scores, given, weights, heads.locals.front()};
  return copy(t, out, "attention", true, std::move(variables));
}

}  // namespace

bool is_masked(const LayerContext& context) {
  const ModelConfig& c = context.config;
  const bool is_sdpa =
      context.train.attention == Attention::sdpa || context.train.attention == Attention::cudnn;
  const bool is_always =
      c.family == ModelConfig::Family::falcon && c.positions == ModelConfig::Positions::rotary;
  return is_sdpa && (is_always || (context.windowed && c.window <= context.positions));
}

bool reads_alibi(const LayerContext& context) {
  const Attention attention = context.train.attention;
  return context.config.positions == ModelConfig::Positions::alibi &&
         attention != Attention::flash &&
         (attention != Attention::eager || context.config.family == ModelConfig::Family::falcon);
}

Bytes bytes_of_alibi(const LayerContext& context) {
  const ModelConfig& c = context.config;
  const bool is_of_each = c.family == ModelConfig::Family::falcon;
  const std::int64_t rows = times(c.heads, is_of_each ? context.tokens : context.positions);
  return times(rows, context.positions) * size_of(context.train.compute);
}

ValueIndex attend(TapeBuilder& t, const LayerContext& context, const Heads& heads,
                  const EagerStyle& style, AttentionLocals& locals) {
  locals.in_attention = {heads.query, heads.key, heads.value};
  if (context.train.attention == Attention::eager)
    return eager_attention(t, context, heads, style, locals);
  Heads used = heads;
  const bool grouped = context.config.kv_heads != context.config.heads;
  const bool copies =
      context.implementation.repeat_kv || !runs_flash(t, context) ||
      (context.config.family == ModelConfig::Family::falcon && context.config.kv_heads > 1);
  if (grouped && copies) {
    used.key = repeat_kv(t, context, heads.key);
    used.value = repeat_kv(t, context, heads.value);
  }
  const ValueIndex out = fused_attention(t, context, used);
  // mha_fwd of flash_api.cpp: empty_like(query), and so in cuDNN's; memory-efficient attention's
  // lies by tokens. `y.transpose(1, 2)` of LitGPT's CausalSelfAttention is then not contiguous, and
  // its reshape copies, as does contiguous() in transformers' GPT-NeoX. Left out: the copy of the
  // output that _flash_attention_backward makes while it runs.
  const bool lies_as_query =
      runs_flash(t, context) ||
      (context.train.attention == Attention::cudnn && t.compute() != DType::f32);
  return lies_as_query && is_query_by_heads(context.config)
             ? copy(t, out, "attention by token", false)
             : out;
}

}  // namespace foregather::plan
