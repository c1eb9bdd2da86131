#include "runtime/host/blas.h"

#include <dlfcn.h>

namespace foregather::runtime {

// OpenBLAS starts its threads when it is loaded; an op is to use one.
Blas::Blas() {
  void* library = nullptr;
  for (const char* name : {"libopenblas.so.0", "libopenblas.so"})
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto set_threads =
      reinterpret_cast<void (*)(int)>(::dlsym(library, "openblas_set_num_threads"));
  const auto config = reinterpret_cast<const char* (*)()>(::dlsym(library, "openblas_get_config"));
  sgemm_ = reinterpret_cast<Sgemm>(::dlsym(library, "cblas_sgemm"));
  if (sgemm_ == nullptr || set_threads == nullptr || config == nullptr) {
    sgemm_ = nullptr;
    return;
  }
  set_threads(1);
  const std::string text = config();  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …"
  name_ = text.substr(0, text.find(' ', text.find(' ') + 1));
}

const Blas& Blas::get() {
  static const Blas blas;
  return blas;
}

void Blas::multiply_block(const float* a, const float* b, float* c) const {
  if (sgemm_ == nullptr) return multiply_block_plainly(a, b, c);
  constexpr int kRowMajor = 101, kPlain = 111;
  sgemm_(kRowMajor, kPlain, kPlain, kBlock, kBlock, kBlock, 1.0F, a, kBlock, b, kBlock, 1.0F, c,
         kBlock);
}

namespace {

// Four rows of C at a time, so that a row of B is read for eight operations a number.
[[gnu::always_inline]] inline void multiply_rows(const float* a, const float* b, float* c) {
  constexpr int kRows = 4;
  for (int row = 0; row < kBlock; row += kRows) {
    float* const out = c + row * kBlock;
    for (int k = 0; k < kBlock; ++k) {
      const float* const in = b + k * kBlock;
      const float a0 = a[row * kBlock + k], a1 = a[(row + 1) * kBlock + k];
      const float a2 = a[(row + 2) * kBlock + k], a3 = a[(row + 3) * kBlock + k];
      for (int column = 0; column < kBlock; ++column) {
        const float x = in[column];
        out[column] += a0 * x;
        out[kBlock + column] += a1 * x;
        out[2 * kBlock + column] += a2 * x;
        out[3 * kBlock + column] += a3 * x;
      }
    }
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma"), gnu::optimize("O3")]] void multiply_wide(const float* a, const float* b,
                                                                    float* c) {
  multiply_rows(a, b, c);
}
#endif

}  // namespace

void multiply_block_plainly(const float* a, const float* b, float* c) {
#if defined(__x86_64__)
  static const bool is_wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (is_wide) return multiply_wide(a, b, c);
#endif
  multiply_rows(a, b, c);
}

}  // namespace foregather::runtime
