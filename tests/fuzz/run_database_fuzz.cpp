// Any bytes as one of our databases: runs, comparisons, sweeps, raw recordings. What is refused
// must be refused by a value.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/store/reader.h"

using namespace foregather;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = ::memfd_create("run", MFD_CLOEXEC);
  if (file < 0 || ::write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (const auto names = store::run_names(path))
    for (const std::string& name : *names) (void)store::read_run(path + ":" + name);
  (void)store::read_about(path);
  (void)store::read_comparisons(path);
  ::close(file);
  return 0;
}
