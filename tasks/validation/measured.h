// Published training results, one a row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"

namespace foregather::tasks {

/// Of a file of published results.
constexpr Bytes kLargestTable = 64 * MiB;

/// What the columns of a table of measured runs say; docs/formats.md says where their values are
/// listed. Texts are as written, empty where they do not apply; numbers are absent where the source
/// is silent.
struct MeasuredRow {
  std::string place;  ///< FILE:LINE:COL
  std::string id, tier, group, model, gpu, strategy_text, checkpointing_text, precision_text, notes,
      source;
  std::string strategy, param_dtype, reduce_dtype, compute, master, fp8_all_gather, checkpointing,
      compile, attention, optimizer, memory_metric, memory_when, allocator_conf, config, link,
      fabric;
  std::int64_t tensor_parallel = 1, context_parallel = 1, pipeline_parallel = 1, grad_accum = 1;
  std::vector<std::string> taken_as_one;  ///< of these columns: not stated
  std::string fault;                      ///< the first cell that no prediction can be made from
  std::vector<std::string> warnings;      ///< answers that are left out
  std::optional<std::int64_t> gpus, nodes, micro_batch, seq_len;
  std::optional<double> fabric_gbps;  ///< a GPU
  std::optional<double> step_time_s, peak_gib;

  bool has_answer() const { return step_time_s || peak_gib; }
  /// The source says that the run did not fit: it has no figures and its notes say OOM.
  bool ran_out_of_memory() const;
};

/// Reads a table. Columns that no prediction needs (tier, group, model, strategy, precision,
/// activation_checkpointing, notes, source_url, step_time_s, peak_mem_gib) may be missing; further
/// ones are ignored. A number that is none ("~2.5", "8-16") is the fault of its row, or a warning
/// where it is an answer. Errors at FILE:LINE:COL: bad CSV, a missing key column, an id that is
/// empty or twice there.
Result<std::vector<MeasuredRow>> read_measured(const std::string& path);

}  // namespace foregather::tasks
