// Which part of a job this process is, as launchers tell it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/base/result.h"

namespace foregather::runtime {

/// One process of a job that has one process a rank.
struct ProcessPlace {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t local_rank = 0;       ///< among the processes of its machine
  std::string address = "127.0.0.1";  ///< of the machine of rank 0
  std::uint16_t port = 29500;         ///< torchrun's; ours is the next one
  std::string launcher;  ///< whose variables said so: "torchrun", "mpirun", "srun", "PMI"
};

/// Value of an environment variable; absent: not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

/// Absent: no launcher, or one that started a single process. Read, the first that is there:
/// RANK, WORLD_SIZE, LOCAL_RANK (torchrun); OMPI_COMM_WORLD_RANK, …_SIZE, …_LOCAL_RANK (Open MPI);
/// SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID under srun; PMI_RANK, PMI_SIZE, MPI_LOCALRANKID
/// (MPICH). MASTER_ADDR and MASTER_PORT say where rank 0 is; without MASTER_ADDR, srun's own node
/// list or, if all processes are of one machine, that one. Errors: half of a launcher's variables;
/// numbers that are none; a rank that is not below the size; several machines without MASTER_ADDR.
Result<std::optional<ProcessPlace>> process_place(const Environment& environment);

}  // namespace foregather::runtime
