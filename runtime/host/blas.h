// Matrix products of the host: OpenBLAS where it is installed, loops elsewhere.
#pragma once

#include <cstdint>
#include <string>

namespace foregather::runtime {

/// C += A·B of row-major squares of kBlock × kBlock floats.
inline constexpr int kBlock = 64;

class Blas {
 public:
  /// Opens OpenBLAS at run time, once for the process [Debian: libopenblas0]. One thread an op.
  static const Blas& get();

  void multiply_block(const float* a, const float* b, float* c) const;
  /// "OpenBLAS 0.3.21", "own loops".
  const std::string& name() const { return name_; }

 private:
  using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                         float alpha, const float* a, int lda, const float* b, int ldb, float beta,
                         float* c, int ldc);
  Blas();

  Sgemm sgemm_ = nullptr;  ///< null: own loops
  std::string name_ = "own loops";
};

/// The product without OpenBLAS.
void multiply_block_plainly(const float* a, const float* b, float* c);

}  // namespace foregather::runtime
