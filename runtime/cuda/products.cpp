#include "runtime/cuda/products.cuh"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/base/text.h"
#include "runtime/cuda/calls.cuh"

namespace foregather::runtime::cuda {
namespace {

cudaDataType_t cuda_type(DType type) {
  switch (type) {
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    case DType::f64: return CUDA_R_64F;
    case DType::f8e4m3: return CUDA_R_8F_E4M3;
    case DType::f8e5m2: return CUDA_R_8F_E5M2;
    default: return CUDA_R_32F;
  }
}

}  // namespace

struct Products::Plan {
  ProductShape shape;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  bool is_known = false;
};

bool Products::find_entries(Entries& lt) {
  const Library& library = lt.library;
  return library.find("cublasLtCreate", lt.create) && library.find("cublasLtDestroy", lt.destroy) &&
         library.find("cublasLtGetVersion", lt.version) &&
         library.find("cublasLtMatmul", lt.matmul) &&
         library.find("cublasLtMatmulDescCreate", lt.create_product) &&
         library.find("cublasLtMatmulDescSetAttribute", lt.set_product) &&
         library.find("cublasLtMatmulDescDestroy", lt.destroy_product) &&
         library.find("cublasLtMatrixLayoutCreate", lt.create_layout) &&
         library.find("cublasLtMatrixLayoutSetAttribute", lt.set_layout) &&
         library.find("cublasLtMatrixLayoutDestroy", lt.destroy_layout) &&
         library.find("cublasLtMatmulPreferenceCreate", lt.create_preference) &&
         library.find("cublasLtMatmulPreferenceSetAttribute", lt.set_preference) &&
         library.find("cublasLtMatmulPreferenceDestroy", lt.destroy_preference) &&
         library.find("cublasLtMatmulAlgoGetHeuristic", lt.find_algorithm);
}

std::unique_ptr<Products> Products::open(std::string& why) {
  Entries lt;
  // The one that the headers are of: the layout of an algorithm may change with the version.
  lt.library =
      open_library({fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR)}, {"cu13", "cublas"});
  if (lt.library.handle == nullptr) {
    why = fmt::format("libcublasLt.so.{} cannot be opened", CUBLAS_VER_MAJOR);
    return nullptr;
  }
  std::unique_ptr<Products> products(new Products(lt));
  if (!find_entries(products->lt_) ||
      products->lt_.create(&products->handle_) != CUBLAS_STATUS_SUCCESS) {
    why = fmt::format("{} does not work here", lt.library.path);
    return nullptr;
  }
  const std::size_t version = products->lt_.version();  // 130100
  products->name_ =
      fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  return products;
}

Products::Products(const Entries& entries) : lt_(entries) {}

Products::~Products() {
  for (const auto& plan : plans_) drop(*plan);
  if (handle_ != nullptr) lt_.destroy(handle_);
}

void Products::drop(Plan& plan) const {
  if (plan.product != nullptr) lt_.destroy_product(plan.product);
  for (cublasLtMatrixLayout_t layout : {plan.a, plan.b, plan.c})
    if (layout != nullptr) lt_.destroy_layout(layout);
}

const Products::Plan* Products::plan(const ProductShape& shape) {
  auto plan = std::make_unique<Plan>();
  plan->shape = shape;
  plan->is_known = shape.is_float() && fill_in(*plan);
  plans_.push_back(std::move(plan));
  return plans_.back()->is_known ? plans_.back().get() : nullptr;
}

