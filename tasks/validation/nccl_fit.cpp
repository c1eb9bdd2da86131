#include "tasks/validation/nccl_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sim/cost/collective.h"
#include "tasks/parallel.h"
#include "tasks/validation/errors.h"
#include "tasks/validation/interconnect.h"
#include "tasks/validation/nccl_tables.h"

namespace foregather::tasks {
namespace {

using sim::Generation;
using sim::Hardware;

constexpr double kMostOfOneTime = 0.5;  // |ln(predicted / published)|

struct NcclFigure {
  std::string_view key, applies;
  bool (*is_of)(const Hardware& hardware, int nodes);
  double& (*of)(Hardware& hardware);
  double unit;  ///< of the values, in those of Hardware
  double least, step;
  std::size_t values;

  double value(std::size_t i) const { return least + step * static_cast<double>(i); }
};

bool is_hopper_on(const Hardware& hardware) { return hardware.generation() >= Generation::hopper; }

constexpr std::array kNcclFigures{
    NcclFigure{"nccl.small_message_slowdown", "one node",
               [](const Hardware&, int nodes) { return nodes == 1; },
               [](Hardware& hw) -> double& { return hw.nccl.small_message_slowdown; }, 1, 1.0, 0.05,
               21},
    NcclFigure{"nccl.slowdown_between_nodes", "several nodes",
               [](const Hardware&, int nodes) { return nodes > 1; },
               [](Hardware& hw) -> double& { return hw.nccl.slowdown_between_nodes; }, 1, 1.0, 0.05,
               21},
    NcclFigure{"nccl.pipeline_fill", "all", [](const Hardware&, int) { return true; },
               [](Hardware& hw) -> double& { return hw.nccl.pipeline_fill; }, 1, 0.0, 0.05, 21},
    NcclFigure{"nccl.nvls_fill", "Hopper and Blackwell with NVSwitch",
               [](const Hardware& hw, int) {
                 return is_hopper_on(hw) && hw.intra.kind == sim::IntraLink::nvswitch;
               },
               [](Hardware& hw) -> double& { return hw.nccl.nvls_fill; }, 1, 0.0, 0.1, 21},
    NcclFigure{"nccl.channel_start (us)", "A100",
               [](const Hardware& hw, int) { return hw.has_nvlink() && !is_hopper_on(hw); },
               [](Hardware& hw) -> double& { return hw.nccl.channel_start; }, 1000, 0.0, 0.1, 31},
    NcclFigure{"nccl.channel_start (us)", "Hopper and Blackwell",
               [](const Hardware& hw, int) { return hw.has_nvlink() && is_hopper_on(hw); },
               [](Hardware& hw) -> double& { return hw.nccl.channel_start; }, 1000, 0.0, 0.05, 21},
    NcclFigure{"inter.ll_bandwidth (GB/s)", "several nodes, but on Slingshot",
               [](const Hardware& hw, int nodes) {
                 return nodes > 1 && hw.inter.kind != sim::InterLink::slingshot;
               },
               [](Hardware& hw) -> double& { return hw.inter.ll_bandwidth; }, 1e9, 1.0, 1.0, 21},
    NcclFigure{"inter.ll_bandwidth (GB/s)", "several nodes on Slingshot",
               [](const Hardware& hw, int nodes) {
                 return nodes > 1 && hw.inter.kind == sim::InterLink::slingshot;
               },
               [](Hardware& hw) -> double& { return hw.inter.ll_bandwidth; }, 1e9, 1.0, 1.0, 21},
    NcclFigure{"inter.rendezvous (us)", "several nodes on Slingshot",
               [](const Hardware& hw, int nodes) {
                 return nodes > 1 && hw.inter.kind == sim::InterLink::slingshot;
               },
               [](Hardware& hw) -> double& { return hw.inter.rendezvous; }, 1000, 0.0, 1.0, 21},
};

using NcclPoint = std::array<std::size_t, kNcclFigures.size()>;

struct Table {
  Hardware hardware;
  std::vector<NcclRow> rows;  ///< those with a time

