// The built-in machines: figures that hang together, and links that go over them.
#include <catch2/catch.hpp>

#include <string>
#include <toml++/toml.h>

#include "runtime/host/rating.h"
#include "sim/cost/catalogue.h"
#include "sim/cost/hardware.h"
#include "sim/cost/roofline.h"
#include "tests/support/scratch.h"

using namespace foregather;
using namespace foregather::sim;
using Catch::Matchers::Contains;

namespace {

Hardware load(std::string_view name) {
  const Result<Hardware> hardware = load_hardware(std::string(name));
  REQUIRE(hardware.has_value());
  return *hardware;
}

bool names_something(const toml::table& figure) {
  const auto source = figure["source"].value<std::string>();
  return source && source->find_first_not_of(" \t") != std::string::npos;
}

}  // namespace

TEST_CASE("every figure of every built-in file carries a source") {
  for (CatalogueKind kind :
       {CatalogueKind::hardware, CatalogueKind::topology, CatalogueKind::fabric}) {
    REQUIRE(!catalogue(kind).empty());
    for (const CatalogueEntry& entry : catalogue(kind)) {
      INFO(entry.name);
      const toml::table root = toml::parse(entry.text);
      CHECK(!root["description"].value_or(std::string()).empty());
      for (const auto& [section, node] : root) {
        if (!node.is_table()) continue;
        for (const auto& [key, figure] : *node.as_table()) {
          INFO(section.str() << '.' << key.str());
          REQUIRE(figure.is_table());
          CHECK(names_something(*figure.as_table()));
        }
      }
    }
  }
}

TEST_CASE("figures of the built-in machines hang together") {
  for (std::string_view name : hardware_names()) {
    INFO(name);
    const Hardware hw = load(name);
    if (hw.intra.kind == IntraLink::shared_memory) continue;  // rated, no GPU
    CHECK(hw.compute.matmul_f16 >= hw.compute.matmul_f32);
    CHECK((hw.compute.matmul_bf16 == 0 || hw.compute.matmul_bf16 == hw.compute.matmul_f16));
    if (hw.compute.matmul_f8 > 0) {
      CHECK(hw.compute.matmul_f8 == Approx(2 * hw.compute.matmul_f16).epsilon(0.02));
      CHECK(hw.compute.vector_f64 > 0);  // without it doubles would cost nothing
    }
    // One clock: a lane does a multiplication and an addition a cycle, NVIDIA has 64 or 128 lanes.
    const double lanes = hw.compute.vector_f32 / (2 * hw.compute.sms * hw.compute.boost_clock);
    CHECK(lanes > 60);
    CHECK(lanes < 150);
    CHECK(hw.memory.capacity > 11e9);
    const bool is_shared = hw.name == "gb10";  // with the processor
    CHECK(hw.memory.bandwidth / hw.memory.capacity > (is_shared ? 2 : 12));
    CHECK(hw.memory.bandwidth / hw.memory.capacity < 80);
    CHECK(hw.outside.context + hw.outside.libraries < hw.memory.capacity / 10);
    CHECK(hw.efficiency.attention_backward <= hw.efficiency.attention_forward);
    const double links = hw.intra.links * hw.intra.link_bandwidth;
    CHECK(links >= (hw.has_nvlink() ? 100e9 : 10e9));
    CHECK(links <= (hw.has_nvlink() ? 1000e9 : 50e9));
    // NCCL counts PCIe a little below the line rate of the adapter behind it.
    CHECK(links >= 0.95 * hw.inter.nic_bandwidth);
  }
}

TEST_CASE("the host is what its devices are rated for") {
  const Hardware hw = load("host");
  const runtime::Rating rating;
  CHECK(hw.compute.matmul_f32 == rating.flops);
  CHECK(hw.compute.matmul_bf16 == rating.flops);
  CHECK(hw.memory.bandwidth * hw.efficiency.elementwise == rating.memory);
  CHECK(hw.intra.links * hw.intra.link_bandwidth == rating.link);
  CHECK(hw.inter.nic_bandwidth == rating.link);
  CHECK(hw.nccl.launch_floor >= rating.link_latency);
  const auto is_as_rated = [&](const Cost& cost, double time) {
    return time - hw.kernel.floor ==
           Approx(static_cast<double>(runtime::rated_time(cost, rating))).epsilon(0.01);
  };
  Cost doubles;
  doubles.kind = OpKind::fused;
  doubles.dtype = DType::f64;
  doubles.bytes_read = doubles.bytes_written = 1'000'000;
  doubles.flops = 10'000'000;
  CHECK(is_as_rated(doubles, memory_work(doubles, hw).time));
  Cost heads;  // of 32
  heads.kind = OpKind::attention;
  heads.dtype = DType::f32;
  heads.batch = 4;
  heads.m = heads.n = 128;
  heads.k = 32;
  heads.flops = 2 * heads.batch * heads.m * heads.n * heads.k;
  CHECK(is_as_rated(heads, attention_work(heads, hw).time));
}

