// Predictions against published nccl-tests tables, which are not part of the repository.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/cost/collective.h"
#include "tests/support/skip.h"

using namespace foregather;
using namespace foregather::sim;

namespace {

struct Row {
  OpKind kind = OpKind::all_reduce;
  std::uint32_t ranks = 1, nodes = 1;
  std::string gpu, interconnect;
  Bytes bytes = 0;
  double time_us = 0;
};

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

std::vector<Row> read_table(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    const std::vector<std::string> c = cells(line);
    rows.push_back({parse<OpKind>(c[0]).value(), static_cast<std::uint32_t>(std::stoul(c[1])),
                    static_cast<std::uint32_t>(std::stoul(c[2])), c[3], c[4], std::stoll(c[5]),
                    std::stod(c[6])});
  }
  return rows;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/// The machine of a table: the built-in one with what the table's text says about links.
Hardware machine(const Row& row) {
  constexpr std::pair<const char*, const char*> kGpus[] = {
      {"A100", "a100_40_sxm"}, {"GH200", "gh200"},   {"B200", "b200_sxm"},
      {"H200", "h200_sxm"},    {"4090", "rtx_4090"}, {"5090", "rtx_5090"}};
  constexpr std::pair<const char*, const char*> kFabrics[] = {
      {"TCPXO", "tcpxo"},   {"EFA", "efa_3200"}, {"Slingshot", "slingshot"},
      {"RoCE", "roce_400"}, {"HDR", "ib_hdr"},   {"InfiniBand", "ib_ndr"}};
  std::string gpu = "h100_sxm";
  for (const auto& [word, name] : kGpus) {
    if (!has(row.gpu, word)) continue;
    gpu = name;
    break;
  }
  Hardware hw = load_hardware(gpu).value();
  for (const auto& [word, name] : kFabrics) {
    if (!has(row.interconnect, word)) continue;
    REQUIRE(apply_fabric(hw, name).has_value());
    break;
  }
  if (has(row.interconnect, "P2P enabled")) REQUIRE(apply_topology(hw, "pcie4_p2p").has_value());
  // One process that launches on all GPUs, one after the other, sets a higher floor.
  const bool is_a100 = has(row.gpu, "A100");
  if (has(row.interconnect, "1 process") || (is_a100 && row.nodes == 1)) {
    hw.nccl.launch_floor = (is_a100 ? 3900.0 : 5900.0) * row.ranks;
    if (is_a100) hw.nccl.channel_start = 1300;
  }
  return hw;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

}  // namespace

TEST_CASE("collectives are near published nccl-tests tables") {
  const auto folder = test::shared_data("nccl-tests");
  if (!folder) FOREGATHER_SKIP("no nccl-tests tables");
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());

  constexpr std::array<Bytes, 4> limits{64 * KiB, 1 * MiB, 64 * MiB, 1024 * GiB};
  constexpr std::array<const char*, 4> names{"< 64 KiB", "64 KiB to 1 MiB", "1 to 64 MiB",
                                             ">= 64 MiB"};
  std::array<std::vector<double>, 4> pooled;
  std::array<std::vector<double>, 4> one_node;
  std::ostringstream report;
  for (const auto& file : files) {
    const std::vector<Row> rows = read_table(file);
    REQUIRE(!rows.empty());
    const Hardware hw = machine(rows.front());
    CollectivePricer pricer(hw, 1.0);
    std::array<std::vector<double>, 4> errors;
    std::array<std::vector<double>, 4> signs;
    for (const Row& row : rows) {
      const double predicted =
          pricer.price(row.kind, row.bytes, row.ranks, row.nodes).work.time / 1000;
      const auto regime = static_cast<std::size_t>(
          std::upper_bound(limits.begin(), limits.end(), row.bytes) - limits.begin());
      errors[regime].push_back(std::abs(predicted - row.time_us) / row.time_us);
      signs[regime].push_back((predicted - row.time_us) / row.time_us);
    }
    report << file.stem().string() << ':';
    for (std::size_t i = 0; i < 4; ++i) {
      report << "  " << static_cast<int>(100 * median(signs[i])) << '%';
      // The Alps tables are irregular below 64 MiB: congestion, not a model's business.
      if (i < 3 && has(file.stem().string(), "alps") && rows.front().nodes > 1) continue;
      pooled[i].insert(pooled[i].end(), errors[i].begin(), errors[i].end());
      auto& single = one_node[i];
      if (rows.front().nodes == 1) single.insert(single.end(), errors[i].begin(), errors[i].end());
    }
    report << '\n';
  }
  for (std::size_t i = 0; i < 4; ++i) {
    report << "median error " << names[i] << ": " << 100 * median(pooled[i]) << " % of "
           << pooled[i].size() << " rows, one node " << 100 * median(one_node[i]) << " %\n";
  }
  std::cout << report.str();
  CHECK(median(pooled[3]) < 0.06);
  CHECK(median(pooled[2]) < 0.13);
  CHECK(median(pooled[1]) < 0.22);
  CHECK(median(pooled[0]) < 0.22);
  CHECK(median(one_node[3]) < 0.04);
}
