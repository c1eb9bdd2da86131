#include "runtime/host/numbers.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>
#include <catch2/catch.hpp>

#include "runtime/host/blas.h"
#include "runtime/host/kernels.h"

using namespace foregather;
using namespace foregather::runtime;

namespace {

std::uint16_t narrowed(float value, DType type) {
  std::uint16_t bits = 0;
  convert(reinterpret_cast<std::byte*>(&bits), type, reinterpret_cast<const std::byte*>(&value),
          DType::f32, 1);
  return bits;
}

float widened(std::uint16_t bits, DType type) {
  float value = 0;
  convert(reinterpret_cast<std::byte*>(&value), DType::f32,
          reinterpret_cast<const std::byte*>(&bits), type, 1);
  return value;
}

}  // namespace

TEST_CASE("casts round to the nearest number, ties to even") {
  CHECK(narrowed(1.0F, DType::bf16) == 0x3f80);
  CHECK(narrowed(1.0F + 0x1p-8F, DType::bf16) == 0x3f80);  // half way: down to even
  CHECK(narrowed(1.0F + 0x3p-8F, DType::bf16) == 0x3f82);  // half way: up to even
  CHECK(narrowed(1.0F + 0x1.1p-8F, DType::bf16) == 0x3f81);
  CHECK(narrowed(-2.5F, DType::f16) == 0xc100);
  CHECK(narrowed(65504.0F, DType::f16) == 0x7bff);
  CHECK(narrowed(65520.0F, DType::f16) == 0x7c00);  // rounds past the largest
  CHECK(narrowed(0x1p-24F, DType::f16) == 0x0001);  // the least
  CHECK(narrowed(0x1p-25F, DType::f16) == 0x0000);  // half of it: to even
  CHECK(narrowed(0x1.8p-25F, DType::f16) == 0x0001);
  CHECK(std::isnan(
      widened(narrowed(std::numeric_limits<float>::quiet_NaN(), DType::bf16), DType::bf16)));
  CHECK(widened(narrowed(std::numeric_limits<float>::infinity(), DType::f16), DType::f16) ==
        std::numeric_limits<float>::infinity());
}

TEST_CASE("every number of 16 bits survives being widened and narrowed") {
  for (const DType type : {DType::bf16, DType::f16})
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const float wide = widened(static_cast<std::uint16_t>(bits), type);
      if (!std::isnan(wide)) REQUIRE(narrowed(wide, type) == bits);
    }
}

TEST_CASE("the check of a cast accepts what convert makes and nothing one step off") {
  constexpr std::int64_t kElements = 4096;
  std::vector<float> from(kElements);
  auto* const source = reinterpret_cast<std::byte*>(from.data());
  fill_known(source, kElements * 4, DType::f32, 7, 0);
  for (const DType type : {DType::bf16, DType::f16}) {
    std::vector<std::uint16_t> to(kElements);
    auto* const made = reinterpret_cast<std::byte*>(to.data());
    convert(made, type, source, DType::f32, kElements);
    CHECK(first_wrong(made, type, source, DType::f32, kElements) == -1);
    for (const std::size_t at : {std::size_t{0}, std::size_t{1234}, std::size_t{4095}}) {
      if (from[at] == 0) continue;
      to[at] = static_cast<std::uint16_t>(to[at] + 2);
      CHECK(first_wrong(made, type, source, DType::f32, kElements) ==
            static_cast<std::int64_t>(at));
      to[at] = static_cast<std::uint16_t>(to[at] - 2);
    }
  }
}

TEST_CASE("known values tell storages, ranks and elements apart, and lose digits in a cast") {
  CHECK(known_value(seed_of(1, 0, 0), 5) != known_value(seed_of(2, 0, 0), 5));
  CHECK(known_value(seed_of(1, 0, 0), 5) != known_value(seed_of(1, 1, 0), 5));
  int rounded = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const float value = known_value(seed_of(3, 1, 0), i);
    REQUIRE(std::abs(value) <= 1);
    rounded += widened(narrowed(value, DType::bf16), DType::bf16) != value ? 1 : 0;
  }
  CHECK(rounded > 900);
}

