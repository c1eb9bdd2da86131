#include "tasks/validation/row_machine.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "sim/cost/catalogue.h"
#include "sim/cost/hardware.h"
#include "tasks/validation/words.h"

namespace foregather::tasks {
namespace {

/// Does `part` stand there by itself: "40GB" not in "640GB", "NVL" not in "NVLINK", "A40" not in
/// "A4000"?
bool names(std::string_view text, std::string_view part) {
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    const bool goes_on = end < text.size() && ((is_letter(part.back()) && is_letter(text[end])) ||
                                               (is_digit(part.back()) && is_digit(text[end])));
    const bool began = at > 0 && is_digit(part.front()) && is_digit(text[at - 1]);
    if (!goes_on && !began) return true;
  }
  return false;
}

/// The first line whose parts all stand in the text wins.
struct GpuWords {
  std::string_view hardware;
  std::array<std::string_view, 3> parts;
};

constexpr GpuWords kGpus[] = {
    {"gb300", {"GB300"}},
    {"gb200", {"GB200"}},
    {"gh200_144", {"GH200", "144GB"}},
    {"gh200", {"GH200"}},
    {"b300_sxm", {"B300"}},
    {"b200_sxm", {"B200"}},
    {"h200_nvl", {"H200", "NVL"}},
    {"h200_nvl", {"H200NVL"}},
    {"h200_sxm", {"H200"}},
    {"h20_141", {"H20", "141GB"}},
    {"h20_141", {"H20-3E"}},
    {"h20_sxm", {"H20"}},
    {"h800_sxm", {"H800"}},
    {"h100_sxm", {"H100", "64GB RAM"}},
    {"h100_64_sxm", {"H100", "64GB"}},
    {"h100_nvl", {"H100", "NVL", "94GB"}},
    {"h100_nvl", {"H100 NVL"}},
    {"h100_nvl", {"H100NVL"}},
    {"h100_sxm", {"H100", "SXM", "94GB"}},
    {"h100_nvl", {"H100", "94GB"}},
    {"h100_pcie", {"H100", "PCIE"}},
    {"h100_96_sxm", {"H100", "96GB", "HBM3"}},
    {"h100_96_500w", {"H100", "96GB"}},
    {"h100_96_500w", {"H100", "95GB"}},
    {"h100_sxm_500w", {"H100", "500W"}},
    {"h100_sxm", {"H100"}},
    {"a100_64_sxm", {"A100", "64GB"}},
    {"a100_40_pcie", {"A100", "PCIE", "40GB"}},
    {"a100_40_pcie", {"A100", "PCIE", "-40 "}},
    {"a100_80_pcie", {"A100", "PCIE"}},
    {"a100_40_sxm", {"A100", "40GB"}},
    {"a100_80_sxm", {"A100", "80GB"}},
    {"a100_40_sxm", {"A100", "-40 "}},
    {"a100_80_sxm", {"4X ", "A100", "320GB"}},
    {"a100_40_sxm", {"A100", "320GB"}},  // DGX A100, eight together
    {"a100_40_sxm", {"A100", "P4D"}},
    {"a100_80_sxm", {"A100"}},
    {"a800_sxm", {"A800"}},
    {"v100_pcie", {"V100", "PCIE"}},
    {"v100_16_sxm", {"V100", "16GB"}},
    {"v100_sxm", {"V100"}},
    {"l40s", {"L40S"}},
    {"rtx_6000_ada", {"6000", "ADA"}},
    {"rtx_pro_6000", {"PRO 6000"}},
    {"rtx_pro_6000", {"RTX 6000 PRO"}},
    {"rtx_a6000", {"A6000"}},
    {"rtx_a5000", {"A5000"}},
    {"rtx_2080_ti", {"2080 TI"}},
    {"rtx_2080_ti", {"2080-TI"}},
    {"rtx_2080_ti", {"2080TI"}},
    {"rtx_3090_ti", {"3090 TI"}},
    {"rtx_3090_ti", {"3090-TI"}},
    {"rtx_3090_ti", {"3090TI"}},
    {"rtx_3090", {"3090"}},
    {"", {"4090 D "}},
    {"", {"4090D"}},
    {"rtx_4090", {"4090"}},
    {"rtx_5090", {"5090"}},
    {"a10g", {"A10G"}},
    {"a10", {"A10"}},
    {"a30", {"A30"}},
    {"a40", {"A40"}},
    {"l40", {"L40"}},
    {"l20", {"L20"}},
    {"l4", {"L4-"}},
    {"l4", {"L4 "}},
    {"t4", {"T4-"}},
    {"t4", {"T4 "}},
    {"gb10", {"GB10"}},
    {"gb10", {"DGX SPARK"}},
    {"mi210", {"MI210"}},
    {"mi250x", {"MI250X"}},
    {"mi250", {"MI250"}},
    {"mi300x", {"MI300X"}},
    {"mi325x", {"MI325X"}},
    {"mi350x", {"MI350"}},
    {"mi355x", {"MI355"}},
    {"a100_40_sxm", {"P4D"}},
    {"a100_80_sxm", {"P4DE"}},
    {"h200_sxm", {"P5E"}},
    {"h200_sxm", {"P5EN"}},
    {"h100_sxm", {"P5."}},
};

struct FabricFile {
  std::string_view word, file;
};

constexpr FabricFile kFabricFiles[] = {
    {"ib_hdr", "ib_hdr"},
    {"ib_ndr", "ib_ndr"},
    {"roce_200", "roce_200"},
    {"roce_400", "roce_400"},
    {"efa_400x4", "efa_400"},
    {"efa_3200", "efa_3200"},
    {"tcpx", "tcpx"},
    {"tcpxo", "tcpxo"},
    {"slingshot", "slingshot"},
    {"ethernet", "ethernet_100"},
    {"none", ""},
    {"unknown", ""},
    {"", ""},
};

/// See machine_of(); nothing for generations that too few sources speak of.
std::optional<double> usual_gbps(std::string_view hardware) {
  constexpr double kA100 = 100;
  constexpr double kH100 = 250;
  if (hardware.starts_with("a100") || hardware == "a800_sxm") return kA100;
  if (hardware.starts_with("h100") || hardware == "h800_sxm") return kH100;
  return std::nullopt;
}

}  // namespace

