#include "core/rebuild/work_samples.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "core/rebuild/operators.h"
#include "core/run/kernel_names.h"
#include "core/run/op_shapes.h"

namespace foregather::rebuild {
namespace {

using run::RangeRow;
using run::Recording;
using run::ShapedArgument;
using run::WorkSample;
using Tensors = std::vector<ShapedArgument>;

constexpr Bytes kMostBytes = Bytes{1} << 58;

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

const ShapedArgument* tensor_at(const Tensors& tensors, std::size_t position) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(),
                   [&](const ShapedArgument& tensor) { return tensor.position == position; });
  return found == tensors.end() ? nullptr : &*found;
}

/// Where an operator has the factors of its products.
struct ProductOperator {
  std::string_view name;
  std::size_t first;  // position of the first factor; the second follows it
  std::size_t dimensions;
};
constexpr std::array<ProductOperator, 7> kProducts{{
    {"aten::mm", 0, 2},
    {"aten::_scaled_mm", 0, 2},
    {"aten::addmm", 1, 2},
    {"aten::addmm_", 1, 2},
    {"aten::bmm", 0, 3},
    {"aten::baddbmm", 1, 3},
    {"aten::baddbmm_", 1, 3},
}};

/// Bytes of an element of the product: what an argument behind the factors that has its sizes
/// (out=) says; else as the factors, but float8 ones make bf16.
Bytes written_size(const Tensors& tensors, const ShapedArgument& a, const ShapedArgument& b) {
  std::vector<std::int64_t> sizes = a.sizes;
  sizes.back() = b.sizes.back();
  for (const ShapedArgument& tensor : tensors)
    if (tensor.position > b.position && tensor.sizes == sizes) return size_of(tensor.dtype);
  const bool is_float8 = a.dtype == DType::f8e4m3 || a.dtype == DType::f8e5m2;
  return size_of(is_float8 ? DType::bf16 : a.dtype);
}

bool set_product(std::string_view op, Cost& cost, const Tensors& tensors) {
  const auto* const product = std::find_if(kProducts.begin(), kProducts.end(),
                                           [&](const auto& row) { return row.name == op; });
  if (product == kProducts.end()) return false;
  const std::size_t dimensions = product->dimensions;
  const ShapedArgument* const first = tensor_at(tensors, product->first);
  const ShapedArgument* const second = tensor_at(tensors, product->first + 1);
  if (first == nullptr || second == nullptr) return false;
  const ShapedArgument &a = *first, &b = *second;
  const std::size_t last = dimensions - 1;
  if (a.sizes.size() != dimensions || b.sizes.size() != dimensions) return false;
  if (a.sizes[last] != b.sizes[last - 1]) return false;
  cost.dtype = a.dtype;
  cost.m = a.sizes[last - 1];
  cost.k = a.sizes[last];
  cost.n = b.sizes[last];
  cost.batch = dimensions == 3 ? a.sizes[0] : 1;
  // Three sizes of which each two are bounded are not bounded together.
  constexpr std::int64_t kMostFlops = std::int64_t{1} << 58;
  if (a.elements == 0 || b.elements == 0 || cost.n > kMostFlops / 2 / a.elements) return false;
  cost.flops = 2 * a.elements * cost.n;
  cost.bytes_read = a.bytes() + b.bytes();
  cost.bytes_written = cost.batch * cost.m * cost.n * written_size(tensors, a, b);
  return true;
}

/// PyTorch's operators of attention. Tensors are [batch, rows, heads, dimension] for
/// FlashAttention and [batch, heads, rows, dimension] for cuDNN.
struct AttentionOperator {
  std::string_view name;
  std::string_view kernel;  // in the name of the kernel that does the products
  bool is_backward;
  std::size_t query;  // the place among the tensors; key and value follow it
  std::size_t heads, rows;
  std::size_t causal;  // flags before is_causal among the values
};
constexpr std::array<AttentionOperator, 4> kAttention{{
    {"aten::_flash_attention_forward", "", false, 0, 2, 1, 0},
    {"aten::_flash_attention_backward", "dq_dk_dv", true, 1, 2, 1, 0},
    {"aten::_cudnn_attention_forward", "fprop", false, 0, 1, 2, 1},
    {"aten::_cudnn_attention_backward", "bprop", true, 1, 1, 2, 0},
}};

