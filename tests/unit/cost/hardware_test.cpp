#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "sim/cost/catalogue.h"
#include "sim/cost/hardware.h"
#include "sim/cost/hardware_schema.h"
#include "tests/support/scratch.h"

using namespace foregather;
using namespace foregather::sim;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

std::string error_of(const std::string& text) {
  const Result<Hardware> read = parse_hardware(text, "my.toml");
  REQUIRE(!read.has_value());
  return read.error().text();
}

const std::string kBase = "base = \"h100_sxm\"\n";

}  // namespace

TEST_CASE("every built-in hardware loads under its own name") {
  REQUIRE(hardware_names().size() == 54);
  for (std::string_view name : hardware_names()) {
    const Result<Hardware> hw = load_hardware(std::string(name));
    REQUIRE(hw.has_value());
    CHECK(hw->name == name);
    CHECK(!hw->description.empty());
    // A calibration bases on it.
    CHECK(parse_hardware(fmt::format("base = \"{}\"\nname = \"mine\"\n", name), "mine.toml"));
  }
}

TEST_CASE("a base's path is relative to its file") {
  const test::Scratch folder;
  std::filesystem::create_directory(folder.path("in"));
  folder.write("low.toml", kBase + "name = \"low\"\n");
  const std::string high = folder.write("in/high.toml", "base = \"../low.toml\"\n");
  CHECK(load_hardware(high).value().name == "low");
  CHECK(hardware_files(high).size() == 2);
}

TEST_CASE("figures come in base units") {
  const Hardware hw = load_hardware("h100_sxm").value();
  CHECK(hw.memory.bandwidth == 3.35e12);
  CHECK(hw.compute.matmul_bf16 == Approx(989.4e12));
  CHECK(hw.compute.boost_clock == Approx(1.83e9));
  CHECK(hw.host.launch == Approx(2500));
  CHECK(hw.intra.kind == IntraLink::nvswitch);
  CHECK(hw.generation() == Generation::hopper);
  CHECK(load_hardware("rtx_4090")->generation() == Generation::ampere);
  CHECK(load_hardware("v100_sxm")->generation() == Generation::volta);
}

TEST_CASE("an unknown hardware is refused with the nearest and all known names") {
  const Result<Hardware> hw = load_hardware("h100_sxn");
  REQUIRE(!hw.has_value());
  CHECK_THAT(hw.error().text(),
             StartsWith("unknown hardware 'h100_sxn', did you mean 'h100_sxm'?; known are "
                        "a10, a100_40_pcie, a100_40_sxm, ") &&
                 EndsWith(", v100_sxm, or give the path of a .toml file"));
}

TEST_CASE("a hardware file may start from another") {
  const Result<Hardware> hw = parse_hardware(kBase +
                                                 "name = \"mine\"\n[memory]\nbandwidth = { value = "
                                                 "2.4, unit = \"TB/s\", source = \"x\" }\n",
                                             "my.toml");
  REQUIRE(hw.has_value());
  CHECK(hw->name == "mine");
  CHECK(hw->memory.bandwidth == Approx(2.4e12));
  CHECK(hw->compute.sms == 132);
}

TEST_CASE("a hardware file is read from a path") {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / "foregather_hardware_test.toml";
  std::ofstream(path) << kBase << "name = \"from_path\"\n";
  const Result<Hardware> hw = load_hardware(path.string());
  std::filesystem::remove(path);
  REQUIRE(hw.has_value());
  CHECK(hw->name == "from_path");
  CHECK(!load_hardware("/nonexistent/x.toml").has_value());
  CHECK(!load_hardware(std::filesystem::temp_directory_path().string()).has_value());
}

TEST_CASE("unknown keys are refused where they stand") {
  CHECK(error_of(kBase + "[memroy]\n") ==
        "my.toml:2:2: unknown key 'memroy', did you mean 'memory'?; expected one of name, "
        "description, base, memory, compute, efficiency, kernel, intra, inter, nccl, host, "
        "outside, interval");
  CHECK_THAT(error_of(kBase + "[memory]\nbandwith = { value = 1 }\n"),
             Contains("my.toml:3:1: unknown key 'memory.bandwith', did you mean 'bandwidth'?"));
  CHECK_THAT(
      error_of(kBase + "[inter]\nnvls_fill = { value = 1, source = \"x\" }\n"),
      Contains("my.toml:3:1: unknown key 'inter.nvls_fill', did you mean 'nccl.nvls_fill'?"));
  CHECK_THAT(
      error_of(kBase +
               "[nccl]\nll_hop_bandwidth = { value = 6, unit = \"GB/s\", source = \"x\" }\n"),
      Contains("unknown key 'nccl.ll_hop_bandwidth', it is 'inter.ll_bandwidth' now;"));
  CHECK_THAT(error_of(kBase + "[memory]\nl2 = { value = 1, unti = \"B\", source = \"x\" }\n"),
             Contains("my.toml:3:19: unknown key 'unti', did you mean 'unit'?"));
}