int pcie_generation(std::string_view hardware) {
  constexpr std::string_view kFourth[] = {
      "rtx_3090", "rtx_a6000", "rtx_4090", "rtx_6000_ada", "l40s",       "l40",
      "l4",       "a10g",      "a10",      "a30",          "a40",        "mi250x",
      "mi250",    "mi210",     "l20",      "rtx_a5000",    "rtx_3090_ti"};
  if (hardware.starts_with("v100") || hardware == "t4" || hardware == "rtx_2080_ti") return 3;
  const bool is_ampere = hardware.starts_with("a100") || hardware.starts_with("a800");
  return is_ampere || std::ranges::find(kFourth, hardware) != std::end(kFourth) ? 4 : 5;
}

namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// Does a number end before `end` that is no part of a name, as in "A10G"?
bool ends_number(std::string_view text, std::size_t end) {
  if (end == 0 || !is_digit(text[end - 1])) return false;
  while (end > 0 && is_digit(text[end - 1])) --end;
  return end == 0 || !is_letter(text[end - 1]);
}

// Of several sizes the first is the GPU's: the host's or all GPUs' may follow.
void drop_other_sizes(std::string& text) {
  bool first = true;
  for (auto at = text.find("GB"); at != std::string::npos; at = text.find("GB", at + 1)) {
    const std::string_view after = std::string_view(text).substr(at + 2);
    if (!ends_number(text, at) || after.starts_with("/S") || after.starts_with("PS")) continue;
    if (!std::exchange(first, false)) text.replace(at, 2, "--");
  }
}

// In capitals; sizes as "40GB", whether they were "40 GiB" or "40G". An SXM board is one, whatever
// PCIe is beside it.
std::string usual_words(const std::string& gpu) {
  std::string text = gpu + ' ';
  for (char& c : text)
    c = c == '_' ? ' ' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  replace_all(text, "PCI-E", "PCIE");
  replace_all(text, "GIB", "GB");
  replace_all(text, " GB", "GB");
  for (std::size_t at = 1; at + 1 < text.size(); ++at) {
    const bool ends = !is_letter(text[at + 1]) && !is_digit(text[at + 1]);
    if (text[at] == 'G' && ends && ends_number(text, at)) text.insert(at + 1, 1, 'B');
  }
  drop_other_sizes(text);
  if (says(text, "SXM")) replace_all(text, "PCIE", "----");
  return text;
}

}  // namespace