TEST_CASE("sums are made in the type itself") {
  std::array<float, 2> a{1.5F, -2}, b{0.25F, 5};
  add(reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<const std::byte*>(b.data()),
      DType::f32, 2);
  CHECK(a == std::array{1.75F, 3.0F});
  std::array<std::int64_t, 2> x{1, 2}, y{10, 20};
  add(reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<const std::byte*>(y.data()),
      DType::i64, 2);
  CHECK(x == std::array<std::int64_t, 2>{11, 22});
}

TEST_CASE("own products and OpenBLAS's are the same") {
  std::vector<float> a(kBlock * kBlock), b(a.size()), own(a.size(), 1.0F), other(a.size(), 1.0F);
  fill_known(reinterpret_cast<std::byte*>(a.data()), std::ssize(a) * 4, DType::f32, 1, 0);
  fill_known(reinterpret_cast<std::byte*>(b.data()), std::ssize(b) * 4, DType::f32, 2, 0);
  multiply_block_plainly(a.data(), b.data(), own.data());
  Blas::get().multiply_block(a.data(), b.data(), other.data());
  double sum = 1;
  for (int k = 0; k < kBlock; ++k) sum += double{a[5 * kBlock + k]} * double{b[k * kBlock + 9]};
  CHECK(own[5 * kBlock + 9] == Approx(sum).epsilon(1e-4));
  for (std::size_t i = 0; i < own.size(); ++i) REQUIRE(std::abs(own[i] - other[i]) < 1e-4);
}

TEST_CASE("numbers become integers without being read beyond them, and integers each other") {
  const std::array<float, 5> from{-1.5F, 7.9F, 1e9F, std::numeric_limits<float>::quiet_NaN(),
                                  std::numeric_limits<float>::infinity()};
  std::array<std::int32_t, 5> to{};
  convert(reinterpret_cast<std::byte*>(to.data()), DType::i32,
          reinterpret_cast<const std::byte*>(from.data()), DType::f32, 5);
  CHECK(to == std::array{0, 7, 100, 0, 100});
  const std::array<std::int64_t, 2> wide{-3, 65};
  std::array<std::int32_t, 2> narrow{};
  convert(reinterpret_cast<std::byte*>(narrow.data()), DType::i32,
          reinterpret_cast<const std::byte*>(wide.data()), DType::i64, 2);
  CHECK(narrow == std::array{-3, 65});
  CHECK(rounding_error(DType::i32) == 0);
  CHECK(rounding_error(DType::bf16) == 0x1p-8);
}

TEST_CASE("a cast whose result is overwritten is found") {
  // The second tensor that is written lies where the first one does.
  std::array<float, 4> from{0.5F, 0.25F, 0.125F, 0.75F};
  std::array<std::uint16_t, 2> to{};
  const auto bytes = [](auto& data) { return reinterpret_cast<std::byte*>(data.data()); };
  Cost cost;
  cost.kind = OpKind::cast;
  const std::array accesses{BoundAccess{TensorId(0), Access::read, DType::f32, bytes(from), 16},
                            BoundAccess{TensorId(1), Access::write, DType::bf16, bytes(to), 4},
                            BoundAccess{TensorId(2), Access::write, DType::bf16, bytes(to), 4}};
  Kernels kernels;
  const Kernels::Outcome outcome = kernels.perform(cost, accesses, 0);
  CHECK(outcome.is_checked_cast);
  CHECK(outcome.checked_bytes == 8);
  CHECK(outcome.wrong == "element 0 of 4 is 0.125 where 0.5 was cast to bf16");
  CHECK(kernels.perform(cost, std::span(accesses).first(2), 0).wrong.empty());
}
