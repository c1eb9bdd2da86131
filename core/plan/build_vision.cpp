#include <optional>
#include <utility>

#include "core/plan/build_ends.h"
#include "core/plan/build_families.h"
#include "core/plan/build_loss.h"
#include "core/plan/model_names.h"

namespace foregather::plan {

namespace {

using Head = ModelConfig::Head;

// A parameter that one kernel adds or copies to rows of x, summed over them in backward. `passing`:
// another value that x is handed on with; its gradient is a copy.
ValueIndex with_rows(TapeBuilder& t, ValueIndex x, const std::vector<ValueIndex>& parameters,
                     std::int64_t elements, const std::string& name,
                     std::optional<ValueIndex> passing) {
  const ValueIndex y = t.make(name, elements);
  OpSpec spec;
  spec.reads = {x};
  spec.reads.insert(spec.reads.end(), parameters.begin(), parameters.end());
  Bytes bytes = 0;
  for (const ValueIndex value : spec.reads) bytes += t.size(value);
  if (passing) spec.reads.push_back(*passing);
  spec.bytes_read = bytes;
  spec.writes = {y};
  spec.kernels = 2;
  spec.host_ops = 3;
  spec.flops = elements;
  t.op(std::move(spec));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    for (const ValueIndex parameter : parameters)
      if (b.needs_gradient(parameter)) column_sum(b, *g[0], parameter);
    if (passing && b.needs_gradient(*passing)) {
      const ValueIndex df =
          b.make("grad " + b.name(*passing), b.elements(*passing), b.dtype(*passing));
      OpSpec copy;
      copy.kind = OpKind::copy;
      copy.reads = {*g[0], *passing};
      copy.writes = {df};
      copy.bytes_read = b.size(df);
      b.op(std::move(copy));
      b.give(*passing, df);
    }
    if (b.elements(x) == b.elements(y)) return b.give(x, *g[0]);
    b.give(x, b.view("grad " + b.name(x), *g[0], b.elements(x)));
  });
  return y;
}

// nn.Conv2d of stride and size `patch`: the matmul of unfolded pixels.
ValueIndex patches_of(TapeBuilder& t, const LayerContext& context, ValueIndex pixels) {
  const ModelConfig& c = context.config;
  const std::int64_t in = c.image.channels * c.image.patch * c.image.patch;
  const ValueIndex narrow = cast(t, pixels, t.compute(), "pixel values, narrow");
  const std::string path = "embeddings.patch_embeddings";
  // The convolution reads each pixel once; edges that no patch covers are left out.
  const ValueIndex covered =
      t.view("pixels of patches", narrow, times(context.sequences * c.image.patches(), in));
  return linear(t, covered, linear_of(t, "patch embeddings", path, in, c.hidden));
}

