// Benchmarks run as the command line tool does: with a heap that keeps what it has.
#include <benchmark/benchmark.h>

#include "core/base/heap.h"

int main(int argc, char** argv) {
  foregather::keep_freed_memory();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
