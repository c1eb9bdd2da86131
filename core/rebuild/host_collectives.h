// The collectives that a host issued, as the framework's own events describe them. They need no
// device work: a job on CPUs (gloo) has them, too.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/ir/kinds.h"
#include "core/run/recording.h"

namespace foregather::rebuild {

struct HostCollective {
  std::optional<std::int64_t> step;  ///< N of the "ProfilerStep#N" that it is issued in
  std::string_view scope;            ///< as RangeLabel has them
  Phase phase = Phase::other;
  OpKind kind = OpKind::other;
  /// NCCL's message size: the whole gathered or unreduced buffer, the message otherwise; absent:
  /// the recording lacks its shapes or its dtype.
  std::optional<Bytes> bytes;
  std::string_view dtype;   ///< "Float"; may be empty
  std::string_view group;   ///< name of the process group; may be empty
  std::uint32_t ranks = 0;  ///< of the group; 0: not said
  Ns time = 0;              ///< when it was issued
};

/// What a name of c10d, NCCL or gloo means ("_allgather_base", "gloo:all_reduce"); absent: no
/// communication (a wait); other: not known.
std::optional<OpKind> collective_called(std::string_view name);

/// By time. Of ranges within each other that describe a collective (c10d's operator, and the record
/// of its parameters inside) the innermost counts; waits do not. What the list form of gloo's
/// collectives leaves unsaid is taken from the range on gloo's thread that carries it out: the
/// first one of that size, not yet taken, that starts later. How long such a list is follows from
/// the sizes of the process groups, where all are alike. n log n.
std::vector<HostCollective> host_collectives(const run::Recording& recording);

}  // namespace foregather::rebuild