// SiglipMultiheadAttentionPoolingHead: a probe attends to all tokens, then an mlp of one row.
ValueIndex attention_pool(TapeBuilder& t, const LayerContext& context, ValueIndex x) {
  const ModelConfig& c = context.config;
  const std::string head = std::string(names_of(c.family).root) + ".head";
  t.enter(head);
  const ValueIndex probe = t.parameter(head + ".probe");
  const ValueIndex keys = linear(t, x,
                                 {"pool keys and values",
                                  head + ".attention.in_proj_weight",
                                  head + ".attention.in_proj_bias",
                                  c.hidden,
                                  2 * c.hidden,
                                  false,
                                  {}});
  const ValueIndex pooled = t.make("pooled", context.sequences * c.hidden);
  const auto attend = [&](const TapeBuilder& b, std::vector<ValueIndex> reads,
                          std::vector<ValueIndex> writes, std::int64_t factor) {
    OpSpec spec;
    spec.kind = OpKind::attention;
    spec.reads = std::move(reads);
    spec.writes = std::move(writes);
    spec.m = 1;
    spec.n = context.positions;
    spec.k = c.head_dim;
    spec.batch = context.sequences * c.heads;
    spec.flops = factor * b.elements(keys);
    return spec;
  };
  t.op(attend(t, {keys, probe}, {pooled}, 2));
  t.node({pooled}, [=, sequences = context.sequences, positions = context.positions,
                    heads = c.heads, width = c.head_dim](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dkeys = b.make("grad " + b.name(keys), b.elements(keys));
    OpSpec spec;
    spec.kind = OpKind::attention;
    spec.reads = {*g[0], keys, probe};
    spec.writes = {dkeys};
    if (b.needs_gradient(probe)) spec.writes.push_back(b.gradient_of(probe));
    spec.m = 1;
    spec.n = positions;
    spec.k = width;
    spec.batch = sequences * heads;
    spec.flops = 5 * b.elements(keys);
    b.op(std::move(spec));
    b.give(keys, dkeys);
  });
  const ValueIndex out =
      linear(t, pooled, linear_of(t, "pool out", head + ".attention.out_proj", c.hidden, c.hidden));
  const ValueIndex normal = norm(t, context, out, head + ".layernorm", c.hidden, "pool norm");
  const ValueIndex wide =
      linear(t, normal, linear_of(t, "pool mlp in", head + ".mlp.fc1", c.hidden, c.intermediate));
  const ValueIndex mlp =
      linear(t, activated(t, context, wide, "pool gelu"),
             linear_of(t, "pool mlp out", head + ".mlp.fc2", c.intermediate, c.hidden));
  return add(t, out, mlp, "pooled features");
}

// One row a sequence, but for the keys and values of a pool.
std::int64_t head_flops(const TapeBuilder& t, const LayerContext& context) {
  LayerContext pooled = context;
  pooled.tokens = context.sequences;
  const std::int64_t flops = weight_flops(t, pooled);
  if (context.config.head != Head::attention_pool) return flops;
  const std::int64_t keys = 2 * context.config.hidden * context.config.hidden;
  return flops + times(6 * keys, context.tokens - context.sequences);
}

}  // namespace

Tape image_embedding_tape(const LayerContext& context, std::int64_t features_before) {
  const ModelConfig& c = context.config;
  TapeBuilder t(context.train, false, context.path);
  t.add_parameters(embedding_parameters(c));
  t.enter("embeddings");
  const std::int64_t pixels = context.sequences * c.image.channels * c.image.size * c.image.size;
  std::optional<ValueIndex> passing;
  ValueIndex image = 0;
  if (features_before > 0) {
    passing = t.input("features before", features_before, context.train.compute,
                      context.input_needs_gradient);
    image = given(t, "pixel values", pixels, DType::f32);
  } else {
    image = t.input("pixel values", pixels, DType::f32, false);
  }
  const ValueIndex patches = patches_of(t, context, image);
  std::vector<ValueIndex> rows = {
      t.parameter(std::string(names_of(c.family).positions) + ".weight")};
  for (const char* name : {"embeddings.cls_token", "embeddings.register_tokens"})
    if (t.has_parameter(name)) rows.push_back(t.parameter(name));
  ValueIndex y = with_rows(t, patches, rows, context.tokens * c.hidden, "hidden states", passing);
  if (c.image.pre_norm)
    y = norm(t, context, y, "embeddings.pre_layernorm", c.hidden, "embedding norm");
  y = dropout(t, y, context.dropout(c.embedding_dropout));
  return t.finish(y, features_before > 0, weight_flops(t, context));
}

