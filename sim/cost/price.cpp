#include "sim/cost/price.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/clock.h"
#include "sim/cost/collective.h"
#include "sim/cost/gemm.h"
#include "sim/cost/host_cost.h"
#include "sim/cost/measured.h"
#include "sim/cost/roofline.h"
#include "sim/cost/rounding.h"
#include "sim/cost/slowest.h"

namespace foregather::sim {

namespace {

/// Ranks of a collective and the nodes that they are spread over.
struct Span {
  std::uint32_t ranks = 1;
  std::uint32_t nodes = 1;
};

/// A group that says less nodes than its ranks need (a recording that does not know) gets them.
Span span_of(const Graph& graph, const Cost& cost, std::uint32_t gpus_per_node) {
  if (!is_collective(cost.kind) || !cost.group) return {};
  const Group& group = graph.at(cost.group);
  const std::uint32_t ranks = group.ranks.count;
  const std::uint32_t least = gpus_per_node > 0 ? (ranks + gpus_per_node - 1) / gpus_per_node : 1;
  return {ranks, std::max(group.nodes, least)};
}

/// Whether measured work said the time, or the model with figures fitted to smaller or larger work.
enum class Calibrated : std::uint8_t { no, extrapolated, yes };

/// Texts of CostTable::sources, made on first use of each distinct model.
class Sources {
 public:
  Sources(const Hardware& hardware, std::vector<std::string>& texts)
      : hardware_(hardware), texts_(texts) {}

  std::uint16_t fixed() {
    return row(1U << 24, [] { return std::string("given by the schedule"); });
  }

  std::uint16_t compute(const Cost& cost, Calibrated calibrated) {
    constexpr std::array<std::string_view, 3> kHow{"roofline", "calibrated, extrapolated",
                                                   "calibrated"};
    const auto how = static_cast<std::uint32_t>(calibrated);
    const auto key = (2U << 24) | (how << 16) | (static_cast<std::uint32_t>(cost.kind) << 8) |
                     static_cast<std::uint32_t>(cost.dtype);
    return row(key, [&] {
      return fmt::format("{} {} {} {}", kHow[how], foregather::name(cost.kind),
                         foregather::name(cost.dtype), hardware_.name);
    });
  }

  std::uint16_t collective(const Cost& cost, const CollectiveWork& work, Span span) {
    const std::uint32_t nodes = span.nodes;
    if (span.ranks <= 1) {
      return row(4U << 24, [&] { return fmt::format("copy, one rank {}", hardware_.name); });
    }
    const std::uint32_t choice = !work.is_nccl_choice
                                     ? 255U
                                     : (static_cast<std::uint32_t>(work.choice.algorithm) << 4) |
                                           static_cast<std::uint32_t>(work.choice.protocol);
    const std::uint32_t key = (3U << 24) | ((nodes & 0xffU) << 16) |
                              (static_cast<std::uint32_t>(cost.kind) << 8) | choice;
    return row(key, [&] {
      const int version = static_cast<int>(hardware_.nccl.version);
      const std::string how =
          work.is_nccl_choice
              ? fmt::format("{} {}", name(work.choice.algorithm), name(work.choice.protocol))
              : std::string("point-to-point");
      return fmt::format("nccl {}.{} {} {}, {} node{}, {} {}", version / 10000, version / 100 % 100,
                         foregather::name(cost.kind), how, nodes, nodes == 1 ? "" : "s",
                         hardware_.name,
                         nodes == 1 ? name(hardware_.intra.kind) : name(hardware_.inter.kind));
    });
  }

 private:
  template <class Text>
  std::uint16_t row(std::uint32_t key, Text text) {
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (keys_[i] == key) return static_cast<std::uint16_t>(i);
    }
    keys_.push_back(key);
    texts_.push_back(text());
    return static_cast<std::uint16_t>(keys_.size() - 1);
  }

