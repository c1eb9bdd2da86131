#include <algorithm>

#include "traces/thunder_shapes.h"

namespace foregather::traces {
namespace {

using Shape = ThunderShape;
using Act = ThunderAct;
using Dims = std::vector<std::int64_t>;

}  // namespace

// --- several results ---

std::vector<ThunderTypes::Type> ThunderTypes::results(const ThunderSymbol& symbol,
                                                      const ThunderCall& call,
                                                      std::size_t count) const {
  std::vector<Type> all;
  const ThunderTensorType* const first = argument(call, 0);
  switch (symbol.shape) {
    case Shape::split: return parts(call, count);
    case Shape::var_mean: {
      const Type one = reduced(call);
      all.assign(count, one);
      return all;
    }
    case Shape::attention: {
      // (output, log-sum-exp, what remains is small): B, H, L, D as the query.
      const ThunderTensorType* const value = argument(call, 2);
      if (first == nullptr || first->dims.size() < 3) return all;
      Dims out = first->dims;
      if (value != nullptr && !value->dims.empty()) out.back() = value->dims.back();
      all.emplace_back(first->with(std::move(out)));
      ThunderTensorType lse = first->with({first->dims.begin(), first->dims.end() - 1});
      lse.dtype = kThunderFloat32;
      all.emplace_back(std::move(lse));
      // Seeds and offsets of the random numbers, of the host.
      ThunderTensorType scalar = first->with({});
      scalar.dtype = {DType::i64, 64};
      scalar.on_host = true;
      while (all.size() < count) all.emplace_back(scalar);
      return all;
    }
    case Shape::attention_backward:
      // The gradients of query, key and value; the gradient of the output may come first.
      for (std::size_t i = 0; i < 3; ++i)
        if (const ThunderTensorType* const type = argument(call, i + 1))
          all.emplace_back(type->with(type->dims));
        else
          all.emplace_back();
      return all;
    case Shape::collective: {
      if (call.at(1) == nullptr) return all;
      const bool gathers =
          call.at(3) != nullptr && call.at(3)->text.find("gather") != std::string_view::npos;
      const bool scatters =
          call.at(3) != nullptr && call.at(3)->text.find("scatter") != std::string_view::npos;
      const std::int64_t world = integer_of(call.at(2)).value_or(1);
      each_child(*call.at(1), [&](const ThunderValue& donor) {
        const ThunderTensorType* const type =
            donor.kind == ThunderValue::Kind::name ? of(donor.name) : nullptr;
        Type& part = all.emplace_back();
        if (type == nullptr) return;
        part = type->with(type->dims);
        if (part->dims.empty() || world <= 0) return;
        if (gathers && __builtin_mul_overflow(part->dims[0], world, &part->dims[0])) part.reset();
        if (scatters) part->dims[0] /= world;
      });
      return all;
    }
    default: return all;
  }
}

// split(x, size or sizes, dim), chunk(x, count, dim).
std::vector<ThunderTypes::Type> ThunderTypes::parts(const ThunderCall& call,
                                                    std::size_t count) const {
  std::vector<Type> all;
  const ThunderTensorType* const from = argument(call, 0);
  const auto at = from != nullptr
                      ? dimension(integer_of(call.at(2, "dim")).value_or(0), from->dims.size())
                      : std::nullopt;
  if (!at) return all;
  const std::int64_t whole = from->dims[*at];
  const auto one = integer_of(call.at(1));
  const auto sizes = one ? std::nullopt : integers_of(call.at(1));
  if (!one && !sizes) return all;
  std::int64_t step = one.value_or(0);
  if (one && last_component(call.callee()) == "chunk" && step > 0) step = (whole + step - 1) / step;
  if (one && step <= 0) return all;
  std::int64_t left = whole;
  for (std::size_t i = 0; i < count; ++i) {
    if (sizes && i >= sizes->size()) break;
    const std::int64_t size = sizes ? (*sizes)[i] : std::min(step, left);
    if (size < 0 || size > left) break;
    left -= size;
    Dims dims = from->dims;
    dims[*at] = size;
    all.emplace_back(from->with(std::move(dims)));
  }
  return all;
}

// --- from a result to arguments ---

void ThunderTypes::backward(const ThunderStatement& statement) {
  if (statement.kind != ThunderStatement::Kind::assign) return;
  const auto targets = file_.targets_of(statement);
  if (targets.size() != 1) return;
  const ThunderTensorType* const out = of(targets.front());
  if (out == nullptr) return;
  const ThunderCall call(*file_.call_of(statement));
  const ThunderSymbol symbol = thunder_symbol(call.callee());
  const auto is_tensor = [&](std::size_t i) {
    const ThunderName name = call.name(i);
    if (!name || types_[name.row()]) return false;
    return !is_number_name(file_.text(name));
  };
  switch (symbol.shape) {
    case Shape::broadcast:
      // An argument that broadcasts would be smaller: taken as of the result's shape.
      for (std::size_t i = 0; i < call.count(); ++i) {
        if (!is_tensor(i)) continue;
        Type type = out->with(out->dims);
        if (i == 0 && last_component(call.callee()) == "where") type->dtype = kThunderBool;
        set(call.name(i), std::move(type));
      }
      return;
    case Shape::reshape:
      if (is_tensor(0)) set(call.name(0), out->with(out->dims));
      return;
    case Shape::permute:
    case Shape::transpose: {
      const auto order = permutation(call, out->dims.size());
      if (!is_tensor(0) || !order) return;
      Dims dims(out->dims.size());
      for (std::size_t i = 0; i < dims.size(); ++i) dims[(*order)[i]] = out->dims[i];
      return set(call.name(0), out->with(std::move(dims)));
    }
    case Shape::unsqueeze: {
      const auto index = integer_of(call.at(1, "dim"));
      const auto at = index ? dimension(*index, out->dims.size()) : std::nullopt;
      if (!at || !is_tensor(0)) return;
      Dims dims = out->dims;
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(*at));
      return set(call.name(0), out->with(std::move(dims)));
    }
    case Shape::embedding: {
      if (!is_tensor(0) || out->dims.empty()) return;
      Type index = out->with({out->dims.begin(), out->dims.end() - 1});
      index->dtype = {DType::i64, 64};
      return set(call.name(0), std::move(index));
    }
    case Shape::matmul: {
      const ThunderTensorType *a = argument(call, 0), *b = argument(call, 1);
      if (out->dims.size() < 2) return;
      const std::int64_t m = out->dims[out->dims.size() - 2], n = out->dims.back();
      if (is_tensor(1) && a != nullptr && a->dims.size() >= 2)
        set(call.name(1), out->with({a->dims.back(), n}));
      if (is_tensor(0) && b != nullptr && b->dims.size() >= 2)
        set(call.name(0), out->with({m, b->dims[b->dims.size() - 2]}));
      return;
    }
    case Shape::linear: {
      const ThunderTensorType* const a = argument(call, 0);
      const ThunderTensorType* const b = argument(call, 1);
      if (out->dims.empty()) return;
      if (is_tensor(1) && a != nullptr && !a->dims.empty())
        set(call.name(1), out->with({out->dims.back(), a->dims.back()}));
      if (is_tensor(2)) set(call.name(2), out->with({out->dims.back()}));
      if (is_tensor(0) && b != nullptr && b->dims.size() == 2) {
        Dims dims = out->dims;
        dims.back() = b->dims.back();
        set(call.name(0), out->with(std::move(dims)));
      }
      return;
    }
    case Shape::like:
      if (symbol.act != Act::wait && is_tensor(0)) set(call.name(0), out->with(out->dims));
      return;
    case Shape::collective: {
      if (!is_tensor(0) || world_size_ <= 0 || out->dims.empty()) return;
      Dims dims = out->dims;
      if (symbol.kind == OpKind::all_gather && dims[0] % world_size_ == 0) dims[0] /= world_size_;
      if (symbol.kind == OpKind::reduce_scatter &&
          __builtin_mul_overflow(dims[0], world_size_, &dims[0]))
        return;
      if (symbol.act == Act::collective) set(call.name(0), out->with(std::move(dims)));
      return;
    }
    default: return;
  }
}

}  // namespace foregather::traces
