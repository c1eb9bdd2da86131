// How the process uses its heap.
#pragma once

namespace foregather {

/// Freed memory stays with the process. Each prediction allocates the same few megabytes again: to
/// return them to the kernel and fault them in anew costs more than the prediction. For programs
/// (main), not for libraries. No effect where the C library is not glibc.
void keep_freed_memory();

}  // namespace foregather