TEST_CASE("a figure without a source is refused") {
  CHECK_THAT(error_of(kBase + "[memory]\nl2 = { value = 50, unit = \"MiB\" }\n"),
             Contains("my.toml:3:1: 'memory.l2' has no source"));
  CHECK_THAT(error_of(kBase + "[memory]\nl2 = { value = 50, unit = \"MiB\", source = \" \" }\n"),
             Contains("has no source"));
  CHECK_THAT(error_of(kBase + "[memory]\nl2 = { unit = \"MiB\", source = \"x\" }\n"),
             EndsWith("my.toml:3:1: 'memory.l2' has no value"));
  CHECK_THAT(error_of(kBase + "[memory]\nl2 = 50\n"), Contains("must state its source"));
  CHECK_THAT(error_of(kBase + "[intra]\nkind = \"nvswitch\"\n"), Contains("must state its source"));
}

TEST_CASE("values that cannot be are refused") {
  const auto bandwidth = [](const char* value, const char* unit) {
    return error_of(kBase + "[memory]\nbandwidth = { value = " + value + ", unit = \"" + unit +
                    "\", source = \"x\" }\n");
  };
  CHECK_THAT(bandwidth("nan", "TB/s"),
             Contains("my.toml:3:23: 'memory.bandwidth' = nan TB/s is not plausible"));
  CHECK_THAT(bandwidth("inf", "TB/s"), Contains("not plausible"));
  CHECK_THAT(bandwidth("-3.35", "TB/s"), Contains("expected 0.001 to 100 TB/s"));
  CHECK_THAT(bandwidth("3.35e12", "TB/s"), Contains("not plausible"));
  CHECK_THAT(bandwidth("3350", "TB/s"), Contains("not plausible"));  // GB/s were meant
  CHECK_THAT(bandwidth("3.35", "TFLOP/s"), Contains("needs a unit: B/s"));
  CHECK_THAT(bandwidth("\"fast\"", "TB/s"), Contains("must be a number"));
  CHECK_THAT(error_of(kBase + "[intra]\nkind = { value = \"nvswich\", source = \"x\" }\n"),
             Contains("unknown kind 'nvswich', did you mean 'nvswitch'?"));
}

TEST_CASE("a figure in a unit of something else is told its own") {
  const auto units = [](const std::string& section, const std::string& key) {
    return error_of(kBase + "[" + section + "]\n" + key +
                    " = { value = 1, unit = \"parsec\", source = \"x\" }\n");
  };
  CHECK_THAT(units("memory", "l2"),
             EndsWith("'memory.l2' needs a unit: B, KiB, MiB, GiB, MB or GB"));
  CHECK_THAT(units("memory", "bandwidth"), EndsWith("needs a unit: B/s, MB/s, GB/s, TB/s or Gb/s"));
  CHECK_THAT(units("compute", "matmul_bf16"), EndsWith("needs a unit: FLOP/s, GFLOP/s or TFLOP/s"));
  CHECK_THAT(units("kernel", "floor"), EndsWith("needs a unit: ns, us, ms or s"));
  CHECK_THAT(units("compute", "boost_clock"), EndsWith("needs a unit: Hz, MHz or GHz"));
}

TEST_CASE("a rate is 0 where there is no such unit, and else one of a machine") {
  const auto rate = [](const char* key, const char* value) {
    return kBase + "[compute]\n" + key + " = { value = " + value +
           ", unit = \"TFLOP/s\", source = \"x\" }\n";
  };
  CHECK(parse_hardware(rate("matmul_bf16", "0"), "my.toml").has_value());
  CHECK(parse_hardware(rate("matmul_f8", "0.0"), "my.toml").has_value());
  CHECK_THAT(error_of(rate("matmul_bf16", "1e-300")),
             Contains("my.toml:3:25: 'compute.matmul_bf16' = 1e-300 TFLOP/s is not plausible, "
                      "expected 0, or 0.001 to 10000 TFLOP/s"));
  CHECK_THAT(error_of(rate("matmul_f16", "0")), Contains("expected 0.001 to 10000 TFLOP/s"));
  for (const char* value : {"nan", "inf", "-inf", "-1", "-0.0001", "1e300"})
    for (const char* key : {"matmul_bf16", "matmul_f16", "matmul_f8", "vector_f32"})
      CHECK_THAT(error_of(rate(key, value)), Contains("is not plausible"));
}

TEST_CASE("incomplete and broken hardware files are refused") {
  CHECK_THAT(error_of("name = \"mine\"\n"), Contains("the figure 'memory.capacity' is missing"));
  CHECK_THAT(error_of(""), Contains("has no name"));
  CHECK_THAT(error_of("name = \"a\nb\""), Contains("my.toml:1:"));
  CHECK_THAT(error_of("base = \"nothing\"\n"), Contains("my.toml:1:8: 'base': unknown hardware"));
  CHECK_THAT(error_of("base = 7\n"), Contains("'base' must name a hardware"));
  CHECK(error_of("name = 7\n") == "my.toml:1:1: 'name' must be a text in quotes");
  CHECK(error_of(kBase + "description = \"\"\n") ==
        "my.toml:2:1: 'description' must be a text in quotes");
  CHECK_THAT(error_of("memory = 7\n"), Contains("write [memory]"));
}

TEST_CASE("the catalogue is sorted and each figure is known once") {
  for (CatalogueKind kind :
       {CatalogueKind::hardware, CatalogueKind::topology, CatalogueKind::fabric}) {
    const auto entries = catalogue(kind);
    for (std::size_t i = 1; i < entries.size(); ++i) CHECK(entries[i - 1].name < entries[i].name);
  }
  for (const FigureSpec& a : figure_specs()) {
    int same = 0;
    for (const FigureSpec& b : figure_specs()) same += a.section == b.section && a.key == b.key;
    CHECK(same == 1);
  }
}
