// The work of ops that are no collectives, on a GPU.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/cuda/calls.cuh"
#include "runtime/cuda/gpu.cuh"
#include "runtime/cuda/kernels.cuh"
#include "runtime/cuda/products.cuh"
#include "runtime/device.h"

namespace foregather::runtime::cuda {

/// How the work of an op is done, as the schedule alone says.
struct WorkPlan {
  enum class Way : std::uint8_t {
    traffic,  ///< a kernel that reads, computes and writes as much
    product,
    move,    ///< elements of what it reads become those of what it writes
    upload,  ///< from the host's memory
    download,
    wait,  ///< nothing but its recorded duration is known
  };
  Way way = Way::traffic;
  const Products::Plan* product = nullptr;
  /// Accesses that hold the operands of a product; absent: scratch memory does.
  std::optional<std::uint32_t> a, b, c;
};

/// Memory of a GPU that stands for what a schedule reads or writes without naming it.
struct Scratch {
  static constexpr Bytes kRing = 256 * MiB;  ///< more than a cache keeps
  static constexpr Bytes kHost = 64 * MiB;
  void* ring = nullptr;
  void* operands = nullptr;   ///< of products
  std::array<Bytes, 3> at{};  ///< where each operand begins in it
  void* host = nullptr;       ///< pinned; null where nothing is uploaded or downloaded
  std::uint64_t* sink = nullptr;
};

/// Makes the plans of ops and their scratch memory; before work begins. `products` may be null.
class WorkPlanner {
 public:
  WorkPlanner(const Graph& graph, Products* products) : graph_(graph), products_(products) {}
  /// By op of the program.
  std::vector<WorkPlan> plan(const Program& program);
  /// For all plans so far.
  Result<Scratch> make_scratch(Gpu& gpu) const;
  std::int64_t products_without_library() const { return without_library_; }

 private:
  WorkPlan plan(const Op& op);
  const Products::Plan* plan_of(CostId cost, const ProductShape& shape);

  const Graph& graph_;
  Products* products_;
  std::vector<std::optional<const Products::Plan*>> plans_;  ///< by cost
  std::array<Bytes, 3> operand_bytes_{};
  bool uses_host_ = false;
  std::int64_t without_library_ = 0;
};

/// What an op of several kernels does beside its product: the work of the others.
Cost beside_product(const Cost& cost);

/// One host thread's part of enqueueing; its buffers are used again.
class Worker {
 public:
  Worker(const Gpu& gpu, const Scratch& scratch) : gpu_(gpu), scratch_(scratch) {}

  struct Target {
    cudaStream_t stream = nullptr;
    void* workspace = nullptr;      ///< of products
    std::int64_t* wrong = nullptr;  ///< where casts are checked; null: they are not
    std::uint64_t seed = 0;         ///< of what is written
  };
  /// Bytes whose cast will be checked; 0: none.
  Bytes perform(Calls& calls, const Cost& cost, const WorkPlan& plan,
                std::span<const BoundAccess> accesses, const Target& target);

 private:
  void traffic(Calls& calls, const Cost& cost, std::span<const BoundAccess> accesses,
               const Target& target);
  void product(Calls& calls, const Cost& cost, const WorkPlan& plan,
               std::span<const BoundAccess> accesses, const Target& target);
  Bytes move(Calls& calls, const Cost& cost, std::span<const BoundAccess> accesses,
             const Target& target);
  void copy_host(Calls& calls, const Cost& cost, bool is_upload,
                 std::span<const BoundAccess> accesses, const Target& target);

  const Gpu& gpu_;
  Scratch scratch_;
  std::vector<Segment> reads_, writes_;
  std::vector<DType> types_;
  std::vector<BoundAccess> others_;  ///< of an op with a product, apart from its operands
  std::vector<Pieces> moves_;
};

/// Pieces that move elements from what is read to what is written, one tensor after the other, in
/// as many groups as there are pairs of types and as fit; at most `elements`. Returns how many.
/// Accesses of a null place hold none.
std::int64_t pieces_of(std::span<const BoundAccess> from, bool from_written,
                       std::span<const BoundAccess> to, std::int64_t elements,
                       std::vector<Pieces>& pieces);

}  // namespace foregather::runtime::cuda
