// The rotary embedding of query and key.
#include <optional>
#include <utility>

#include "core/plan/build_attention.h"
#include "core/plan/build_ends.h"

namespace foregather::plan {

namespace {

/// cos or sin of S rows: the embedding's, or what a block made of it.
struct Table {
  std::optional<ValueIndex> own;
  DType dtype = DType::f32;
};

// x times a table that all sequences and heads share.
void table_product(TapeBuilder& t, const LayerContext& context, ValueIndex x, const Table& table,
                   ValueIndex y) {
  OpSpec spec;
  spec.reads = {x};
  if (table.own) spec.reads.push_back(*table.own);
  spec.writes = {y};
  spec.flops = t.elements(x);
  spec.bytes_read =
      t.size(x) + context.positions * table_width(context.config) * size_of(table.dtype);
  spec.is_opaque = turns_complex(context);
  spec.is_strided = true;
  if (spec.is_opaque) spec.m = t.elements(x) / 2;
  t.op(std::move(spec));
}

ValueIndex times_table(TapeBuilder& t, const LayerContext& context, ValueIndex x,
                       const Table& table, const std::string& name) {
  const DType product = size_of(table.dtype) > size_of(t.dtype(x)) ? table.dtype : t.dtype(x);
  const ValueIndex y = t.make(name, t.elements(x), product);
  table_product(t, context, x, table, y);
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), product);
    table_product(b, context, *g[0], table, dx);
    b.give(x, narrowed(b, dx, x));
  });
  return y;
}

// Half of each head.
void negate(TapeBuilder& t, ValueIndex x, ValueIndex y) {
  OpSpec spec;
  spec.reads = {x};
  spec.writes = {y};
  spec.flops = t.elements(x);
  spec.is_strided = true;
  t.op(std::move(spec));
}

// rotate_half(): cat((-x2, x1)). CatBackward hands on views of its gradient.
ValueIndex rotate_half(TapeBuilder& t, ValueIndex x, const std::string& name) {
  const ValueIndex first = slice(t, x, t.elements(x) / 2, name + " x1");
  const ValueIndex second = slice(t, x, t.elements(x) / 2, name + " x2");
  const ValueIndex negative = t.make(name + " -x2", t.elements(second), t.dtype(x));
  negate(t, second, negative);
  t.node({negative}, [second](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(second), b.elements(second), b.dtype(second));
    negate(b, *g[0], dx);
    b.give(second, dx);
  });
  const ValueIndex y = t.make(name, t.elements(x), t.dtype(x));
  OpSpec cat;
  cat.kind = OpKind::copy;
  cat.reads = {negative, first};
  cat.writes = {y};
  t.op(std::move(cat));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const std::int64_t half = b.elements(first);
    b.give(negative, b.view("grad " + b.name(negative), *g[0], half));
    b.give(first, b.view("grad " + b.name(first), *g[0], half));
  });
  return y;
}

/// Both tables as the products of a block read them.
struct Tables {
  Table cos, sin;
};

Tables tables_of(TapeBuilder& t, const LayerContext& context) {
  const ModelConfig::Rotary rotary = context.config.rotary;
  const DType dtype = has_wide_tables(context.config) ? DType::f32 : t.compute();
  Tables tables{{{}, dtype}, {{}, dtype}};
  if (rotary != ModelConfig::Rotary::spread_tables && rotary != ModelConfig::Rotary::wide_spread)
    return tables;
  // modeling_glm.py, apply_rotary_pos_emb: half of each, every column twice.
  for (Table* table : {&tables.cos, &tables.sin}) {
    const std::int64_t size = times(context.positions, rotary_width(context.config));
    table->own =
        given(t, table == &tables.cos ? "rotary cos, spread" : "rotary sin, spread", size, dtype);
  }
  return tables;
}

// transformers/models/llama/modeling_llama.py, apply_rotary_pos_emb.
ValueIndex rotate_real(TapeBuilder& t, const LayerContext& context, ValueIndex x,
                       const Tables& tables, const std::string& name,
                       std::vector<ValueIndex> holds) {
  const bool widens = context.config.rotary == ModelConfig::Rotary::wide_spread;
  const auto factor = [&](ValueIndex part) {
    return widens ? cast(t, part, DType::f32, t.name(part) + " fp32") : part;
  };
  const ValueIndex straight = times_table(t, context, factor(x), tables.cos, name + "·cos");
  const ValueIndex rotated = factor(rotate_half(t, x, name + " rotated"));
  const ValueIndex turned = times_table(t, context, rotated, tables.sin, name + " rotated·sin");
  return add(t, straight, turned, name + " with positions", std::move(holds), true);
}

