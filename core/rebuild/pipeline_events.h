// The events of a pipeline timeline by rank, lane and step. Internal to pipeline.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/kinds.h"
#include "core/run/recording.h"

namespace foregather::rebuild {

/// A stage of one data-parallel and tensor-parallel rank.
struct PipelineRank {
  StringId process;
  std::uint32_t stage = 0, data = 0, tensor = 0;  ///< `data`: row of the recording's processes
  std::string label;                              ///< "PP rank 3, TP rank 0"
};

struct PipelineEvent {
  StringId name;
  std::uint32_t rank = 0;  ///< row of PipelineEvents::ranks
  StringId stream;         ///< of the recording's strings: lane, or name between stages
  bool between_stages = false;
  bool is_communication = false;
  std::int64_t step = 0;
  std::uint32_t nth = 0;  ///< of its name, in its rank and step
  Ns start = 0, end = 0;
};

struct PipelineStep {
  std::size_t first = 0, last = 0;  ///< rows of PipelineEvents::events
  Ns begin = 0, end = 0;
  Ns length() const { return end - begin; }
};

struct PipelineEvents {
  std::vector<PipelineRank> ranks;    ///< by stage, data, tensor
  std::vector<PipelineEvent> events;  ///< by step, then start
  std::map<std::int64_t, PipelineStep> steps;
  std::int64_t left_out = 0;  ///< without a step, or in a lane without a label
};

PipelineEvents pipeline_events(const run::Recording& recording);

/// By row of `events`: the group of ranks that it meets in, a number that like events of its step
/// share; absent: it is no communication. Sends and receives meet by direction and number.
std::vector<std::optional<std::uint32_t>> pipeline_groups(const run::Recording& recording,
                                                          const PipelineEvents& events);

/// "forward-send" in its parts.
struct PipelineName {
  std::string_view direction;  ///< "forward", "backward"; else empty
  std::string_view what;       ///< "send", "recv", "compute", or the whole name
};
PipelineName pipeline_name(std::string_view name);

}  // namespace foregather::rebuild
