#include "sim/cost/hardware_schema.h"

#include <array>

namespace foregather::sim {

namespace {

// clang-format off
#define FIGURE(section, key, dimension, least, most, ...)           \
  FigureSpec{#section, #key, Dimension::dimension, least, most,      \
             [](Hardware& hw) -> double& { return hw.section.key; }, \
             __VA_OPT__(__VA_ARGS__)}

constexpr bool kOrZero = true, kMayLack = true;

constexpr std::array kFigures{
    FIGURE(memory, capacity, size, 1e8, 1e13),
    FIGURE(memory, bandwidth, rate, 1e9, 1e14),
    FIGURE(memory, l2, size, 1e5, 1e11),
    FIGURE(memory, workspace, size, 1e3, 1e10, kOrZero, kMayLack),

    FIGURE(compute, compute_capability, number, 70, 129),
    FIGURE(compute, sms, number, 1, 10'000),
    FIGURE(compute, boost_clock, frequency, 1e8, 1e11),
    FIGURE(compute, sustained_clock, number, 0.1, 1),
    FIGURE(compute, memory_bound_power, number, 0.1, 1, false, kMayLack),
    FIGURE(compute, matmul_bf16, flops, 1e9, 1e16, kOrZero),
    FIGURE(compute, matmul_f16, flops, 1e9, 1e16),
    FIGURE(compute, matmul_f8, flops, 1e9, 2e16, kOrZero),
    FIGURE(compute, matmul_f32, flops, 1e9, 1e16),
    FIGURE(compute, matmul_f64, flops, 1e8, 1e18),
    FIGURE(compute, vector_f32, flops, 1e9, 1e15),
    FIGURE(compute, vector_f64, flops, 1e8, 1e18, kOrZero, kMayLack),
    FIGURE(compute, rank_spread, number, 0, 0.2),

    FIGURE(efficiency, gemm, number, 0.01, 1),
    FIGURE(efficiency, gemm_f8, number, 0.01, 1, kOrZero),
    FIGURE(efficiency, attention_forward, number, 0.01, 1),
    FIGURE(efficiency, attention_backward, number, 0.01, 1),
    FIGURE(efficiency, cudnn_forward, number, 0.01, 1, kOrZero, kMayLack),
    FIGURE(efficiency, cudnn_backward, number, 0.01, 1, kOrZero, kMayLack),
    FIGURE(efficiency, attention_forward_64, number, 0.01, 1, kOrZero, kMayLack),
    FIGURE(efficiency, attention_backward_64, number, 0.01, 1, kOrZero, kMayLack),
    FIGURE(efficiency, cudnn_forward_64, number, 0.01, 1, kOrZero, kMayLack),
    FIGURE(efficiency, cudnn_backward_64, number, 0.01, 1, kOrZero, kMayLack),
    FIGURE(efficiency, elementwise, number, 0.01, 1),
    FIGURE(efficiency, norm, number, 0.01, 1),
    FIGURE(efficiency, softmax, number, 0.01, 1),
    FIGURE(efficiency, reduction, number, 0.01, 1),
    FIGURE(efficiency, embedding, number, 0.01, 1),
    FIGURE(efficiency, cross_entropy, number, 0.01, 1),
    FIGURE(efficiency, optimizer, number, 0.01, 1),
    FIGURE(efficiency, copy, number, 0.01, 1),
    FIGURE(efficiency, cast, number, 0.01, 1),
    FIGURE(efficiency, fill, number, 0.01, 1),

    FIGURE(kernel, floor, time, 0, 1e6),
    FIGURE(kernel, gemm_ramp, time, 0, 1e6),
    FIGURE(kernel, attention_ramp, number, 0, 1e5),
    FIGURE(kernel, attention_backward_ramp, number, 0, 1e5, kOrZero, kMayLack),
    FIGURE(kernel, cudnn_ramp, number, 0, 1e5, kOrZero, kMayLack),
    FIGURE(kernel, cudnn_backward_ramp, number, 0, 1e5, kOrZero, kMayLack),
    FIGURE(kernel, chunk_cat, rate, 1e8, 1e18, kOrZero, kMayLack),

    FIGURE(intra, links, number, 1, 1000),
    FIGURE(intra, link_bandwidth, rate, 1e7, 1e14),
    FIGURE(intra, efficiency, number, 0.05, 1.2),
    FIGURE(intra, host_bandwidth, rate, 1e7, 1e14),
    FIGURE(intra, gpus, number, 1, 1024, false, kMayLack),

    FIGURE(inter, nic_bandwidth, rate, 1e6, 1e14),
    FIGURE(inter, nics_per_gpu, number, 0.01, 16, false, kMayLack),
    FIGURE(inter, efficiency, number, 0.05, 1),
    FIGURE(inter, single_efficiency, number, 0.05, 1, kOrZero, kMayLack),
    FIGURE(inter, tree_efficiency, number, 0.05, 1),
    FIGURE(inter, latency, time, 0, 1e8),
    FIGURE(inter, rendezvous, time, 0, 1e8),
    FIGURE(inter, ll_bandwidth, rate, 1e8, 1e14),
    FIGURE(inter, simple_only, number, 0, 1, false, kMayLack),

    FIGURE(nccl, version, number, 20'000, 99'999),
    FIGURE(nccl, launch_floor, time, 0, 1e7),
    FIGURE(nccl, channel_start, time, 0, 1e6),
    FIGURE(nccl, nvls_fill, number, 0, 100),
    FIGURE(nccl, nvls_efficiency, number, 0.05, 2),
    FIGURE(nccl, small_message_slowdown, number, 0.5, 10),
    FIGURE(nccl, slowdown_between_nodes, number, 0.5, 10, kOrZero, kMayLack),
    FIGURE(nccl, ll128_between_nodes, number, 0, 1),

    FIGURE(host, dispatch, time, 0, 1e8),
    FIGURE(host, launch, time, 0, 1e8),
    FIGURE(host, collective_dispatch, time, 0, 1e8),
    FIGURE(host, alloc, time, 0, 1e8),
    FIGURE(host, free, time, 0, 1e8),
    FIGURE(host, record, time, 0, 1e8),
    FIGURE(host, wait, time, 0, 1e8),
    FIGURE(host, synchronize, time, 0, 1e8),
    FIGURE(host, device_malloc, time, 0, 1e10),
    FIGURE(host, device_malloc_per_gib, time, 0, 1e10),
    FIGURE(host, device_free, time, 0, 1e10),
    FIGURE(host, device_map, time, 0, 1e10),

    FIGURE(outside, context, size, 0, 1e11),
    FIGURE(outside, nccl_per_channel, size, 0, 1e10),
    FIGURE(outside, libraries, size, 0, 1e11),

    FIGURE(interval, compute_low, number, 0.01, 1),
    FIGURE(interval, compute_high, number, 1, 100),
    FIGURE(interval, intra_low, number, 0.01, 1),
    FIGURE(interval, intra_high, number, 1, 100),
    FIGURE(interval, inter_low, number, 0.01, 1),
    FIGURE(interval, inter_high, number, 1, 100),
    FIGURE(interval, host_low, number, 0.01, 1),
    FIGURE(interval, host_high, number, 1, 100),
    FIGURE(interval, retry_high, number, 1, 100, false, kMayLack),
    FIGURE(interval, peak_low, number, 0.01, 1),
    FIGURE(interval, peak_high, number, 1, 100),
};
#undef FIGURE

struct Unit {
  Dimension dimension;
  std::string_view name;
  double factor;
};

constexpr std::array kUnits{
    Unit{Dimension::size, "B", 1},          Unit{Dimension::size, "KiB", 1024},
    Unit{Dimension::size, "MiB", 1048576},  Unit{Dimension::size, "GiB", 1073741824},
    Unit{Dimension::size, "MB", 1e6},       Unit{Dimension::size, "GB", 1e9},
    Unit{Dimension::rate, "B/s", 1},        Unit{Dimension::rate, "MB/s", 1e6},
    Unit{Dimension::rate, "GB/s", 1e9},     Unit{Dimension::rate, "TB/s", 1e12},
    Unit{Dimension::rate, "Gb/s", 1.25e8},  Unit{Dimension::flops, "FLOP/s", 1},
    Unit{Dimension::flops, "GFLOP/s", 1e9}, Unit{Dimension::flops, "TFLOP/s", 1e12},
    Unit{Dimension::time, "ns", 1},         Unit{Dimension::time, "us", 1e3},
    Unit{Dimension::time, "ms", 1e6},       Unit{Dimension::time, "s", 1e9},
    Unit{Dimension::frequency, "Hz", 1},    Unit{Dimension::frequency, "MHz", 1e6},
    Unit{Dimension::frequency, "GHz", 1e9}, Unit{Dimension::number, "1", 1},
};
// clang-format on

}  // namespace

std::span<const FigureSpec> figure_specs() { return kFigures; }

std::optional<double> unit_factor(Dimension dimension, std::string_view unit) {
  for (const Unit& known : kUnits) {
    if (known.dimension == dimension && known.name == unit) return known.factor;
  }
  return std::nullopt;
}

std::string_view unit_list(Dimension dimension) {
  switch (dimension) {
    case Dimension::size: return "B, KiB, MiB, GiB, MB or GB";
    case Dimension::rate: return "B/s, MB/s, GB/s, TB/s or Gb/s";
    case Dimension::flops: return "FLOP/s, GFLOP/s or TFLOP/s";
    case Dimension::time: return "ns, us, ms or s";
    case Dimension::frequency: return "Hz, MHz or GHz";
    case Dimension::number: return "1";
  }
  return "";
}

}  // namespace foregather::sim
