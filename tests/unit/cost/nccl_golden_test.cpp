// NCCL's own figures: published NCCL_DEBUG=TUNING dumps (H100, NCCL 2.29) and topology logs.
#include <catch2/catch.hpp>

#include "sim/cost/nccl_model.h"

using namespace foregather;
using namespace foregather::sim;
using enum NcclAlgorithm;
using enum NcclProtocol;

namespace {

Hardware hardware(const char* name) { return load_hardware(name).value(); }

NcclTuning tuning(const Hardware& hw, OpKind kind, int ranks, int nodes = 1) {
  return NcclTuning(nccl_topology(hw, ranks, nodes), hw, kind);
}

void check(const NcclTuning& table, NcclAlgorithm algorithm, NcclProtocol protocol, double latency,
           double bandwidth) {
  const NcclEstimate& e = table.at(algorithm, protocol);
  INFO(name(algorithm) << ' ' << name(protocol));
  CHECK(e.latency == Approx(latency).margin(0.05));
  CHECK(e.bandwidth == Approx(bandwidth).margin(0.05));
}

}  // namespace

TEST_CASE("four H100 give NCCL's tuning table of all-gather") {
  const Hardware hw = hardware("h100_sxm");
  const NcclTuning table = tuning(hw, OpKind::all_gather, 4);
  check(table, ring, ll, 8.4, 188.0);
  check(table, ring, ll128, 19.7, 441.6);
  check(table, ring, simple, 18.6, 480.0);
  check(table, nvls, simple, 25, 114.8);
  CHECK(table.at(tree, simple).bandwidth == 0);
}

TEST_CASE("four H100 give NCCL's tuning table of all-reduce") {
  const Hardware hw = hardware("h100_sxm");
  const NcclTuning table = tuning(hw, OpKind::all_reduce, 4);
  check(table, ring, simple, 28.8, 240);
  check(table, tree, ll, 10.4, 43.6);
  check(table, tree, ll128, 21.5, 128.8);
  check(table, tree, simple, 32.4, 165.6);
  check(table, nvls, simple, 25, 160);
}

TEST_CASE("six H100 give NCCL's ring all-reduce") {
  const Hardware hw = hardware("h100_sxm");
  check(tuning(hw, OpKind::all_reduce, 6), ring, simple, 42.4, 216);
}

TEST_CASE("rings are what NCCL's search finds") {
  const auto ring_of = [](const Hardware& hw, int ranks) {
    return nccl_topology(hw, ranks, 1).ring;
  };
  const NcclGraph a100 = ring_of(hardware("a100_80_sxm"), 8);
  CHECK(a100.channels == 12);
  CHECK(a100.intra == Approx(20));
  for (int ranks : {2, 4, 8}) {
    const NcclGraph h100 = ring_of(hardware("h100_sxm"), ranks);
    CHECK(h100.channels == 12);
    CHECK(h100.intra == Approx(30));
  }
  Hardware b200 = hardware("h100_sxm");
  b200.compute.compute_capability = 100;
  b200.intra.link_bandwidth = 40.1e9;
  CHECK(ring_of(b200, 8).channels == 16);
  CHECK(ring_of(b200, 8).intra == Approx(45));
}

TEST_CASE("trees over two nodes are up to twice as fast inside them, as NCCL's search finds") {
  Hardware a100 = hardware("a100_80_sxm");
  const auto tree_of = [](const Hardware& hw, int ranks, int nodes) {
    const NcclTopology found = nccl_topology(hw, ranks, nodes);
    CHECK(found.tree.channels == found.ring.channels);
    CHECK(found.tree.inter == Approx(found.ring.inter));
    return found.tree.intra / found.ring.intra;
  };
  // 8 × 24 GB/s between the nodes; 8 × 30 fill the links.
  CHECK(tree_of(a100, 16, 2) == Approx(30 / 24.0));
  CHECK(tree_of(a100, 32, 4) == Approx(1));
  CHECK(tree_of(a100, 2, 2) == Approx(1));
  // Four adapters of 100 Gb/s leave room for twice their speed.
  REQUIRE(apply_fabric(a100, "efa_400"));
  CHECK(nccl_topology(a100, 16, 2).ring.channels == 4);
  CHECK(nccl_topology(a100, 16, 2).ring.intra == Approx(12));
  CHECK(tree_of(a100, 16, 2) == Approx(2));
  // The fastest of NCCL's list is not raised.
  CHECK(tree_of(hardware("h100_sxm"), 16, 2) == Approx(1));
}

