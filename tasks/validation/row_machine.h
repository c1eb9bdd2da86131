// Which hardware files the words of published results stand for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "tasks/validation/measured.h"

namespace foregather::tasks {

/// Keys of [cluster]; empty: not set.
struct RowMachine {
  std::string hardware, topology, fabric;
  std::optional<double> fabric_gbps;
  std::string assumed;  ///< what the source does not say and was filled in, for people
};

/// The machine of a row. Errors (without place): a GPU, link or fabric that no file describes.
///
/// - H100 SXM with 95 or 96 GB is taken as the 500 W board with HBM2e: the published results from
///   such boards (torchtitan, torchao) come from one fleet, which torchtitan describes so.
/// - NVLink on a board without it (bridges between pairs, most likely) are the links of its file.
/// - A GPU that is not stated is taken as H100 SXM: its memory figures hardly depend on it.
/// - `unknown` links are those of the hardware file, and so is the kind of an `unknown` or blank
/// fabric. Its
///   speed is the median of what the published results of that GPU generation state, one figure a
///   source, because clusters are seldom built as the vendor's reference: A100 100 Gb/s a GPU (IBM
///   50, DLRover 100, MosaicML 200), H100 250 Gb/s (IBM 100, torchtitan 400).
Result<RowMachine> machine_of(const MeasuredRow& row);

/// Those that its links join; 8 where no hardware file is known.
std::int64_t gpus_of_node(const std::string& hardware);

/// As stated; one where nothing is between them; else as many GPUs a node as the hardware has. The
/// row states its GPUs.
std::int64_t nodes_of(const MeasuredRow& row);

/// The built-in hardware whose GPU a text names ("A100-SXM4-40GB", "H100-SXM5-96GB …"), in capitals
/// or not; empty: none.
std::string hardware_of_gpu(const std::string& gpu);

/// The same of the row's GPU; of one that is not stated, what it is taken as.
std::string hardware_of(const MeasuredRow& row);

/// The generation of the PCIe port of a built-in GPU: what its server most likely has.
int pcie_generation(std::string_view hardware);

}  // namespace foregather::tasks
