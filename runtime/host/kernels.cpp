#include "runtime/host/kernels.h"

#include <algorithm>
#include <cstring>

#include "runtime/host/blas.h"
#include "runtime/host/numbers.h"

namespace foregather::runtime {
namespace {

constexpr std::size_t kStream = 1 << 20;

bool is_read(const BoundAccess& access) { return access.mode != Access::write; }
bool is_written(const BoundAccess& access) { return access.mode != Access::read; }

bool is_product(OpKind kind) { return kind == OpKind::gemm || kind == OpKind::attention; }
bool is_move(OpKind kind) {
  return kind == OpKind::copy || kind == OpKind::cast || kind == OpKind::host_to_device ||
         kind == OpKind::device_to_host;
}

bool is_float(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16 || type == DType::f64;
}

}  // namespace

std::int64_t elements_of(std::span<const BoundAccess> accesses, bool reads) {
  std::int64_t elements = 0;
  for (const BoundAccess& access : accesses)
    if ((reads ? access.mode == Access::read : is_written(access)) && access.data != nullptr)
      elements += access.bytes / size_of(access.dtype);
  return elements;
}

std::int64_t collect(std::span<const BoundAccess> accesses, bool reads, std::byte* to, DType type,
                     std::int64_t elements) {
  std::int64_t done = 0;
  for (const BoundAccess& access : accesses) {
    if (!(reads ? access.mode == Access::read : is_written(access)) || access.data == nullptr)
      continue;
    const std::int64_t some = std::min(access.bytes / size_of(access.dtype), elements - done);
    convert(to + done * size_of(type), type, access.data, access.dtype, some);
    done += some;
  }
  return done;
}

std::int64_t distribute(std::span<const BoundAccess> accesses, const std::byte* from, DType type,
                        std::int64_t elements) {
  std::int64_t done = 0;
  for (const BoundAccess& access : accesses) {
    if (!is_written(access) || access.data == nullptr) continue;
    const std::int64_t some = std::min(access.bytes / size_of(access.dtype), elements - done);
    convert(access.data, access.dtype, from + done * size_of(type), type, some);
    done += some;
  }
  return done;
}

Kernels::Kernels()
    : a_(kBlock * kBlock), b_(kBlock * kBlock), c_(kBlock * kBlock), stream_(kStream) {
  fill_known(reinterpret_cast<std::byte*>(a_.data()), std::ssize(a_) * 4, DType::f32, 1, 0);
  fill_known(reinterpret_cast<std::byte*>(b_.data()), std::ssize(b_) * 4, DType::f32, 2, 0);
}

Kernels::Outcome Kernels::perform(const Cost& cost, std::span<const BoundAccess> accesses,
                                  std::uint64_t seed) {
  if (is_move(cost.kind)) return move(cost, accesses);
  if (is_product(cost.kind)) multiply(cost.flops);
  read(accesses, cost.bytes_read);
  write(accesses, cost.bytes_written, seed);
  return {};
}

void Kernels::multiply(std::int64_t flops) {
  constexpr std::int64_t kFlops = 2LL * kBlock * kBlock * kBlock;
  std::fill(c_.begin(), c_.end(), 0.0F);
  for (std::int64_t done = 0; done < flops; done += kFlops)
    Blas::get().multiply_block(a_.data(), b_.data(), c_.data());
  sum_ += static_cast<std::uint64_t>(c_[0] > 0);
}

void Kernels::read(std::span<const BoundAccess> accesses, Bytes bytes) {
  const auto sum = [&](const std::byte* from, Bytes some) {
    std::uint64_t total = 0, word = 0;
    for (Bytes i = 0; i + 8 <= some; i += 8) {
      std::memcpy(&word, from + i, 8);
      total += word;
    }
    sum_ += total;
  };
  Bytes done = 0;
  for (const BoundAccess& access : accesses) {
    if (!is_read(access) || access.data == nullptr) continue;
    sum(access.data, std::min(access.bytes, bytes - done));
    done += std::min(access.bytes, bytes - done);
  }
  for (; done < bytes; done += kStream) sum(stream_.data(), std::min<Bytes>(kStream, bytes - done));
}

// All tensors that are written get their values, whatever the cost says of bytes.
void Kernels::write(std::span<const BoundAccess> accesses, Bytes bytes, std::uint64_t seed) {
  Bytes done = 0;
  std::uint64_t which = 0;
  for (const BoundAccess& access : accesses) {
    if (!is_written(access) || access.data == nullptr) continue;
    fill_known(access.data, access.bytes, access.dtype, seed + ++which * 0x10001, 0);
    done += access.bytes;
  }
  for (; done < bytes; done += kStream)
    std::memset(stream_.data(), static_cast<int>(done & 0xff),
                static_cast<std::size_t>(std::min<Bytes>(kStream, bytes - done)));
}

Kernels::Outcome Kernels::move(const Cost& cost, std::span<const BoundAccess> accesses) {
  Outcome outcome;
  const std::int64_t in = elements_of(accesses, true), out = elements_of(accesses, false);
  const std::int64_t elements = std::min(in, out);
  if (elements == 0) {
    read(accesses, cost.bytes_read);
    write(accesses, cost.bytes_written, 0);
    return outcome;
  }
  // One type of number on each side, that of the first tensor.
  DType from = DType::f32, to = DType::f32;
  for (auto access = accesses.rbegin(); access != accesses.rend(); ++access)
    if (access->data != nullptr) (is_written(*access) ? to : from) = access->dtype;
  staged_.resize(static_cast<std::size_t>(elements * size_of(from)));
  collect(accesses, true, staged_.data(), from, elements);
  moved_.resize(static_cast<std::size_t>(elements * size_of(to)));
  convert(moved_.data(), to, staged_.data(), from, elements);
  distribute(accesses, moved_.data(), to, elements);
  if (cost.kind != OpKind::cast || !is_float(from) || !is_float(to)) return outcome;
  // From where it lies now.
  collect(accesses, false, moved_.data(), to, elements);
  outcome.is_checked_cast = true;
  outcome.checked_bytes = elements * size_of(to);
  const std::int64_t wrong = first_wrong(moved_.data(), to, staged_.data(), from, elements);
  if (wrong >= 0)
    outcome.wrong = fmt::format("element {} of {} is {} where {} was cast to {}", wrong, elements,
                                value_at(moved_.data(), to, wrong),
                                value_at(staged_.data(), from, wrong), name(to));
  return outcome;
}

}  // namespace foregather::runtime
