// Matrix products by cuBLASLt, where it can be opened.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "runtime/cuda/libraries.h"

namespace foregather::runtime::cuda {

/// batch × (m×k)·(k×n) of `type`. As a linear layer keeps its weight, the second operand is n×k,
/// row by row; the products of 8-bit types need that. Sums are in single precision (double for
/// f64); 8-bit products give bf16.
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  DType type = DType::bf16;

  Bytes a_bytes() const { return batch * m * k * size_of(type); }
  Bytes b_bytes() const { return batch * k * n * size_of(type); }
  Bytes c_bytes() const { return batch * m * n * size_of(result_type()); }
  DType result_type() const { return size_of(type) == 1 ? DType::bf16 : type; }
  bool is_float() const { return type <= DType::f8e5m2; }
};

/// One GPU's library. The plan of a product is made once and used by any thread of that GPU.
class Products {
 public:
  struct Plan;
  static constexpr Bytes kWorkspace = 32 * MiB;  ///< of each stream, as PyTorch gives on Hopper

  /// On the calling thread's GPU. Null: no cuBLASLt; `why` says so.
  static std::unique_ptr<Products> open(std::string& why);
  ~Products();

  /// "cuBLASLt 13.1.0".
  const std::string& name() const { return name_; }
  /// Null: the library has no algorithm for it on this GPU.
  const Plan* plan(const ProductShape& shape);
  /// C = A·B, scaled so that random numbers keep their size. Pointers are of 16 bytes' alignment.
  bool multiply(cudaStream_t stream, const Plan& plan, const void* a, const void* b, void* c,
                void* workspace) const;
  /// Performs each product that was planned once, in memory of its own. The library loads a
  /// product's kernel when it is first used, and loading waits for all work of the GPU, of which
  /// some may wait for the rank that loads: before such work, all are to be there.
  Status load(cudaStream_t stream) const;

 private:
  struct Entries {
    Library library;
    decltype(&cublasLtCreate) create = nullptr;
    decltype(&cublasLtDestroy) destroy = nullptr;
    decltype(&cublasLtGetVersion) version = nullptr;
    decltype(&cublasLtMatmul) matmul = nullptr;
    decltype(&cublasLtMatmulDescCreate) create_product = nullptr;
    decltype(&cublasLtMatmulDescSetAttribute) set_product = nullptr;
    decltype(&cublasLtMatmulDescDestroy) destroy_product = nullptr;
    decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
    decltype(&cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
    decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
    decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
    decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
    decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
    decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithm = nullptr;
  };
  explicit Products(const Entries& entries);
  static bool find_entries(Entries& lt);
  bool fill_in(Plan& plan) const;
  void drop(Plan& plan) const;

  Entries lt_;
  cublasLtHandle_t handle_ = nullptr;
  std::string name_;
  std::vector<std::unique_ptr<Plan>> plans_;
};

}  // namespace foregather::runtime::cuda
