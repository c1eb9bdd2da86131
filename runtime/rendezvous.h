// Where the processes of a job meet: a few bytes from each to all, over TCP.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "runtime/processes.h"

namespace foregather::runtime {

/// Rank 0 listens at its address, one port above MASTER_PORT; the others connect and stay
/// connected. Numbers are sent in this machine's byte order: all machines of a job have the same.
/// One thread.
class Rendezvous {
 public:
  /// Returns once all are connected. `tag` says what they met for, the same on all: processes of
  /// another job or version are refused. Errors: nobody came within `patience`, with who is
  /// missing; the port is taken; an unknown address; two processes of one rank.
  static Result<Rendezvous> join(const ProcessPlace& place, const std::string& tag, Ns patience);
  Rendezvous(Rendezvous&& other) noexcept;
  Rendezvous& operator=(Rendezvous&&) = delete;
  ~Rendezvous();

  /// Everybody's message to everybody, by rank; also a barrier. Messages are of any size up to
  /// 16 MiB. Errors: a process that went away or did not come within the patience.
  Result<std::vector<std::string>> exchange(const std::string& message);

 private:
  Rendezvous(const ProcessPlace& place, Ns patience) : place_(place), patience_(patience) {}
  Status listen(const std::string& tag);
  Status connect(const std::string& tag);

  ProcessPlace place_;
  Ns patience_;
  std::vector<int> peers_;  ///< sockets by rank at rank 0 (its own: -1); elsewhere that to rank 0
};

}  // namespace foregather::runtime
