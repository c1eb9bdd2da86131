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
  CHECK(hardware_of_gpu("GH200 144 GB HBM3e") == "gh200_144");
  CHECK(hardware_of_gpu("H20-141GB") == "h20_141");
  CHECK(hardware_of_gpu("H20-SXM-96GB") == "h20_sxm");
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
  CHECK(hardware_of_gpu("RTX 3090 Ti 24GB") == "rtx_3090_ti");
  CHECK(hardware_of_gpu("RTX 3090 Ti") == "rtx_3090_ti");
  CHECK(hardware_of_gpu("NVIDIA GB300 NVL72") == "gb300");
  CHECK(hardware_of_gpu("B300-SXM-288GB") == "b300_sxm");
  CHECK(hardware_of_gpu("GB10 (DGX Spark)") == "gb10");
  CHECK(hardware_of_gpu("H200 NVL 141GB") == "h200_nvl");
  CHECK(hardware_of_gpu("H200-SXM-141GB (NVLink)") == "h200_sxm");
  CHECK(hardware_of_gpu("A100-SXM-64GB") == "a100_64_sxm");
  CHECK(hardware_of_gpu("Tesla T4") == "t4");
  CHECK(hardware_of_gpu("T4-16GB") == "t4");
  CHECK(hardware_of_gpu("NVIDIA RTX PRO 6000 Blackwell 96GB") == "rtx_pro_6000");
  CHECK(hardware_of_gpu("MI250-128GB") == "mi250");
  CHECK(hardware_of_gpu("MI355X") == "mi355x");
  CHECK(hardware_of_gpu("H100-SXM-64GB") == "h100_64_sxm");
  CHECK(hardware_of_gpu("H100 SXM, 64 GB RAM") == "h100_sxm");
  CHECK(hardware_of_gpu("RTX 3090 (multi GPU)") == "rtx_3090");
  CHECK(hardware_of_gpu("RTX A6000, Threadripper PRO") == "rtx_a6000");
  CHECK(hardware_of_gpu("RTX 3090-Ti") == "rtx_3090_ti");
  // A board of its own, which is not what its name begins with.
  CHECK(hardware_of_gpu("RTX 4090 D").empty());
  for (const char* gpu :
       {"GB200", "GH200", "B200", "H200", "H100-PCIe", "V100-PCIe-32GB", "L40S", "V100-SXM2-16GB",
        "RTX 4090", "MI300X-192GB", "A100-PCIe-40GB", "H800-SXM-80GB", "A800-SXM4-80GB",
        "A10G-24GB", "RTX A6000", "RTX 3090-24GB", "MI250X-128GB", "MI325X-256GB", "A30-24GB"})
    CHECK(sim::load_hardware(hardware_of_gpu(gpu)).has_value());
  for (const sim::CatalogueEntry& known : sim::catalogue(sim::CatalogueKind::hardware))
    CHECK(hardware_of_gpu(std::string(known.name)) == known.name);
}

TEST_CASE("words for GPUs: sizes without a unit, boards without a file, machines of a cloud") {
  CHECK(hardware_of_gpu("A100-40") == "a100_40_sxm");
  CHECK(hardware_of_gpu("A100-PCIe-40") == "a100_40_pcie");
  CHECK(hardware_of_gpu("A100-SXM-80") == "a100_80_sxm");
  CHECK(hardware_of_gpu("4x A100 (320GB total)") == "a100_80_sxm");
  CHECK(hardware_of_gpu("H100NVL") == "h100_nvl");
  CHECK(hardware_of_gpu("H100 94GB") == "h100_nvl");
  CHECK(hardware_of_gpu("p4d.24xlarge") == "a100_40_sxm");
  CHECK(hardware_of_gpu("p5.48xlarge") == "h100_sxm");
  CHECK(hardware_of_gpu("p5en.48xlarge") == "h200_sxm");
  MeasuredRow row;
  row.gpu = "H800 PCIe";
  row.fabric = "none";
  CHECK_THAT(machine_of(row)->assumed, Catch::Contains("taken as h800_sxm"));
}

