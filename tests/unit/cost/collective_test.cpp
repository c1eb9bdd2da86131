#include "sim/cost/collective.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace foregather;
using namespace foregather::sim;

namespace {

constexpr OpKind kCollectives[] = {OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_reduce,
                                   OpKind::broadcast,  OpKind::reduce,         OpKind::all_to_all,
                                   OpKind::send_recv,  OpKind::barrier};

double time_of(const Hardware& hw, double scale, OpKind kind, Bytes bytes, std::uint32_t ranks,
               std::uint32_t nodes) {
  return CollectivePricer(hw, scale).price(kind, bytes, ranks, nodes).work.time;
}

}  // namespace

TEST_CASE("a collective never gets faster as its message grows") {
  for (std::string_view name : hardware_names()) {
    const Hardware hw = load_hardware(std::string(name)).value();
    CollectivePricer pricer(hw, 1.0);
    for (OpKind kind : kCollectives) {
      for (const auto& [ranks, nodes] :
           {std::pair(2U, 1U), std::pair(8U, 1U), std::pair(8U, 8U), std::pair(16U, 2U),
            std::pair(24U, 3U), std::pair(512U, 64U)}) {
        double before = 0;
        for (Bytes bytes = 1; bytes < 64 * GiB; bytes += 1 + bytes / 5) {
          const double time = pricer.price(kind, bytes, ranks, nodes).work.time;
          INFO(name << ' ' << foregather::name(kind) << ' ' << ranks << '/' << nodes << ' '
                    << bytes);
          REQUIRE(time >= before);
          before = time;
        }
      }
    }
  }
}

TEST_CASE("a chain of nodes hands a message on from each to the next") {
  const Hardware hw = load_hardware("h100_sxm").value();
  for (const OpKind kind : {OpKind::broadcast, OpKind::reduce}) {
    const auto of_nodes = [&](std::uint32_t nodes) {
      return time_of(hw, 1, kind, 8, 8 * nodes, nodes);
    };
    CHECK(of_nodes(64) > of_nodes(32));
    CHECK(of_nodes(128) - of_nodes(64) == Approx(2 * (of_nodes(64) - of_nodes(32))));
    CHECK(of_nodes(128) < time_of(hw, 1, OpKind::all_gather, 8, 1024, 128));
  }
}

TEST_CASE("what leaves a GPU on PCIe passes its one port") {
  const Hardware hw = load_hardware("l40s").value();
  for (const OpKind kind : {OpKind::all_to_all, OpKind::send_recv}) {
    const double within = time_of(hw, 1, kind, 1 * GiB, 8, 1);
    CHECK(time_of(hw, 1, kind, 1 * GiB, 16, 2) >= within);
  }
}

TEST_CASE("faster links never slow a collective, and leave its latency") {
  for (std::string_view name : hardware_names()) {
    const Hardware hw = load_hardware(std::string(name)).value();
    for (OpKind kind : kCollectives) {
      for (const auto& [ranks, nodes] :
           {std::pair(4U, 1U), std::pair(8U, 1U), std::pair(16U, 2U), std::pair(64U, 8U)}) {
        for (Bytes bytes : {1 * KiB, 100 * KiB, 3 * MiB, 400 * MiB}) {
          double before = time_of(hw, 1.0 / 8, kind, bytes, ranks, nodes);
          for (double scale : {0.25, 0.5, 1.0, 2.0, 4.0, 1000.0}) {
            const double time = time_of(hw, scale, kind, bytes, ranks, nodes);
            REQUIRE(time <= before);
            REQUIRE(time >= hw.nccl.launch_floor);
            before = time;
          }
          // The host's links are so slow that a thousand times as fast is not infinitely fast.
          if (hw.intra.kind == IntraLink::shared_memory) continue;
          const double tiny = time_of(hw, 1.0, kind, 1, ranks, nodes);
          // So are adapters of which eight GPUs share one.
          const double slow = std::max(1.0, 3.125e9 / hw.inter.nic_bandwidth);
          CHECK(before <= 5 * tiny + 1e5 * slow);
        }
      }
    }
  }
}

