// Which process of which job this is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace foregather::profiler {

struct Identity {
  std::optional<std::int64_t> rank, local_rank, world_size;
  std::string host;     ///< letters, digits, '.', '_' and '-' alone
  std::string command;  ///< arguments, separated by blanks; at most 4 KiB
  std::string name;     ///< of the executable
  std::int64_t pid = 0, parent = 0;
};

/// Ranks as torchrun, Open MPI, MPICH, Slurm or Flux say them, in this order.
Identity identify();

/// "rank3_node7_4711.sqlite", without a rank "node7_4711.sqlite".
std::string raw_file_name(const Identity& identity);

}  // namespace foregather::profiler