TEST_CASE("newer and larger boards of a family have more") {
  CHECK(load("h200_sxm").memory.bandwidth > load("h100_sxm").memory.bandwidth);
  CHECK(load("h100_96_500w").memory.bandwidth < load("h100_96_sxm").memory.bandwidth);
  CHECK(load("h100_sxm_500w").compute.sustained_clock < load("h100_sxm").compute.sustained_clock);
  CHECK(load("gb200").compute.matmul_bf16 > load("b200_sxm").compute.matmul_bf16);
  CHECK(load("a100_40_pcie").memory.capacity < load("a100_80_pcie").memory.capacity);
  CHECK(load("h800_sxm").intra.links < load("h100_sxm").intra.links);
  CHECK(load("h20_sxm").compute.matmul_bf16 < load("h100_pcie").compute.matmul_bf16);
  CHECK(load("rtx_3090").generation() == Generation::ampere);
  CHECK(load("rtx_5090").generation() == Generation::blackwell);
  CHECK(load("l40s").intra.kind == IntraLink::pcie_p2p);
  CHECK(load("l40").compute.matmul_bf16 < load("l40s").compute.matmul_bf16);
  CHECK(load("a30").generation() == Generation::ampere);
  CHECK(load("a30").compute.sms < load("a100_40_pcie").compute.sms);
  CHECK(load("mi325x").memory.bandwidth > load("mi300x").memory.bandwidth);
  CHECK(load("gh200").inter.kind == InterLink::slingshot);
}

TEST_CASE("a topology replaces the links inside a node alone") {
  Hardware hw = load("a100_80_sxm");
  REQUIRE(apply_topology(hw, "pcie4_host").has_value());
  CHECK(hw.name == "a100_80_sxm+pcie4_host");
  CHECK(hw.intra.kind == IntraLink::pcie_host);
  CHECK(hw.intra.link_bandwidth == Approx(24e9));
  CHECK(hw.intra.links == 1);
  CHECK(hw.inter.nic_bandwidth == load("a100_80_sxm").inter.nic_bandwidth);
}

TEST_CASE("every topology and fabric goes over a machine that has its links") {
  for (std::string_view topology : topology_names()) {
    Hardware hw = load("h100_sxm");
    CHECK(apply_topology(hw, std::string(topology)).has_value());
  }
  for (std::string_view fabric : fabric_names()) {
    Hardware hw = load("rtx_4090");
    CHECK(apply_fabric(hw, std::string(fabric)).has_value());
    CHECK(hw.inter.kind != InterLink::none);
  }
}

TEST_CASE("what a message by LL takes between nodes is the fabric's, on any GPU") {
  Hardware hw = load("a100_80_sxm");
  CHECK(hw.inter.ll_bandwidth == 2e9);
  REQUIRE(apply_fabric(hw, "slingshot"));
  CHECK(hw.inter.ll_bandwidth == load("gh200").inter.ll_bandwidth);
  REQUIRE(apply_fabric(hw, "ib_hdr"));
  CHECK(hw.inter.ll_bandwidth == 2e9);
}

TEST_CASE("topologies and fabrics that do not fit are refused") {
  Hardware hw = load("rtx_4090");
  CHECK_THAT(apply_topology(hw, "nvswitch").error().text(), Contains("needs NVLink"));
  CHECK(apply_topology(hw, "nvlink_bridge").has_value());  // it brings its links
  hw = load("rtx_4090");
  CHECK_THAT(apply_topology(hw, "pcie4_p2q").error().text(),
             Contains("unknown topology 'pcie4_p2q', did you mean 'pcie4_p2p'?"));
  CHECK_THAT(apply_fabric(hw, "ib_xdr").error().text(), Contains("unknown fabric 'ib_xdr'"));
  const test::Scratch scratch;
  const std::string other = scratch.write("other.toml", "description = \"no links\"\n");
  CHECK(apply_topology(hw, other).error().text() ==
        other + ": is no topology, expected a section [intra]");
  CHECK(apply_fabric(hw, other).error().text() ==
        other + ": is no fabric, expected a section [inter]");
}