TEST_CASE("twice the adapter bandwidth never slows a collective") {
  Hardware slow = load_hardware("h100_sxm").value();
  for (double nic : {3e9, 6e9, 12.5e9, 25e9, 50e9}) {
    slow.inter.nic_bandwidth = nic;
    Hardware fast = slow;
    fast.inter.nic_bandwidth = 2 * nic;
    for (OpKind kind : kCollectives) {
      for (Bytes bytes : {64 * KiB, 16 * MiB, 1 * GiB}) {
        CHECK(time_of(fast, 1, kind, bytes, 32, 4) <= time_of(slow, 1, kind, bytes, 32, 4));
      }
    }
  }
}

TEST_CASE("large collectives between nodes take what the adapters carry at any line rate") {
  for (const char* name : {"h100_sxm", "a100_80_sxm", "b200_sxm"}) {
    Hardware hw = load_hardware(name).value();
    for (const auto& [ranks, nodes] : {std::pair(16U, 2U), std::pair(64U, 8U), std::pair(4U, 4U)}) {
      for (double gbps : {0.1, 0.5, 0.97, 2.0, 5.0, 9.0, 10.0, 25.0, 40.0, 80.0, 150.0, 200.0}) {
        hw.inter.nic_bandwidth = gbps / 8 * 1e9;
        const double carried = hw.inter.nic_bandwidth / 1e9 * hw.inter.efficiency * ranks / nodes;
        const double bus = (ranks - 1.0) / ranks * 32 * GiB /
                           time_of(hw, 1, OpKind::all_gather, 32 * GiB, ranks, nodes);
        INFO(name << ' ' << ranks << '/' << nodes << " at " << gbps << " Gb/s");
        CHECK(bus == Approx(carried).epsilon(0.06));
      }
    }
  }
}

TEST_CASE("large rings move data at the measured bus bandwidth") {
  const Hardware h100 = load_hardware("h100_sxm").value();
  const double bus = 7.0 / 8 * 4 * GiB / time_of(h100, 1, OpKind::all_gather, 4 * GiB, 8, 1);
  CHECK(bus == Approx(350).epsilon(0.03));
  const double two = 15.0 / 16 * 4 * GiB / time_of(h100, 1, OpKind::all_gather, 4 * GiB, 16, 2);
  CHECK(two == Approx(346).epsilon(0.03));
  const Hardware host = load_hardware("rtx_4090").value();
  const double pcie = 1.5 * GiB / time_of(host, 1, OpKind::all_reduce, 1 * GiB, 4, 1);
  CHECK(pcie == Approx(13.7).epsilon(0.03));
}

TEST_CASE("each hop between nodes waits for the whole of an LL message") {
  Hardware hw = load_hardware("h100_sxm").value();
  const auto of = [&](OpKind kind, Bytes bytes, std::uint32_t nodes) {
    return CollectivePricer(hw, 1.0).price(kind, bytes, 8 * nodes, nodes);
  };
  const auto more = [&](OpKind kind, Bytes bytes, std::uint32_t nodes) {
    hw.inter.ll_bandwidth = 4e9;
    const CollectiveWork slow = of(kind, bytes, nodes);
    hw.inter.ll_bandwidth = 8e9;
    const CollectiveWork fast = of(kind, bytes, nodes);
    CHECK(slow.choice.protocol == NcclProtocol::ll);
    return slow.work.time - fast.work.time;
  };
  // A tree over 2 nodes has 2 hops, one over 16 nodes 8. Its four channels leave by four ranks.
  CHECK(more(OpKind::all_reduce, 4 * KiB, 2) == Approx(2 * 4096 / 8.0));
  CHECK(more(OpKind::all_reduce, 16 * KiB, 2) == Approx(2 * 4096 / 8.0));
  CHECK(more(OpKind::all_reduce, 16 * KiB, 16) == Approx(8 * 4096 / 8.0));
  CHECK(more(OpKind::all_reduce, 64 * KiB, 2) == Approx(2 * 8192 / 8.0));
  // A step of a ring moves the share of one rank.
  CHECK(more(OpKind::all_gather, 64 * KiB, 2) == Approx(65536 / 16 / 8.0));
}

TEST_CASE("large trees over two nodes reach what the adapters or the links carry") {
  // Two of eight GPUs a node take part: 2 × 50 GB/s between the nodes.
  const Hardware hw = load_hardware("h100_sxm").value();
  const double few = time_of(hw, 1, OpKind::all_reduce, 8 * GiB, 4, 2);
  CHECK(few == Approx(8 * GiB / (2 * 50 * 0.92)).epsilon(0.03));
  Hardware google = hw;
  REQUIRE(apply_fabric(google, "tcpxo"));
  // 8 channels of 45 GB/s, up and down.
  CHECK(time_of(google, 1, OpKind::all_reduce, 8 * GiB, 16, 2) ==
        Approx(8 * GiB / (8 * 45 / 2.0 * 0.97)).epsilon(0.03));
}

