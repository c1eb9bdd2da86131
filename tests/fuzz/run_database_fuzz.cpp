// Any bytes as one of our databases: runs, comparisons, sweeps, raw recordings. What is refused
// must be refused by a value.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/store/reader.h"
#include "tests/fuzz/scratch_file.h"

using namespace foregather;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  [[maybe_unused]] static const bool opens = (must_open_files(store::run_names), true);
  const ScratchFile file(data, size);
  const auto names = store::run_names(file.path());
  if (names)
    for (const std::string& name : *names) (void)store::read_run(file.path() + ":" + name);
  (void)store::read_about(file.path());
  (void)store::read_comparisons(file.path());
  return 0;
}