  bool is_of(const NcclFigure& figure) const { return figure.is_of(hardware, rows.front().nodes); }
};

/// ln(predicted / published) of each row.
std::vector<double> errors_of(const Table& table, const NcclPoint& point) {
  Hardware hardware = table.hardware;
  for (std::size_t i = 0; i < point.size(); ++i)
    if (table.is_of(kNcclFigures[i]))
      kNcclFigures[i].of(hardware) = kNcclFigures[i].value(point[i]) * kNcclFigures[i].unit;
  sim::CollectivePricer pricer(hardware, 1.0);
  std::vector<double> errors;
  for (const NcclRow& row : table.rows)
    errors.push_back(std::log(predicted_us(row, pricer) / *row.published_us));
  return errors;
}

double loss(const Table& table, const NcclPoint& point) {
  double sum = 0;
  for (double error : errors_of(table, point)) sum += std::min(std::abs(error), kMostOfOneTime);
  return sum / static_cast<double>(table.rows.size());
}

NcclPoint best(const std::vector<Table>& tables, std::size_t left_out) {
  const auto all_but_one = [&](const NcclPoint& point) {
    double sum = 0;
    for (std::size_t i = 0; i < tables.size(); ++i)
      if (i != left_out) sum += loss(tables[i], point);
    return sum;
  };
  NcclPoint at;
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = kNcclFigures[i].values / 2;
  double least = all_but_one(at);
  for (bool better = true; better;) {
    better = false;
    for (std::size_t figure = 0; figure < at.size(); ++figure) {
      NcclPoint tried = at;
      for (tried[figure] = 0; tried[figure] < kNcclFigures[figure].values; ++tried[figure]) {
        const double sum = all_but_one(tried);
        if (sum >= least) continue;
        least = sum;
        at = tried;
        better = true;
      }
    }
  }
  return at;
}

Result<std::vector<Table>> tables_with_times(const std::string& directory) {
  auto rows = read_nccl_tables(directory);
  if (!rows) return tl::unexpected(rows.error());
  std::vector<Table> tables;
  for (NcclRow& row : *rows) {
    if (!row.published_us || !collective_of(row.collective) || row.nodes > row.ranks) continue;
    if (tables.empty() || !are_alike(tables.back().rows.back(), row)) {
      auto hardware = machine_of_interconnect(row.gpu, row.interconnect, row.ranks, row.nodes);
      if (!hardware) continue;
      tables.push_back({std::move(*hardware), {}});
    }
    tables.back().rows.push_back(std::move(row));
  }
  if (tables.empty()) return fail_at(directory, "has no times of collectives to fit to");
  return tables;
}

class Medians {
 public:
  void add(const Table& table, const NcclPoint& point) {
    const std::vector<double> errors = errors_of(table, point);
    for (std::size_t i = 0; i < errors.size(); ++i)
      (table.rows[i].size < 1 * MiB ? small_ : large_)
          .emplace_back(std::abs(std::exp(errors[i]) - 1), 1.0);
  }
  std::optional<double> small() const { return weighted_quantile(small_, 0.5); }
  std::optional<double> large() const { return weighted_quantile(large_, 0.5); }

 private:
  std::vector<std::pair<double, double>> small_, large_;
};

}  // namespace

Result<NcclFit> fit_nccl(const std::string& directory) {
  const auto tables = tables_with_times(directory);
  if (!tables) return tl::unexpected(tables.error());
  std::vector<NcclPoint> without(tables->size() + 1);
  in_parallel(without.size(), [&](std::size_t i) { without[i] = best(*tables, i); });
  const NcclPoint& all = without.back();

  NcclFit result;
  for (std::size_t i = 0; i < kNcclFigures.size(); ++i) {
    const NcclFigure& figure = kNcclFigures[i];
    FittedFigure& fitted = result.figures.emplace_back();
    fitted.key = figure.key;
    fitted.applies = figure.applies;
    fitted.value = fitted.least = fitted.most = figure.value(all[i]);
    for (std::size_t t = 0; t < tables->size(); ++t) {
      fitted.groups += (*tables)[t].is_of(figure) ? 1 : 0;
      fitted.least = std::min(fitted.least, figure.value(without[t][i]));
      fitted.most = std::max(fitted.most, figure.value(without[t][i]));
    }
  }
  Medians fitted, held_out;
  for (std::size_t t = 0; t < tables->size(); ++t) {
    fitted.add((*tables)[t], all);
    held_out.add((*tables)[t], without[t]);
  }
  result.small = fitted.small();
  result.large = fitted.large();
  result.held_out_small = held_out.small();
  result.held_out_large = held_out.large();
  return result;
}

std::string fit_text(const NcclFit& fit) {
  std::string text;
  for (const FittedFigure& figure : fit.figures)
    text +=
        fmt::format("{} = {:.2f}   {}; {} tables; {:.2f} to {:.2f} with one left out\n", figure.key,
                    figure.value, figure.applies, figure.groups, figure.least, figure.most);
  const auto percent = [](std::optional<double> share) { return 100 * share.value_or(0); };
  text += fmt::format(
      "nccl-tests, median error: {:.1f} % below 1 MiB, {:.1f} % held out; from there on {:.1f} %, "
      "{:.1f} % held out\n",
      percent(fit.small), percent(fit.held_out_small), percent(fit.large),
      percent(fit.held_out_large));
  return text;
}

}  // namespace foregather::tasks
