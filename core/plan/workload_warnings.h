// What a workload says and a prediction does not follow.
#pragma once

#include <string>
#include <vector>

#include "core/plan/workload.h"

namespace foregather {
struct Graph;
}

namespace foregather::plan {

struct ModelConfig;

/// In the order of the key table: a warning, with its place, for each key that the user set and
/// that has no effect, because it belongs to other strategies or lacks what it needs. Then what no
/// key makes the schedule do: the loss scaling of fp16.
std::vector<std::string> workload_warnings(const Workload& workload);

/// The same of keys that `model` lacks what they need for, but those that workload_warnings()
/// names; and of numbers that are more than there is to count.
std::vector<std::string> model_key_warnings(const Workload& workload, const ModelConfig& model);

/// Narrow optimizer states, of which the workload's schedule has none.
std::vector<std::string> state_warnings(const Workload& workload, const Graph& graph);

/// Experts that FSDP2 pads to the ranks: half as much again or more.
std::vector<std::string> padding_warnings(const Workload& workload, const ModelConfig& model);

}  // namespace foregather::plan
