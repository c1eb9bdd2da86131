#include "traces/thunder_shapes.h"

#include <algorithm>

#include "traces/thunder_facts.h"

namespace foregather::traces {
namespace {

using Shape = ThunderShape;
using Act = ThunderAct;
using Dims = std::vector<std::int64_t>;

bool is_float(const ThunderDType& dtype) {
  switch (dtype.type) {
    case DType::i64:
    case DType::i32:
    case DType::u8:
    case DType::boolean: return false;
    default: return true;
  }
}

// The wider of the same sort, and floats over integers over bool. As PyTorch has it, neither of two
// halves is the wider one.
ThunderDType promoted(const ThunderDType& a, const ThunderDType& b) {
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (a.type == DType::boolean) return b;
  if (b.type == DType::boolean) return a;
  if (a.bits == 16 && b.bits == 16 && a.type != b.type) return kThunderFloat32;
  return a.bits >= b.bits ? a : b;
}

std::optional<Dims> broadcast_dims(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims dims = longer;
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    std::int64_t& size = dims[longer.size() - shorter.size() + i];
    if (size == 1)
      size = shorter[i];
    else if (shorter[i] != 1 && shorter[i] != size)
      return std::nullopt;
  }
  return dims;
}

// Like torch.reshape: one size may be −1.
std::optional<Dims> reshaped(const Dims& from, Dims to) {
  const auto count = elements(from);
  if (!count) return std::nullopt;
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  for (std::int64_t& size : to) {
    if (size < -1 || (size == -1 && open != nullptr)) return std::nullopt;
    if (size == -1)
      open = &size;
    else if (__builtin_mul_overflow(known, size, &known))
      return std::nullopt;
  }
  if (open != nullptr) {
    if (known == 0 || *count % known != 0) return std::nullopt;
    *open = *count / known;
  } else if (known != *count) {
    return std::nullopt;
  }
  return to;
}

const ThunderValue* dtype_argument(const ThunderCall& call) {
  if (const ThunderValue* const named = call.keyword("dtype")) return named;
  for (std::size_t i = 1; call.at(i) != nullptr; ++i)
    if (call.at(i)->kind == ThunderValue::Kind::attribute ||
        (call.at(i)->kind == ThunderValue::Kind::name && parse_python_dtype(call.at(i)->text)))
      return call.at(i);
  return nullptr;
}

Dims without(const Dims& dims, const std::vector<bool>& gone, bool keep) {
  Dims left;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (!gone[i])
      left.push_back(dims[i]);
    else if (keep)
      left.push_back(1);
  }
  return left;
}

}  // namespace

ThunderTypes::ThunderTypes(const ThunderFile& file, const ThunderFunction& function,
                           std::int64_t world_size)
    : file_(file), function_(function), world_size_(world_size), types_(file.names.size()) {
  for (std::uint32_t row = function.statements.first; row < function.statements.end(); ++row) {
    const ThunderStatement& statement = file.statements[row];
    if (!statement.type || statement.targets.count != 1) continue;
    const ThunderName target = file.targets_of(statement).front();
    if (target && (statement.depth == 0 || !types_[target.row()]))
      types_[target.row()] = file.types[statement.type.row()];
  }
  for (std::size_t name = 0; name < types_.size(); ++name)
    if (!types_[name] && file.name_types[name])
      types_[name] = file.types[file.name_types[name].row()];
}

void ThunderTypes::assume(ThunderName name, const ThunderTensorType& type) {
  if (name && !types_[name.row()]) types_[name.row()] = type;
}

void ThunderTypes::set(ThunderName name, Type type) {
  if (!name || types_[name.row()] || !type || !bytes_of(*type)) return;
  types_[name.row()] = std::move(type);
  changed_ = true;
}

void ThunderTypes::infer() {
  constexpr int kRounds = 4;
  const auto rows =
      std::span(file_.statements).subspan(function_.statements.first, function_.statements.count);
  changed_ = true;
  for (int round = 0; round < kRounds && changed_; ++round) {
    changed_ = false;
    for (const ThunderStatement& statement : rows) forward(statement);
    // A fusion's sub-symbols come behind it, a use may come before what types it.
    for (auto statement = rows.rbegin(); statement != rows.rend(); ++statement)
      backward(*statement);
  }
}

void ThunderTypes::forward(const ThunderStatement& statement) {
  if (statement.kind != ThunderStatement::Kind::assign) return;
  const auto targets = file_.targets_of(statement);
  const auto is_open = [&](ThunderName name) { return name && !types_[name.row()]; };
  if (std::none_of(targets.begin(), targets.end(), is_open)) return;
  const ThunderCall call(*file_.call_of(statement));
  const ThunderSymbol symbol = thunder_symbol(call.callee());
  const bool has_list = symbol.shape == Shape::split || symbol.act == Act::unpack;
  if (targets.size() == 1 && !has_list) return set(targets.front(), result(symbol, call));
  std::vector<Type> all = results(symbol, call, targets.size());
  for (std::size_t i = 0; i < std::min(all.size(), targets.size()); ++i)
    set(targets[i], std::move(all[i]));
}

// --- from arguments to a result ---

