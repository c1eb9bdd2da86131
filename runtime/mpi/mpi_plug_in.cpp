// Tells all ranks what rank 0 says, and is done with MPI: a rank that is lost later is then no
// matter of MPI's. See runtime/job.h.
#include <mpi.h>

#include "runtime/job.h"

extern "C" int foregather_mpi_broadcast(char* text, unsigned bytes) {
  if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) return 1;
  const int told = MPI_Bcast(text, static_cast<int>(bytes), MPI_CHAR, 0, MPI_COMM_WORLD);
  return MPI_Finalize() == MPI_SUCCESS && told == MPI_SUCCESS ? 0 : 1;
}

static_assert(
    std::is_same_v<decltype(&foregather_mpi_broadcast), foregather::runtime::MpiBroadcast>);