/// The flag among the values that has so many before it.
std::optional<bool> flag_at(std::string_view values, std::size_t before) {
  for (;; --before) {
    const auto yes = values.find("\"True\""), no = values.find("\"False\"");
    if (std::min(yes, no) == values.npos) return std::nullopt;
    if (before == 0) return yes < no;
    values.remove_prefix(std::min(yes, no) + 1);
  }
}

bool set_attention(std::string_view op, std::string_view values, std::string_view kernel,
                   Cost& cost, const Tensors& tensors) {
  const auto* const attention = std::find_if(kAttention.begin(), kAttention.end(),
                                             [&](const auto& row) { return row.name == op; });
  if (attention == kAttention.end() || kernel.find(attention->kernel) == kernel.npos) return false;
  const std::optional<bool> is_causal = flag_at(values, attention->causal);
  const std::size_t first = attention->query;
  if (tensors.size() < first + 3 || !is_causal) return false;
  const ShapedArgument &query = tensors[first], &key = tensors[first + 1];
  if (query.sizes.size() != 4 || key.sizes.size() != 4) return false;
  constexpr std::int64_t kMostTriples = std::int64_t{1} << 57;
  const std::int64_t rows = key.sizes[attention->rows];
  if (query.elements == 0 || rows == 0 || rows > kMostTriples / query.elements) return false;
  const bool is_backward = attention->is_backward;
  cost.dtype = query.dtype;
  cost.batch = query.sizes[0] * query.sizes[attention->heads];
  cost.m = query.sizes[attention->rows];
  cost.n = rows;
  cost.k = query.sizes[3];
  cost.flops = query.elements * rows * (is_backward ? 10 : 4) / (*is_causal ? 2 : 1);
  const Bytes keys = 2 * key.bytes();
  cost.bytes_read = is_backward ? 3 * query.bytes() + keys : query.bytes() + keys;
  cost.bytes_written = is_backward ? query.bytes() + keys : query.bytes();
  return true;
}

bool is_memory_bound(OpKind kind) {
  switch (kind) {
    case OpKind::elementwise:
    case OpKind::copy:
    case OpKind::cast:
    case OpKind::fill:
    case OpKind::reduction:
    case OpKind::softmax:
    case OpKind::norm: return true;
    default: return false;
  }
}

/// What an operator of aten reads and writes, by what its name says.
void set_traffic(std::string_view op, Cost& cost, const Tensors& tensors) {
  const ShapedArgument& first = tensors.front();
  Bytes read = 0;
  std::int64_t largest = 0;
  for (const ShapedArgument& tensor : tensors) {
    read = std::min(read + tensor.bytes(), kMostBytes);
    largest = std::max(largest, tensor.elements);
  }
  cost.dtype = first.dtype;
  cost.bytes_read = read;
  if (is_one_of(op, {"aten::copy_"})) {
    if (tensors.size() > 1 && tensors[1].dtype != first.dtype) cost.kind = OpKind::cast;
    cost.bytes_read = read - first.bytes();
    cost.bytes_written = first.bytes();
  } else if (is_one_of(op, {"aten::fill_", "aten::zero_"})) {
    cost.bytes_read = 0;
    cost.bytes_written = first.bytes();
  } else if (op.ends_with('_')) {
    cost.bytes_written = first.bytes();
  } else if (is_one_of(op,
                       {"aten::lt", "aten::le", "aten::gt", "aten::ge", "aten::eq", "aten::ne"})) {
    cost.bytes_written = largest;
  } else if (cost.kind != OpKind::reduction) {
    cost.bytes_written = largest * size_of(first.dtype);
  }
}

