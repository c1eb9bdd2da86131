// One GPU and the machine around it, as figures with sources.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/ir/kinds.h"

namespace foregather::sim {

/// Row of the tables that NCCL keys by GPU generation.
enum class Generation : std::uint8_t { volta, ampere, hopper, blackwell };

/// How the GPUs of one node reach each other.
enum class IntraLink : std::uint8_t {
  nvswitch,   ///< NVLink through switches: any pair at full speed
  nvlink,     ///< NVLink point to point
  pcie_p2p,   ///< PCIe with peer access
  pcie_host,  ///< PCIe through buffers in host memory (no peer access)
  /// The ranks are threads of one machine (docs/runtime.md): links are rated, and each op is, so
  /// that what runs side by side does not slow each other.
  shared_memory,
};

/// What connects nodes. The kind names the fabric in messages; only its figures enter the
/// prices, but for TCP, over which there is no NVLS.
enum class InterLink : std::uint8_t { none, infiniband, roce, efa, tcp, slingshot };

std::string_view name(IntraLink);
std::string_view name(InterLink);

class MeasuredTable;

/// How far measured times lie from predicted ones: nine tenths of the time of the shapes that
/// were held out when the machine was calibrated lie between.
struct Residual {
  OpKind kind = OpKind::other;
  double low = 1, high = 1;  ///< measured / predicted; low ≤ 1 ≤ high
};

/// Rates are per second, times are nanoseconds, efficiencies are fractions of the rate they name.
/// Figures are doubles because they only ever enter cost formulas. See docs/cost-model.md for what
/// each one means; hardware/*.toml says where each value comes from.
struct Hardware {
  std::string name;
  std::string description;

  struct Memory {
    double capacity = 0;   ///< bytes that the driver offers to one process, context included
    double bandwidth = 0;  ///< B/s
    double l2 = 0;         ///< bytes
    /// Bytes that PyTorch's allocator gives cuBLAS for each thread that multiplies; 0: none.
    double workspace = 0;
  } memory;

  struct Compute {
    double compute_capability = 0;  ///< 70, 80, 89, 90, 100
    double sms = 0;
    double boost_clock = 0;  ///< Hz; the clock that the rates are stated at
    /// Clock at which nothing but matrix products and attention may run on and on, as a fraction of
    /// boost_clock.
    double sustained_clock = 1;
    /// Power of all other kernels, as a fraction of the power limit; 1: the clock is the same
    /// whatever runs, as it is on calibrated machines. See clock.h.
    double memory_bound_power = 1;
    double matmul_bf16 = 0;  ///< FLOP/s, dense; 0: no such unit
    double matmul_f16 = 0;
    double matmul_f8 = 0;
    double matmul_f32 = 0;  ///< what a framework's default fp32 matmul runs on
    double matmul_f64 = 0;
    double vector_f32 = 0;
    double vector_f64 = 0;  ///< without tensor cores; 0: double arithmetic of kernels costs nothing
    /// Standard deviation of the speed of such GPUs, as a fraction: the slowest of all ranks sets
    /// the pace of a step.
    double rank_spread = 0;
  } compute;

  /// Fractions of matmul rate (gemm, attention) or memory bandwidth (the others).
  struct Efficiency {
    double gemm = 0;
    double gemm_f8 = 0;            ///< 0: as gemm
    double attention_forward = 0;  ///< FlashAttention-2's, or what stands in for it
    double attention_backward = 0;
    double cudnn_forward = 0;  ///< cuDNN's attention; 0: not known there
    double cudnn_backward = 0;
    /// Of heads of 64 and below, in terms of those of 128; 0: as these.
    double attention_forward_64 = 0;
    double attention_backward_64 = 0;
    double cudnn_forward_64 = 0;
    double cudnn_backward_64 = 0;
    double elementwise = 0;
    double norm = 0;
    double softmax = 0;
    double reduction = 0;
    double embedding = 0;
    double cross_entropy = 0;
    double optimizer = 0;
    double copy = 0;
    double cast = 0;
    double fill = 0;
  } efficiency;

  /// Floors of device work, independent of size.
  struct Kernel {
    double floor = 0;      ///< ns of a kernel that does nothing
    double gemm_ramp = 0;  ///< ns of prologue and epilogue of a matrix kernel
    /// Keys at which attention reaches half its rate.
    double attention_ramp = 0;
    double attention_backward_ramp = 0;  ///< 0: as attention_ramp
    double cudnn_ramp = 0;
    double cudnn_backward_ramp = 0;
    double chunk_cat = 0;  ///< B/s written by a copy into chunks that widens; 0: as any copy
  } kernel;

  struct Intra {
    IntraLink kind = IntraLink::pcie_host;
    double links = 0;           ///< NVLink links a GPU; 1 for PCIe
    double link_bandwidth = 0;  ///< B/s a link and direction, as NCCL counts it
    double efficiency = 1;      ///< measured large-message bus bandwidth / NCCL's ring bandwidth
    double host_bandwidth = 0;  ///< B/s between GPU and host memory, each direction
    double gpus = 8;            ///< that these links may join: of a node, or of an NVLink domain
  } intra;

