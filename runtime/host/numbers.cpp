#include "runtime/host/numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>

namespace foregather::runtime {
namespace {

struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};

float wide(float x) { return x; }
float wide(double x) { return static_cast<float>(x); }
float wide(std::integral auto x) { return static_cast<float>(x); }
float wide(Bf16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
float wide(F16 x) {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000U} << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 31U, mantissa = x.bits & 1023U;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float small = static_cast<float>(mantissa) * 0x1p-24F;
  return sign != 0 ? -small : small;
}

void narrow(float x, float& to) { to = x; }
void narrow(float x, double& to) { to = x; }
void narrow(float x, Bf16& to) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  to.bits = static_cast<std::uint16_t>((is_nan ? bits | 0x400000U : rounded) >> 16);
}
void narrow(float x, F16& to) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000U, size = bits & 0x7fffffffU;
  std::uint32_t half = 0;
  if (size > 0x7f800000U) {
    half = 0x7e00U;
  } else if (size >= 0x47800000U) {
    half = 0x7c00U;
  } else if (size < 0x38800000U) {  // the sum's last bits are multiples of 2^-24
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5F) - 0x3f000000U;
  } else {
    half = (size - 0x38000000U + 0xfffU + ((size >> 13) & 1U)) >> 13;
  }
  to.bits = static_cast<std::uint16_t>(sign | half);
}

template <class T>
T load(const std::byte* at, std::int64_t i) {
  T value;
  std::memcpy(&value, at + i * std::int64_t{sizeof(T)}, sizeof(T));
  return value;
}
template <class T>
void store(std::byte* at, std::int64_t i, T value) {
  std::memcpy(at + i * std::int64_t{sizeof(T)}, &value, sizeof(T));
}

// Calls `use` with a value of the C++ type that holds the elements; integers by their size.
template <class Use>
void with_type(DType type, Use&& use) {
  switch (type) {
    case DType::f32: return use(float{});
    case DType::bf16: return use(Bf16{});
    case DType::f16: return use(F16{});
    case DType::f64: return use(double{});
    case DType::i64: return use(std::int64_t{});
    case DType::i32: return use(std::int32_t{});
    default: return use(std::uint8_t{});
  }
}

template <class T>
constexpr bool is_number = !std::is_integral_v<T>;

}  // namespace

std::uint64_t seed_of(std::uint64_t what, std::uint64_t rank, std::uint64_t when) {
  std::uint64_t seed = what * 0xBF58476D1CE4E5B9ULL + rank * 0x94D049BB133111EBULL + when;
  seed ^= seed >> 29;
  return seed * 0xD6E8FEB86659FD93ULL;
}

void fill_known(std::byte* to, Bytes bytes, DType type, std::uint64_t seed, std::uint64_t first) {
  const std::int64_t elements = bytes / size_of(type);
  with_type(type, [&]<class T>(T) {
    for (std::int64_t i = 0; i < elements; ++i) {
      const std::uint64_t index = first + static_cast<std::uint64_t>(i);
      T value{};
      if constexpr (is_number<T>)
        narrow(known_value(seed, index), value);
      else
        value = static_cast<T>((seed + index) & 0x3f);
      store(to, i, value);
    }
  });
}

void convert(std::byte* to, DType to_type, const std::byte* from, DType from_type,
             std::int64_t elements) {
  if (to_type == from_type) {
    std::memcpy(to, from, static_cast<std::size_t>(elements * size_of(to_type)));
    return;
  }
  with_type(from_type, [&]<class From>(From) {
    with_type(to_type, [&]<class To>(To) {
      for (std::int64_t i = 0; i < elements; ++i) {
        const From value = load<From>(from, i);
        To converted{};
        if constexpr (is_number<To>)
          narrow(wide(value), converted);
        else if constexpr (is_number<From>)
          converted = static_cast<To>(std::min(std::max(0.0F, wide(value)), 100.0F));  // NaN: 0
        else
          converted = static_cast<To>(value);
        store(to, i, converted);
      }
    });
  });
}

void add(std::byte* to, const std::byte* from, DType type, std::int64_t elements) {
  with_type(type, [&]<class T>(T) {
    for (std::int64_t i = 0; i < elements; ++i) {
      const T a = load<T>(to, i), b = load<T>(from, i);
      T sum{};
      if constexpr (std::is_arithmetic_v<T>)
        sum = static_cast<T>(a + b);
      else
        narrow(wide(a) + wide(b), sum);
      store(to, i, sum);
    }
  });
}

double value_at(const std::byte* at, DType type, std::int64_t index) {
  double value = 0;
  with_type(type, [&]<class T>(T) {
    const T element = load<T>(at, index);
    if constexpr (std::is_arithmetic_v<T>)
      value = static_cast<double>(element);
    else
      value = static_cast<double>(wide(element));
  });
  return value;
}

double rounding_error(DType type) {
  switch (type) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    default: return 0;
  }
}

std::int64_t first_wrong(const std::byte* converted, DType to_type, const std::byte* from,
                         DType from_type, std::int64_t elements) {
  // Half a step of numbers too small for the type's exponents.
  const double least = to_type == DType::f16 ? 0x1p-25 : 0x1p-134;
  const double half_step = rounding_error(to_type);
  std::int64_t wrong = -1;
  with_type(from_type, [&]<class From>(From) {
    with_type(to_type, [&]<class To>(To) {
      if constexpr (is_number<From> && is_number<To>) {
        for (std::int64_t i = 0; i < elements && wrong < 0; ++i) {
          const double in = static_cast<double>(wide(load<From>(from, i)));
          const double out = static_cast<double>(wide(load<To>(converted, i)));
          const double error = in > out ? in - out : out - in;
          // The power of two below.
          const double size =
              std::bit_cast<double>(std::bit_cast<std::uint64_t>(in) & 0x7ff0000000000000ULL);
          if (!(error <= size * half_step + least) && !(std::isnan(in) && std::isnan(out)) &&
              in != out)
            wrong = i;
        }
      }
    });
  });
  return wrong;
}

}  // namespace foregather::runtime