// In the library's order of columns, a row-major C = A·Bᵀ is Cᵀ = B·Aᵀ: its first operand is ours
// of n rows of k, which it transposes, its second one ours of m rows of k.
bool Products::fill_in(Plan& plan) const {
  const ProductShape& shape = plan.shape;
  const bool is_double = shape.type == DType::f64;
  const auto m = static_cast<std::uint64_t>(shape.m), n = static_cast<std::uint64_t>(shape.n),
             k = static_cast<std::uint64_t>(shape.k);
  // There is no product of two matrices of e5m2.
  const DType second = shape.type == DType::f8e5m2 ? DType::f8e4m3 : shape.type;
  bool well = true;
  const auto call = [&](cublasStatus_t status) { well = well && status == CUBLAS_STATUS_SUCCESS; };
  call(lt_.create_product(&plan.product, is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                          is_double ? CUDA_R_64F : CUDA_R_32F));
  const cublasOperation_t transposed = CUBLAS_OP_T;
  if (well)
    call(
        lt_.set_product(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
  const auto layout = [&](cublasLtMatrixLayout_t& made, DType type, std::uint64_t rows,
                          std::uint64_t columns) {
    if (!well) return;
    call(lt_.create_layout(&made, cuda_type(type), rows, columns, static_cast<std::int64_t>(rows)));
    const auto batch = static_cast<std::int32_t>(shape.batch);
    const auto stride = static_cast<std::int64_t>(rows * columns);
    if (!well || batch == 1) return;
    call(lt_.set_layout(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
    call(lt_.set_layout(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
  };
  layout(plan.b, shape.type, k, n);
  layout(plan.a, second, k, m);
  layout(plan.c, shape.result_type(), n, m);
  cublasLtMatmulPreference_t preference = nullptr;
  if (well) call(lt_.create_preference(&preference));
  const auto workspace = static_cast<std::uint64_t>(kWorkspace);
  if (well)
    call(lt_.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                            sizeof workspace));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  if (well)
    call(lt_.find_algorithm(handle_, plan.product, plan.b, plan.a, plan.c, plan.c, preference, 1,
                            &found, &count));
  if (preference != nullptr) lt_.destroy_preference(preference);
  plan.algorithm = found.algo;
  return well && count > 0 && found.state == CUBLAS_STATUS_SUCCESS;
}

bool Products::multiply(cudaStream_t stream, const Plan& plan, const void* a, const void* b,
                        void* c, void* workspace) const {
  // Random numbers of ± [1/2, 1) have a mean square of 7/12.
  const double scale = std::sqrt(12.0 / 7.0 / static_cast<double>(plan.shape.k));
  const double double_alpha = scale, double_beta = 0;
  const auto alpha = static_cast<float>(scale);
  const float beta = 0;
  const bool is_double = plan.shape.type == DType::f64;
  return lt_.matmul(handle_, plan.product,
                    is_double ? static_cast<const void*>(&double_alpha) : &alpha, b, plan.b, a,
                    plan.a, is_double ? static_cast<const void*>(&double_beta) : &beta, c, plan.c,
                    c, plan.c, &plan.algorithm, workspace, static_cast<std::size_t>(kWorkspace),
                    stream) == CUBLAS_STATUS_SUCCESS;
}

Status Products::load(cudaStream_t stream) const {
  constexpr Bytes kAlignment = 256;
  const auto aligned = [](Bytes bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  Bytes most = 0;
  for (const auto& plan : plans_)
    if (plan->is_known)
      most = std::max(most, aligned(plan->shape.a_bytes()) + aligned(plan->shape.b_bytes()) +
                                aligned(plan->shape.c_bytes()));
  if (most == 0) return {};
  Calls calls;
  void* memory = nullptr;
  if (!FOREGATHER_CUDA(calls, cudaMalloc(&memory, static_cast<std::size_t>(most + kWorkspace))))
    return fail_work("", "{} to try the products: {}", format_bytes(most + kWorkspace),
                     calls.status().error().message);
  auto* const a = static_cast<std::byte*>(memory);
  for (const auto& plan : plans_) {
    if (!plan->is_known) continue;
    std::byte* const b = a + aligned(plan->shape.a_bytes());
    std::byte* const c = b + aligned(plan->shape.b_bytes());
    if (!multiply(stream, *plan, a, b, c, a + most)) {
      const ProductShape& shape = plan->shape;
      calls.note(fail_work("", "cuBLASLt refuses a product of {} x {} x {} x {} {}", shape.batch,
                           shape.m, shape.n, shape.k, foregather::name(shape.type)));
      break;
    }
  }
  FOREGATHER_CUDA(calls, cudaStreamSynchronize(stream));
  FOREGATHER_CUDA(calls, cudaFree(memory));
  return calls.status();
}

}  // namespace foregather::runtime::cuda