TEST_CASE("a plug-in that leaves Simple alone does so between nodes") {
  Hardware hw = hardware("a100_80_sxm");
  REQUIRE(apply_fabric(hw, "efa_400"));
  const auto of = [&](int ranks, int nodes) {
    return NcclTuning(nccl_topology(hw, ranks, nodes), hw, OpKind::all_reduce);
  };
  CHECK(of(8, 1).choose(64).protocol == ll);
  CHECK(of(16, 2).choose(64).protocol == simple);
  CHECK(of(16, 2).at(ring, ll128).bandwidth == 0);
  REQUIRE(apply_fabric(hw, "ib_hdr"));
  CHECK(of(16, 2).choose(64).protocol == ll);
  CHECK(hw.inter.nics_per_gpu == 1);
}

TEST_CASE("NVLS heads are what NCCL's search finds") {
  Hardware hw = hardware("h100_sxm");
  CHECK(nccl_topology(hw, 8, 1).nvls.intra == Approx(40));
  CHECK(nccl_topology(hw, 8, 1).nvls.inter == Approx(60));
  CHECK(nccl_topology(hw, 4, 1).nvls.intra == Approx(60));
  hw.compute.compute_capability = 100;
  hw.intra.link_bandwidth = 40.1e9;
  CHECK(nccl_topology(hw, 8, 1).nvls.intra == Approx(80));
  CHECK(nccl_topology(hw, 8, 1).nvls.inter == Approx(90));
  CHECK(nccl_topology(hardware("a100_80_sxm"), 8, 1).nvls.channels == 0);
  // A rack of 72 has the channels of eight; between racks there are none.
  const Hardware rack = hardware("gb200");
  CHECK(nccl_topology(rack, 72, 1).nvls.channels == 8);
  CHECK(nccl_topology(rack, 144, 2).nvls.channels == 0);
  // NCCL_NVLS_ENABLE=0 belongs to what GPUDirect-TCPX and TCPXO need.
  Hardware google = hardware("h100_sxm");
  CHECK(nccl_topology(google, 16, 2).nvls.channels == 8);
  REQUIRE(apply_fabric(google, "tcpxo"));
  CHECK(nccl_topology(google, 16, 2).nvls.channels == 0);
  CHECK(nccl_topology(google, 8, 1).nvls.channels == 8);
}

TEST_CASE("large rings take the CTAs that NCCL launches, small ones fewer") {
  const Hardware hw = hardware("h100_sxm");
  const NcclTuning table = tuning(hw, OpKind::all_gather, 8);
  CHECK(table.channels({ring, simple}, 1 * GiB) == 24);
  CHECK(table.channels({nvls, simple}, 1 * GiB) == 16);
  CHECK(table.channels({ring, ll}, 64) == 1);
  CHECK(tuning(hardware("a100_80_sxm"), OpKind::all_gather, 8).channels({ring, simple}, 1 * GiB) ==
        24);
}

TEST_CASE("eight H100 all-reduce large messages by NVLS, small ones by LL") {
  const Hardware hw = hardware("h100_sxm");
  const NcclTuning table = tuning(hw, OpKind::all_reduce, 8);
  CHECK(table.choose(1 * GiB).algorithm == nvls);
  CHECK(table.choose(1 * KiB).protocol == ll);
  CHECK(tuning(hw, OpKind::all_gather, 8).choose(1 * GiB).algorithm == ring);
}

TEST_CASE("constants are those of the NCCL version") {
  CHECK(nccl_tables(22809).channel_ring_ll128[3][0] == Approx(73.4));
  CHECK(nccl_tables(23007).channel_ring_ll128[3][0] == Approx(40));
  CHECK(nccl_tables(22005).ll_max[2][0] == Approx(87.7));
  CHECK(nccl_tables(22105).ll_max[2][0] == Approx(141));
  CHECK(nccl_tables(22005).hop_latency[0][0][2] == Approx(28));
  CHECK(nccl_tables(22304).hop_latency[0][0][2] == Approx(4));
  CHECK(nccl_tables(21000).base_latency[1][0] == Approx(3.6));
}

TEST_CASE("NCCL leaves LL128 out where GPUs meet over PCIe") {
  const Hardware hw = hardware("rtx_4090");
  const NcclTuning table = tuning(hw, OpKind::all_reduce, 4);
  CHECK(table.at(ring, ll128).bandwidth == 0);
  CHECK(table.at(ring, simple).latency == Approx(8.4 + 6 * 5.7));
  CHECK(table.at(ring, simple).bandwidth == Approx(24 * 4.0 / 6));
}
