#include "runtime/cuda/work.cuh"

#include <algorithm>

namespace foregather::runtime::cuda {
namespace {

bool is_read(const BoundAccess& access) { return access.mode != Access::write; }
bool is_written(const BoundAccess& access) { return access.mode != Access::read; }
bool is_float(DType type) { return type <= DType::f8e5m2; }

// Takes what lies before byte `end` of all segments together.
struct Cursor {
  std::size_t segment = 0;
  Bytes inside = 0, passed = 0;

  int take(const std::vector<Segment>& from, Bytes end, std::array<Segment, kSegments>& to,
           std::array<std::size_t, kSegments>& rows) {
    int count = 0;
    while (passed < end && count < kSegments) {
      const Bytes some = std::min(from[segment].bytes - inside, end - passed);
      const auto at = static_cast<std::size_t>(count++);
      to[at] = {static_cast<std::byte*>(from[segment].data) + inside, some};
      rows[at] = segment;
      passed += some;
      inside += some;
      if (inside == from[segment].bytes) ++segment, inside = 0;
    }
    return count;
  }
};

Bytes total(const std::vector<Segment>& segments) {
  Bytes bytes = 0;
  for (const Segment& segment : segments) bytes += segment.bytes;
  return bytes;
}

ProductShape shape_of(const Cost& cost) {
  return {cost.m, cost.n, cost.k, std::max<std::int64_t>(cost.batch, 1), cost.dtype};
}

Unit unit_of(const Cost& cost) {
  const bool is_product = cost.kind == OpKind::gemm || cost.kind == OpKind::attention;
  if (cost.dtype == DType::f64) return Unit::vector_f64;
  if (!is_product || cost.dtype == DType::f32) return Unit::vector;
  return cost.dtype == DType::f16 ? Unit::matrix_f16 : Unit::matrix_bf16;
}

}  // namespace

std::int64_t pieces_of(std::span<const BoundAccess> from, bool from_written,
                       std::span<const BoundAccess> to, std::int64_t elements,
                       std::vector<Pieces>& groups) {
  groups.clear();
  std::int64_t done = 0, read = 0, written = 0;
  auto source = from.begin();
  auto target = to.begin();
  const auto is_source = [&](const BoundAccess& access) {
    return access.data != nullptr &&
           (from_written ? is_written(access) : access.mode == Access::read);
  };
  while (done < elements) {
    while (source != from.end() &&
           (!is_source(*source) || read == source->bytes / size_of(source->dtype)))
      ++source, read = 0;
    while (target != to.end() && (target->data == nullptr || !is_written(*target) ||
                                  written == target->bytes / size_of(target->dtype)))
      ++target, written = 0;
    if (source == from.end() || target == to.end()) break;
    const Bytes from_size = size_of(source->dtype), to_size = size_of(target->dtype);
    const std::int64_t some = std::min(
        {source->bytes / from_size - read, target->bytes / to_size - written, elements - done});
    if (groups.empty() || groups.back().count == kPieces || groups.back().from != source->dtype ||
        groups.back().to != target->dtype) {
      groups.emplace_back();
      groups.back().from = source->dtype;
      groups.back().to = target->dtype;
    }
    Pieces& group = groups.back();
    group.piece[static_cast<std::size_t>(group.count++)] = {source->data + read * from_size,
                                                            target->data + written * to_size, some};
    done += some;
    read += some;
    written += some;
  }
  return done;
}

Cost beside_product(const Cost& cost) {
  const ProductShape shape = shape_of(cost);
  const auto less = [](std::int64_t whole, std::int64_t part) {
    return std::max<std::int64_t>(whole - part, 0);
  };
  Cost rest = cost;
  rest.kind = OpKind::elementwise;
  rest.kernels = static_cast<std::uint16_t>(less(cost.kernels, 1));
  rest.flops = less(cost.flops, 2 * shape.m * shape.n * shape.k * shape.batch);
  rest.bytes_read = less(cost.bytes_read, shape.a_bytes() + shape.b_bytes());
  rest.bytes_written = less(cost.bytes_written, shape.c_bytes());
  return rest;
}

std::vector<WorkPlan> WorkPlanner::plan(const Program& program) {
  plans_.resize(graph_.costs.size());
  std::vector<WorkPlan> plans;
  plans.reserve(program.ops.count);
  for (std::uint32_t row = program.ops.first; row < program.ops.end(); ++row)
    plans.push_back(is_collective(graph_.ops[row].kind) ? WorkPlan{} : plan(graph_.ops[row]));
  return plans;
}

const Products::Plan* WorkPlanner::plan_of(CostId cost, const ProductShape& shape) {
  auto& known = plans_[cost.row()];
  if (!known) known = products_ == nullptr ? nullptr : products_->plan(shape);
  return *known;
}

WorkPlan WorkPlanner::plan(const Op& op) {
  const Cost& cost = graph_.at(op.cost);
  WorkPlan plan;
  if (cost.is_fixed) {
    plan.way = WorkPlan::Way::wait;
    return plan;
  }
  const auto accesses = graph_.accesses_of(op);
  const auto on_device = [&](const AccessedTensor& access) {
    return !graph_.at(graph_.at(access.tensor).storage).on_host;
  };
  const bool reads = std::ranges::any_of(accesses, [&](const AccessedTensor& access) {
    return access.mode == Access::read && on_device(access);
  });
  const bool writes = std::ranges::any_of(accesses, [&](const AccessedTensor& access) {
    return access.mode != Access::read && on_device(access);
  });
  switch (cost.kind) {
    case OpKind::copy:
    case OpKind::cast:
      if (reads && writes) plan.way = WorkPlan::Way::move;
      return plan;
    case OpKind::host_to_device:
      plan.way = WorkPlan::Way::upload;
      uses_host_ = true;
      return plan;
    case OpKind::device_to_host:
      plan.way = WorkPlan::Way::download;
      uses_host_ = true;
      return plan;
    case OpKind::gemm: break;
    default: return plan;
  }
  const ProductShape shape = shape_of(cost);
  if (cost.m > 0 && cost.n > 0 && cost.k > 0) plan.product = plan_of(op.cost, shape);
  if (plan.product == nullptr) {
    ++without_library_;
    return plan;
  }
  plan.way = WorkPlan::Way::product;
  constexpr Bytes kAlignment = 16;
  const auto find = [&](bool written, Bytes bytes, DType type,
                        std::optional<std::uint32_t> not_this) {
    std::optional<std::uint32_t> found;
    for (std::uint32_t i = 0; i < accesses.size() && !found; ++i)
      if ((written ? accesses[i].mode != Access::read : accesses[i].mode == Access::read) &&
          accesses[i].bytes >= bytes && on_device(accesses[i]) && i != not_this &&
          graph_.at(accesses[i].tensor).dtype == type &&
          (graph_.at(accesses[i].tensor).offset + accesses[i].offset) % kAlignment == 0)
        found = i;
    return found;
  };
  plan.a = find(false, shape.a_bytes(), shape.type, {});
  plan.b = find(false, shape.b_bytes(), shape.type, plan.a);
  plan.c = find(true, shape.c_bytes(), shape.result_type(), {});
  const auto need = [&](const std::optional<std::uint32_t>& operand, std::size_t which,
                        Bytes bytes) {
    if (!operand) operand_bytes_[which] = std::max(operand_bytes_[which], bytes);
  };
  need(plan.a, 0, shape.a_bytes());
  need(plan.b, 1, shape.b_bytes());
  need(plan.c, 2, shape.c_bytes());
  return plan;
}

Result<Scratch> WorkPlanner::make_scratch(Gpu& gpu) const {
  Scratch scratch;
  const auto aligned = [](Bytes bytes) { return (bytes + 255) / 256 * 256; };
  Bytes operands = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    scratch.at[i] = operands;
    operands += aligned(operand_bytes_[i]);
  }
  const auto ring = gpu.allocate(Scratch::kRing);
  if (!ring) return tl::unexpected(ring.error());
  scratch.ring = *ring;
  const auto sink = gpu.allocate(256);
  if (!sink) return tl::unexpected(sink.error());
  scratch.sink = static_cast<std::uint64_t*>(*sink);
  Calls calls;
  FOREGATHER_CUDA(calls, fill(gpu.own_stream(), scratch.ring, Scratch::kRing, DType::bf16, 1));
  if (operands > 0) {
    const auto memory = gpu.allocate(operands);
    if (!memory) return tl::unexpected(memory.error());
    scratch.operands = *memory;
    FOREGATHER_CUDA(calls, fill(gpu.own_stream(), scratch.operands, operands, DType::bf16, 2));
  }
  if (uses_host_) {
    const auto memory = gpu.allocate(Scratch::kHost, true);
    if (!memory) return tl::unexpected(memory.error());
    scratch.host = *memory;
  }
  if (!calls.is_ok()) return tl::unexpected(calls.status().error());
  return scratch;
}

