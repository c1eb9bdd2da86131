// What free texts of published tables say about machines.
#include <catch2/catch.hpp>

#include "sim/cost/catalogue.h"
#include "tasks/validation/interconnect.h"
#include "tasks/validation/row_machine.h"

using namespace foregather;
using namespace foregather::tasks;

TEST_CASE("words for GPUs name hardware files") {
  CHECK(hardware_of_gpu("H100-SXM5-96GB-HBM2e-500W (2.4 TB/s)") == "h100_96_500w");
  CHECK(hardware_of_gpu("H100-SXM (95 GiB dev GPU)") == "h100_96_500w");
  CHECK(hardware_of_gpu("H100-SXM-80GB (DGX H100)") == "h100_sxm");
  CHECK(hardware_of_gpu("A100-SXM4-40GB") == "a100_40_sxm");
  CHECK(hardware_of_gpu("A100-PCIe-80GB") == "a100_80_pcie");
  CHECK(hardware_of_gpu("GH200-96GB") == "gh200");
  CHECK(hardware_of_gpu("RTX 5090-32GB") == "rtx_5090");
  CHECK(hardware_of_gpu("H100 80 GB PCIE") == "h100_pcie");
  CHECK(hardware_of_gpu("H100-NVL-94GB") == "h100_nvl");
  CHECK(hardware_of_gpu("H100-SXM-80GB (NVLink, NVSwitch)") == "h100_sxm");
  CHECK(hardware_of_gpu("NVIDIA H20") == "h20_sxm");
  CHECK(hardware_of_gpu("RTX 6000 Ada-48GB") == "rtx_6000_ada");
  CHECK(hardware_of_gpu("NVIDIA L4") == "l4");
  CHECK(hardware_of_gpu("A100 40G") == "a100_40_sxm");
  CHECK(hardware_of_gpu("A100-SXM4-40GiB") == "a100_40_sxm");
  CHECK(hardware_of_gpu("V100 16 GB") == "v100_16_sxm");
  CHECK(hardware_of_gpu("H100 80GB PCI-E") == "h100_pcie");
  // Sizes stand by themselves, and the first is the GPU's.
  CHECK(hardware_of_gpu("A100-SXM-80GB (DGX A100 640GB)") == "a100_80_sxm");
  CHECK(hardware_of_gpu("DGX A100 640GB") == "a100_80_sxm");
  CHECK(hardware_of_gpu("DGX A100 320GB") == "a100_40_sxm");
  CHECK(hardware_of_gpu("V100-SXM2-32GB, 216GB host") == "v100_sxm");
  CHECK(hardware_of_gpu("A100 (p4d.24xlarge)") == "a100_40_sxm");
  CHECK(hardware_of_gpu("A100 (p4de.24xlarge)") == "a100_80_sxm");
  CHECK(hardware_of_gpu("A100-SXM4-80GB, p4d host") == "a100_80_sxm");
  CHECK(hardware_of_gpu("A100 SXM (NVLink 600GB/s) 40GB") == "a100_40_sxm");
  CHECK(hardware_of_gpu("H100 NVLink 80GB") == "h100_sxm");
  CHECK(hardware_of_gpu("H100 SXM (94 GB, NVLink)") == "h100_sxm");
  CHECK(hardware_of_gpu("H100 NVL") == "h100_nvl");
  CHECK(hardware_of_gpu("H100-SXM5-80GB, PCIe Gen5 host") == "h100_sxm");
  CHECK(hardware_of_gpu("A100-SXM4-80GB (p4de, NVLink, no PCIe)") == "a100_80_sxm");
  CHECK(hardware_of_gpu("H100-SXM-96GB HBM3 (3.35 TB/s)") == "h100_96_sxm");
  CHECK(hardware_of_gpu("TPU v5e").empty());
  CHECK(hardware_of_gpu("L40-48GB") == "l40");
  CHECK(hardware_of_gpu("A10-24GB") == "a10");
  CHECK(hardware_of_gpu("NVIDIA A40 48GB PCIe") == "a40");
  CHECK(hardware_of_gpu("RTX A4000").empty());
  CHECK(hardware_of_gpu("L4-24GB") == "l4");
  CHECK(hardware_of_gpu("NVIDIA L4 24GB") == "l4");
  CHECK(hardware_of_gpu("RTX 3090 Ti 24GB").empty());
  CHECK(hardware_of_gpu("RTX 3090 Ti").empty());
  for (const char* gpu :
       {"GB200", "GH200", "B200", "H200", "H100-PCIe", "V100-PCIe-32GB", "L40S", "V100-SXM2-16GB",
        "RTX 4090", "MI300X-192GB", "A100-PCIe-40GB", "H800-SXM-80GB", "A800-SXM4-80GB",
        "A10G-24GB", "RTX A6000", "RTX 3090-24GB", "MI250X-128GB", "MI325X-256GB", "A30-24GB"})
    CHECK(sim::load_hardware(hardware_of_gpu(gpu)).has_value());
  for (const sim::CatalogueEntry& known : sim::catalogue(sim::CatalogueKind::hardware))
    CHECK(hardware_of_gpu(std::string(known.name)) == known.name);
}