TEST_CASE("a node of one GPU drives its RoCE adapter less well than eight") {
  Hardware hw = load_hardware("h100_sxm").value();
  REQUIRE(apply_fabric(hw, "roce_400"));
  const double eight = time_of(hw, 1, OpKind::all_gather, 8 * 8 * GiB, 16, 2) / (15 / 16.0);
  // One of each node's eight, as replicas of HSDP have it.
  const double replicas = time_of(hw, 1, OpKind::all_gather, 8 * GiB, 2, 2) / (1 / 2.0);
  hw.intra.gpus = 1;
  const double one = time_of(hw, 1, OpKind::all_gather, 8 * GiB, 2, 2) / (1 / 2.0);
  CHECK(replicas / eight == Approx(1).epsilon(0.05));
  CHECK(one / eight == Approx(0.89 / 0.73).epsilon(0.05));
}

TEST_CASE("what links carry inside a node is no matter where there is one GPU") {
  const Hardware spark = load_hardware("gb10").value();
  REQUIRE(spark.intra.efficiency < 0.6);
  CHECK(time_of(spark, 1, OpKind::all_gather, 16 * GiB, 2, 2) ==
        Approx(8 * GiB / (25 * 0.95)).epsilon(0.06));
}

TEST_CASE("messages above 4 KiB on the wire are slower over Slingshot, on each hop") {
  Hardware hw = load_hardware("gh200").value();
  const auto of = [&](Bytes bytes) { return time_of(hw, 1, OpKind::all_reduce, bytes, 64, 16); };
  const double at_once = of(2 * KiB), asked = of(2 * KiB + 4);
  hw.inter.rendezvous = 0;
  CHECK(at_once == Approx(of(2 * KiB)));
  CHECK(asked - of(2 * KiB + 4) == Approx(8 * 10'000));
}

TEST_CASE("the first chunk of a Simple tree crosses hop after hop") {
  const Hardware hw = load_hardware("gh200").value();
  const auto of = [&](Bytes bytes, std::uint32_t nodes) {
    const CollectiveWork work =
        CollectivePricer(hw, 1.0).price(OpKind::all_reduce, bytes, 4 * nodes, nodes);
    CHECK(work.choice == NcclChoice{NcclAlgorithm::tree, NcclProtocol::simple});
    return work.work.time;
  };
  const double nics = 4 * 25 * 0.92;
  const double links = 4 * 48 * 0.97;
  // Up to 8 channels' chunks of 512 KiB all of it; of what is longer, the rest follows.
  CHECK(of(4 * MiB, 64) - of(2 * MiB, 64) == Approx(6 * 2 * MiB / nics + 6 * 2 * MiB / links));
  CHECK(of(6 * MiB, 64) - of(4 * MiB, 64) == Approx(2 * MiB / (nics / 2 * 0.55)));
}

TEST_CASE("a send inside a node has few channels until it is long") {
  const Hardware hw = load_hardware("h100_sxm").value();
  const auto of = [&](Bytes bytes, std::uint32_t ranks) {
    return time_of(hw, 1, OpKind::send_recv, bytes, ranks, 1);
  };
  // 4 of 32 channels, each of up to 16 MiB.
  CHECK(of(64 * MiB, 8) == Approx(16 * MiB / 20.8).epsilon(0.03));
  CHECK(of(256 * MiB, 8) == Approx(of(64 * MiB, 8)).epsilon(0.01));
  CHECK(of(64 * MiB, 4) == Approx(8 * MiB / 20.8).epsilon(0.06));
  CHECK(of(4 * GiB, 8) == Approx(4 * GiB / (24 * 15 * 0.97)).epsilon(0.03));
  // By LL up to 16 KiB of each.
  const double slowdown = hw.nccl.small_message_slowdown;
  CHECK(of(64 * KiB, 8) == Approx(slowdown * 7'200).epsilon(0.2));
  CHECK(of(64 * KiB + 1, 8) > slowdown * 11'000);
  CHECK(time_of(hw, 1, OpKind::all_to_all, 8 * 64 * KiB, 8, 1) < slowdown * 11'500);
}

TEST_CASE("GPUs of a mesh reach each other by the links of each pair") {
  constexpr Bytes kLarge = 4 * GiB;
  const auto rate = [](const Hardware& hw, OpKind kind, std::uint32_t ranks) {
    return static_cast<double>(kLarge) / time_of(hw, 1, kind, kLarge, ranks, 1) * (ranks - 1) /
           ranks;
  };
  const Hardware mi300x = load_hardware("mi300x").value();
  const double link = 48 * mi300x.intra.efficiency;
  CHECK(rate(mi300x, OpKind::all_gather, 2) == Approx(link).epsilon(0.03));
  CHECK(rate(mi300x, OpKind::all_gather, 4) == Approx(3 * link).epsilon(0.06));
  CHECK(rate(mi300x, OpKind::all_gather, 8) == Approx(7 * link).epsilon(0.08));
  // Rings over two nodes are chains in each, of which eight have links of their own; the node's
  // adapters are no bound here.
  Hardware wide = mi300x;
  wide.inter.nic_bandwidth *= 4;
  CHECK(static_cast<double>(kLarge) / time_of(wide, 1, OpKind::all_gather, kLarge, 16, 2) * 15 /
            16 ==
        Approx(8 * link).epsilon(0.08));
  const double sent = static_cast<double>(kLarge) / link;
  CHECK(time_of(mi300x, 1, OpKind::send_recv, kLarge, 2, 1) == Approx(sent).epsilon(0.03));
  CHECK(time_of(mi300x, 1, OpKind::send_recv, kLarge, 8, 1) == Approx(sent).epsilon(0.08));

  const Hardware gh200 = load_hardware("gh200").value();
  const double six = 6 * gh200.intra.link_bandwidth / 1e9 * gh200.intra.efficiency;
  CHECK(rate(gh200, OpKind::all_gather, 2) == Approx(six).epsilon(0.05));
  Hardware hgx = load_hardware("a100_80_sxm").value();
  const double switched = rate(hgx, OpKind::all_gather, 2);
  CHECK(switched == Approx(rate(hgx, OpKind::all_gather, 4)).epsilon(0.05));
  REQUIRE(apply_topology(hgx, "nvlink_mesh").has_value());
  CHECK(rate(hgx, OpKind::all_gather, 4) == Approx(switched).epsilon(0.05));
  CHECK(rate(hgx, OpKind::all_gather, 2) < switched / 2);
  // Some pairs of a DGX-1 have no link: its GPUs keep all of theirs.
  const Hardware dgx1 = load_hardware("v100_sxm").value();
  CHECK(rate(dgx1, OpKind::all_gather, 4) ==
        Approx(rate(dgx1, OpKind::all_gather, 8)).epsilon(0.05));
}

TEST_CASE("collectives take SMs, memory bandwidth and the link of their nodes") {
  const Hardware hw = load_hardware("h100_sxm").value();
  CollectivePricer pricer(hw, 1.0);
  const auto share = [](const CollectiveWork& w, Resource r) {
    return w.work.share[static_cast<std::size_t>(r)];
  };
  const CollectiveWork one = pricer.price(OpKind::all_gather, 1 * GiB, 8, 1);
  CHECK(share(one, Resource::sm) == Approx(24.0 / 132));
  CHECK(share(one, Resource::intra_link) > 0.9);
  CHECK(share(one, Resource::intra_link) <= 1.0);
  CHECK(share(one, Resource::inter_link) == 0);
  CHECK(share(one, Resource::hbm) > 0.15);
  CHECK(share(one, Resource::hbm) < 0.3);
  const CollectiveWork two = pricer.price(OpKind::all_gather, 1 * GiB, 16, 2);
  CHECK(share(two, Resource::inter_link) > 0.9);
  CHECK(share(two, Resource::inter_link) <= 1.0);
  const CollectiveWork small = pricer.price(OpKind::all_gather, 1 * KiB, 8, 1);
  CHECK(share(small, Resource::intra_link) < 0.01);
}

TEST_CASE("one rank alone copies") {
  const Hardware hw = load_hardware("h100_sxm").value();
  const CollectiveWork work =
      CollectivePricer(hw, 1.0).price(OpKind::all_gather, 1'000'000'000, 1, 1);
  CHECK(!work.is_nccl_choice);
  CHECK(work.work.time == Approx(2e6 / 3.35 / 0.87 + 2200));
}