Bytes Worker::perform(Calls& calls, const Cost& cost, const WorkPlan& plan,
                      std::span<const BoundAccess> accesses, const Target& target) {
  switch (plan.way) {
    case WorkPlan::Way::wait:
      FOREGATHER_CUDA(calls, spin(target.stream, cost.fixed_time));
      return 0;
    case WorkPlan::Way::move: return move(calls, cost, accesses, target);
    case WorkPlan::Way::product: product(calls, cost, plan, accesses, target); return 0;
    case WorkPlan::Way::upload: copy_host(calls, cost, true, accesses, target); return 0;
    case WorkPlan::Way::download: copy_host(calls, cost, false, accesses, target); return 0;
    case WorkPlan::Way::traffic: traffic(calls, cost, accesses, target); return 0;
  }
  return 0;
}

// As many launches as the cost says, or more where one cannot name all tensors. Of its tensors, and
// of the ring where they hold less.
void Worker::traffic(Calls& calls, const Cost& cost, std::span<const BoundAccess> accesses,
                     const Target& target) {
  reads_.clear();
  writes_.clear();
  types_.clear();
  const auto gather = [&](std::vector<Segment>& segments, bool reads, Bytes bytes) {
    for (const BoundAccess& access : accesses) {
      const Bytes some = std::min(access.bytes, bytes);
      if (!(reads ? is_read(access) : is_written(access)) || access.data == nullptr || some <= 0)
        continue;
      segments.push_back({access.data, some});
      if (!reads) types_.push_back(access.dtype);
      bytes -= some;
    }
    for (; bytes > 0; bytes -= Scratch::kRing) {
      segments.push_back({scratch_.ring, std::min(bytes, Scratch::kRing)});
      if (!reads) types_.push_back(DType::bf16);
    }
  };
  gather(reads_, true, cost.bytes_read);
  gather(writes_, false, cost.bytes_written);
  const Bytes read = total(reads_), written = total(writes_);
  const std::int64_t launches = std::max<std::int64_t>(cost.kernels, 1);
  Cursor from, to;
  std::array<std::size_t, kSegments> rows{};
  for (std::int64_t i = 1; i <= launches && calls.is_ok(); ++i) {
    const auto until = [&](Bytes bytes) {
      return bytes / launches * i + bytes % launches * i / launches;
    };
    Traffic traffic;
    traffic.unit = unit_of(cost);
    traffic.flops = cost.flops / launches;
    traffic.sink = scratch_.sink;
    do {
      traffic.reads = from.take(reads_, until(read), traffic.read, rows);
      traffic.writes = to.take(writes_, until(written), traffic.write, rows);
      for (std::size_t w = 0; w < static_cast<std::size_t>(traffic.writes); ++w)
        traffic.type[w] = types_[rows[w]];
      traffic.seed = target.seed + static_cast<std::uint64_t>(to.passed);
      FOREGATHER_CUDA(calls, cuda::perform(target.stream, traffic, gpu_.processors()));
      traffic.flops = 0;
    } while (calls.is_ok() && (from.passed < until(read) || to.passed < until(written)));
  }
}

