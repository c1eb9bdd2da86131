// Predictions of collectives against published nccl-tests tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "sim/cost/collective.h"

namespace foregather::tasks {

/// One line of a table. Times are microseconds as in the tables.
struct NcclRow {
  std::string table;   ///< the file's name without ".csv"
  std::string source;  ///< who published it: source_url up to the repository; else the table
  std::string collective, gpu, interconnect;
  std::optional<OpKind> kind;  ///< of `collective`; absent: not known
  int ranks = 1, nodes = 1;
  int domains = 1;  ///< nodes as the collective sees them
  Bytes size = 0;   ///< as nccl-tests counts it: the whole message
  std::optional<double> published_us;
  std::optional<double> predicted_us;  ///< absent: see skipped
  std::string skipped;

  /// |predicted − published| / published.
  std::optional<double> error() const;
};

/// Reads every .csv of a folder, in order of their names. Columns: collective, nranks, size_bytes;
/// nnodes (without a number, as many GPUs a node as intra.gpus); gpu, interconnect, time_us,
/// source_url as far
/// as they are known. Rows without a number of ranks or a size are
/// skipped. Errors at FILE:LINE:COL; a folder that does not exist is one.
Result<std::vector<NcclRow>> read_nccl_tables(const std::string& directory);

/// What the pricer says, in µs. The row has a kind.
double predicted_us(const NcclRow& row, sim::CollectivePricer& pricer);

/// Reads the tables and predicts every row. Rows that cannot be are skipped with a reason.
Result<std::vector<NcclRow>> predict_nccl_tables(const std::string& directory);

/// Whether two rows are of one machine and one kind of run.
bool are_alike(const NcclRow& a, const NcclRow& b);

/// Median error of the rows from `least` to below `most` bytes.
std::optional<double> nccl_median(const std::vector<NcclRow>& rows, Bytes least, Bytes most);

}  // namespace foregather::tasks
