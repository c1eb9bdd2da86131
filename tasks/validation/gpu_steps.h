// Steps that were measured on a GPU, with the workloads that say what was run.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"

namespace foregather::tasks {

struct GpuStep {
  std::string id;
  Ns step = 0;                        ///< measured
  Ns host_step = 0;                   ///< …, until all was enqueued
  Bytes allocated = 0, reserved = 0;  ///< measured peaks
  Ns predicted_step = 0;
  Bytes predicted_allocated = 0, predicted_reserved = 0;

  /// Did the device wait for the host? Then the step says how fast that host was.
  bool waits_for_host() const;
};

/// Reads a table (docs/formats.md names its columns) and predicts each row: its workload, a path
/// relative to the table, with its settings. Errors, at their place: a bad table, a workload or a
/// setting that `simulate` would refuse.
Result<std::vector<GpuStep>> predict_gpu_steps(const std::string& path);
/// The same of those that do not wait for the host, with sections of a hardware file that replace
/// those of their machine (DIRECTORY/gpu_step_N.hardware.toml).
Result<std::vector<GpuStep>> predict_busy_gpu_steps(const std::string& path,
                                                    const std::string& directory,
                                                    const std::string& figures);

/// The section of the report, and the same for a terminal.
std::string gpu_steps_markdown(const std::vector<GpuStep>& steps);
std::string gpu_steps_text(const std::vector<GpuStep>& steps);

}  // namespace foregather::tasks