void Worker::product(Calls& calls, const Cost& cost, const WorkPlan& plan,
                     std::span<const BoundAccess> accesses, const Target& target) {
  const auto operand = [&](const std::optional<std::uint32_t>& access, std::size_t which) -> void* {
    if (access) return accesses[*access].data;
    return static_cast<std::byte*>(scratch_.operands) + scratch_.at[which];
  };
  void* const a = operand(plan.a, 0);
  void* const b = operand(plan.b, 1);
  void* const c = operand(plan.c, 2);
  const bool is_placed = a != nullptr && b != nullptr && c != nullptr;
  if (!is_placed ||
      !gpu_.products()->multiply(target.stream, *plan.product, a, b, c, target.workspace))
    calls.note(fail_work("", "cuBLASLt refuses a product of {} x {} x {} x {} {}",
                         std::max<std::int64_t>(cost.batch, 1), cost.m, cost.n, cost.k,
                         name(cost.dtype)));
  if (cost.kernels <= 1) return;
  others_.clear();
  for (std::uint32_t i = 0; i < accesses.size(); ++i)
    if (i != plan.a && i != plan.b && i != plan.c) others_.push_back(accesses[i]);
  traffic(calls, beside_product(cost), others_, target);
}

Bytes Worker::move(Calls& calls, const Cost& cost, std::span<const BoundAccess> accesses,
                   const Target& target) {
  const std::int64_t moved = pieces_of(accesses, false, accesses, INT64_MAX, moves_);
  if (moved == 0) {
    traffic(calls, cost, accesses, target);
    return 0;
  }
  Bytes checked = 0;
  for (const Pieces& pieces : moves_) {
    FOREGATHER_CUDA(calls, cuda::move(target.stream, pieces));
    if (target.wrong == nullptr || cost.kind != OpKind::cast || !is_float(pieces.from) ||
        !is_float(pieces.to))
      continue;
    FOREGATHER_CUDA(calls, check(target.stream, pieces, target.wrong));
    for (int i = 0; i < pieces.count; ++i)
      checked += pieces.piece[static_cast<std::size_t>(i)].elements * size_of(pieces.to);
  }
  return checked;
}

void Worker::copy_host(Calls& calls, const Cost& cost, bool is_upload,
                       std::span<const BoundAccess> accesses, const Target& target) {
  Bytes bytes = is_upload ? cost.bytes_written : cost.bytes_read;
  const auto copy = [&](void* device, Bytes size) {
    for (Bytes done = 0; done < size; done += Scratch::kHost) {
      void* const at = static_cast<std::byte*>(device) + done;
      const auto some = static_cast<std::size_t>(std::min(size - done, Scratch::kHost));
      FOREGATHER_CUDA(
          calls, cudaMemcpyAsync(is_upload ? at : scratch_.host, is_upload ? scratch_.host : at,
                                 some, cudaMemcpyDefault, target.stream));
    }
    bytes -= size;
  };
  for (const BoundAccess& access : accesses)
    if ((is_upload ? is_written(access) : is_read(access)) && access.data != nullptr && bytes > 0)
      copy(access.data, std::min(access.bytes, bytes));
  while (bytes > 0) copy(scratch_.ring, std::min(bytes, Scratch::kRing));
}

}  // namespace foregather::runtime::cuda
