#include "sim/cost/nccl_tables.h"

#include <string_view>

namespace foregather::sim {

namespace {

constexpr std::size_t row(NcclAlgorithm algorithm) { return static_cast<std::size_t>(algorithm); }

/// NCCL 2.30.7.
constexpr NcclTables v2_30() {
  NcclTables t;
  t.version = 23000;
  t.base_latency = {{{6.8, 14.0, 8.4},  // tree
                     {6.6, 14.0, 8.4},  // ring
                     {0, 0, 0},
                     {0, 0, 0},
                     {0, 0, 0},
                     {0, 0, 0},
                     {8, 8, 8}}};  // PAT
  t.hop_latency[0] = {{{0.6, 1.25, 4.0},
                       {0.6, 1.9, 3.4},
                       {0, 0, 3.7},
                       {0, 0, 2.8},
                       {0, 0, 25},
                       {0, 0, 25},
                       {0, 0, 4}}};
  t.hop_latency[1] = {{{1.0, 1.9, 4.0},
                       {1.0, 2.5, 5.7},
                       {0, 0, 3.7},
                       {0, 0, 2.8},
                       {0, 0, 0},
                       {0, 0, 0},
                       {0, 0, 4}}};
  t.hop_latency[2] = {{{5.0, 8.5, 14},
                       {2.7, 4.0, 14},
                       {0, 0, 31},
                       {0, 0, 30},
                       {0, 0, 18},
                       {0, 0, 20.9},
                       {0, 0, 14}}};
  t.ll_max = {{{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}}};
  t.channel_ring_ll128 = {{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}}};
  t.channel_tree_ll128 = {{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}}};
  t.channel_tree = {{{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}}};
  t.channel_nvls_tree = {{{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 80}}};
  t.nvls_efficiency = {0, 0, 0.85, 0.74};
  t.tree_correction = {{
      {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
      {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
      {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
  }};
  return t;
}

/// 2.23 to 2.29. The Blackwell rows are 2.28.9's; earlier versions had others or none.
constexpr NcclTables v2_23() {
  NcclTables t = v2_30();
  t.version = 22300;
  t.channel_ring_ll128[3] = {73.4, 34.6, 73.4};
  t.channel_nvls_tree[3] = {0, 96, 43.8};
  return t;
}

constexpr void set_tree_simple_hop(NcclTables& t, double latency) {
  for (auto& hop : t.hop_latency) hop[row(NcclAlgorithm::tree)][2] = latency;
}

/// 2.21 and 2.22: one Tree Simple latency for every kind of hop.
constexpr NcclTables v2_21() {
  NcclTables t = v2_23();
  t.version = 22100;
  set_tree_simple_hop(t, 28);
  return t;
}

/// 2.19 and 2.20.
constexpr NcclTables v2_19() {
  NcclTables t = v2_21();
  t.version = 21900;
  t.hop_latency[0][row(NcclAlgorithm::nvls)][2] = 23;
  t.hop_latency[0][row(NcclAlgorithm::nvls_tree)][2] = 23;
  t.ll_max[2] = {87.7, 22.5, 19};
  return t;
}

/// 2.17 and 2.18.
constexpr NcclTables v2_17() {
  NcclTables t = v2_19();
  t.version = 21700;
  t.hop_latency[0][row(NcclAlgorithm::tree)][2] = 4;
  t.hop_latency[1][row(NcclAlgorithm::tree)][2] = 4;
  t.hop_latency[2][row(NcclAlgorithm::tree)][2] = 14;
  return t;
}

/// Up to 2.16.
constexpr NcclTables v2_16() {
  NcclTables t = v2_17();
  t.version = 0;
  set_tree_simple_hop(t, 28);
  t.base_latency[row(NcclAlgorithm::tree)] = {4.4, 4.4, 0};
  t.base_latency[row(NcclAlgorithm::ring)] = {3.6, 10, 8.4};
  return t;
}

constexpr std::array kTables{v2_16(), v2_17(), v2_19(), v2_21(), v2_23(), v2_30()};

}  // namespace

std::string_view name(NcclAlgorithm algorithm) {
  constexpr std::array<std::string_view, kNcclAlgorithms> names{
      "tree", "ring", "collnet-direct", "collnet-chain", "nvls", "nvls-tree", "pat"};
  return names[row(algorithm)];
}

std::string_view name(NcclProtocol protocol) {
  constexpr std::array<std::string_view, kNcclProtocols> names{"LL", "LL128", "Simple"};
  return names[static_cast<std::size_t>(protocol)];
}

const NcclTables& nccl_tables(int version) {
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < kTables.size(); ++i) {
    if (kTables[i].version <= version) chosen = i;
  }
  return kTables[chosen];
}

}  // namespace foregather::sim
