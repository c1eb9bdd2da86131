#include "tasks/validation/by_mechanism.h"

#include <array>

#include <fmt/format.h>

#include "tasks/validation/markdown.h"

namespace foregather::tasks {
namespace {

constexpr double kVisible = 0.02;

struct ErrorGroup {
  std::string_view name;
  bool (*applies)(const RowResult&);
};

bool is_host(const RowResult& row) {
  const StepShares& shares = row.prediction.shares;
  return shares.host > kVisible && shares.host >= shares.exposed_comm;
}
bool is_exposed(const RowResult& row) {
  return row.prediction.shares.exposed_comm > kVisible && !is_host(row);
}
bool is_one_node(const RowResult& row) { return row.row.nodes.value_or(1) == 1; }
bool is_float8(const RowResult& row) { return row.row.compute.starts_with("fp8"); }
bool is_eager(const RowResult& row) {
  return row.row.compile == "none" && !row.row.strategy.starts_with("thunder");
}

constexpr std::array kErrorGroups{
    ErrorGroup{"compute alone",
               [](const RowResult& row) { return !is_exposed(row) && !is_host(row); }},
    ErrorGroup{"and exposed communication within the node",
               [](const RowResult& row) { return is_exposed(row) && is_one_node(row); }},
    ErrorGroup{"and exposed communication between nodes",
               [](const RowResult& row) { return is_exposed(row) && !is_one_node(row); }},
    ErrorGroup{"and waiting for the host", is_host},
    ErrorGroup{"eager", [](const RowResult& row) { return !is_float8(row) && is_eager(row); }},
    ErrorGroup{"compiled", [](const RowResult& row) { return !is_float8(row) && !is_eager(row); }},
    ErrorGroup{"float8, eager",
               [](const RowResult& row) { return is_float8(row) && is_eager(row); }},
    ErrorGroup{"float8, compiled",
               [](const RowResult& row) { return is_float8(row) && !is_eager(row); }},
};

}  // namespace

std::vector<MechanismFigures> figures_by_mechanism(const std::vector<RowResult>& rows) {
  std::vector<MechanismFigures> all;
  for (const ErrorGroup& mechanism : kErrorGroups) {
    std::vector<const RowResult*> found;
    for (const RowResult& row : rows)
      if (row.prediction.is_predicted() && mechanism.applies(row)) found.push_back(&row);
    all.push_back({std::string(mechanism.name), figures_of(found, true)});
  }
  return all;
}

std::string mechanisms_markdown(const std::vector<RowResult>& rows) {
  std::vector<std::vector<std::string>> cells;
  std::size_t n = 0;
  for (const auto& [mechanism, figures] : figures_by_mechanism(rows)) {
    n += figures.n;
    cells.push_back({mechanism, fmt::format("{}", figures.time.n), percent(figures.time.median),
                     percent(figures.time.p90), fmt::format("{}", figures.peak.n),
                     percent(figures.peak.median), percent(figures.peak.p90)});
  }
  if (n == 0) return {};
  return "\n## By mechanism\n\nPredicted rows of all tiers, each group weighs the same. First by "
         "what the predicted step spends its time on: compute, and beside it the larger\nof "
         "exposed "
         "communication and waiting for the host where that is above 2 % of the step; then by how "
         "kernels are made.\n\n" +
         markdown_table({"step", "times", "median", "p90", "peaks", "median", "p90"}, cells);
}

void write_mechanisms(JsonWriter& json, const std::vector<RowResult>& rows) {
  json.key("mechanisms").begin_object();
  const auto write = [&](const std::string& name, const Spread& spread) {
    json.field(name + "_n", spread.n);
    for (const auto& [suffix, value] :
         {std::pair("_median", spread.median), std::pair("_p90", spread.p90)}) {
      json.key(name + suffix);
      if (value)
        json.value(*value);
      else
        json.null();
    }
  };
  for (const auto& [mechanism, figures] : figures_by_mechanism(rows)) {
    json.key(mechanism).begin_object();
    write("time", figures.time);
    write("peak", figures.peak);
    json.end_object();
  }
  json.end_object();
}

}  // namespace foregather::tasks