std::string hardware_of_gpu(const std::string& gpu) {
  std::string own = gpu;
  for (char& c : own)
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const sim::CatalogueEntry& known : sim::catalogue(sim::CatalogueKind::hardware))
    if (own == known.name) return own;
  const std::string name = usual_words(gpu);
  for (const GpuWords& words : kGpus)
    if (std::all_of(words.parts.begin(), words.parts.end(),
                    [&](std::string_view part) { return part.empty() || names(name, part); }))
      return std::string(words.hardware);
  return {};
}

namespace {

bool names_a_gpu(const std::string& gpu) {
  const std::string word = lower(gpu);
  return !word.empty() && word != "unknown" && word != "n/a" && !says(word, "not stated");
}

}  // namespace

std::string hardware_of(const MeasuredRow& row) {
  const std::string hardware = hardware_of_gpu(row.gpu);
  return hardware.empty() && !names_a_gpu(row.gpu) ? "h100_sxm" : hardware;
}

std::int64_t gpus_of_node(const std::string& hardware) {
  const auto known = sim::load_hardware(hardware);
  return known ? static_cast<std::int64_t>(known->intra.gpus) : 8;
}

std::int64_t nodes_of(const MeasuredRow& row) {
  if (row.nodes) return *row.nodes;
  if (row.fabric == "none") return 1;
  const std::int64_t each = gpus_of_node(hardware_of(row));
  return (row.gpus.value_or(1) + each - 1) / each;
}

Result<RowMachine> machine_of(const MeasuredRow& row) {
  RowMachine machine;
  const auto assume = [&](const std::string& text) {
    machine.assumed += machine.assumed.empty() ? text : "; " + text;
  };
  machine.hardware = hardware_of(row);
  if (hardware_of_gpu(row.gpu).empty()) assume("the GPU is not stated: H100 SXM");
  if (machine.hardware.empty()) return fail("no hardware file for the GPU '{}'", row.gpu);

  const std::string text = usual_words(row.gpu);
  if (machine.hardware.ends_with("_sxm") && (names(text, "PCIE") || names(text, "NVL")))
    assume(fmt::format("'{}' is taken as {}", row.gpu, machine.hardware));

  const int pcie = pcie_generation(machine.hardware);
  if (row.link == "pcie_p2p") {
    machine.topology = fmt::format("pcie{}_p2p", pcie);
  } else if (row.link == "pcie_host") {
    machine.topology = fmt::format("pcie{}_host", pcie);
  } else if (row.link == "nvlink_mesh") {
    machine.topology = "nvlink_mesh";
  } else if (row.link == "nvswitch") {
    machine.topology = "nvswitch";
  } else if (row.link != "unknown" && !row.link.empty()) {
    return fail("link '{}' is not known", row.link);
  }
  const bool is_nvlink = row.link == "nvswitch" || row.link == "nvlink_mesh";
  if (is_nvlink && !sim::load_hardware(machine.hardware)->has_nvlink()) {
    machine.topology.clear();
    assume(fmt::format("'{}' is taken without NVLink", row.gpu));
  }
  const auto fabric =
      std::find_if(std::begin(kFabricFiles), std::end(kFabricFiles),
                   [&](const FabricFile& known) { return known.word == row.fabric; });
  if (fabric == std::end(kFabricFiles)) return fail("fabric '{}' is not known", row.fabric);
  machine.fabric = fabric->file;
  machine.fabric_gbps = row.fabric_gbps;
  // Its own adapters are shared by two dies.
  if (machine.hardware == "mi250x" && machine.fabric == "slingshot") machine.fabric.clear();
  const bool is_stated = row.fabric != "unknown" && !row.fabric.empty();
  if (!is_stated && !row.fabric_gbps && nodes_of(row) > 1) {
    machine.fabric_gbps = usual_gbps(machine.hardware);
    if (machine.fabric_gbps)
      assume(fmt::format("the fabric is not stated: {} Gb/s a GPU, as other sources have",
                         *machine.fabric_gbps));
  }
  return machine;
}

}  // namespace foregather::tasks
