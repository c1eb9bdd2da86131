#include "tasks/device_hardware.h"

#include <algorithm>
#include <array>

#include "sim/cost/hardware.h"

namespace foregather::tasks {
namespace {

/// All parts are in the name; the first row that matches counts; no hardware: no file describes it.
/// Names as the driver prints them; A100-PG509-200 is the 40 GB module of a custom server,
/// V100-DGXS the one of the DGX Station.
struct Device {
  std::array<std::string_view, 3> parts;
  std::string_view hardware;
};
constexpr std::array kDevices{
    Device{{"GB300"}, "gb300"},
    Device{{"GB200"}, "gb200"},
    Device{{"GH200", "144G"}, "gh200_144"},
    Device{{"GH200"}, "gh200"},
    Device{{"B300"}, "b300_sxm"},
    Device{{"B200"}, "b200_sxm"},
    Device{{"H200", "NVL"}, "h200_nvl"},
    Device{{"H200"}, "h200_sxm"},
    Device{{"H20-3e"}, "h20_141"},
    Device{{"H20"}, "h20_sxm"},
    Device{{"H800"}, "h800_sxm"},
    Device{{"H100", "NVL"}, "h100_nvl"},
    Device{{"H100", "PCIe"}, "h100_pcie"},
    Device{{"H100", "64GB"}, "h100_64_sxm"},
    Device{{"H100", "96GB"}, "h100_96_sxm"},
    Device{{"H100"}, "h100_sxm"},
    Device{{"A100", "64GB"}, "a100_64_sxm"},
    Device{{"A100", "80GB", "PCI"}, "a100_80_pcie"},
    Device{{"A100", "PCI"}, "a100_40_pcie"},
    Device{{"A100", "80GB"}, "a100_80_sxm"},
    Device{{"A100"}, "a100_40_sxm"},
    Device{{"A800", "SXM"}, "a800_sxm"},
    Device{{"V100", "PCI"}, "v100_pcie"},
    Device{{"V100", "16GB"}, "v100_16_sxm"},
    Device{{"V100"}, "v100_sxm"},
    Device{{"L40S"}, "l40s"},
    Device{{"L40"}, "l40"},
    Device{{"NVIDIA L20"}, "l20"},
    Device{{"NVIDIA L4"}, "l4"},
    Device{{"Tesla T4"}, "t4"},
    Device{{"NVIDIA T4"}, "t4"},
    Device{{"NVIDIA GB10"}, "gb10"},
    Device{{"A10G"}, "a10g"},
    Device{{"NVIDIA A10"}, "a10"},
    Device{{"NVIDIA A30"}, "a30"},
    Device{{"NVIDIA A40"}, "a40"},
    Device{{"RTX A6000"}, "rtx_a6000"},
    Device{{"RTX 6000 Ada"}, "rtx_6000_ada"},
    Device{{"RTX A5000"}, "rtx_a5000"},
    Device{{"RTX PRO 6000"}, "rtx_pro_6000"},
    Device{{"RTX 2080 Ti"}, "rtx_2080_ti"},
    Device{{"RTX 3090 Ti"}, "rtx_3090_ti"},
    Device{{"RTX 3090"}, "rtx_3090"},
    Device{{"RTX 4090 D"}, ""},
    Device{{"RTX 4090"}, "rtx_4090"},
    Device{{"RTX 5090"}, "rtx_5090"},
    Device{{"MI210"}, "mi210"},
    Device{{"MI250X"}, "mi250x"},
    Device{{"MI250"}, "mi250"},
    Device{{"MI300X"}, "mi300x"},
    Device{{"MI325X"}, "mi325x"},
    Device{{"MI350X"}, "mi350x"},
    Device{{"MI355X"}, "mi355x"},
};

}  // namespace

std::optional<std::string> hardware_of_device(std::string_view device) {
  for (const std::string_view name : sim::hardware_names())
    if (name == device) return std::string(name);
  const auto* const found = std::find_if(kDevices.begin(), kDevices.end(), [&](const Device& row) {
    return std::all_of(row.parts.begin(), row.parts.end(),
                       [&](std::string_view part) { return device.find(part) != device.npos; });
  });
  if (found == kDevices.end() || found->hardware.empty()) return std::nullopt;
  return std::string(found->hardware);
}

}  // namespace foregather::tasks