/// cuBLAS writes the types of factors, sums and products into the names of its kernels for H100, as
/// letters: "nvjet_sm90_tst_", of float8 factors "nvjet_sm90_qqtst_". Of two types of float8
/// the wider range.
std::optional<DType> dtype_of_nvjet(std::string_view kernel) {
  const auto has = [&](std::string_view part) { return kernel.find(part) != kernel.npos; };
  if (!kernel.starts_with("nvjet_")) return std::nullopt;
  if (has("_qr") || has("_rq")) return DType::f8e5m2;
  if (has("_qq")) return DType::f8e4m3;
  if (has("_tst_") || has("_tss_")) return DType::bf16;
  if (has("_hsh_") || has("_hss_")) return DType::f16;
  return std::nullopt;
}

DType dtype_by_name(std::string_view kernel) {
  if (const auto type = dtype_of_nvjet(kernel)) return *type;
  const auto has = [&](std::string_view part) { return kernel.find(part) != kernel.npos; };
  if (has("bf16") || has("BFloat16")) return DType::bf16;
  if (has("f16") || has("Half") || has("h16") || has("hgemm")) return DType::f16;
  if (has("double") || has("f64")) return DType::f64;
  return DType::f32;
}

class Sampling {
 public:
  void add(const Recording& recording) {
    const run::ActivityColumns& rows = recording.activities;
    const Operators operators(recording);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Ns time = rows.end[i] - rows.start[i];
      if (time <= 0) {
        ++samples_.empty;
        continue;
      }
      ++samples_.activities;
      const Shape shape = shape_of(recording, i, operators);
      if (operators.call(i).shapes) ++samples_.with_shapes;
      times_[shape].push_back(time);
    }
    for (const run::KernelWork& work : recording.known.works)
      works_.emplace(recording.text(work.kernel), work.cost);
  }

  WorkSamples take() {
    for (auto& [shape, times] : times_) {
      WorkSample sample = sample_of(shape);
      if (const auto known = works_.find(shape.kernel); known != works_.end()) {
        sample.cost = known->second;
        if (sample.cost.n == 0) sample.cost.m = 0;  // names do not tell which elements are strided
        sample.has_cost = true;
      }
      std::sort(times.begin(), times.end());
      sample.time = is_collective(sample.cost.kind) ? times.front() : median(times);
      sample.repeats = static_cast<std::int64_t>(times.size());
      for (const Ns time : times) sample.total = run::sum_of_times(sample.total, time);
      samples_.rows.push_back(std::move(sample));
    }
    std::stable_sort(samples_.rows.begin(), samples_.rows.end(), run::is_before);
    return std::move(samples_);
  }

 private:
  /// What one activity shares with its repeats. Texts are those of the recordings.
  struct Shape {
    std::string_view kernel, op, shapes, types, values;
    run::ActivityKind activity = run::ActivityKind::kernel;
    OpKind kind = OpKind::other;
    bool is_alone = false;  // the operator launched nothing else
    std::int64_t threads = 0;
    Bytes bytes = 0, message = 0;
    std::uint32_t ranks = 1;
    std::string_view dtype;  // of a collective
    auto operator<=>(const Shape&) const = default;
  };

  static Ns median(const std::vector<Ns>& sorted) {
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }

  static Shape shape_of(const Recording& recording, std::size_t i, const Operators& operators) {
    const run::ActivityColumns& rows = recording.activities;
    Shape shape;
    shape.kernel = recording.text(rows.name[i]);
    shape.activity = rows.kind[i];
    shape.kind = recording.known.kind.empty() ? run::op_kind(rows.kind[i], shape.kernel)
                                              : recording.known.kind[i];
    shape.threads = rows.threads[i];
    shape.bytes = std::max<Bytes>(rows.bytes[i], 0);
    run::CollectiveRow said = rows.collective[i];
    if (const RangeRow range = operators.range(i); !said && range)
      said = recording.ranges.collective[range.row()];
    if (rows.kind[i] == run::ActivityKind::kernel && !is_collective(shape.kind)) {
      const run::KnownOperator call = operators.call(i);
      shape.op = recording.text(call.name);
      shape.shapes = recording.text(call.shapes);
      shape.types = recording.text(call.types);
      shape.values = recording.text(call.values);
      shape.is_alone = call.is_alone;
    }
    if (said && is_collective(shape.kind)) set_message(recording, said, shape);
    return shape;
  }

  // NCCL's size: the larger of both buffers where one is the other times the ranks.
  static void set_message(const Recording& recording, run::CollectiveRow said, Shape& shape) {
    const run::RecordedCollective& row = recording.collectives[said.row()];
    shape.dtype = recording.text(row.dtype);
    const auto dtype = run::scalar_dtype(shape.dtype);
    const std::int64_t elements =
        shape.kind == OpKind::all_gather || shape.kind == OpKind::reduce_scatter
            ? std::max(row.in_elements, row.out_elements)
            : row.in_elements;
    shape.ranks = std::max<std::uint32_t>(
        row.group_size > 0 ? row.group_size : recording.world_size.value_or(1), 1);
    constexpr std::int64_t kMost = std::int64_t{1} << 56;
    if (dtype && elements > 0 && elements < kMost) shape.message = elements * size_of(*dtype);
  }

  static WorkSample sample_of(const Shape& shape) {
    WorkSample sample;
    sample.kernel = shape.kernel;
    sample.threads = shape.threads;
    Cost& cost = sample.cost;
    cost.kind = shape.kind;
    cost.dtype = dtype_by_name(shape.kernel);
    if (is_collective(shape.kind)) {
      cost.dtype = run::scalar_dtype(shape.dtype).value_or(DType::f32);
      cost.message_bytes = shape.message;
      sample.ranks = shape.ranks;
      sample.has_cost = shape.message > 0 && shape.ranks > 1;
    } else if (shape.activity != run::ActivityKind::kernel) {
      cost.dtype = DType::u8;
      cost.bytes_read = shape.kind == OpKind::fill ? 0 : shape.bytes;
      cost.bytes_written =
          shape.kind == OpKind::copy || shape.kind == OpKind::fill ? shape.bytes : 0;
      sample.has_cost = shape.bytes > 0;
    } else if (!shape.shapes.empty()) {
      set_operator(shape, sample);
    } else if (shape.bytes > 0) {
      cost.bytes_read = shape.bytes;
      sample.has_cost = is_memory_bound(cost.kind);
    }
    return sample;
  }

  static void set_operator(const Shape& shape, WorkSample& sample) {
    const Tensors tensors = run::shaped_arguments(shape.shapes, shape.types);
    if (tensors.empty()) return;
    Cost& cost = sample.cost;
    const bool is_product = set_product(shape.op, cost, tensors);
    if (is_product) {
      sample.has_cost = cost.kind == OpKind::gemm;
      return;
    }
    if (cost.kind == OpKind::attention &&
        set_attention(shape.op, shape.values, shape.kernel, cost, tensors)) {
      sample.has_cost = true;
      return;
    }
    const DType by_name = cost.dtype;
    set_traffic(shape.op, cost, tensors);
    if (!is_memory_bound(cost.kind)) cost.dtype = by_name;
    sample.has_cost =
        shape.is_alone && is_memory_bound(cost.kind) && shape.op.starts_with("aten::");
  }

  std::map<Shape, std::vector<Ns>> times_;
  std::map<std::string_view, Cost> works_;  // of kernels whose producer says what they are
  WorkSamples samples_;
};

}  // namespace

WorkSamples work_samples(std::span<const Recording* const> recordings) {
  Sampling sampling;
  for (const Recording* recording : recordings) sampling.add(*recording);
  return sampling.take();
}

}  // namespace foregather::rebuild