ThunderTypes::Type ThunderTypes::result(const ThunderSymbol& symbol,
                                        const ThunderCall& call) const {
  const ThunderTensorType* const first = argument(call, 0);
  switch (symbol.shape) {
    case Shape::broadcast: return broadcast(call);
    case Shape::comparison: {
      Type type = broadcast(call);
      if (type) type->dtype = kThunderBool;
      return type;
    }
    case Shape::convert: {
      if (first == nullptr) return std::nullopt;
      const ThunderValue* const dtype = dtype_argument(call);
      const auto parsed = dtype != nullptr ? parse_python_dtype(dtype->text) : std::nullopt;
      if (!parsed) return std::nullopt;
      Type type = first->with(first->dims);
      type->dtype = *parsed;
      return type;
    }
    case Shape::like:
      if (first == nullptr) return std::nullopt;
      return first->with(first->dims);
    case Shape::make: {
      const auto dims = integers_of(call.at(0, "shape"));
      const ThunderValue* const dtype = dtype_argument(call);
      if (!dims) return std::nullopt;
      ThunderTensorType type;
      type.dims = *dims;
      type.dtype = (dtype != nullptr ? parse_python_dtype(dtype->text) : std::nullopt)
                       .value_or(kThunderFloat32);
      return type;
    }
    case Shape::reduce: return reduced(call);
    case Shape::matmul:
    case Shape::linear:
    case Shape::embedding: return multiplied(symbol, call);
    case Shape::cat: return concatenated(call);
    case Shape::slice: return sliced(call);
    case Shape::collective: return communicated(symbol, call);
    default: return rearranged(symbol, call);
  }
}

ThunderTypes::Type ThunderTypes::broadcast(const ThunderCall& call) const {
  Type type;
  const bool is_where = last_component(call.callee()) == "where";
  for (std::size_t i = 0; i < call.count(); ++i) {
    if (!call.name(i)) continue;
    const ThunderTensorType* const other = argument(call, i);
    // A number has no type either; a tensor that is yet unknown would be missed.
    if (other == nullptr) {
      if (!is_number_name(file_.text(call.name(i)))) return std::nullopt;
      continue;
    }
    if (!type) {
      type = other->with(other->dims);
      continue;
    }
    auto dims = broadcast_dims(type->dims, other->dims);
    if (!dims) return std::nullopt;
    type->dims = std::move(*dims);
    type->dtype = is_where && i <= 1 ? other->dtype : promoted(type->dtype, other->dtype);
  }
  return type;
}

ThunderTypes::Type ThunderTypes::rearranged(const ThunderSymbol& symbol,
                                            const ThunderCall& call) const {
  const ThunderTensorType* const from = argument(call, 0);
  if (from == nullptr) return std::nullopt;
  const std::size_t rank = from->dims.size();
  switch (symbol.shape) {
    case Shape::reshape: {
      auto to = shape_of(call, 1);
      if (to) to = reshaped(from->dims, std::move(*to));
      if (!to) return std::nullopt;
      return from->with(std::move(*to));
    }
    case Shape::permute:
    case Shape::transpose: {
      const auto order = permutation(call, rank);
      if (!order) return std::nullopt;
      Dims dims;
      for (const std::size_t i : *order) dims.push_back(from->dims[i]);
      return from->with(std::move(dims));
    }
    case Shape::expand: {
      auto to = shape_of(call, 1);
      if (!to || to->size() < rank) return std::nullopt;
      for (std::size_t i = 0; i < rank; ++i) {
        std::int64_t& size = (*to)[to->size() - rank + i];
        if (size == -1) size = from->dims[i];
      }
      return from->with(std::move(*to));
    }
    case Shape::broadcast_in_dim: {
      auto to = integers_of(call.at(1));
      if (!to) return std::nullopt;
      return from->with(std::move(*to));
    }
    case Shape::unsqueeze: {
      const auto index = integer_of(call.at(1, "dim"));
      const auto at = index ? dimension(*index, rank + 1) : std::nullopt;
      if (!at) return std::nullopt;
      Dims dims = from->dims;
      dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(*at), 1);
      return from->with(std::move(dims));
    }
    case Shape::squeeze: {
      std::vector<bool> gone(rank);
      const auto indices = integers_of(call.at(1, "dim"));
      for (std::size_t i = 0; i < rank && !indices; ++i) gone[i] = from->dims[i] == 1;
      for (const std::int64_t index : indices.value_or(Dims())) {
        const auto at = dimension(index, rank);
        if (!at) return std::nullopt;
        gone[*at] = from->dims[*at] == 1;
      }
      return from->with(without(from->dims, gone, false));
    }
    default: return std::nullopt;
  }
}

ThunderTypes::Type ThunderTypes::reduced(const ThunderCall& call) const {
  const ThunderTensorType* const from = argument(call, 0);
  if (from == nullptr) return std::nullopt;
  const std::size_t rank = from->dims.size();
  const auto indices = integers_of(call.at(1, "dim"));
  std::vector<bool> gone(rank, !indices || indices->empty());
  for (const std::int64_t index : indices.value_or(Dims())) {
    const auto at = dimension(index, rank);
    if (!at) return std::nullopt;
    gone[*at] = true;
  }
  const ThunderValue* const keep = call.at(2, "keepdim");
  return from->with(without(from->dims, gone, keep != nullptr && keep->text == "True"));
}

