// The schedule as stable text, and back.
//
// One row a line, words and KEY=VALUE pairs, fields that have their default left out. The first
// word of a row is its id: its table's letter and its number, which counts from 0.
//
//   foregather-schedule 1
//   job world=8 parameters=64                              tokens=, flops= (of the model)
//   n0 "layers.0"                                          a string; rows below repeat its text
//   s0 "layers.0"                                          scope
//   g0 "shard" ranks=0-7 instances=2 nodes=1               group
//   c0 "fsdp" g0                                           communicator
//   u0 s0 g0 parameters=64 padded=64 stored=bf16           unit; gathered=, reduced=, reshard=
//   k0 gemm bf16 flops=128 read=64 written=32 m=4 n=4 k=4  cost; batch=, message=, g0, fixed=,
//                                                          lead=, launch_lead= (as lead), late=,
//                                                          kernels=, host_ops=, usual=
//   b0 4096 "weight" s0 u0 parameter_shard                 storage; host
//   t0 b0 bf16[16,8] +128                                  tensor; + offset in bytes
//   o0 gemm compute forward s0 u0 q0 k0 read=t0 write=t1+0:64 deps=o1 origins=o2
//                                                          op; access = tensor+offset:bytes, c0,
//                                                          sequence=, micro_batch=, ordinal=
//   p0 "rank" ops=o0+12 storages=b0+5 events=e0+2          program, then its
//     q0 "compute" priority=-1                             streams, and its
//     h0 "main"                                            host threads, each with its
//       section body                                       sections, each with its actions:
//         launch o0
//         alloc b0 q0                                      free b0; release t0
//         record_stream b0 q1
//         record e0 q0
//         wait q1 e0
//         host_wait_event e0                               host_wait_stream q0; host_wait_device
//         host_wait_action h1 12                           thread, action of the same section
//         host_delay 1000                                  empty_cache
//         mark 0 forward                                   micro-batch, phase
//   r0 "all" p0 ranks=0-7 hardware=0 compute_scale_ppm=1000000 delay=0       rank class
//   end
//
// Text is quoted as in JSON, with \xHH for other control bytes. Blank lines and lines that start
// with # are skipped.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace foregather {

/// First line of every dump: how readers recognise it.
inline constexpr std::string_view kDumpHeader = "foregather-schedule 1";

/// One row a line, tables before programs. The same graph gives the same bytes. The graph's
/// references must hold (check_references). About 5 million rows a second.
std::string dump(const Graph& graph);

/// The graph of a dump; `path` is for error places. Rejects what dump() cannot have written: bad
/// syntax with FILE:LINE:COL, ids outside their tables, sizes out of range. Takes memory in
/// proportion to the text plus 64 MiB, whatever it says. A graph of GraphBuilder comes back equal;
/// of another one the pools (dims, rank and op lists, accesses) come back in row order and without
/// gaps.
Result<Graph> read_dump(std::string_view text, const std::string& path);

}  // namespace foregather