  const Hardware& hardware_;
  std::vector<std::string>& texts_;
  std::vector<std::uint32_t> keys_;
};

/// The same traffic in another time: SMs stay, bandwidth shares change.
void take_fixed_time(Work& work, Ns fixed, double speed) {
  const double time = static_cast<double>(fixed) / speed;
  const double ratio = time > 0 ? work.time / time : 0.0;
  for (Resource r : {Resource::hbm, Resource::intra_link, Resource::inter_link}) work[r] *= ratio;
  work.time = time;
}

double speed_of(OpKind kind, const PriceOptions& options) {
  if (kind == OpKind::sleep) return 1;
  return is_collective(kind) ? options.link_bandwidth_scale : options.compute_scale;
}

Price rounded(const Work& work, double host, std::uint16_t source) {
  Price price;
  price.duration = round_ns(work.time);
  price.host = round_ns(host);
  for (std::size_t i = 0; i < kResources; ++i) price.demand[i] = round_share(work.share[i]);
  price.source = source;
  return price;
}

/// Work between measured ones takes the time that they say.
Calibrated take_measured_time(const Cost& cost, const Hardware& hardware, bool by_cudnn,
                              bool attention_is_stated, Work& work) {
  if (hardware.measured == nullptr || cost.is_fixed || cost.kernels != 1) return Calibrated::no;
  run::WorkSample sample;
  sample.cost = cost;
  if (cost.n == 0) sample.cost.m = 0;  // recordings do not tell which elements are strided
  sample.has_cost = true;
  sample.by_cudnn = by_cudnn;
  auto estimate = hardware.measured->estimate(sample, hardware);
  if (!estimate && cost.kind == OpKind::attention && !attention_is_stated) {
    sample.by_cudnn = !by_cudnn;
    estimate = hardware.measured->estimate(sample, hardware);
  }
  if (!estimate) return Calibrated::no;
  if (estimate->is_extrapolated) return Calibrated::extrapolated;
  work[Resource::hbm] *= work.time / estimate->time;
  work.time = estimate->time;
  return Calibrated::yes;
}

/// Of work that is no collective: its time and shares of a GPU that the slowest rank has.
Calibrated price_compute(const Cost& cost, const Hardware& hardware, const PriceOptions& options,
                         Work& work) {
  const bool prefers_cudnn =
      options.cudnn_attention && (options.attention_is_stated ? hardware.has_cudnn_attention()
                                                              : hardware.prefers_cudnn_attention());
  const bool by_cudnn = prefers_cudnn && cost.kind == OpKind::attention && cost.dtype != DType::f32;
  work = by_cudnn ? attention_work(cost, hardware, AttentionKernels::cudnn)
                  : compute_work(cost, hardware);
  const Calibrated calibrated =
      take_measured_time(cost, hardware, by_cudnn, options.attention_is_stated, work);
  const double pace = 1 + hardware.compute.rank_spread * slowest_of(options.ranks);
  const double speed = options.compute_scale / pace *
                       (cost.kind == OpKind::attention ? options.attention_speed : 1.0);
  work.time /= speed;
  work[Resource::hbm] *= speed;
  return calibrated;
}

/// Compute takes the time that it has at the clock of the schedule.
void take_clock(const Graph& graph, const Hardware& hardware, const PriceOptions& options,
                CostTable& table) {
  table.clock = clock_under_power_limit(graph, table.prices, hardware.compute);
  Hardware clocked = hardware;
  clocked.compute.sustained_clock = table.clock;
  for (std::size_t i = 0; i < graph.costs.size(); ++i) {
    const Cost& cost = graph.costs[i];
    if (is_collective(cost.kind) || cost.is_fixed) continue;
    Work work;
    price_compute(cost, clocked, options, work);
    Price& price = table.prices[i];
    const Price at_clock = rounded(work, 0, price.source);
    price.duration = at_clock.duration;
    price.demand = at_clock.demand;
  }
}

}  // namespace

Work compute_work(const Cost& cost, const Hardware& hardware) {
  switch (cost.kind) {
    case OpKind::gemm: return gemm_work(cost, hardware);
    case OpKind::attention: return attention_work(cost, hardware);
    case OpKind::host_to_device:
    case OpKind::device_to_host: return host_copy_work(cost, hardware);
    case OpKind::sleep: return {};
    default: return memory_work(cost, hardware);
  }
}

CostTable price(const Graph& graph, const Hardware& hardware, const PriceOptions& options) {
  CostTable table;
  table.clock = hardware.compute.sustained_clock;
  table.host = host_prices(hardware);
  table.prices.reserve(graph.costs.size());
  Sources sources(hardware, table.sources);
  CollectivePricer collectives(hardware, options.link_bandwidth_scale);

  for (const Cost& cost : graph.costs) {
    Work work;
    std::uint16_t source = 0;
    if (is_collective(cost.kind)) {
      const Span span = span_of(graph, cost, options.gpus_per_node);
      const CollectiveWork priced =
          collectives.price(cost.kind, cost.message_bytes, span.ranks, span.nodes);
      work = priced.work;
      source = cost.is_fixed ? sources.fixed() : sources.collective(cost, priced, span);
    } else {
      const Calibrated calibrated = price_compute(cost, hardware, options, work);
      source = cost.is_fixed ? sources.fixed() : sources.compute(cost, calibrated);
    }
    if (cost.is_fixed) take_fixed_time(work, cost.fixed_time, speed_of(cost.kind, options));
    Price& price = table.prices.emplace_back(rounded(work, host_time(cost, hardware), source));
    price.launch_lead = cost.launch_lead;
    price.lead = cost.lead;
    price.lateness = cost.lateness;
    price.is_own = cost.is_fixed;
  }
  // Work that was measured ran at the clock that it had.
  if (hardware.compute.memory_bound_power < 1 && hardware.measured == nullptr)
    take_clock(graph, hardware, options, table);
  return table;
}

}  // namespace foregather::sim
