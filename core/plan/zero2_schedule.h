// DeepSpeed ZeRO-2: whole parameters, partitioned gradients and optimizer. Follows DeepSpeed 0.17.6
// (runtime/zero/stage_1_and_2.py, read).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/plan/module_writer.h"
#include "core/plan/process_groups.h"
#include "core/plan/strategy_schedule.h"
#include "core/plan/tied_gradients.h"
#include "core/plan/zero_update.h"

namespace foregather::plan {

/// Parameters lie in one flat buffer, which is cut into as many partitions as there are ranks. A
/// gradient is copied into a bucket on the compute stream, and freed; a bucket that is full is
/// divided and reduced: with use_multi_rank_bucket_allreduce (the default) copied once more and
/// all-reduced as a whole, otherwise reduced slice by slice to each slice's owner; with
/// reduce_scatter = false all-reduced in place. Then this rank's gradients are copied out of it.
/// Buckets live through a backward: one, or two with overlap_comm, where reductions have a stream
/// of their own. (The compute stream waits for it before the other bucket is filled.)
///
/// After the optimizer the partitions are all-gathered in place, on the compute stream. All ranks
/// are lowered as rank 0, which owns the parameters that come first. Left out: round-robin
/// gradients, MoE groups, contiguous_gradients = false.
class Zero2Schedule final : public StrategySchedule {
 public:
  explicit Zero2Schedule(Lowering& lowering);

  void init(ModuleWriter& modules) override;
  void gradient_ready(std::uint32_t module, ParameterIndex index, const Buffer& gradient) override;
  void end_backward() override;
  bool has_own_optimizer() const override { return true; }
  void optimizer_phase() override;
  void drop_gradients() override {}
  bool first_step_differs() const override { return true; }

 private:
  /// A parameter.
  struct Parameter {
    Owner owner;
    std::int64_t elements = 0;
    std::int64_t offset = 0;  ///< in the flat buffer
    std::int64_t own = 0;     ///< elements in this rank's partition
    Buffer doubled;           ///< its own part in fp64, for the norm
    Buffer widened;           ///< … in the master dtype, on its way to the host
  };
  struct Slice {
    std::int64_t owner = 0;
    std::int64_t first = 0;  ///< in what is reduced
    std::int64_t elements = 0;
  };

  /// What a test of fp16 gradients for numbers that are none allocates, in order.
  struct OverflowCheck {
    Buffer widened, is_nan, absolutes, is_infinite, is_either, as_numbers;
  };

  // zero2_setup.cpp
  void add_parameters(ModuleWriter& modules);
  void add_gradient_buffers();
  void add_overflow_checks();
  void add_update();
  bool offloads() const { return lowering_.workload.parallel.offload != Offload::none; }
  Buffer cached(std::int64_t elements, DType type, std::string_view name);

  // zero2_reduce.cpp
  void take_buckets();
  void reduce_bucket(bool is_last);
  void average(const Buffer& gradients);
  std::vector<Slice> slices() const;
  void all_reduce_slices(const Buffer& gradients, const std::vector<Slice>& parts);
  void reduce_slices(const Buffer& gradients, const std::vector<Slice>& parts);
  void copy_slices(Role role, const Buffer& gradients, const Buffer& packed,
                   const std::vector<Slice>& parts);
  Buffer for_wire(const Buffer& gradients, bool back);
  void keep(std::uint32_t row, const Buffer& gradient);
  void offload_gradient(std::uint32_t row, const Buffer& gradient);
  void copy(OpKind kind, Role role, StreamId stream, const Buffer& from, const Buffer& to);
  void scale(Role role, const Buffer& buffer);
  void sync_streams();

  // zero2_step.cpp
  void accumulate();
  void check_overflow();
  void gather_parameters();

  Lowering& lowering_;
  TiedGradients tied_;
  DType type_;     ///< of parameters and gradients
  DType reduced_;  ///< of communication
  bool overlaps_ = false;
  ProcessGroup world_;
  StreamId reduce_stream_;
  std::vector<Parameter> parameters_;    ///< by row of ShardLayout::parameters
  std::int64_t partition_ = 0;           ///< elements
  std::vector<std::uint32_t> own_rows_;  ///< that reach into this rank's partition: the first ones
  Buffer flat_;
  std::vector<Buffer> buckets_;
  Buffer kept_, kept_again_;  ///< gradients of own_rows_, of the first and of a later micro-batch
  Buffer host_gradients_;     ///< accumulated, pinned
  Buffer loaded_;             ///< one accumulated gradient on the device
  Buffer norms_;
  std::vector<OverflowCheck> checks_;  ///< by own_rows_; of fp16 gradients on the device
  Buffer overflow_flag_;               ///< fp16
  std::unique_ptr<ZeroUpdate> update_;

  // State.
  bool has_buckets_ = false;
  bool has_kept_ = false;
  std::size_t bucket_ = 0;
  std::int64_t bucket_elements_ = 0;
  std::vector<std::uint32_t> pending_;  ///< rows in the bucket
  Buffer large_;                        ///< a gradient that is larger than a bucket, instead
  std::map<std::pair<std::int64_t, std::string>, Buffer> cached_;
  std::vector<AccessedTensor> scratch_;
};

}  // namespace foregather::plan