ThunderTypes::Type ThunderTypes::multiplied(const ThunderSymbol& symbol,
                                            const ThunderCall& call) const {
  const ThunderTensorType *a = argument(call, 0), *b = argument(call, 1);
  if (a == nullptr || b == nullptr || b->dims.empty()) return std::nullopt;
  Dims dims = a->dims;
  if (symbol.shape == Shape::embedding) {
    dims.push_back(b->dims.back());
    return b->with(std::move(dims));
  }
  if (dims.empty()) return std::nullopt;
  if (symbol.shape == Shape::linear) {
    dims.back() = b->dims.front();
    if (b->dims.size() == 1) dims.pop_back();
    return a->with(std::move(dims));
  }
  // A matrix at least on the left; batches are broadcast.
  if (b->dims.size() == 1) {
    dims.pop_back();
    return a->with(std::move(dims));
  }
  if (dims.size() == 1) {
    dims = b->dims;
    dims.erase(dims.end() - 2);
    return a->with(std::move(dims));
  }
  const auto batch = broadcast_dims(Dims(a->dims.begin(), a->dims.end() - 2),
                                    Dims(b->dims.begin(), b->dims.end() - 2));
  if (!batch) return std::nullopt;
  Dims all = *batch;
  all.push_back(a->dims[a->dims.size() - 2]);
  all.push_back(b->dims.back());
  return a->with(std::move(all));
}

ThunderTypes::Type ThunderTypes::concatenated(const ThunderCall& call) const {
  if (call.at(0) == nullptr) return std::nullopt;
  const auto index = integer_of(call.at(1, "dim")).value_or(0);
  Type type;
  bool all = true;
  each_child(*call.at(0), [&](const ThunderValue& part) {
    const ThunderTensorType* const other =
        part.kind == ThunderValue::Kind::name ? of(part.name) : nullptr;
    all = all && other != nullptr;
    if (!all) return;
    if (!type) {
      type = other->with(other->dims);
      return;
    }
    const auto at = dimension(index, type->dims.size());
    all = at && other->dims.size() == type->dims.size();
    if (all) all = !__builtin_add_overflow(type->dims[*at], other->dims[*at], &type->dims[*at]);
  });
  return all ? type : std::nullopt;
}

ThunderTypes::Type ThunderTypes::sliced(const ThunderCall& call) const {
  const ThunderTensorType* const from = argument(call, 0);
  const auto first = integers_of(call.at(1)), last = integers_of(call.at(2));
  if (from == nullptr || !first || !last || first->size() != from->dims.size() ||
      last->size() != from->dims.size())
    return std::nullopt;
  const auto strides = integers_of(call.at(3));
  Dims dims;
  for (std::size_t i = 0; i < first->size(); ++i) {
    const std::int64_t stride = strides && i < strides->size() ? (*strides)[i] : 1;
    if (stride < 1 || (*first)[i] < 0 || (*last)[i] < (*first)[i] || (*last)[i] > from->dims[i])
      return std::nullopt;
    dims.push_back(((*last)[i] - (*first)[i] + stride - 1) / stride);
  }
  return from->with(std::move(dims));
}

// The first argument is one tensor, or a list that becomes one dimension.
ThunderTypes::Type ThunderTypes::communicated(const ThunderSymbol& symbol,
                                              const ThunderCall& call) const {
  if (symbol.act == Act::pack || symbol.act == Act::pack_bucket) {
    Type type;
    std::int64_t count = 0;
    bool all = call.at(0) != nullptr;
    if (all)
      each_child(*call.at(0), [&](const ThunderValue& part) {
        const ThunderTensorType* const other =
            part.kind == ThunderValue::Kind::name ? of(part.name) : nullptr;
        all = all && other != nullptr;
        if (!all) return;
        type = other->with({});
        all = !__builtin_add_overflow(count, elements(other->dims).value_or(0), &count);
      });
    if (all && type) type->dims = {count};
    return all ? type : std::nullopt;
  }
  const ThunderTensorType* const from = argument(call, 0);
  if (from == nullptr) return std::nullopt;
  ThunderTensorType type = from->with(from->dims);
  type.is_future = true;
  const bool gathers = symbol.kind == OpKind::all_gather;
  if (!gathers && symbol.kind != OpKind::reduce_scatter) return type;
  // A synchronize says whether its parameter is sharded, or leaves that to its result's comment.
  const bool is_sync = last_component(call.callee()) == "synchronize";
  if (is_sync) type.is_future = false;
  if (world_size_ <= 0 || type.dims.empty() || is_sync) return std::nullopt;
  if (gathers) {
    if (__builtin_mul_overflow(type.dims[0], world_size_, &type.dims[0])) return std::nullopt;
  } else {
    if (type.dims[0] % world_size_ != 0) return std::nullopt;
    type.dims[0] /= world_size_;
  }
  return type;
}

}  // namespace foregather::traces