TEST_CASE("a node has as many GPUs as its links join") {
  MeasuredRow row;
  row.gpu = "GH200";
  row.gpus = 16;
  CHECK(nodes_of(row) == 4);
  row.gpu = "H100-SXM-80GB";
  CHECK(nodes_of(row) == 2);
  row.fabric = "none";
  CHECK(nodes_of(row) == 1);
  row.nodes = 4;
  CHECK(nodes_of(row) == 4);
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
  // Bridges are of two links and more; some cards have no connector.
  const auto bridged = [](const char* gpu) {
    const auto machine = machine_of_interconnect(gpu, "NVLink bridge", 2, 1);
    return machine->intra.kind == sim::IntraLink::nvlink
               ? machine->intra.links * machine->intra.link_bandwidth / 1e9
               : 0;
  };
  CHECK(bridged("A100-PCIE-80GB") == Approx(240));
  CHECK(bridged("RTX 3090") == Approx(48));
  CHECK(bridged("A40") == Approx(48));
  CHECK(bridged("RTX 2080 Ti") == Approx(40));
  CHECK(bridged("A30") == Approx(80));
  CHECK(bridged("L40S") == 0);
  CHECK(bridged("RTX 4090") == 0);
  const auto p2p = machine_of_interconnect("RTX 4090", "PCIe Gen4 x16, P2P enabled", 4, 1);
  CHECK(p2p->intra.kind == sim::IntraLink::pcie_p2p);
  CHECK(
      machine_of_interconnect("H100-SXM5-80GB", "NVSwitch, NCCL_NVLS_ENABLE=0", 8, 1)->intra.kind ==
      sim::IntraLink::nvlink);
  const auto process = machine_of_interconnect("A100-SXM4-40GB", "1 process -g 8", 8, 1);
  CHECK(process->nccl.launch_floor == Approx(8 * 3900));
  CHECK(process->nccl.channel_start == Approx(1300));
}

