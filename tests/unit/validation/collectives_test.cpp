// Tables of collectives: what their texts say, what is fitted to them, how they are drawn.
#include <filesystem>
#include <catch2/catch.hpp>

#include "sim/cost/collective.h"
#include "tasks/validation/interconnect.h"
#include "tasks/validation/nccl_fit.h"
#include "tasks/validation/nccl_plot.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/support/skip.h"

using namespace foregather;
using namespace foregather::tasks;
using Catch::Matchers::Contains;

namespace {

sim::Hardware machine(const char* gpu, const char* text, int ranks, int nodes) {
  return machine_of_interconnect(gpu, text, ranks, nodes).value();
}

NcclRow row(Bytes size, std::optional<double> published, std::optional<double> predicted) {
  NcclRow r;
  r.table = "t";
  r.collective = "all_gather";
  r.gpu = "A<100>";
  r.ranks = 8;
  r.size = size;
  r.published_us = published;
  r.predicted_us = predicted;
  return r;
}

}  // namespace

TEST_CASE("free texts name fabrics, speeds and topologies in any case") {
  CHECK(machine("nvidia a100-sxm4-40gb", "4x HDR InfiniBand", 16, 2).inter.nic_bandwidth ==
        Approx(12.5e9));
  CHECK(machine("H100", "InfiniBand 8x400 Gbps", 16, 2).inter.efficiency == Approx(0.92));
  CHECK(machine("A100", "infiniband", 16, 2).inter.efficiency == Approx(0.94));
  CHECK(machine("A100-PCIE-40GB", "", 4, 1).intra.kind == sim::IntraLink::pcie_p2p);
  CHECK(machine("A100-PCIE-80GB", "NVLink3 bridge (NV12)", 2, 1).intra.links == 12);
  CHECK(machine("A100-PCIE-80GB", "PCIe, NVLink bridges in pairs", 4, 1).intra.kind ==
        sim::IntraLink::pcie_p2p);
  // The whole adapter of an instance with one GPU, an eighth of one with eight.
  CHECK(machine("RTX PRO 6000", "EFA 100Gb/s, 1 GPU per node", 2, 2).inter.nic_bandwidth ==
        Approx(12.5e9));
  CHECK(machine("V100", "EFA 100Gb/s per node (p3dn)", 16, 2).inter.nic_bandwidth ==
        Approx(12.5e9 / 8));
  CHECK(machine("V100", "EFA 100Gb/s per node (p3dn)", 16, 2).inter.simple_only == 1);
  CHECK(machine("L40S", "PCIe Gen4 x16, no P2P", 4, 1).intra.kind == sim::IntraLink::pcie_host);
  CHECK(machine("H800", "NVLink", 8, 1).intra.links == 8);
  CHECK(machine("H100", "nccl-tests -g 8", 8, 1).nccl.launch_floor == Approx(8 * 5900));
  CHECK(machine("H100", "nccl-tests -g 1", 8, 1).nccl.launch_floor == Approx(8000));
  CHECK_THAT(machine_of_interconnect("TPU v5e", "ICI", 8, 1).error().message,
             Contains("no hardware file for the GPU 'TPU v5e'"));
}

TEST_CASE("collectives have several spellings") {
  CHECK(collective_of("AllGather") == OpKind::all_gather);
  CHECK(collective_of("reduce_scatter_perf") == OpKind::reduce_scatter);
  CHECK(collective_of("sendrecv") == OpKind::send_recv);
  CHECK(collective_of("alltoall") == OpKind::all_to_all);
  CHECK(!collective_of("gemm").has_value());
  CHECK(!collective_of("").has_value());
}

TEST_CASE("curves are drawn with what tables say escaped") {
  CHECK(nccl_plot({row(8, std::nullopt, 3.0)}).empty());
  const std::string svg = nccl_plot({row(8, 4.0, 3.0), row(1 << 20, 40.0, 44.0)});
  CHECK_THAT(svg, Contains("A&lt;100&gt;"));
  CHECK_THAT(svg, Contains("10 % from 1 MiB on"));
  CHECK_THAT(svg, Contains("prefers-color-scheme"));
}

TEST_CASE("without LL128 between nodes a GH200 takes another protocol") {
  const sim::Hardware gh200 = machine("GH200", "Slingshot-11 4x200Gb/s", 64, 16);
  sim::Hardware other = gh200;
  other.nccl.ll128_between_nodes = 1;
  const auto of = [](const sim::Hardware& hw) {
    return sim::CollectivePricer(hw, 1.0).price(OpKind::all_reduce, 4 * MiB, 64, 16);
  };
  CHECK(of(gh200).choice.protocol != sim::NcclProtocol::ll128);
  CHECK(of(other).choice.protocol == sim::NcclProtocol::ll128);
}

TEST_CASE("collectives are near the tables of this repository") {
  const auto rows = predict_nccl_tables(test::source_dir() + "/tests/oracles/data/nccl-tests");
  REQUIRE(rows.has_value());
  constexpr Bytes kAll = Bytes{1} << 50;
  CHECK(nccl_median(*rows, 1, 1 * MiB).value() < 0.10);
  CHECK(nccl_median(*rows, 1 * MiB, kAll).value() < 0.06);
}

TEST_CASE("fitted figures are those of the hardware files, and carry over") {
  const auto folder = test::shared_data("nccl-tests");
  if (!folder) FOREGATHER_SKIP("no nccl-tests tables");
  // As `./dev validate --fit` does: with the tables of this repository.
  const test::Scratch all;
  const std::filesystem::path own = test::source_dir() + "/tests/oracles/data/nccl-tests";
  for (const auto& tables : {*folder, own}) std::filesystem::copy(tables, all.path(""));
  const auto fit = fit_nccl(all.path(""));
  REQUIRE(fit.has_value());
  const sim::Hardware a100 = sim::load_hardware("a100_80_sxm").value();
  const sim::Hardware h100 = sim::load_hardware("h100_sxm").value();
  const sim::Hardware gh200 = sim::load_hardware("gh200").value();
  const sim::Hardware efa = machine("H100", "EFA 3200Gb/s", 16, 2);
  const double files[] = {a100.nccl.small_message_slowdown,
                          h100.nccl.small_message_slowdown,
                          a100.nccl.slowdown_between_nodes,
                          h100.nccl.slowdown_between_nodes,
                          h100.nccl.nvls_fill,
                          a100.nccl.channel_start / 1000,
                          h100.nccl.channel_start / 1000,
                          efa.inter.ll_bandwidth / 1e9,
                          h100.inter.ll_bandwidth / 1e9,
                          gh200.inter.ll_bandwidth / 1e9,
                          gh200.inter.rendezvous / 1000};
  REQUIRE(fit->figures.size() == std::size(files));
  for (std::size_t i = 0; i < std::size(files); ++i)
    CHECK(fit->figures[i].value == Approx(files[i]));
  CHECK(fit->held_out_small.value() < 0.25);
  CHECK(fit->held_out_large.value() < 0.10);
  CHECK(!fit_nccl("/nonexistent").has_value());
}
