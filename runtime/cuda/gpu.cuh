// One GPU, which one rank has or many share: its clock against that of the run, and memory that is
// no part of a schedule.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/cuda/driver.cuh"
#include "runtime/cuda/products.cuh"

namespace foregather::runtime::cuda {

/// Streams that the GPU serves side by side: beyond that, one that waits holds up another one.
/// CUDA's limit of CUDA_DEVICE_MAX_CONNECTIONS, which the plug-in sets.
inline constexpr int kConnections = 32;

class Gpu {
 public:
  /// Makes `index` ready and measures its clock. `clock` is borrowed.
  static Result<std::unique_ptr<Gpu>> open(int index, const Driver& driver, const Clock& clock);
  ~Gpu();

  /// Makes it the calling thread's device.
  cudaError_t use() const;
  int index() const { return index_; }
  int processors() const { return processors_; }
  int compute_capability() const { return compute_capability_; }  ///< 90 is 9.0
  /// What the driver could still give.
  Bytes free_memory() const;
  const std::string& name() const { return name_; }
  const Driver& driver() const { return driver_; }
  /// Null: there are none; no_products() says why.
  Products* products() const { return products_.get(); }
  const std::string& no_products() const { return no_products_; }

  /// Memory for the life of the object, outside of any schedule. Before work begins: an allocation
  /// may wait for all work.
  Result<void*> allocate(Bytes bytes, bool on_host = false);

  /// For work that must get through while streams of ranks wait.
  cudaStream_t own_stream() const { return own_stream_; }

  // By one thread, once work has begun.
  /// When the event happened, on the clock of the run; it has. Right to some microseconds: an event
  /// is measured against another one that is less than a second or two away, whose time is the
  /// middle of a round trip to the GPU.
  Result<Ns> time_of(cudaEvent_t event);
  /// Looks at both clocks again about once a second.
  void compare_clocks();

  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

 private:
  /// An event whose time is known on both clocks.
  struct Anchor {
    cudaEvent_t event = nullptr;
    Ns time = 0;
  };
  Gpu(int index, const Driver& driver, const Clock& clock)
      : index_(index), driver_(driver), clock_(clock) {}
  Status prepare();
  std::optional<Ns> round_trip(Anchor& anchor, Ns patience);

  int index_;
  Driver driver_;
  const Clock& clock_;
  int processors_ = 0, compute_capability_ = 0;
  std::string name_, no_products_;
  std::unique_ptr<Products> products_;
  cudaStream_t own_stream_ = nullptr;
  Anchor anchor_, next_;
  Ns compared_ = 0;
  std::vector<void*> device_memory_, host_memory_;
};

}  // namespace foregather::runtime::cuda
