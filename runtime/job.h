// A job of several processes that share work: rank 0 hands it out, the others connect to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "runtime/processes.h"
#include "runtime/sockets.h"

namespace foregather::runtime {

/// What the MPI plug-in exports as foregather_mpi_broadcast: fills `text` on all ranks with that of
/// rank 0. May be called once in a process. 0: done.
using MpiBroadcast = int (*)(char* text, unsigned bytes);

struct ProcessJob {
  ProcessPlace place;
  std::vector<std::string> addresses;  ///< of rank 0
  std::uint16_t port = 0;
  Socket listener;  ///< at rank 0
};

/// Where rank 0 is: at MASTER_ADDR, one port above MASTER_PORT; without it, under Open MPI's
/// mpirun, wherever rank 0 says through the MPI plug-in (libforegather_mpi.so beside the program),
/// at a free port; without that, on this machine, if it has all processes. Absent: no launcher, or
/// one process. Errors: those of process_place(); a port that is taken; MPI.
Result<std::optional<ProcessJob>> join_job(const Environment& environment);

/// A connection between rank 0 and a thread of another rank. One thread at a time.
class RankLink {
 public:
  RankLink(std::uint32_t rank, Socket socket) : rank_(rank), socket_(std::move(socket)) {}

  std::uint32_t rank() const { return rank_; }
  /// False: the other is gone.
  bool send(const std::string& message);
  /// However long it takes. Absent: the other is gone. A machine that was cut off counts as gone
  /// after half a minute.
  std::optional<std::string> receive();

 private:
  std::uint32_t rank_;
  Socket socket_;
};

/// Rank 0: the next connection until then. `tag` says what the work is, the same on all: others are
/// refused. Absent: nobody came.
std::optional<RankLink> next_link(const ProcessJob& job, const std::string& tag, Time until);

/// The other ranks. Errors: rank 0 cannot be reached within `patience`; it works on something else.
Result<RankLink> link_to_rank_0(const ProcessJob& job, const std::string& tag, Ns patience);

}  // namespace foregather::runtime