TEST_CASE("words for interconnects stand by themselves") {
  const auto h100 = [](const std::string& text) {
    return machine_of_interconnect("H100-SXM5-80GB", text, 16, 2).value();
  };
  const std::string text = "NVLink4 NVSwitch + InfiniBand NDR 8x400Gb/s";
  const sim::Hardware plain = h100(text);
  for (const char* more : {", default settings", ", 1 GPU per process", ", Intel processors",
                           ", dual-socket Xeon", ", GPUDirect RDMA", ", one NIC per GPU",
                           ", one process per GPU", " (ConnectX-7, PCIe Gen5)"}) {
    CAPTURE(more);
    const sim::Hardware same = h100(text + more);
    CHECK(same.name == plain.name);
    CHECK(same.inter.nic_bandwidth == plain.inter.nic_bandwidth);
    CHECK(same.nccl.launch_floor == plain.nccl.launch_floor);
  }
  CHECK(h100("NVLink4, GPUDirect RDMA, 8x400Gb/s").intra.kind == sim::IntraLink::nvswitch);
  const auto rtx = [](const char* words) {
    return machine_of_interconnect("RTX 4090", words, 16, 4).value();
  };
  for (const char* words : {"PCIe Gen4, NCCL_P2P_DISABLE=1", "PCIe Gen4, P2P off",
                            "PCIe Gen4, P2P: not supported", "PCIe Gen4, P2P disabled"})
    CHECK(rtx(words).intra.kind == sim::IntraLink::pcie_host);
  CHECK(rtx("PCIe Gen4, NCCL_P2P_DISABLE=0").intra.kind == sim::IntraLink::pcie_p2p);
  CHECK(rtx("PCIe Gen4 + 10GbE").inter.kind == sim::InterLink::tcp);
  CHECK(rtx("PCIe Gen4 + 10GbE").inter.nic_bandwidth == Approx(10e9 / 8 / 4));
  const auto process = [](const char* words) {
    return machine_of_interconnect("A100-SXM4-80GB", words, 8, 1)->nccl.launch_floor;
  };
  CHECK(process("NVSwitch, 1 process per GPU") == Approx(8000));
  CHECK(process("NVSwitch, started by mpirun") == Approx(8000));
  CHECK(process("NVSwitch (-g 12)") == Approx(8 * 3900));
  CHECK(process("-g 8, NVSwitch") == Approx(8 * 3900));
  // One node of A100 that says nothing is as nccl-tests starts by itself; others are not.
  CHECK(process("NVSwitch, 100 G 8 NICs") == Approx(8 * 3900));
  const auto of = [](const char* gpu, int nodes) {
    return machine_of_interconnect(gpu, "NVSwitch", 8 * nodes, nodes)->nccl.launch_floor;
  };
  CHECK(of("A100-SXM4-80GB", 2) == Approx(8000));
  CHECK(of("H100-SXM5-80GB", 1) == Approx(8000));
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
  // Links inside a node are none, however they are parted from adapters.
  for (const char* text :
       {"NVSwitch (900 GB/s) + InfiniBand 8x200Gb/s", "NVLink 900GB/s and IB 8x200Gbps",
        "NVLink 900GB/s & IB 8x200Gbps", "NVLink 900GB/s / IB 8x200Gbps",
        "NVLink 900GB/s with IB 8x200Gbps", "NVLink 900GB/s | IB 8x200Gbps",
        "NVLink 900GB/s - IB 8x200Gbps", "NVLink 900GB/s IB 8x200Gbps",
        "NVSwitch (900 GB/s) + 200 Gb/s per GPU", "8x ConnectX-7 200G", "IB HDR, 200G per GPU",
        "InfiniBand 8x200Gb/s, one NIC per GPU", "InfiniBand 8x200Gb/s one NIC per GPU",
        "NVSwitch, 200G per GPU", "200GbE RoCE x8", "InfiniBand HDR x 8",
        "RoCE 1,600 Gbps per node", "NVSwitch + 1600 Gbps", "H100 80GB, 3.35 TB/s, IB HDR"}) {
    CAPTURE(text);
    CHECK(gbps(text) == Approx(200));
  }
  CHECK(gbps("NVSwitch 900 GB/s") == Approx(400));  // the file's
  for (const char* text : {"single 400Gb/s NIC", "400Gb/s InfiniBand, 1 NIC per node",
                           "one ConnectX-7 400Gb/s", "InfiniBand 400 Gb/s per node"}) {
    CAPTURE(text);
    CHECK(gbps(text) == Approx(50));
  }
  CHECK(gbps("dual 100GbE RoCE") == Approx(25));
  // One adapter is that of the GPUs that take part, however a table says so.
  for (const char* text : {"PCIe4 + 200Gb/s IB per node", "PCIe4 + one 200Gb/s adapter per node",
                           "PCIe4 + 1x200Gb/s IB", "PCIe4 + 200Gb/s EFA"})
    for (const int local : {2, 4}) {
      CAPTURE(text, local);
      const auto node = machine_of_interconnect("L40S", text, 2 * local, 2);
      CHECK(node->inter.nic_bandwidth * 8 / 1e9 == Approx(200.0 / local));
    }
  const auto rack = machine_of_interconnect("GB200 NVL72", "MNNVL + IB 4x400Gb/s", 144, 36);
  CHECK(rack->inter.nic_bandwidth == Approx(50e9));
  const auto quad = machine_of_interconnect("GH200", "Slingshot 800 Gb/s per node", 16, 4);
  CHECK(quad->inter.nic_bandwidth == Approx(25e9));
  // What has no speed: the adapters that come with the GPU, and one of 100 Gb/s a node.
  const auto usual = [](const char* gpu, const char* words, int ranks) {
    return machine_of_interconnect(gpu, words, ranks, 2)->inter.nic_bandwidth * 8 / 1e9;
  };
  CHECK(usual("H100", "NVSwitch, RoCE", 16) == Approx(400));
  CHECK(usual("A100", "NVSwitch, RoCE", 16) == Approx(200));
  CHECK(usual("L40S", "Ethernet", 2) == Approx(100));
  CHECK(usual("RTX 4090", "Ethernet", 8) == Approx(25));
  // How many there are decides on how many channels NCCL has.
  const auto nics = [](const char* words) {
    return machine_of_interconnect("A100-SXM4-80GB", words, 16, 2)->inter.nics_per_gpu;
  };
  CHECK(nics("IB HDR") == 1);
  CHECK(nics("IB 4x200Gb/s") == 0.5);
  CHECK(nics("RoCE 16x100Gb/s") == 2);
  CHECK(nics("EFA 400Gb/s (p4d)") == 0.5);
  CHECK(nics("RoCE 2x100Gb/s per GPU") == 2);
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
  CHECK(domains_of("GB300", "NVLink5 NVL72, two domains + RoCE", 8, 2) == 2);
  CHECK(domains_of("GB200", "NVLink5 NVL72, two racks", 128, 32) == 2);
}