TEST_CASE("words for interconnects set links") {
  const auto alps = machine_of_interconnect(
      "GH200", "NVLink4 direct 4-GPU node + Slingshot-11 4x200Gb/s (CSCS Alps)", 16, 4);
  REQUIRE(alps.has_value());
  CHECK(alps->intra.kind == sim::IntraLink::nvlink);
  CHECK(alps->inter.kind == sim::InterLink::slingshot);
  CHECK(alps->inter.nic_bandwidth == Approx(25e9));
  const auto p5 = machine_of_interconnect("H100-SXM5-80GB", "EFA 3200Gb/s (p5.48xlarge)", 16, 2);
  CHECK(p5->inter.nic_bandwidth == Approx(50e9));
  const auto one = machine_of_interconnect("B200", "RoCE 1x400Gb/s per GPU, 1 GPU per node", 2, 2);
  CHECK(one->inter.nic_bandwidth == Approx(50e9));
  const auto p2p = machine_of_interconnect("RTX 4090", "PCIe Gen4 x16, P2P enabled", 4, 1);
  CHECK(p2p->intra.kind == sim::IntraLink::pcie_p2p);
  CHECK(
      machine_of_interconnect("H100-SXM5-80GB", "NVSwitch, NCCL_NVLS_ENABLE=0", 8, 1)->intra.kind ==
      sim::IntraLink::nvlink);
  const auto process = machine_of_interconnect("A100-SXM4-40GB", "1 process -g 8", 8, 1);
  CHECK(process->nccl.launch_floor == Approx(36000));
}

TEST_CASE("adapters of eight GPUs share their node's, unless each has its own") {
  const auto gbps = [](const char* text) {
    return machine_of_interconnect("H100-SXM-80GB", text, 16, 2)->inter.nic_bandwidth * 8 / 1e9;
  };
  CHECK(gbps("NVLink4 NVSwitch + InfiniBand 1x100Gb/s") == Approx(12.5));
  CHECK(gbps("NVLink4 NVSwitch + InfiniBand 2x100Gb/s") == Approx(25));
  CHECK(gbps("InfiniBand 8x100Gb/s") == Approx(100));
  CHECK(gbps("InfiniBand 1xHDR") == Approx(25));
  CHECK(gbps("InfiniBand 2xHDR") == Approx(50));
  CHECK(gbps("InfiniBand HDR") == Approx(200));
  CHECK(gbps("InfiniBand 8x12.5Gb/s") == Approx(12.5));
  CHECK(gbps("InfiniBand 8x50GB/s") == Approx(400));
  CHECK(gbps("RoCE 2x200Gb/s per GPU") == Approx(400));
  CHECK(gbps("RoCE 3.2Tb/s") == Approx(400));
  CHECK(gbps("NVLink4 900GB/s + InfiniBand 8x200Gb/s") == Approx(200));
  // More adapters than GPUs, numbers behind a generation, counts before its name.
  CHECK(gbps("EFA 32x100Gb/s (p5.48xlarge)") == Approx(400));
  CHECK(gbps("EFAv3 16x200Gbps") == Approx(400));
  CHECK(gbps("4x NDR200") == Approx(100));
  CHECK(gbps("InfiniBand 8x HDR100") == Approx(100));
  CHECK(gbps("4x EDR InfiniBand 100Gb/s") == Approx(50));
  CHECK(gbps("8x NDR InfiniBand") == Approx(400));
  CHECK(gbps("2x DGX H100 InfiniBand 400Gb/s") == Approx(400));
  CHECK(gbps("EFA 400Gb/s/GPU (p5)") == Approx(400));
  // A TCP network's is the node's.
  CHECK(gbps("100 Gbps Ethernet TCP") == Approx(12.5));
  CHECK(gbps("25 GbE TCP sockets") == Approx(3.125));
  const auto p4d = machine_of_interconnect("A100-SXM4-40GB", "AWS EFA 400Gbps", 16, 2);
  CHECK(p4d->inter.nic_bandwidth == Approx(6.25e9));
  const auto lumi = machine_of_interconnect("MI250X", "Slingshot 11", 16, 2);
  CHECK(lumi->inter.nic_bandwidth == Approx(12.5e9));
  const auto sockets = machine_of_interconnect("L4", "PCIe Gen4, dual socket", 8, 1);
  CHECK(sockets->intra.link_bandwidth == Approx(16e9));
  CHECK(domains_of("H100", "2 nodes, 8-GPU NVLink domain each, InfiniBand NDR", 16, 2) == 2);
  CHECK(domains_of("GB200", "NVLink5 NVSwitch, single NVLink domain", 64, 16) == 1);
}
