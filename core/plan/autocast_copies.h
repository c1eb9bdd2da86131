// The copies of fp32 parameters that torch.autocast hands to matmuls, where its cache holds them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/module_writer.h"

namespace foregather::plan {

/// Made before a module's forward. The cache holds those of trained leaves, as the parameters of
/// DDP and the unsharded ones of FSDP2 are, until the forward ends (autocast_mode.cpp,
/// cached_cast), whatever becomes of the parameters; those of frozen ones end with their module's
/// forward. What autograd saved stays until the module's backward; a checkpointed module, which
/// saved none, has them made again before it is recomputed.
class AutocastCopies {
 public:
  /// Parameters, in dtype `type`, and owners by row of ShardLayout::parameters; both outlive this.
  /// Tells the writer which parameters are read from their copies; none where that is the compute
  /// dtype.
  AutocastCopies(Lowering& lowering, ModuleWriter& modules, DType type,
                 std::span<const Buffer> parameters, std::span<const Owner> owners);

  /// Does the module's forward read the parameter in the compute dtype?
  bool has(std::uint32_t module, ParameterIndex index) const {
    return static_cast<bool>(copies_[first_[module] + index].computed.storage);
  }

  void before_forward(std::uint32_t module) { make(module); }
  void after_forward(std::uint32_t module);
  void end_forward();
  void before_backward(std::uint32_t module) { make(module); }
  void after_backward(std::uint32_t module);

  /// Casts a gradient that came in the compute dtype into a buffer in the parameter's, and frees
  /// it.
  void widen_gradient(std::uint32_t row, const Buffer& gradient, const Buffer& wide);

 private:
  struct Copy {
    std::uint32_t row = 0;  ///< of ShardLayout::parameters
    bool is_trained = false;
    bool is_there = false;
    Buffer computed;  ///< absent: no matmul reads the parameter
  };

  std::span<Copy> copies_of(std::uint32_t module);
  /// Does the module's backward find the copies of its forward?
  bool are_saved(std::uint32_t module) const;
  void make(std::uint32_t module);
  void drop(Copy& copy);

  Lowering& lowering_;
  const ModuleWriter& modules_;
  DType type_;
  std::span<const Buffer> parameters_;
  std::span<const Owner> owners_;
  std::vector<Copy> copies_;          ///< modules in order, parameters in order
  std::vector<std::uint32_t> first_;  ///< by module, in copies_; then their end
  std::vector<AccessedTensor> scratch_;
};

}  // namespace foregather::plan