Tape vision_head_tape(const LayerContext& context) {
  const ModelConfig& c = context.config;
  const ModelNames& names = names_of(c.family);
  TapeBuilder t(context.train, false, context.path);
  t.add_parameters(head_parameters(c));
  const ValueIndex x = t.input("hidden states", context.tokens * c.hidden, context.train.compute,
                               context.input_needs_gradient);
  const std::string path = std::string(names.root) + "." + std::string(names.final_norm);
  t.enter(path);
  const ValueIndex normal = norm(t, context, x, path, c.hidden, "final norm");
  ValueIndex result = normal;
  const std::int64_t firsts = context.sequences * c.hidden;
  if (c.head == Head::attention_pool) {
    result = attention_pool(t, context, normal);
  } else if (c.head == Head::pooler) {
    const std::string pooler = std::string(names.root) + ".pooler.dense";
    t.enter(pooler);
    const ValueIndex rows =
        copy(t, slice(t, normal, firsts, "first tokens"), "first tokens, contiguous", false);
    result = activation(t, linear(t, rows, linear_of(t, "pooled", pooler, c.hidden, c.hidden)),
                        "pooled tanh", 8, true);
  } else if (c.head == Head::classifier) {
    t.enter("classifier");
    const std::int64_t width = c.family == ModelConfig::Family::dinov2 ? 2 * c.hidden : c.hidden;
    const ValueIndex rows = copy(t, slice(t, normal, context.sequences * width, "first tokens"),
                                 "first tokens, contiguous", false);
    result = linear(t, rows, linear_of(t, "class logits", "classifier", width, c.classes));
  }
  t.enter("loss");
  return t.finish(mean_loss(t, result), true, head_flops(t, context));
}

Tape vision_features_tape(const LayerContext& context) {
  const ModelConfig& c = context.config;
  TapeBuilder t(context.train, false, context.path);
  t.add_parameters(head_parameters(c), true);
  const ValueIndex x = t.input("hidden states", context.tokens * c.hidden, context.train.compute,
                               context.input_needs_gradient);
  const std::int64_t kept = context.sequences * (c.image.tokens() - c.image.dropped) * c.hidden;
  const ValueIndex y = copy(t, slice(t, x, kept, "patches"), "patch features", false);
  return t.finish(y, true, 0);
}

Tape projector_tape(const LayerContext& context, std::int64_t patches,
                    std::int64_t features_before) {
  const std::vector<std::int64_t>& widths = context.config.projector;
  TapeBuilder t(context.train, false, context.path);
  t.add_parameters(projector_parameters(context.config));
  const std::int64_t all = patches * widths.front();
  ValueIndex x = t.input("features", all - features_before, context.train.compute,
                         context.input_needs_gradient);
  if (features_before > 0) {
    const ValueIndex last = x;
    x = t.make("features of all towers", all);
    OpSpec cat;
    cat.kind = OpKind::copy;
    cat.reads = {last};
    cat.writes = {x};
    cat.bytes_read = t.size(x);
    t.op(std::move(cat));
    t.node({x}, [last](TapeBuilder& b, TapeBuilder::Gradients g) {
      b.give(last, b.view("grad " + b.name(last), *g[0], b.elements(last)));
    });
  }
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const std::string path = "linear_" + std::to_string(i + 1);
    t.enter(path);
    if (i > 0) x = gelu(t, true, x);
    x = linear(t, x, linear_of(t, "projection", path, widths[i], widths[i + 1]));
  }
  const std::int64_t flops = times(times(6, t.parameter_elements()), patches);
  return t.finish(x, true, flops);
}

Tape joined_embedding_tape(const LayerContext& context, std::int64_t patches) {
  const ModelConfig& c = context.config;
  TapeBuilder t(context.train, false, context.path);
  t.add_parameters(embedding_parameters(c));
  const std::string table(names_of(c.family).embedding);
  const ValueIndex image = t.input("projected patches", patches * c.hidden, context.train.compute,
                                   context.input_needs_gradient);
  t.enter(table);
  const ValueIndex ids = given(t, "token ids", context.tokens - patches, DType::i64);
  ValueIndex text = embedding(t, ids, table + ".weight", c.hidden, "text embeddings");
  if (c.scaled_embeddings) text = scale(t, text, "text embeddings, scaled");
  t.enter("");
  const ValueIndex y = concatenate(t, {image, text}, "hidden states");
  add_tables(t, context);
  return t.finish(y, true, 0);
}

}  // namespace foregather::plan