  struct Inter {
    InterLink kind = InterLink::none;
    double nic_bandwidth = 0;      ///< B/s a GPU and direction, line rate
    double nics_per_gpu = 1;       ///< adapters; below 1 GPUs share them
    double efficiency = 1;         ///< of line rate, large messages
    double single_efficiency = 0;  ///< the same of nodes with one GPU; 0: as the others
    /// Of the rate at which trees over more than two nodes could use the adapters.
    double tree_efficiency = 1;
    double latency = 0;  ///< ns that the NIC adds to each hop
    /// ns that a message takes longer whose receiver is asked first, because it is too long to be
    /// sent at once.
    double rendezvous = 0;
    /// B/s of a message by NCCL's LL that a rank's thread passes on, once it is whole.
    double ll_bandwidth = 0;
    double simple_only = 0;  ///< 1 where NCCL's plug-in switches the other protocols off
  } inter;

  struct Nccl {
    double version = 0;          ///< NCCL_VERSION_CODE: 22809 is 2.28.9
    double launch_floor = 0;     ///< ns: no collective of more than one rank is shorter
    double channel_start = 0;    ///< ns that each channel adds, whatever the message
    double nvls_fill = 0;        ///< the same for NVLS
    double nvls_efficiency = 1;  ///< measured large-message bandwidth / NCCL's NVLS bandwidth
    double small_message_slowdown = 1;  ///< of NCCL's latency terms on one node
    double slowdown_between_nodes = 0;  ///< of these on several; 0: as on one
    /// 1 where LL128 is in use between nodes: the NIC is near its GPU, not behind the processor.
    double ll128_between_nodes = 1;
  } nccl;

  /// Host time in ns.
  struct Host {
    double dispatch = 0;             ///< of the framework for one op
    double launch = 0;               ///< a kernel launch
    double collective_dispatch = 0;  ///< a collective, launch included
    double alloc = 0;
    double free = 0;
    double record = 0;
    double wait = 0;
    double synchronize = 0;
    double device_malloc = 0;
    double device_malloc_per_gib = 0;
    double device_free = 0;
    double device_map = 0;
  } host;

  /// Device bytes that the allocator never sees.
  struct Outside {
    double context = 0;
    double nccl_per_channel = 0;  ///< of one communicator
    double libraries = 0;         ///< kernels and handles that cuBLAS and others load
  } outside;

  /// Factors on predictions that hold nine of ten published values (docs/validation.md): low at
  /// most 1, high at least 1.
  struct Interval {
    double compute_low = 1, compute_high = 1;  ///< times of compute
    double intra_low = 1, intra_high = 1;      ///< of collectives inside a node
    double inter_low = 1, inter_high = 1;      ///< of collectives of several nodes
    double host_low = 1, host_high = 1;        ///< host times
    double retry_high = 1;                     ///< besides, of steps whose allocator retries
    double peak_low = 1, peak_high = 1;        ///< peaks of memory
    /// Does compute's hold nine of ten published steps of such GPUs, as its source says?
    bool is_validated = false;
  } interval;

  /// Of a calibrated machine: measured work, which goes before the model. Null: none.
  std::shared_ptr<const MeasuredTable> measured;
  std::vector<Residual> residuals;

  Generation generation() const;
  /// Are there figures of cuDNN's attention?
  bool has_cudnn_attention() const {
    return efficiency.cudnn_forward > 0 && efficiency.cudnn_backward > 0;
  }
  /// PyTorch since 2.11 takes it on 9.0 and 10.0 (check_prefer_cudnn_attention), not on 10.3.
  bool prefers_cudnn_attention() const {
    return has_cudnn_attention() &&
           (compute.compute_capability == 90 || compute.compute_capability == 100);
  }
  bool has_nvlink() const {
    return intra.kind == IntraLink::nvswitch || intra.kind == IntraLink::nvlink;
  }
};

/// The hardware of a built-in name ("h100_sxm") or of the TOML file at a path (anything that holds
/// '/' or ends in ".toml"). A file may set `base = "NAME"` and give only what differs; the path of
/// a base is relative to the file's folder.
///
/// Errors: an unknown name (the nearest and all known ones are listed); unknown keys, missing
/// figures, figures without a source, wrong units, and values that are not finite or out of the
/// figure's plausible range, each at FILE:LINE:COL.
Result<Hardware> load_hardware(const std::string& name_or_path);

/// The same from text; `place` is the FILE of error messages.
Result<Hardware> parse_hardware(std::string_view text, const std::string& place);

/// Replaces the links inside a node by those of a topology file (hardware/topologies, or a path):
/// it holds only [intra]. The hardware's name becomes "GPU+TOPOLOGY". An NVLink topology on a GPU
/// whose own links are PCIe is an error. After an error `hardware` is unspecified.
Status apply_topology(Hardware& hardware, const std::string& name_or_path);

/// The same for the links between nodes: a fabric file holds only [inter].
Status apply_fabric(Hardware& hardware, const std::string& name_or_path);

/// The files that a hardware, a topology or a fabric is read from, its bases after it: none for a
/// built-in name. What cannot be read ends the list.
std::vector<std::string> hardware_files(const std::string& name_or_path);

/// Built-in names, sorted.
std::vector<std::string_view> hardware_names();
std::vector<std::string_view> topology_names();
std::vector<std::string_view> fabric_names();

}  // namespace foregather::sim