// transformers/models/gpt_oss/modeling_gpt_oss.py, _apply_rotary_emb: first · cos - second · sin,
// second · cos + first · sin.
ValueIndex rotate_halves(TapeBuilder& t, const LayerContext& context, ValueIndex x,
                         const Tables& tables, const std::string& name,
                         std::vector<ValueIndex> holds) {
  const std::int64_t half = t.elements(x) / 2;
  const auto parts = split(t, x, {{name + " x1", half}, {name + " x2", half}});
  const ValueIndex straight = times_table(t, context, parts[0], tables.cos, name + " x1·cos");
  const ValueIndex crossed = times_table(t, context, parts[1], tables.sin, name + " x2·sin");
  const ValueIndex first = t.make(name + " first", half, t.dtype(straight));
  t.elementwise({straight, crossed}, {first});
  t.node({first}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(crossed), half, b.dtype(crossed));
    negate(b, *g[0], dx);
    b.give(straight, *g[0]);
    b.give(crossed, dx);
  });
  const ValueIndex second =
      add(t, times_table(t, context, parts[1], tables.cos, name + " x2·cos"),
          times_table(t, context, parts[0], tables.sin, name + " x1·sin"), name + " second");
  const ValueIndex y = t.make(name + " with positions", t.elements(x), t.dtype(first));
  OpSpec cat;
  cat.kind = OpKind::copy;
  cat.reads = {first, second};
  cat.writes = {y};
  cat.holds = std::move(holds);
  t.op(std::move(cat));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    b.give(first, b.view("grad " + b.name(first), *g[0], half));
    b.give(second, b.view("grad " + b.name(second), *g[0], half));
  });
  return y;
}

}  // namespace

bool has_wide_tables(const ModelConfig& config) {
  return config.rotary == ModelConfig::Rotary::wide_tables ||
         config.rotary == ModelConfig::Rotary::wide_spread;
}

std::int64_t rotary_width(const ModelConfig& config) {
  return config.rotary_dim > 0 ? config.rotary_dim : config.head_dim;
}

std::int64_t table_width(const ModelConfig& config) {
  return config.rotary == ModelConfig::Rotary::halves ? rotary_width(config) / 2
                                                      : rotary_width(config);
}

bool turns_complex(const LayerContext& context) {
  return (context.implementation.rotary == Implementation::Rotary::complex ||
          context.config.rotary == ModelConfig::Rotary::complex) &&
         rotary_width(context.config) == context.config.head_dim;
}

namespace {

ValueIndex rotate_with(TapeBuilder& t, const LayerContext& context, ValueIndex x,
                       const Tables& tables, const std::string& name,
                       std::vector<ValueIndex> holds) {
  const ModelConfig& c = context.config;
  const std::int64_t width = rotary_width(c);
  if (c.rotary == ModelConfig::Rotary::halves)
    return rotate_halves(t, context, x, tables, name, std::move(holds));
  if (c.latent.kv_rank > 0 || width == c.head_dim)
    return rotate_real(t, context, x, tables, name, std::move(holds));
  const std::int64_t turned = t.elements(x) / c.head_dim * width;
  const ValueIndex part = slice(t, x, turned, name + ", turned part");
  const ValueIndex rest = slice(t, x, t.elements(x) - turned, name + ", other part");
  const ValueIndex done = rotate_real(t, context, part, tables, name + " part", std::move(holds));
  return concatenate(t, {done, rest}, name + " with positions");
}

}  // namespace

ValueIndex rotate(TapeBuilder& t, const LayerContext& context, ValueIndex x,
                  const std::string& name, std::vector<ValueIndex> holds) {
  return rotate_with(t, context, x, tables_of(t, context), name, std::move(holds));
}

void apply_rotary(TapeBuilder& t, const LayerContext& context, Heads& heads) {
  if (!turns_complex(context)) {
    Heads raw = heads;
    if (context.config.rotary == ModelConfig::Rotary::wide) {
      raw.query = cast(t, raw.query, DType::f32, "query fp32");
      raw.key = cast(t, raw.key, DType::f32, "key fp32");
    }
    const Tables tables = tables_of(t, context);
    const ValueIndex query = rotate_with(t, context, raw.query, tables, "query", {});
    const ValueIndex key = rotate_with(t, context, raw.key, tables, "key", {raw.query, raw.key});
    heads.query = cast(t, query, t.dtype(heads.query), "query with positions, narrow");
    heads.key = cast(t, key, t.dtype(heads.key), "key with positions, narrow");
    return;
  }
  // torchtitan/models/llama3/model/model.py, apply_rotary_emb, and that of transformers' Llama 4:
  // both in fp32 pairs, then back.
  const Table table{{}, DType::f32};
  const ValueIndex wide_q = cast(t, heads.query, DType::f32, "query fp32");
  const ValueIndex wide_k = cast(t, heads.key, DType::f32, "key fp32");
  const ValueIndex turned_q = times_table(t, context, wide_q, table, "query turned");
  const ValueIndex turned_k = times_table(t, context, wide_k, table, "key turned");
  heads.query = cast(t, turned_q, t.compute(), "query with positions");
  heads.key = cast(t, turned_k, t.compute(), "key with positions");
}

}  // namespace foregather::plan
