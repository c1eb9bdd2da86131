#include "tasks/validation/nccl_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

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
  bool is_of_each_process = false;  ///< told by tables with one process a GPU alone

  double value(std::size_t i) const { return least + step * static_cast<double>(i); }
};

bool is_hopper(const Hardware& hardware) { return hardware.generation() == Generation::hopper; }
bool is_hopper_or_later(const Hardware& hardware) {
  return hardware.generation() >= Generation::hopper;
}

constexpr std::array kNcclFigures{
    NcclFigure{"nccl.small_message_slowdown", "one node, but Hopper",
               [](const Hardware& hw, int nodes) { return nodes == 1 && !is_hopper(hw); },
               [](Hardware& hw) -> double& { return hw.nccl.small_message_slowdown; }, 1, 0.8, 0.05,
               25, true},
    NcclFigure{"nccl.small_message_slowdown", "one node of Hopper",
               [](const Hardware& hw, int nodes) { return nodes == 1 && is_hopper(hw); },
               [](Hardware& hw) -> double& { return hw.nccl.small_message_slowdown; }, 1, 0.8, 0.05,
               25, true},
    NcclFigure{"nccl.slowdown_between_nodes", "several nodes, but Hopper",
               [](const Hardware& hw, int nodes) { return nodes > 1 && !is_hopper(hw); },
               [](Hardware& hw) -> double& { return hw.nccl.slowdown_between_nodes; }, 1, 0.8, 0.05,
               25, true},
    NcclFigure{"nccl.slowdown_between_nodes", "several nodes of Hopper",
               [](const Hardware& hw, int nodes) { return nodes > 1 && is_hopper(hw); },
               [](Hardware& hw) -> double& { return hw.nccl.slowdown_between_nodes; }, 1, 0.8, 0.05,
               25, true},
    NcclFigure{"nccl.nvls_fill", "Hopper and Blackwell with NVSwitch",
               [](const Hardware& hw, int) {
                 return is_hopper_or_later(hw) && hw.intra.kind == sim::IntraLink::nvswitch;
               },
               [](Hardware& hw) -> double& { return hw.nccl.nvls_fill; }, 1, 0.0, 0.1, 21},
    NcclFigure{"nccl.channel_start (us)", "A100",
               [](const Hardware& hw, int) { return hw.has_nvlink() && !is_hopper_or_later(hw); },
               [](Hardware& hw) -> double& { return hw.nccl.channel_start; }, 1000, 0.0, 0.1, 31,
               true},
    NcclFigure{"nccl.channel_start (us)", "Hopper and Blackwell",
               [](const Hardware& hw, int) { return hw.has_nvlink() && is_hopper_or_later(hw); },
               [](Hardware& hw) -> double& { return hw.nccl.channel_start; }, 1000, 0.0, 0.05, 21,
               true},
    NcclFigure{"inter.ll_bandwidth (GB/s)", "several nodes on EFA",
               [](const Hardware& hw, int nodes) {
                 return nodes > 1 && hw.inter.kind == sim::InterLink::efa;
               },
               [](Hardware& hw) -> double& { return hw.inter.ll_bandwidth; }, 1e9, 0.5, 0.5, 21},
    NcclFigure{"inter.ll_bandwidth (GB/s)", "several nodes on InfiniBand and RoCE",
               [](const Hardware& hw, int nodes) {
                 return nodes > 1 && (hw.inter.kind == sim::InterLink::infiniband ||
                                      hw.inter.kind == sim::InterLink::roce);
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
  std::size_t source = 0;
  double weight = 1;  ///< 1 / tables of its source

  /// What one process takes to launch on all GPUs tells nothing of the rest.
  bool is_of(const NcclFigure& figure) const {
    const NcclRow& row = rows.front();
    return figure.is_of(hardware, row.nodes) &&
           !(figure.is_of_each_process && drives_all_gpus(hardware, row.interconnect, row.nodes));
  }
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

NcclPoint middle() {
  NcclPoint at;
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = kNcclFigures[i].values / 2;
  return at;
}

/// By a source that is not left out.
bool is_shown(const NcclFigure& figure, const std::vector<Table>& tables, std::size_t left_out) {
  return std::ranges::any_of(
      tables, [&](const Table& table) { return table.source != left_out && table.is_of(figure); });
}

/// On the tables of all sources but one. What none of them shows stays as it is `at`.
NcclPoint best(const std::vector<Table>& tables, std::size_t left_out, NcclPoint at) {
  std::vector<const Table*> rest;
  std::vector<double> losses;
  for (const Table& table : tables) {
    if (table.source == left_out) continue;
    rest.push_back(&table);
    losses.push_back(loss(table, at));
  }
  const auto sum_of = [&](const std::vector<double>& of) {
    double sum = 0;
    for (std::size_t i = 0; i < rest.size(); ++i) sum += rest[i]->weight * of[i];
    return sum;
  };
  double least = sum_of(losses);
  for (bool better = true; better;) {
    better = false;
    for (std::size_t figure = 0; figure < at.size(); ++figure) {
      if (!is_shown(kNcclFigures[figure], tables, left_out)) continue;
      NcclPoint tried = at;
      std::vector<double> now = losses;
      for (tried[figure] = 0; tried[figure] < kNcclFigures[figure].values; ++tried[figure]) {
        for (std::size_t i = 0; i < rest.size(); ++i)
          if (rest[i]->is_of(kNcclFigures[figure])) now[i] = loss(*rest[i], tried);
        const double sum = sum_of(now);
        if (sum >= least) continue;
        least = sum;
        losses = now;
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
    if (!row.published_us || !row.kind || row.nodes > row.ranks) continue;
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

/// Gives each table its source and weight. Returns the number of sources.
std::size_t weigh(std::vector<Table>& tables) {
  std::map<std::string_view, std::size_t> numbers;
  std::vector<double> members;
  for (Table& table : tables) {
    table.source = numbers.try_emplace(table.rows.front().source, numbers.size()).first->second;
    members.resize(numbers.size());
    members[table.source] += 1;
  }
  for (Table& table : tables) table.weight = 1 / members[table.source];
  return members.size();
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
  auto tables = tables_with_times(directory);
  if (!tables) return tl::unexpected(tables.error());
  const std::size_t sources = weigh(*tables);
  const NcclPoint all = best(*tables, sources, middle());
  std::vector<NcclPoint> without(sources);
  in_parallel(sources, [&](std::size_t source) {
    NcclPoint from = all;
    for (std::size_t i = 0; i < from.size(); ++i)
      if (is_shown(kNcclFigures[i], *tables, source)) from[i] = middle()[i];
    without[source] = best(*tables, source, from);
  });

  NcclFit result;
  for (std::size_t i = 0; i < kNcclFigures.size(); ++i) {
    const NcclFigure& figure = kNcclFigures[i];
    FittedFigure& fitted = result.figures.emplace_back();
    fitted.key = figure.key;
    fitted.applies = figure.applies;
    fitted.value = fitted.least = fitted.most = figure.value(all[i]);
    std::set<std::size_t> showing;
    for (const Table& table : *tables)
      if (table.is_of(figure)) showing.insert(table.source);
    fitted.groups = showing.size();
    for (const NcclPoint& point : without) {
      fitted.least = std::min(fitted.least, figure.value(point[i]));
      fitted.most = std::max(fitted.most, figure.value(point[i]));
    }
  }
  Medians fitted, held_out;
  for (const Table& table : *tables) {
    fitted.add(table, all);
    held_out.add(table, without[table.source]);
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
    text += fmt::format("{} = {:.2f}   {}; ", figure.key, figure.value, figure.applies) +
            (figure.groups == 0
                 ? std::string("as it is: no table tells\n")
                 : fmt::format("{} source{}; {:.2f} to {:.2f} with one left out\n", figure.groups,
                               figure.groups == 1 ? "" : "s", figure.least, figure.most));
  const auto percent = [](std::optional<double> share) { return 100 * share.value_or(0); };
  text += fmt::format(
      "nccl-tests, median error: {:.1f} % below 1 MiB, {:.1f} % held out; from there on {:.1f} %, "
      "{:.1f} % held out\n",
      percent(fit.small), percent(fit.held_out_small), percent(fit.large),
      percent(fit.held_out_large));
  return text;
}

}  // namespace foregather::tasks
